"""Registers of PTX that a wgmma reads or writes: nothing may access them before a wait covers its group."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import Any

from numpy.typing import NDArray

from lowtide.interpreter.machine.accumulators import Block
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import Unreadable
from lowtide.interpreter.ptx.matrices import held_as
from lowtide.interpreter.ptx.running import Op

Values = NDArray[Any]


@dataclass(eq=False)
class Accumulators:
    """The accumulators of one warp, number `part` of a block; the group that may write them, the slots of their
    registers, and their type. After a wait, `given` are the registers that it has given back."""

    block: Block
    part: int
    group: int
    slots: tuple[int, ...]
    dtype: str
    given: tuple[Any, ...] | None = None

    @property
    def values(self) -> Values:
        """(32, n / 2)."""
        return self.block.of_warp(self.part).T

    @cached_property
    def registers(self) -> tuple[Any, ...]:
        """What the slots hold until a wait covers the group."""
        return tuple([InFlight(self, index) for index in range(len(self.slots))])

    def are_held(self, state: AgentState) -> bool:
        """Whether the slots hold what they were given, so that no instruction has written them since."""
        registers = self.registers if self.given is None else self.given
        return all(map(is_, registers, [state.values[slot] for slot in self.slots]))

    def give_back(self, state: AgentState, op: Op) -> None:
        """Make the registers hold the result of the wgmma and be accessible again; none has been accessed."""
        if not self.are_held(state):
            raise state.violation(
                op,
                f"a register of wgmma group {self.group} was written while it was in flight; wait before"
                " [ptx-written-in-flight]",
            )
        columns = self.block.of_warp(self.part)
        if len(self.slots) != len(columns):
            self.given = tuple([Packed(columns[at : at + 2].T, "f16") for at in range(0, len(columns), 2)])
        else:
            self.given = tuple([held_as(column, self.dtype) for column in columns])
        for slot, value in zip(self.slots, self.given, strict=True):
            state.values[slot] = value
        state.returned[self.slots] = self


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
    """The accumulators that the last wgmma on the result registers of `op` has left there, in flight or given back.
    None if other instructions wrote the registers."""
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
    found: Accumulators | None = state.returned.get(op.results)
    return found if found is not None and found.are_held(state) else None


def block_before(before: Sequence[Accumulators | None], dtype: str, places: Any) -> Block | None:
    """The block that these accumulators of the warps of a warpgroup are, if they are one block in this order."""
    first = before[0]
    if first is None or first.dtype != dtype or first.block.places is not places:
        return None
    are_one = all(
        owner is not None and owner.block is first.block and owner.part == number for number, owner in enumerate(before)
    )
    return first.block if are_one and len(before) == len(first.block.matrix) else None


@dataclass(eq=False)
class HeldA:
    """Registers that a wgmma reads A from: its group, their slots and what they hold."""

    group: int
    slots: tuple[int, ...]
    values: tuple[Any, ...]

    def take_over(self, state: AgentState, op: Op) -> None:
        """Nothing may touch the registers until a wait covers the group."""
        if len(set(self.slots)) < len(self.slots):
            raise state.violation(op, "A has a register twice [ptx-a-twice]")
        unfinished(state).append(self)
        for slot in self.slots:
            state.values[slot] = ReadByWgmma(self)

    def give_back(self, state: AgentState, op: Op) -> None:
        """The registers may be accessed again; none has been accessed."""
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


def unfinished(state: AgentState) -> list[Accumulators | HeldA]:
    """Accumulators and A's registers of the agent that no wait has covered."""
    found: list[Accumulators | HeldA] = state.accumulators
    return found
