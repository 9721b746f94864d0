"""prologue = once: planted faults of a ring that stays filled from one work tile to the next are found."""

from typing import Any

import numpy as np
import pytest
from compiled import inputs_of, spec

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret
from lowtide.passes.epilogue import lower_epilogue
from lowtide.passes.nvvm import work_tiles

SCHEDULE = "grid.tile = [64, 32], k = 64, atoms = [2, 1, 1], stages = 7, prologue = once"
SHAPE = (150, 70, 70)


def d_at(level: str) -> Any:
    """D of nine work tiles on two CTAs, on exact integers."""
    kernel = lt.compile_gemm(spec(), target="sm_80", schedule=SCHEDULE)
    return interpret(kernel.levels[level], inputs_of(spec(), *SHAPE), sms=2, domain="exact")


def test_scratch_in_a_ring_that_is_being_filled_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_epilogue, "runs_ahead", lambda schedule: False)
    with pytest.raises(InterpreterError):
        d_at("epilogue")


def test_copies_of_the_wrong_next_tile_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = d_at("nvvm")

    def this_one(context: Any, op: Any, index: Any, bounds: Any, items: Any, tiles: Any, first: Any) -> None:
        for reader in op.body.blocks[0].operations:
            if reader.operation.name == "tile.next_work_tile":
                origin = work_tiles._origin_of(context, op, index, tiles, first)
                context.values[reader.row], context.values[reader.column] = origin

    monkeypatch.setattr(work_tiles, "_place_next", this_one)
    assert not np.array_equal(d_at("nvvm"), expected)
