"""A record of a run, in order: which work tiles each CTA computed, and which elements of D it stored.

Where an op says it (`tile.work_tiles`, levels cta to epilogue) the tiles are recorded; at level nvvm no op does, and
they are read from the stores.
"""

from dataclasses import dataclass, field

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.cells import ELEMENT_BYTES, Access, Buffer, Ints, Span

Place = tuple[int, int]


@dataclass(eq=False)
class Trace:
    """Given to `interpret`, which fills it.

    `work`: by CTA and agent, the first row and column of each work tile, in sequence; `tile` is their extents, None
    where no op says. `stores`: by CTA and agent, rows and columns of the elements of D that each op stored.
    """

    level: str = ""
    tile: Place | None = None
    work: dict[int, dict[str, list[Place]]] = field(default_factory=dict)
    stores: dict[int, dict[str, list[tuple[Ints, Ints]]]] = field(default_factory=dict)
    output: Buffer | None = None

    def begin_work(self, cta: int, agent: str, tile: Place) -> list[Place]:
        """An agent begins a tile.work_tiles: where its tiles are to be entered."""
        self.tile = tile
        return self.work.setdefault(cta, {}).setdefault(agent, [])

    def store(self, access: Access, span: Span) -> None:
        """An access has written global memory; what is not D is not recorded."""
        output = self.output
        if output is None or not span.addresses.size or not output.start <= span.addresses[0] < output.end:
            return
        starts = np.arange(0, span.size, ELEMENT_BYTES[output.dtype])
        rows, rest = np.divmod((span.addresses[:, None] + starts - output.start).reshape(-1), output.stride)
        agent = access.who or f"warp {access.warp}"
        made = self.stores.setdefault(access.cta, {}).setdefault(agent, [])
        made.append((rows, rest // ELEMENT_BYTES[output.dtype]))

    def tiles(self) -> dict[int, list[Place]]:
        """By CTA, the first row and column of each work tile, in the sequence that all its agents keep to.

        CTAs without work are left out. Raises InterpreterError where agents of a CTA differ.
        """
        found = {}
        for cta, agents in self.work.items():
            (first, tiles), *others = agents.items()
            for name, other in others:
                if other != tiles:
                    raise InterpreterError(
                        f"CTA {cta}: {first} computes the work tiles {tiles}, {name} {other}; all agents of a CTA must "
                        "compute the same"
                    )
            if tiles:
                found[cta] = tiles
        return found

    def stored_tiles(self, tile: Place) -> dict[int, dict[str, list[Place]]]:
        """By CTA and agent, the first row and column of the tiles of these extents that it stored to, in sequence."""
        return {
            cta: {name: _without_repeats(events, tile) for name, events in agents.items()}
            for cta, agents in self.stores.items()
        }


def _without_repeats(events: list[tuple[Ints, Ints]], tile: Place) -> list[Place]:
    found: list[Place] = []
    for rows, columns in events:
        places = np.stack([rows // tile[0] * tile[0], columns // tile[1] * tile[1]], axis=1)
        changes = np.flatnonzero(np.any(places[1:] != places[:-1], axis=1)) + 1
        for row, column in places[[0, *changes]].tolist():
            if not found or found[-1] != (row, column):
                found.append((row, column))
    return found
