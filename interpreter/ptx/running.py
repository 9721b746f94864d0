"""Instructions that are bound to slots of an agent's values, and how they run: in the lanes where their guards hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import undefined
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.execution import OF_PYTHON, UNSET, reads_unset, violated_by
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.registers import RegisterError
from lowtide.interpreter.program.batches import Batch, Bulk, NotTogether
from lowtide.interpreter.ptx.syntax import Guard, Instruction


def give(values: list[Any], slots: tuple[int, ...], result: Any) -> None:
    """Put the result of an instruction into its result registers."""
    if len(slots) == 1 and not isinstance(result, tuple):
        values[slots[0]] = result
    elif slots:
        for slot, part in zip(slots, result, strict=True):
            values[slot] = part


@dataclass(slots=True, eq=False)
class Op:
    """A bound instruction. `operands` and `results` are slots; `data` is computed by its row before the run.

    `give` puts the row's result into the slots of the results. `source` is for messages: the instruction, or the op
    that decodes to it. `kept` are slots among the operands whose values pass into the results: accumulators. `before`
    reads them; without it the results are places that hold them. `is_typed`: floats are in the slots as payloads of
    their types (values of MLIR), and `readers` and `give` make registers of them. `guard` is the slot of its guard,
    `sources` those of the registers that it reads otherwise. `computes`: its only effect is that on its results.
    `is_wide`: the warps of a convoy may run it together (machine/convoys.py). `by_convoy`, if given, runs it for them.
    If some warp would have to wait, `by_convoy` changes nothing and raises NotTogether. `signals`: it changes values
    that other warps poll. `has_places`: it reads its results, too. `is_single`: it only computes one register.
    `in_cta`: only warps of one CTA run it together, because it may access shared memory, and not as a load or store of
    `.shared` (machine/shared_of_ctas.py). `is_maskable`: a convoy may run it in some of its lanes. `unset`: those of
    its results that lanes which do not run it may use although they have never written them.
    """

    instruction: Instruction
    handler: Callable[..., Any]
    source: Described
    resumable: bool = False
    operands: tuple[int, ...] = ()
    results: tuple[int, ...] = ()
    data: Any = None
    acts: bool = False
    run: Callable[..., Any] = lambda *values: None
    readers: tuple[Callable[[list[Any]], Any], ...] = ()
    give: Callable[[list[Any], tuple[int, ...], Any], None] = give
    bulk: Bulk | None = None
    is_free: bool = False  # may change places with others that do not access its registers
    regions: tuple[Any, ...] = ()
    is_typed: bool = False
    kept: tuple[int, ...] = ()
    before: Callable[[list[Any]], Any] | None = None
    guard: int | None = None
    sources: tuple[int, ...] = ()
    computes: bool = False
    is_wide: bool = False
    by_convoy: Callable[..., None] | None = None
    signals: bool = False
    has_places: bool = False
    is_single: bool = False
    in_cta: bool = False
    is_maskable: bool = False
    unset: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.instruction.name

    def describe(self) -> str:
        """The text of the instruction or op, shortened, and its location."""
        return self.source.describe()


def compute(state: AgentState, op: Op) -> None:
    """A row of values: sources to destinations."""
    values = state.values
    try:
        result = op.run(*[read(values) for read in op.readers])
    except InterpreterError as error:
        if not _is_left_unset(state, op):
            op.give(values, op.results, _of_active_lanes(state, op, error))
    except OF_PYTHON:
        if not _is_left_unset(state, op):
            raise
    else:
        op.give(values, op.results, result)


def compute_one(state: AgentState, op: Op) -> None:
    """As `compute`, for one register."""
    values = state.values
    try:
        values[op.results[0]] = op.run(*[read(values) for read in op.readers])
    except InterpreterError as error:
        if not _is_left_unset(state, op):
            values[op.results[0]] = _of_active_lanes(state, op, error)
    except OF_PYTHON:
        if not _is_left_unset(state, op):
            raise


def _of_active_lanes(state: AgentState, op: Op, error: InterpreterError) -> Any:
    """The result if only inactive lanes break a rule, for example divide by zero: they then compute with the operands
    of an active lane. Raises InterpreterError if an active lane breaks a rule."""
    if state.mask is None:
        raise violated_by(state, op, error) from error
    active = int(np.argmax(state.mask))
    operands = [read(state.values) for read in op.readers]
    operands = [np.where(state.mask, x, x[active]) if isinstance(x, np.ndarray) else x for x in operands]
    try:
        return op.run(*operands)
    except InterpreterError:
        raise violated_by(state, op, error) from error


def _is_left_unset(state: AgentState, op: Op) -> bool:
    """Whether an operand is a register of PTX that was never written; then the results are left as undefined as it is.

    They are refused where they are used: as an address, predicate, or operand of memory or of a matrix. At other levels
    arithmetic is a use.
    """
    if state.machine.level != "ptx" or not reads_unset(state, op):
        return False
    for slot in op.results:
        state.values[slot] = None
    return True


def effect(state: AgentState, op: Op) -> None:
    """A row with effects: it also takes the state and the op."""
    values = state.values
    try:
        result = op.run(state, op, *[read(values) for read in op.readers])
    except RegisterError as error:
        raise violated_by(state, op, error) from error
    op.give(values, op.results, result)


def each_warp(convoy: Any, op: Op) -> None:
    """Run an op for each warp of a convoy. Its operands are the same for all warps."""
    constants = [read(convoy.values) for read in op.readers]
    for state in convoy.each(op):
        op.run(state, op, *constants)


def resumable_effect(state: AgentState, op: Op) -> Steps:
    """As `effect`, for a row that may wait."""
    values = state.values
    try:
        result = yield from op.run(state, op, *[read(values) for read in op.readers])
    except RegisterError as error:
        raise violated_by(state, op, error) from error
    op.give(values, op.results, result)


def guarded(guard: Guard, slot: int, inner: Callable[..., Any], resumable: bool) -> Callable[..., Any]:
    """Run an instruction in the lanes where its guard holds; other lanes keep their results."""

    def chosen(state: AgentState, op: Op) -> Any:
        return _where_it_holds(state, op, slot, guard.negated)

    def finish(state: AgentState, op: Op, old: list[Any], mask: Any) -> None:
        undefined.keep(state, op, zip(op.results, old, strict=True), mask)

    def run(state: AgentState, op: Op) -> None:
        mask = chosen(state, op)
        if mask is True:
            inner(state, op)
        elif mask is not False:
            outer, old = state.mask, [state.values[result] for result in op.results]
            _check_kept(state, mask, old, op.unset)
            state.mask = mask
            inner(state, op)
            state.mask = outer
            finish(state, op, old, mask)

    def run_resumable(state: AgentState, op: Op) -> Steps:
        mask = chosen(state, op)
        if mask is not False:
            outer, old = state.mask, [state.values[result] for result in op.results]
            state.mask = outer if mask is True else mask
            yield from inner(state, op)
            state.mask = outer
            if mask is not True:
                finish(state, op, old, mask)

    return run_resumable if resumable else run


def _check_kept(state: AgentState, mask: Any, old: list[Any], unset: tuple[int, ...]) -> None:
    """Raises NotTogether if only some lanes of a convoy write a register that was never written before, and the others
    may use it, or are of other CTAs."""
    if len(state.lanes) > WARP and any(state.values[slot] is None for slot in unset):
        raise NotTogether
    if len(state.all_ctas) > 1 and any(value is None for value in old) and state.leaves_out(mask):
        raise NotTogether


def _where_it_holds(state: AgentState, op: Op, slot: int, is_negated: bool) -> Any:
    """The active lanes in which a guard holds; True or False for all or none of the lanes."""
    condition = state.values[slot]
    if not isinstance(condition, np.ndarray):
        if condition is None:
            raise state.violation(op, UNSET)
        return condition != is_negated
    holds = condition != is_negated if is_negated else condition
    holds = holds if state.mask is None else holds & state.mask
    return True if holds.all() else holds if holds.any() else False


@cache
def guarded_bulk(bulk: Bulk) -> Bulk:
    """How instructions with guards run together: consecutive instructions whose guards hold in the same lanes."""

    def run(state: AgentState, batch: Batch) -> None:
        masks = {(op.guard, op.instruction.guard.negated): op for op in batch.ops}
        masks = {guard: _where_it_holds(state, op, *guard) for guard, op in masks.items()}
        found = [(op, masks[op.guard, op.instruction.guard.negated]) for op in batch.ops]
        groups = [list(group) for _, group in groupby(found, lambda pair: _key_of_mask(pair[1]))]
        if len(groups) == 1:
            _run_masked(bulk, state, batch, groups[0][0][1])
            return
        for group in groups:
            if group[0][1] is not False:
                part = Batch(tuple(op for op, _ in group), masked)
                part.handler(state, part)

    masked = replace(bulk, run=run)
    return masked


def _key_of_mask(mask: Any) -> Any:
    return mask if isinstance(mask, bool) else mask.tobytes()


def _run_masked(bulk: Bulk, state: AgentState, batch: Batch, mask: Any) -> None:
    """Run instructions together in these lanes; other lanes keep their results."""
    if mask is True:
        bulk.run(state, batch)
    elif mask is not False:
        outer, old = state.mask, [state.values[result] for result in batch.results]
        _check_kept(state, mask, old, batch.unset)
        if any(state.values[slot] is None for slot in batch.unset):
            raise NotTogether
        state.mask = mask
        try:
            bulk.run(state, batch)
        finally:
            state.mask = outer
        undefined.keep(state, batch, zip(batch.results, old, strict=True), mask)
