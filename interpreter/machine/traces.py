"""A record of a run, in order: which work tiles each CTA computed, and which elements of D it stored.

Where an op says it (`tile.work_tiles`, levels cta to epilogue) the tiles are recorded; at levels nvvm and llvm no op
does, and they are read from the stores.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.cells import ELEMENT_BYTES, Access, Buffer, Ints, Span

Tile = tuple[int, int, int, int]
"""A work tile: its first row and column, and how many rows and columns it has. See `row_of`."""

_APART = 1024  # rows: no tile is as high


def row_of(matrix: Any, row: Any, rows: int) -> Any:
    """How a row of a matrix of a batch is counted in a trace: far enough apart for tiles that reach past the edge."""
    return matrix * (rows // _APART + 2) * _APART + row


@dataclass(eq=False)
class Trace:
    """Given to `interpret`, which fills it.

    `work`: by CTA and agent, its work tiles that lie in D, in sequence; empty where no op says them. `turns`: for an
    agent that takes tiles in turn with others, its turn, of how many. `stores`: by CTA and agent, rows and columns of
    the elements of D that each op stored. `is_copied`: whether a launch that copies a matrix wrote D.
    """

    level: str = ""
    work: dict[int, dict[str, list[Tile]]] = field(default_factory=dict)
    turns: dict[str, tuple[int, int]] = field(default_factory=dict)
    stores: dict[int, dict[str, list[tuple[Ints, Ints]]]] = field(default_factory=dict)
    output: Buffer | None = None
    is_copied: bool = False

    def begin_work(self, cta: int, agent: str, turn: tuple[int, int] = (0, 1)) -> list[Tile]:
        """An agent begins a tile.work_tiles: where its tiles are to be entered."""
        self.turns[agent] = turn
        return self.work.setdefault(cta, {}).setdefault(agent, [])

    def store(self, access: Access, span: Span) -> None:
        """An access has written global memory; only writes of D are recorded."""
        output = self.output
        if output is None or not span.addresses.size or not output.start <= span.addresses[0] < output.end:
            return
        self.is_copied |= getattr(access.op, "name", "") == "tile.prepare"
        starts = np.arange(0, span.size, ELEMENT_BYTES[output.dtype])
        matrix, row, rest = output.place((span.addresses[:, None] + starts - output.start).reshape(-1))
        rows = row_of(matrix, row, output.rows)
        agent = access.who or f"warp {access.warp}"
        made = self.stores.setdefault(access.cta, {}).setdefault(agent, [])
        made.append((rows, rest // ELEMENT_BYTES[output.dtype]))

    def tiles(self) -> dict[int, list[Tile]]:
        """By CTA, its work tiles, in the sequence that all its agents keep to.

        CTAs without work are left out. Raises InterpreterError where agents of a CTA differ: each computes all, or in
        turn its share.
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
        """By CTA and agent, which of these tiles it stored to, in sequence. Raises InterpreterError for another place.

        The tiles lie in a grid: their extents are multiples of the least ones, and they start at such multiples.
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
