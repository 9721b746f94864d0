"""Registers of PTX that a wgmma reads or writes: nothing may access them before a wait covers its group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import Any

from numpy.typing import NDArray

from lowtide.interpreter.machine.accumulators import Block
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import Unreadable
from lowtide.interpreter.ptx.matrices import accumulator, held_as
from lowtide.interpreter.ptx.running import Op

Values = NDArray[Any]


@dataclass(eq=False)
class Accumulators:
    """The accumulators of one warp, which is warp `part` of a block; the wgmma group that may still write them; the
    slots of their registers; and their element type."""

    block: Block
    part: int
    group: int
    slots: tuple[int, ...]
    dtype: str

    @property
    def values(self) -> Values:
        """The accumulators of each lane, (32, n / 2)."""
        return self.block.of_warp(self.part).T

    @cached_property
    def registers(self) -> tuple[Any, ...]:
        """What the slots hold until a wait covers the group."""
        return tuple([InFlight(self, index) for index in range(len(self.slots))])

    def are_held(self, state: AgentState) -> bool:
        """Whether no instruction has written the slots since the wgmma started."""
        return all(map(is_, self.registers, [state.values[slot] for slot in self.slots]))

    def check(self, state: AgentState, op: Op) -> None:
        """Raise InterpreterError if an instruction has written the slots since the wgmma started."""
        if not self.are_held(state):
            raise state.violation(
                op,
                f"a register of wgmma group {self.group} was written while it was in flight; wait before"
                " [ptx-written-in-flight]",
            )

    def give_back(self, state: AgentState, op: Op) -> None:
        """Make the registers hold the result of the wgmma, and be accessible again. Raises InterpreterError if an
        instruction has written one."""
        self.check(state, op)
        self.put(state.values, self.block.of_warp(self.part))

    def put(self, values: list[Any], columns: Values) -> None:
        """Put accumulators (n / 2, lanes) into the slots of `values`."""
        if len(self.slots) != len(columns):
            given = [Packed(columns[at : at + 2].T, "f16") for at in range(0, len(columns), 2)]
        else:
            given = [held_as(column, self.dtype) for column in columns]
        for slot, value in zip(self.slots, given, strict=True):
            values[slot] = value


@dataclass(eq=False, slots=True)
class InFlight(Unreadable):
    """Register number `index` of accumulators that a wgmma may still write."""

    owner: Accumulators
    index: int

    @property
    def why(self) -> str:  # type: ignore[override]
        return (
            f"an accumulator register of wgmma group {self.owner.group} is touched before a wait covers the group; "
            "put wgmma.wait_group before"
        )


def accumulators_before(state: AgentState, op: Op) -> Accumulators | None:
    """The accumulators in flight that the last wgmma left in the result registers of `op`; None if other instructions
    wrote the registers. Raises InterpreterError if some of them were written since, or are in flight as the
    registers of another wgmma."""
    held = [state.values[slot] for slot in op.results]
    first = held[0]
    if isinstance(first, InFlight) and first.owner.slots == op.results:
        if not first.owner.are_held(state):
            raise state.violation(
                op,
                "some of its accumulators were written while a wgmma was in flight; wait for it before "
                "[ptx-accumulators-written]",
            )
        return first.owner
    for value in held:
        if isinstance(value, InFlight):
            raise state.violation(op, value.why)
    return None


def block_of(owners: Sequence[Accumulators | None]) -> Block | None:
    """The block that has the accumulators of these warps, in this order; None if there is no such block."""
    first = owners[0]
    if first is None or len(owners) != len(first.block.matrix):
        return None
    parts = [(owner.block, owner.part) if owner is not None else None for owner in owners]
    return first.block if parts == [(first.block, number) for number in range(len(owners))] else None


def unfinished(state: AgentState) -> list[Accumulators | HeldA]:
    """The agent's accumulators and registers of A whose groups no wait has covered. Callers may change the list."""
    found: list[Accumulators | HeldA] = state.accumulators
    return found


@dataclass(eq=False)
class HeldA:
    """Registers that a wgmma reads A from: its group, their slots and what they hold."""

    group: int
    slots: tuple[int, ...]
    values: tuple[Any, ...]

    def take_over(self, state: AgentState, op: Op) -> None:
        """Nothing may touch the registers until a wait covers the group."""
        if len(set(self.slots)) < len(self.slots):
            raise state.violation(op, "A has a register twice; take different registers [ptx-a-twice]")
        unfinished(state).append(self)
        for slot in self.slots:
            state.values[slot] = ReadByWgmma(self)

    def give_back(self, state: AgentState, op: Op) -> None:
        """Make the registers accessible again. Raises InterpreterError if an instruction has written one."""
        for slot, value in zip(self.slots, self.values, strict=True):
            held = state.values[slot]
            if not isinstance(held, ReadByWgmma) or held.owner is not self:
                raise state.violation(
                    op, f"a register of A of wgmma group {self.group} was written; wait before [ptx-a-written]"
                )
            state.values[slot] = value


@dataclass(eq=False, slots=True)
class ReadByWgmma(Unreadable):
    """A register of A that a wgmma may still read."""

    owner: HeldA

    @property
    def why(self) -> str:  # type: ignore[override]
        return (
            f"a register of A of wgmma group {self.owner.group} is touched before a wait covers the group; put "
            "wgmma.wait_group before"
        )


def columns_of(op: Op, held: Sequence[Any], domain: Domain, lanes: int) -> Values:
    """The accumulators in these registers of some lanes: (n / 2, lanes)."""
    product = op.data.product
    columns = domain.full((product.n // 2, lanes), 0, product.accumulator)
    for at, value in enumerate(held):
        if product.packed:
            columns[2 * at : 2 * at + 2] = registers.halves(value, product.accumulator, domain).T
        else:
            columns[at] = accumulator(value, product.accumulator, domain)
    return columns


def check_fence(state: AgentState, op: Op) -> None:
    """Raise InterpreterError if no wgmma.fence covers the warp's registers."""
    if not state.fenced:
        raise state.violation(
            op, "wgmma takes registers that other instructions wrote; put wgmma.fence before it [ptx-wgmma-fence]"
        )
