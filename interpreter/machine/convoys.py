"""Convoys: warps at the same instruction, which run it together. All belong to one CTA; or to several CTAs, if no CTA
of the kernel can wait for another (`Machine.ctas_together`).

A register of a convoy is one value, with the lanes of all its warps, warp after warp. An instruction that only
computes, and a load or a store that breaks no rule, is then one operation on arrays. Other instructions run warp by
warp, in order, on the registers of each warp. If an instruction cannot run for all warps at once, it changes nothing,
and then runs warp by warp, too. In a convoy of several CTAs, the warps of each CTA are a `crew`, which is a convoy,
too. Instructions that access shared memory run crew by crew, except loads and stores (shared_of_ctas.py).

A convoy forms where warps may join (`Joinable`): at the entry, and after instructions that wait. It separates into its
warps where their branches differ, where some warps must wait, where a register is undefined, and before several warps
signal, because a warp may poll before the others have signaled. A convoy of several CTAs separates into its crews
first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import undefined
from lowtide.interpreter.machine.agents import AgentState, Cta, Steps, Wait
from lowtide.interpreter.machine.execution import OF_PYTHON
from lowtide.interpreter.machine.joined_values import APART, by_warp, joined, part
from lowtide.interpreter.machine.shared_of_ctas import SharedOfCtas
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.numbers.accesses import LANES, WARPS, Access, Described, Ints
from lowtide.interpreter.numbers.registers import Unreadable
from lowtide.interpreter.program.batches import Batch, NotTogether


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
    which wait for `wait`. `paths`: its lanes on the sides of branches (branches.py), if they are on several."""

    block: int = 0
    index: int = 0
    edge: Any = None
    steps: Steps | None = None
    wait: Wait | None = None
    paths: Sequence[Any] = ()


class _SeveralCtas:
    """Stands for the CTA of a convoy of several CTAs. It has their shared memories, for loads and stores. Any other
    attribute raises NotTogether, because each CTA has its own."""

    def __init__(self, ctas: Sequence[Cta]) -> None:
        self.shared = SharedOfCtas([cta.shared for cta in ctas])

    def __getattr__(self, name: str) -> Any:
        raise NotTogether


