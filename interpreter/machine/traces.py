"""A record of a run, in order: the work tiles of each CTA, and the elements of D that it stored.

At levels cta to epilogue, `tile.work_tiles` gives the tiles; at levels nvvm and llvm they follow from the stores.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.accesses import Access, Ints, Span
from lowtide.interpreter.numbers.cells import Buffer
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES

Tile = tuple[int, int, int, int]
"""A work tile: its first row and column, and its numbers of rows and columns. See `row_of`."""

_APART = 1024  # rows, more than any tile has


def row_of(matrix: Any, row: Any, rows: int) -> Any:
    """The number of a row of a batch in a trace; matrices are far enough apart for tiles that extend past the edge."""
    return matrix * (rows // _APART + 2) * _APART + row


@dataclass(eq=False)
class Trace:
    """Filled by `interpret`.

    `work`: by CTA and agent, its work tiles in D, in sequence; empty if no op gives them. `turns`: for an agent that
    takes tiles in turn with others, its turn, and the number of turns. `stores`: by CTA and agent, rows and columns of
    the elements of D that each op stored. `is_copied`: whether a launch that copies a matrix wrote D. `outputs`: D in
    memory; of a list, each of its matrices.
    """

    level: str = ""
    work: dict[int, dict[str, list[Tile]]] = field(default_factory=dict)
    turns: dict[str, tuple[int, int]] = field(default_factory=dict)
    stores: dict[int, dict[str, list[tuple[Ints, Ints]]]] = field(default_factory=dict)
    outputs: tuple[Buffer, ...] = ()
    is_copied: bool = False

    def begin_work(self, cta: int, agent: str, turn: tuple[int, int] = (0, 1)) -> list[Tile]:
        """An agent begins a tile.work_tiles; returns the list for its tiles."""
        self.turns[agent] = turn
        return self.work.setdefault(cta, {}).setdefault(agent, [])

    def store(self, access: Access, span: Span) -> None:
        """An access has written global memory; only writes of D are recorded. One access may combine several stores,
        and some of these may be to other results (machine/lanes.py)."""
        for number, output in enumerate(self.outputs):
            inside = span.addresses[(output.start <= span.addresses) & (span.addresses < output.end)]
            if not inside.size:
                continue
            self.is_copied |= getattr(access.op, "name", "") == "tile.prepare"
            starts = np.arange(0, span.size, ELEMENT_BYTES[output.dtype])
            matrix, row, rest = output.place((inside[:, None] + starts - output.start).reshape(-1))
            rows = row_of(matrix + number, row, output.rows)
            agent = access.who or f"warp {access.warp}"
            made = self.stores.setdefault(access.cta, {}).setdefault(agent, [])
            made.append((rows, rest // ELEMENT_BYTES[output.dtype]))

    def tiles(self) -> dict[int, list[Tile]]:
        """By CTA, its work tiles, in the sequence that all its agents keep.

        CTAs without work are omitted. Raises InterpreterError if agents of a CTA differ: each computes all, or its
        share in turn.
        """
        found = {}
        for cta, agents in self.work.items():
            first, tiles = min(agents.items(), key=lambda entry: self.turns[entry[0]][1])
            for name, other in agents.items():
                turn, turns = self.turns[name]
                if other != tiles[turn::turns]:
                    raise InterpreterError(
                        f"CTA {cta}: {first} computes the work tiles {tiles}, {name} {other}; all agents of a CTA must "
                        "compute the same [agents-tiles-differ]"
                    )
            if tiles:
                found[cta] = tiles
        return found

    def stored_tiles(self, tiles: Iterable[Tile]) -> dict[int, dict[str, list[Tile]]]:
        """By CTA and agent, the tiles that it stored to, in sequence. Raises InterpreterError for other elements.

        The tiles form a grid: their extents and starts are multiples of the smallest extents.
        """
        known = list(tiles)
        height, width = (math.gcd(*(number for tile in known for number in tile[axis::2])) for axis in (0, 1))
        cells = {
            (row, column): tile
            for tile in known
            for row in range(tile[0], tile[0] + tile[2], height)
            for column in range(tile[1], tile[1] + tile[3], width)
        }
        return {
            cta: {name: _without_repeats(events, (height, width), cells) for name, events in agents.items()}
            for cta, agents in self.stores.items()
        }


def _without_repeats(
    events: list[tuple[Ints, Ints]], cell: tuple[int, int], cells: Mapping[tuple[int, int], Tile]
) -> list[Tile]:
    found: list[Tile] = []
    for rows, columns in events:
        places = np.stack([rows // cell[0] * cell[0], columns // cell[1] * cell[1]], axis=1)
        changes = np.flatnonzero(np.any(places[1:] != places[:-1], axis=1)) + 1
        for row, column in places[[0, *changes]].tolist():
            if (row, column) not in cells:
                raise InterpreterError(
                    f"stores to D at row {row}, column {column}, which is in no work tile [store-in-no-tile]"
                )
            if not found or found[-1] != cells[row, column]:
                found.append(cells[row, column])
    return found
