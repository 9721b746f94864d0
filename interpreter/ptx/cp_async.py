"""Copies by threads from global to shared memory (PTX ISA, "cp.async", "cp.async.commit_group", "…wait_group")."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import disjoint, rows_together
from lowtide.interpreter.program.batches import Batch, Bulk, NotTogether
from lowtide.interpreter.ptx.running import Op, each_warp
from lowtide.interpreter.ptx.syntax import Negated, Register
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SECTION = "Data Movement and Conversion Instructions"


def _prepare(form: Form) -> tuple[Any, bool, bool]:
    """The operand that is the size; whether the one after it is a predicate, which says to ignore the source; whether
    the last one is a cache policy."""
    _, _, size, *further = form.instruction.operands
    has_hint = "L2::cache_hint" in form.words
    if len(further) - has_hint not in (0, 1):
        raise ValueError
    held = further[0].register if further and isinstance(further[0], Negated) else further[0] if further else None
    is_ignored = len(further) > has_hint and isinstance(held, Register) and held.type == "pred"
    return size, is_ignored, has_hint


def _used(op: Op, size: int, further: Sequence[Any]) -> Any:
    """The number of bytes that each lane reads, of `size`; None for all. `further`: the operands after the size."""
    _, is_ignored, has_hint = op.data
    if len(further) == has_hint:
        return None
    given = further[0]
    return np.where(given, 0, size) if is_ignored else given


def _copies(state: AgentState, batch: Batch) -> None:
    destinations, sources, sizes, *further = zip(
        *([read(state.values) for read in op.readers] for op in batch.ops), strict=True
    )
    if len(set(sizes)) != 1:
        raise NotTogether
    each = zip(batch.ops, zip(*further, strict=True) if further else [()] * len(sizes), strict=True)
    used = [_used(op, sizes[0], given) for op, given in each]
    _start(state, batch.ops, destinations, sources, sizes[0], () if used[0] is None else used)


def _start(
    state: AgentState,
    ops: Sequence[Op],
    destinations: Sequence[Any],
    sources: Sequence[Any],
    size: int,
    used: Sequence[Any] = (),
) -> None:
    """cp.async of one op, or of several to disjoint bytes, which run as one. Each active lane copies `size` bytes; if
    `used` is given, only so many are copied and the others are zero."""
    access, rows = rows_together(state, ops, destinations)
    _, global_rows = rows_together(state, ops, sources)
    disjoint(state.cta.shared, access, rows, size)
    counts = rows_together(state, ops, used)[1] if used else None
    if counts is not None and ((counts < 0) | (counts > size)).any():
        wrong = int(counts[(counts < 0) | (counts > size)][0])
        raise state.violation(ops[0], f"src-size must be 0 … {size}, not {wrong} [cp-async-source]")
    state.cta.copies.start(state.machine.memory, access, rows, global_rows, size, counts)


@TABLE.effects(
    "cp.async",
    words="ca cg shared shared::cta global L2::64B L2::128B L2::256B L2::cache_hint",
    section=f"{_SECTION}: cp.async",
    is_wide=True,
    prepare=_prepare,
    bulk=Bulk(_copies, key=lambda op: (op.instruction.name, op.data, len(op.readers)), is_masked=True),
)
def copy(state: AgentState, op: Op, destination: Any, source: Any, size: Any, *further: Any) -> None:
    """`size` bytes by each active lane, zero-filled after as many as the next operand says, or from the start where it
    is a predicate that holds. A cache policy, the last operand, has no effect."""
    used = _used(op, size, further)
    _start(state, (op,), (destination,), (source,), size, () if used is None else (used,))


@TABLE.effects("cp.async.commit_group", by_convoy=each_warp, section=f"{_SECTION}: cp.async.commit_group")
def commit(state: AgentState, op: Op) -> None:
    state.cta.copies.commit(state.warp, state.mask)


@TABLE.effects("cp.async.wait_group", by_convoy=each_warp, section=f"{_SECTION}: cp.async.wait_group")
def wait(state: AgentState, op: Op, pending: Any) -> None:
    state.cta.copies.wait(state.warp, pending, state.mask)


@TABLE.effects("cp.async.wait_all", by_convoy=each_warp, section=f"{_SECTION}: cp.async.wait_all")
def wait_all(state: AgentState, op: Op) -> None:
    state.cta.copies.wait_all(state.warp, state.mask)
