"""The order of work tiles: the tiles that each CTA computes, in sequence. Level cta defines it, later levels keep it.

D is the same in any order, so a comparison of D does not detect a wrong order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lowtide.errors import InterpreterError
from lowtide.interpreter import Trace
from lowtide.interpreter.machine.traces import Tile

_Sequences = Mapping[int, list[Tile]]
"""Tiles by CTA."""


@dataclass(frozen=True)
class TileOrder:
    """The tiles of each CTA, in sequence, and the parts of D that it stores for them: None if another launch writes D,
    as for a packed D."""

    tiles: _Sequences
    stored: _Sequences | None

    @classmethod
    def of(cls, trace: Trace) -> "TileOrder":
        """The order in a run of a level that has tile.work_tiles. Raises InterpreterError if agents of a CTA differ."""
        tiles = trace.tiles()
        places = () if trace.is_copied else _in_d(tiles)  # one CTA copies D in any order, possibly in that of the tiles
        return cls(tiles, next((each for each in places if _is_stored(trace, each)), None))

    def difference(self, trace: Trace) -> str:
        """The difference of a run of another level, "" if there is none. Below level epilogue, the tiles are those that
        a CTA stores to; each of its agents must keep the sequence. Raises InterpreterError as `of`."""
        if trace.work:
            return _first_difference(trace.tiles(), self.tiles)
        return "" if self.stored is None else _of_stores(trace, self.stored)


def _in_d(tiles: _Sequences) -> Iterator[_Sequences]:
    """The possible parts of D of tiles: themselves, or transposed, if the kernel computes Dᵀ."""
    yield tiles
    yield {cta: [(n, m, width, height) for m, n, height, width in own] for cta, own in tiles.items()}


def _is_stored(trace: Trace, expected: _Sequences) -> bool:
    try:
        return not _of_stores(trace, expected)
    except InterpreterError:
        return False


def _first_difference(found: _Sequences, expected: _Sequences) -> str:
    for cta in sorted({*found, *expected}):
        own, should = found.get(cta, []), expected.get(cta, [])
        if own != should:
            return f"CTA {cta} computes the tiles at {_places(own)}, not {_places(should)}"
    return ""


def _of_stores(trace: Trace, expected: _Sequences) -> str:
    found = trace.stored_tiles(tile for own in expected.values() for tile in own)
    if found.keys() != expected.keys():
        return f"CTAs {sorted(found)} store into D, {sorted(expected)} have work tiles"
    for cta, tiles in expected.items():
        stored = {place for sequence in found[cta].values() for place in sequence}
        if stored != set(tiles):
            return f"CTA {cta} stores to the tiles at {_places(sorted(stored))}, not {_places(tiles)}"
        for agent, sequence in found[cta].items():
            remaining = iter(tiles)
            if not all(place in remaining for place in sequence):
                return f"CTA {cta} {agent} stores to the tiles at {_places(sequence)}, not as in {_places(tiles)}"
    return ""


_SHOWN = 6  # tiles


def _places(tiles: list[Tile]) -> str:
    """First rows and columns, of the first few."""
    text = ", ".join(f"({row}, {column})" for row, column, *_ in tiles[:_SHOWN])
    return text + ", …" * (len(tiles) > _SHOWN) or "none"
