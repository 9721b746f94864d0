"""Accumulators that a wgmma may still write, as values.

They can be passed on, to one next wgmma or to the wait that makes them readable, but not looked into. For a second user
the compiler copies the registers, at a time when a wgmma may still write them.
"""

from dataclasses import dataclass
from typing import Any, NoReturn

from numpy.typing import NDArray

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.memory import OpenRead
from lowtide.interpreter.numbers.cells import Described
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import RegisterError

Values = NDArray[Any]


class TouchedWhilePending(RegisterError):
    """A register that a wgmma may still write was used."""


@dataclass(eq=False)
class Pending:
    """An agent's accumulators, (lanes, values), and the op that they were handed to."""

    registers: Values
    user: Described | None = None


@dataclass(eq=False)
class PendingRows(Pending):
    """Accumulators whose blocks of rows were each written last by another group: what these groups still read."""

    groups: tuple[list[OpenRead], ...] = ()


@dataclass(eq=False)
class PendingRegisters(Pending):
    """The accumulators of one warp, (32, values), written last by a group.

    A register holds one of them or, where `packed` names their type, two.
    """

    group: int = 0
    packed: str = ""

    def __getitem__(self, index: int) -> "PendingRegister":
        return PendingRegister(self.held(index), self.group, self, index)

    def held(self, index: int) -> Any:
        """What register number `index` will hold."""
        if self.packed:
            return Packed(self.registers[:, 2 * index : 2 * index + 2], self.packed)
        return self.registers[:, index]

    def readable(self) -> tuple[Any, ...]:
        """What the registers hold, once a wait has handed them on."""
        count = self.registers.shape[1] // (2 if self.packed else 1)
        return tuple(self.held(index) for index in range(count))


@dataclass(frozen=True)
class PendingRegister:
    """One accumulator register of a group that is not known to be done: number `index` of the owner's."""

    payload: Any
    group: int
    owner: PendingRegisters
    index: int

    __array_ufunc__ = None

    def _refuse(self, *operands: Any, **named: Any) -> NoReturn:
        raise TouchedWhilePending(
            f"an accumulator register of wgmma group {self.group} before a wait has handed it on; read what "
            "sm.ptx_wgmma_wait gives [accumulator-pending]"
        )

    __array__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __float__ = __int__ = __index__ = __neg__ = __abs__ = __bool__ = _refuse


def hand_to(state: AgentState, op: Described, acc: Pending) -> None:
    """The op takes the accumulators over. Raises InterpreterError where another one has."""
    if acc.user is not None:
        raise violation(
            state,
            op,
            f"takes accumulators that {acc.user.describe()} has taken over, so that registers are copied which a wgmma "
            "may still write; use what that op gives [accumulator-copied]",
        )
    acc.user = op


def check_done(state: AgentState, op: Described, group: int) -> None:
    """Raises InterpreterError where a group is in flight whose accumulators the op hands on."""
    if group in state.mmas:
        raise violation(
            state,
            op,
            f"hands on accumulators that wgmma group {group} may still write; wait until none is in flight"
            " [accumulator-in-flight]",
        )