class Convoy(AgentState):
    """Warps that run together, each with all its lanes. `lanes` has the number of each thread:
    (crew · WARPS + warp) · LANES + lane.

    `crews`: if there are several CTAs, a convoy of the warps of each; otherwise empty. `apart`: slots whose values are
    kept by each warp, because they are of different kinds or may not be read now. `acting`: the warp that runs the
    present op alone, if there is one. After the convoy has ended, `starts` are the places where its warps continue, or
    `divided` is the place where its crews continue; both are None if the warps have ended.
    """

    def __init__(self, states: Sequence[AgentState], live: Collection[int], written: Iterable[int]) -> None:
        """The convoy of warps at one place. `written`: slots that any op writes. `live`: those of them that may be read
        before they are written again."""
        first = states[0]
        super().__init__(first.machine, first.cta, first.seat, 0)
        self.states, written = tuple(states), tuple(written)
        self._acting: AgentState = first
        ctas = tuple(dict.fromkeys(state.cta for state in states))
        self.crews: tuple[Convoy, ...] = ()
        if len(ctas) > 1:
            self.crews = tuple(Convoy([each for each in states if each.cta is cta], (), written) for cta in ctas)
            self.cta = cast(Cta, _SeveralCtas(ctas))
        self._ctas = ctas
        threads = [(ctas.index(state.cta) * WARPS + state.warp) * LANES + state.lanes for state in states]
        self.lanes = np.concatenate(threads)
        self._columns = _columns(self.lanes)
        self._parts = [(state.warp, slice(at * WARP, at * WARP + WARP)) for at, state in enumerate(self.states)]
        self.values = list(first.values)
        self.apart: set[int] = set()
        self.steps = max(state.steps for state in states)
        self.starts: list[Start] | None = None
        self.divided: Start | None = None
        for slot in written:
            self.values[slot] = None
        self.gather(live)

    @property
    def all_ctas(self) -> tuple[Cta, ...]:
        return self._ctas

    def leaves_out(self, mask: NDArray[np.bool_]) -> bool:
        there = np.bincount(self._columns[2][mask, 0], minlength=len(self._ctas))
        return not there.all()

    @property
    def acting(self) -> AgentState:
        return self._acting.acting

    def access(self, op: Described, lanes: Ints | None = None) -> Access:
        """An access by threads of several warps. Raises NotTogether for an access by whole warps."""
        if lanes is None or self.strong is not None:
            raise NotTogether
        numbers, access_warps, crews = self._columns if lanes is self.lanes else _columns(lanes)
        access = self.states[0].access(op, numbers)
        access.warps = access_warps
        if self.crews:
            access.crews, access.ctas = crews, tuple(cta.index for cta in self._ctas)
        elif lanes is self.lanes:
            access._parts = self._parts
        return access

    @property
    def warps(self) -> int:
        return len(self.states)

    def access_by_warps(self, ops: Sequence[Described], rows: int) -> Access:
        """As `access`, by whole warps. Each warp has `rows` addresses for each op."""
        access = self.states[0].access_of(ops)
        warps, crews = (np.repeat(column[::WARP], rows, axis=0) for column in self._columns[1:])
        access.warps = np.tile(warps, (len(ops), 1))
        if self.crews:
            access.crews, access.ctas = np.tile(crews, (len(ops), 1)), tuple(cta.index for cta in self._ctas)
        return access

    def who(self) -> str:
        return self._acting.who()

    def gather(self, slots: Iterable[int]) -> None:
        """For each slot, join the values of the warps to one value."""
        for slot in slots:
            value = joined([state.values[slot] for state in self.states], [WARP] * len(self.states))
            if value is APART:
                self.apart.add(slot)
            else:
                self.apart.discard(slot)
                self.values[slot] = value

    def scatter(self, slots: Iterable[int], chosen: slice = slice(None)) -> None:
        """For each slot, give each warp, or those `chosen`, its part of the value."""
        states, first = self.states[chosen], chosen.start or 0
        lanes = slice(first * WARP, (first + len(states)) * WARP)
        for slot in slots:
            if slot not in self.apart:
                held = self.values[slot]
                held = held if len(states) == len(self.states) else part(held, lanes)
                for state, value in zip(states, by_warp(held, len(states), WARP), strict=True):
                    state.values[slot] = value

    def run(self, op: Any) -> bool:
        """Run an op that does not wait. Returns whether the warps are still together after it."""
        self.op = op
        if op.is_single and self.apart.isdisjoint(op.operands):
            try:
                values, (slot,) = self.values, op.results
                values[slot] = op.run(*[read(values) for read in op.readers])
            except (InterpreterError, *OF_PYTHON):
                self.run_each(op)
                return not self.undefined_registers
            if slot in self.apart:
                self.apart.discard(slot)
                self.scatter(op.results)
            return True
        if not self.apart.isdisjoint(op.operands):
            self.gather([slot for slot in op.operands if slot in self.apart])
        if op.by_convoy is not None:
            op.by_convoy(self, op)
            return not self.undefined_registers
        is_for_crews = bool(self.crews) and op.in_cta
        if op.is_wide and not is_for_crews and self.apart.isdisjoint(op.operands):
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
        if self.crews and op.is_wide:
            self._run_by_crews(op)
        else:
            self.run_each(op)
        return not self.undefined_registers

    @property
    def undefined_registers(self) -> int:
        """The number of registers of warps that are undefined in some of their lanes."""
        return sum(len(state.undefined) for state in self.states)

    def is_undefined(self, slot: int) -> bool:
        """Whether a register is one of these."""
        return any(slot in state.undefined for state in self.states)

    def touches_undefined(self, op: Any) -> bool:
        """Whether an op reads or writes one of these registers, so that each warp must run it alone."""
        return any(state.undefined and undefined.touches(state, op) for state in self.states)

    def run_undefined(self, batch: Any) -> None:
        """Run an op, or those of a batch, on such registers: warp by warp, if it does more than compute."""
        for op in undefined.flatten(batch):
            if undefined.only_passes_on(op):
                found = [(state, undefined.before(state, op)) for state in self.states if undefined.touches(state, op)]
                self.run(op)
                for state, known in found:
                    undefined.after(state, op, *known)
                continue
            self.scatter(dict.fromkeys((*op.operands, *op.results)))
            for state in self.each(op):
                known = undefined.before(state, op)
                op.handler(state, op)
                undefined.after(state, op, *known)
            self._gather_after(op)

    def prune(self, live: frozenset[int]) -> None:
        """Forget such registers that are not read any more."""
        for state in self.states:
            if state.undefined:
                undefined.prune(state, live)

    def compute(self, op: Any) -> None:
        """Run an op that only computes, loads or stores for all warps at once, in the lanes of the mask. Raises
        NotTogether, or an error of the op, if that is not possible; then no memory has changed."""
        if op.is_single:
            self.values[op.results[0]] = op.run(*[read(self.values) for read in op.readers])
        elif op.by_convoy is not None:
            op.by_convoy(self, op)
        else:
            run = op.bulk.run if isinstance(op, Batch) else op.handler
            run(self, op)

    def _run_by_crews(self, op: Any) -> None:
        """Run an op by the warps of each CTA together."""
        self._give_crews(op.operands)
        for crew in self.crews:
            self._acting = crew
            crew.run(op)
        self._acting = self.states[0]
        counts = [len(crew.lanes) for crew in self.crews]
        for slot in op.results:
            are_apart = any(slot in crew.apart for crew in self.crews)
            value = APART if are_apart else joined([crew.values[slot] for crew in self.crews], counts)
            if value is APART:
                for crew in self.crews:
                    crew.scatter([slot])
                self.apart.add(slot)
            else:
                self.apart.discard(slot)
                self.values[slot] = value

    def _give_crews(self, slots: Iterable[int]) -> None:
        """For each slot, give each crew its part of the value."""
        start = 0
        for crew in self.crews:
            end = start + len(crew.lanes)
            lanes = slice(start, end)
            crew.apart = self.apart.intersection(slots)
            for slot in slots:
                if slot not in self.apart:
                    crew.values[slot] = part(self.values[slot], lanes)
            start = end

    def divide(self, live: Collection[int], at: Start) -> None:
        """The convoy ends, and its crews continue at a place. `live`: the slots that may still be read."""
        self._give_crews(live)
        for crew in self.crews:
            crew.apart, crew.steps, crew.op = set(self.apart), self.steps, self.op
        self.end([])
        self.divided = at

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
        rows = np.broadcast_to(holds != op.instruction.guard.negated, self.lanes.shape).reshape(self.warps, WARP)
        return [self.states[number] for number in np.flatnonzero(rows.any(axis=1)).tolist()]

    def signals(self, op: Any) -> bool:
        """Whether several warps of a CTA execute an op."""
        executing = self.executing(op)
        return len(executing) > len({state.cta for state in executing})

    def run_each(self, op: Any) -> None:
        """Run an op warp by warp."""
        executing = self.executing(op)
        if not executing:
            return
        slots = dict.fromkeys((*op.operands, *op.results))
        if op.results or len(executing) == len(self.states):
            self.scatter(slots)
        else:  # the others keep what they have
            for state in executing:
                at = self.states.index(state)
                self.scatter(slots, slice(at, at + 1))
        for state in executing:
            self.run_alone(state, op)
        self._gather_after(op)

    def give(self, op: Any, result: Any) -> None:
        """Store the results of an op that has run for all warps at once."""
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
        """The warps, one after the other. Each is the acting warp while the caller runs the op for it."""
        for state in self.states:
            self._acting, state.op = state, op
            yield state
        self._acting = self.states[0]

    def by_cta(self, op: Any) -> list[list[AgentState]]:
        """For each CTA, its warps, which then run an op together."""
        states = list(self.each(op))
        return [[state for state in states if state.cta is cta] for cta in self._ctas]

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


def _columns(lanes: Ints) -> tuple[Ints, Ints, Ints]:
    """For n threads of a convoy: their lanes (n,), their warps (n, 1), and their crews (n, 1)."""
    warps = lanes // LANES
    return lanes % LANES, (warps % WARPS)[:, None], (warps // WARPS)[:, None]
