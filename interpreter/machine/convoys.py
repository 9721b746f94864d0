"""Convoys: warps of a CTA that are at the same instruction and run it together.

A register of a convoy is one value, with the lanes of all its warps, warp after warp. An instruction that only
computes, and a load or a store that breaks no rule, is then one operation on arrays. Other instructions run warp by
warp, in order, on the registers of each warp. If an instruction cannot run for all warps at once, it changes nothing,
and then runs warp by warp, too.

A convoy forms where warps may join (`Joinable`): at the entry, and after instructions that wait. It separates into its
warps where their branches differ, where some warps must wait, where a register is undefined, and before several warps
signal, because a warp may poll before the others have signaled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import undefined
from lowtide.interpreter.machine.agents import AgentState, Steps, Wait
from lowtide.interpreter.machine.execution import OF_PYTHON
from lowtide.interpreter.numbers.cells import LANES, Access, Described, Ints
from lowtide.interpreter.numbers.packed import Mixed, Packed
from lowtide.interpreter.numbers.registers import Half, Number, Pair, Unreadable, is_raw
from lowtide.interpreter.program.batches import Batch, NotTogether

_WARP = 32
_APART = object()


@dataclass(slots=True)
class Joinable(Wait):
    """The agent is at a place where warps may join: the number of a block, and of an op in it. It does not have to
    wait."""

    place: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Again(Wait):
    """The agent polls. It can continue at any time, but other agents should run first."""


@dataclass(eq=False, slots=True)
class Start:
    """Where a warp continues: at an op of a block, which it has reached by `edge`. Before that, it finishes `steps`,
    which wait for `wait`."""

    block: int = 0
    index: int = 0
    edge: Any = None
    steps: Steps | None = None
    wait: Wait | None = None


class Convoy(AgentState):
    """Warps that run together, each with all its lanes. `lanes` are threads of the CTA: warp · LANES + lane.

    `apart`: slots whose values are kept by each warp, because they are of different kinds or may not be read now.
    `acting`: the warp that runs the present op alone, if there is one. After the convoy has ended, `starts` are the
    places where its warps continue; None if the warps have ended.
    """

    def __init__(self, states: Sequence[AgentState], live: Collection[int], written: Iterable[int]) -> None:
        """The convoy of warps at one place. `written`: slots that any op writes. `live`: those of them that may be read
        before they are written again."""
        first = states[0]
        super().__init__(first.machine, first.cta, first.seat, 0)
        self.states = tuple(states)
        self._acting: AgentState = first
        self.lanes = np.concatenate([state.warp * LANES + state.lanes for state in states])
        self._lanes, self._warps = self.lanes % LANES, (self.lanes // LANES)[:, None]
        self._parts = [(state.warp, slice(at * _WARP, at * _WARP + _WARP)) for at, state in enumerate(self.states)]
        self.values = list(first.values)
        self.apart: set[int] = set()
        self.steps = max(state.steps for state in states)
        self.starts: list[Start] | None = None
        for slot in written:
            self.values[slot] = None
        self.gather(live)

    @property
    def acting(self) -> AgentState:
        return self._acting

    def access(self, op: Described, lanes: Ints | None = None) -> Access:
        """An access by threads of several warps. Raises NotTogether for an access by whole warps."""
        if lanes is None or self.strong is not None:
            raise NotTogether
        if lanes is self.lanes:
            access = self.states[0].access(op, self._lanes)
            access.warps, access._parts = self._warps, self._parts
            return access
        access = self.states[0].access(op, lanes % LANES)
        access.warps = (lanes // LANES)[:, None]
        return access

    @property
    def warps(self) -> int:
        return len(self.states)

    def access_by_warps(self, ops: Sequence[Described], rows: int) -> Access:
        return access_by_warps(self.states, ops, rows)

    def gather(self, slots: Iterable[int]) -> None:
        """For each slot, join the values of the warps to one value."""
        for slot in slots:
            value = _joined([state.values[slot] for state in self.states])
            if value is _APART:
                self.apart.add(slot)
            else:
                self.apart.discard(slot)
                self.values[slot] = value

    def scatter(self, slots: Iterable[int], chosen: slice = slice(None)) -> None:
        """For each slot, give each warp, or those `chosen`, its part of the value."""
        states = self.states[chosen]
        for slot in slots:
            if slot not in self.apart:
                parts = _parts(self.values[slot], len(self.states))
                for state, part in zip(states, parts[chosen], strict=True):
                    state.values[slot] = part

    def run(self, op: Any) -> bool:
        """Run an op that does not wait. Returns whether the warps are still together after it."""
        self.op = op
        if op.is_single and self.apart.isdisjoint(op.operands):
            try:
                values, (slot,) = self.values, op.results
                values[slot] = op.run(*[read(values) for read in op.readers])
            except (InterpreterError, *OF_PYTHON):
                self.run_each(op)
                return not any(state.undefined for state in self.states)
            if slot in self.apart:
                self.apart.discard(slot)
                self.scatter(op.results)
            return True
        if not self.apart.isdisjoint(op.operands):
            self.gather([slot for slot in op.operands if slot in self.apart])
        if op.by_convoy is not None:
            op.by_convoy(self, op)
            return not any(state.undefined for state in self.states)
        if op.is_wide and self.apart.isdisjoint(op.operands):
            try:
                run = op.bulk.run if isinstance(op, Batch) else op.handler
                run(self, op)
            except (NotTogether, InterpreterError, *OF_PYTHON):
                self.mask = None
                if isinstance(op, Batch) and not op.bulk.accesses:
                    return all([self.run(each) for each in op.ops])
            else:
                if not self.apart.isdisjoint(op.results):
                    written = self.apart.intersection(op.results)
                    self.apart -= written
                    self.scatter(written)
                return True
        self.run_each(op)
        return not any(state.undefined for state in self.states)

    def executing(self, op: Any) -> Sequence[AgentState]:
        """The warps with a lane that executes an op, by its guard."""
        slot = getattr(op, "guard", None)
        if slot is None:
            return self.states
        if slot in self.apart:
            self.gather([slot])
        holds = self.values[slot]
        if slot in self.apart or holds is None:
            return self.states
        rows = np.broadcast_to(holds != op.instruction.guard.negated, self.lanes.shape).reshape(self.warps, _WARP)
        return [self.states[number] for number in np.flatnonzero(rows.any(axis=1))]

    def run_each(self, op: Any) -> None:
        """Run an op warp by warp."""
        executing = self.executing(op)
        if not executing:
            return
        self.scatter(dict.fromkeys((*op.operands, *op.results)))
        for state in executing:
            self.run_alone(state, op)
        self._gather_after(op)

    def give(self, op: Any, result: Any) -> None:
        """The results of an op that runs for all warps at once."""
        op.give(self.values, op.results, result)
        if not self.apart.isdisjoint(op.results):
            written = self.apart.intersection(op.results)
            self.apart -= written
            self.scatter(written)

    def run_alone(self, state: AgentState, op: Any) -> None:
        """Run an op for one of the warps, on its own values."""
        self._acting, state.op = state, op
        op.handler(state, op)
        self._note_undefined(state, op)
        self._acting = self.states[0]

    def wait(self, op: Any) -> dict[int, Start]:
        """Run an op that may wait, warp by warp. Returns the warps that still wait, by their number."""
        self.op = op
        if op.by_convoy is not None:
            try:
                op.by_convoy(self, op)
                return {}
            except NotTogether:
                pass
        self.scatter(dict.fromkeys((*op.operands, *op.results)))
        waiting: dict[int, Start] = {}
        for number, state in enumerate(self.states):
            self._acting, state.op = state, op
            steps = op.handler(state, op)
            if (wait := next(steps, None)) is not None:
                waiting[number] = Start(steps=steps, wait=wait)
        for number, start in list(waiting.items()):
            self._acting = self.states[number]
            while start.wait is not None and start.steps is not None and start.wait.ready():
                start.wait = next(start.steps, None)
            if start.wait is None:
                del waiting[number]
        for state in self.states:
            self._note_undefined(state, op)
        self._acting = self.states[0]
        if not waiting:
            self._gather_after(op)
        return waiting

    def each(self, op: Any) -> Iterator[AgentState]:
        """The warps, one after the other, each while it runs an op."""
        for state in self.states:
            self._acting, state.op = state, op
            yield state
        self._acting = self.states[0]

    def _note_undefined(self, state: AgentState, op: Any) -> None:
        if state.made_undefined:
            undefined.after(state, op, undefined.executing(state, op))

    def _gather_after(self, op: Any) -> None:
        if op.has_places:
            self.apart.update(op.results)
        else:
            self.gather(op.results)
        self.apart.update(slot for slot in op.operands if isinstance(self.states[0].values[slot], Unreadable))

    def end(self, starts: Sequence[Start] | None = None) -> None:
        """The convoy ends."""
        self.starts = None if starts is None else list(starts)
        for state in self.states:
            state.steps, state.op = self.steps, self.op


def access_by_warps(states: Sequence[AgentState], ops: Sequence[Described], rows: int) -> Access:
    """An access by several whole warps, each with `rows` addresses for each op."""
    access = states[0].access_of(ops)
    access.warps = np.tile(np.repeat([state.warp for state in states], rows), len(ops))[:, None]
    return access


# One value of several warps -------------------------------------------------------------------------------------------


def _joined(values: Sequence[Any]) -> Any:
    """One value for several warps, from the value of each; _APART if there is none."""
    first = values[0]
    if not _has_lanes(first) and all(value is first for value in values):
        return _APART if isinstance(first, Unreadable) else first
    if all(type(value) is np.ndarray for value in values):
        alike = all(value.dtype == first.dtype and value.shape == (_WARP,) for value in values)
        return np.concatenate(values) if alike else _APART
    if all(is_raw(value) for value in values):
        return _joined_raw(values)
    if any(type(value) is not type(first) for value in values):
        return _APART
    if isinstance(first, Number | Packed):
        if any(value.dtype != first.dtype for value in values):
            return _APART
        if isinstance(first, Number):
            rows = [np.broadcast_to(value.payload, (_WARP,)) for value in values]
            return Number(np.concatenate(rows), first.dtype)
        shapes = {value.payload.shape[1:] for value in values}
        if len(shapes) > 1:
            return _APART
        (shape,) = shapes
        return Packed(np.concatenate([np.broadcast_to(v.payload, (_WARP, *shape)) for v in values]), first.dtype)
    if isinstance(first, Pair):
        low, high = (_joined([getattr(value, half) for value in values]) for half in ("low", "high"))
        return _APART if low is _APART or high is _APART else Pair(low, high)
    if isinstance(first, Half) and all(value.is_high == first.is_high for value in values):
        number = _joined([value.number for value in values])
        return _APART if number is _APART else Half(number, first.is_high)
    return _APART


def _has_lanes(value: Any) -> bool:
    """Whether a value of a warp has an element for each lane. Warps may share such a value."""
    if isinstance(value, Pair | Half):
        return True
    return bool(np.ndim(value.payload if isinstance(value, Number | Packed) else value))


def _joined_raw(values: Sequence[Any]) -> Any:
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if not arrays:
        if all(value == values[0] for value in values):
            return values[0]
        return np.repeat(np.array(values), _WARP)
    dtype = arrays[0].dtype
    if any(each.dtype != dtype or each.shape != (_WARP,) for each in arrays):
        return _APART
    is_predicate = dtype == np.bool_
    if any(isinstance(value, bool | np.bool_) != is_predicate for value in values if not isinstance(value, np.ndarray)):
        return _APART
    return np.concatenate([np.broadcast_to(np.asarray(value, dtype), (_WARP,)) for value in values])


def _parts(value: Any, count: int) -> Sequence[Any]:
    """The value of each of `count` warps. If all lanes of a warp have the same integer, it is one integer."""
    if not isinstance(value, np.ndarray):
        return [_part(value, slice(at * _WARP, (at + 1) * _WARP)) for at in range(count)]
    rows = value.reshape(count, _WARP)
    uniform = (rows == rows[:, :1]).all(axis=1)
    return [row[0].item() if same else row for row, same in zip(rows, uniform.tolist(), strict=True)]


def _part(value: Any, lanes: slice) -> Any:
    if isinstance(value, np.ndarray):
        row: NDArray[Any] = value[lanes]
        return row[0].item() if (row == row[0]).all() else row
    if isinstance(value, Number):
        return Number(value.payload[lanes], value.dtype) if np.ndim(value.payload) else value
    if isinstance(value, Packed):
        return Packed(value.payload[lanes], value.dtype) if len(value.payload) > 1 else value
    if isinstance(value, Pair):
        return Pair(_part(value.low, lanes), _part(value.high, lanes))
    if isinstance(value, Half):
        return Half(_part(value.number, lanes), value.is_high)
    if isinstance(value, Mixed):
        return Mixed(value.condition[lanes], _part(value.first, lanes), _part(value.second, lanes))
    return value
