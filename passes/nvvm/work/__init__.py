"""Work items: the tiles of each CTA and their order, ranges of K, partial sums."""
