"""prologue = once: planted faults of a ring that stays filled from one work tile to the next are found."""

from typing import Any

import numpy as np
import pytest
from compiled import inputs_of, spec
from mlir import ir
from mlir.dialects import nvvm

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret
from lowtide.passes.epilogue import lower_epilogue
from lowtide.passes.nvvm import overlap_stores, spread_copies
from lowtide.passes.nvvm.work import work_tiles
from lowtide.passes.pipelined import filled_ring
from lowtide.passes.schedules.built import kernel as built_for
from lowtide.passes.schedules.rules import mainloop as mainloop_rules

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

    def this_one(context: Any, op: Any, here: Any, bounds: Any, items: Any, grids: Any) -> None:
        index, cursor = here
        for reader in op.body.blocks[0].operations:
            if reader.operation.name == "tile.next_work_tile":
                origin = work_tiles._origin_of(context, op, items.at(index), grids, cursor)
                context.values.update({getattr(reader, each.name): value for each, value in origin.items()})

    monkeypatch.setattr(work_tiles, "_place_next", this_one)
    assert not np.array_equal(d_at("nvvm"), expected)


def kept(level: str) -> Any:
    """D of eight work tiles, four for each CTA, that share B: loaded once, it stays in the four slots of the ring."""
    shared = lt.GemmSpec(m=None, n=30, k=250, a="bf16", b="bf16", d="bf16")
    schedule = "grid.tile = [64, 32], k = 64, atoms = [2, 1, 1], stages = 4, prologue = once, b.load = once"
    kernel = lt.compile_gemm(shared, target="sm_80", schedule=schedule)
    return interpret(kernel.levels[level], inputs_of(shared, 500, 30, 250), sms=2, domain="exact")


def kept_deeper(level: str) -> Any:
    """As `kept`, with twelve work tiles and eight slots, which share the four K steps of B."""
    shared = lt.GemmSpec(m=None, n=30, k=250, a="bf16", b="bf16", d="bf16")
    schedule = "grid.tile = [64, 32], k = 64, atoms = [2, 1, 1], stages = 8, prologue = once, b.load = once"
    kernel = lt.compile_gemm(shared, target="sm_80", schedule=schedule)
    return interpret(kernel.levels[level], inputs_of(shared, 750, 30, 250), sms=2, domain="exact")


def test_copies_of_the_next_tile_in_place_of_the_one_after_it_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = kept_deeper("cta")
    assert all(np.array_equal(kept_deeper(level), expected) for level in ("pipelined", "epilogue", "nvvm"))
    ahead = filled_ring._tile_ahead
    monkeypatch.setattr(filled_ring, "_tile_ahead", lambda work, number: ahead(work, 1))
    assert not np.array_equal(kept_deeper("pipelined"), expected)


def test_slots_that_do_not_share_what_is_kept_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep_in_each(self: filled_ring.FilledRing, ring: Any) -> None:
        ring.kept = ir.DenseI64ArrayAttr.get(self.kept)

    monkeypatch.setattr(filled_ring.FilledRing, "keep", keep_in_each)
    with pytest.raises(InterpreterError, match=r"nothing was written.*\[uninitialised-read\]"):
        kept_deeper("pipelined")


HELD = (
    "grid.tile = [64, 32], k = 64, atoms = [2, 1, 1], stages = 7, prologue = once, unroll = full, "
    "epilogue.path = direct, epilogue.start = next_tile"
)


def held(level: str) -> Any:
    """D of twelve whole tiles on two CTAs, each of which stores a tile among the products of the next one."""
    whole = lt.GemmSpec(m=384, n=64, k=150, a="bf16", b="bf16", d="bf16")
    kernel = lt.compile_gemm(whole, target="sm_80", schedule=HELD)
    return interpret(kernel.levels[level], inputs_of(whole, 384, 64, 150), sms=2, domain="exact")


def test_a_tile_stored_in_the_place_of_the_next_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = held("epilogue")
    assert np.array_equal(held("nvvm"), expected)
    write_out = overlap_stores._write_out
    monkeypatch.setattr(
        overlap_stores, "_write_out", lambda tile, here, past, *rest: write_out(tile, here, here, *rest)
    )
    with pytest.raises(InterpreterError, match=r"\[d-unwritten\]"):
        held("nvvm")


def test_a_last_tile_that_is_not_stored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    store = overlap_stores._Tile.store
    monkeypatch.setattr(
        overlap_stores._Tile, "store", lambda tile, *rest: store(tile, *rest) if rest[-1] is not None else None
    )
    with pytest.raises(InterpreterError):
        held("nvvm")


def test_a_slot_that_is_not_filled_in_the_first_tile_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = filled_ring.StagedLoop.copy

    def only_streamed(loop: Any, acquire: Any, step: Any, values: Any, operands: Any) -> None:
        copy(loop, acquire, step, values, operands if len(operands) == 2 or 0 in operands else ())

    monkeypatch.setattr(filled_ring.StagedLoop, "copy", only_streamed)
    with pytest.raises(InterpreterError, match=r"\[uninitialised-read\]"):
        kept("pipelined")


def test_reading_what_a_ring_does_not_keep_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filled_ring.FilledRing, "keep", lambda *given: None)
    monkeypatch.setattr(built_for, "_prologue", lambda kernel, schedule: iter(()))
    with pytest.raises(InterpreterError, match=r"\[uninitialised-read\]"):
        kept("pipelined")


def test_an_operand_that_changes_between_the_tiles_of_a_cta_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two columns of tiles: a CTA that takes tiles of both must not keep B."""
    spec_of_two = lt.GemmSpec(m=None, n=62, k=100, a="bf16", b="bf16", d="bf16")
    schedule = "grid.tile = [64, 32], k = 64, atoms = [2, 1, 1], stages = 2, prologue = once, b.load = once, "
    inputs = inputs_of(spec_of_two, 500, 62, 100)

    def d_in(order: str) -> Any:
        kernel = lt.compile_gemm(spec_of_two, target="sm_80", schedule=f"{schedule}path = direct, order = {order}")
        return interpret(kernel.levels["pipelined"], inputs, sms=2, domain="exact")

    expected = d_in("row")
    monkeypatch.setattr(mainloop_rules, "_stays_on", lambda *given: True)
    monkeypatch.setattr(filled_ring, "_is_shared", lambda *given: True)
    assert not np.array_equal(d_in("column"), expected)


def test_a_group_that_ends_before_its_last_copy_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = held("epilogue")
    spread = spread_copies._spread

    def end_too_early(step: list[Any]) -> None:
        spread(step)
        copies = [op for op in step if isinstance(op, nvvm.CpAsyncOp)]
        for op in step:
            if copies and isinstance(op, nvvm.CpAsyncCommitGroupOp):
                op.operation.move_before(copies[0].operation)

    assert np.array_equal(held("nvvm"), expected)
    monkeypatch.setattr(spread_copies, "_spread", end_too_early)
    with pytest.raises(InterpreterError):
        held("nvvm")
