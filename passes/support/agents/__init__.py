"""Which warps and CTAs do what, by which instructions."""
