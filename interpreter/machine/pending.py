"""Accumulators that a wgmma may still write, as values.

They can be passed on, to one next wgmma or to the wait that makes them readable, but not read. For a second user, the
compiler would copy the registers at a time when a wgmma may still write them.
"""

from dataclasses import dataclass
from typing import Any, NoReturn

from numpy.typing import NDArray

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.ordered_memory import OpenRead
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import RegisterError

Values = NDArray[Any]


class TouchedWhilePending(RegisterError):
    """A register that a wgmma may still write was used."""


@dataclass(eq=False)
class Pending:
    """An agent's accumulators, (lanes, values), and the op that took them."""

    registers: Values
    user: Described | None = None


@dataclass(eq=False)
class PendingRows(Pending):
    """Accumulators whose blocks of rows were last written by different groups: the open reads of these groups."""

    groups: tuple[list[OpenRead], ...] = ()


@dataclass(eq=False)
class PendingRegisters(Pending):
    """The accumulators of one warp, (32, values), last written by a group.

    A register holds one of them, or two of the type `packed`.
    """

    group: int = 0
    packed: str = ""

    def __getitem__(self, index: int) -> "PendingRegister":
        return PendingRegister(self.held(index), self.group, self, index)

    def held(self, index: int) -> Any:
        """The future contents of register number `index`."""
        if self.packed:
            return Packed(self.registers[:, 2 * index : 2 * index + 2], self.packed)
        return self.registers[:, index]

    def readable(self) -> tuple[Any, ...]:
        """The contents of the registers, after a wait has passed them on."""
        count = self.registers.shape[1] // (2 if self.packed else 1)
        return tuple(self.held(index) for index in range(count))


@dataclass(frozen=True)
class PendingRegister:
    """One accumulator register of a group that may not be complete: number `index` of the owner's."""

    payload: Any
    group: int
    owner: PendingRegisters
    index: int

    __array_ufunc__ = None

    def _refuse(self, *operands: Any, **named: Any) -> NoReturn:
        raise TouchedWhilePending(
            f"an accumulator register of wgmma group {self.group} before a wait has passed it on; read the "
            "results of sm.ptx_wgmma_wait [accumulator-pending]"
        )

    __array__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __float__ = __int__ = __index__ = __neg__ = __abs__ = __bool__ = _refuse


def hand_to(state: AgentState, op: Described, acc: Pending) -> None:
    """The op takes the accumulators. Raises InterpreterError if another one has taken them."""
    if acc.user is not None:
        raise state.violation(
            op,
            f"takes accumulators that {acc.user.describe()} has taken; a copy would read registers that a wgmma "
            "may still write; use the result of that op [accumulator-copied]",
        )
    acc.user = op


def check_done(state: AgentState, op: Described, group: int) -> None:
    """Raises InterpreterError if a group is in flight whose accumulators the op passes on."""
    if group in state.mmas:
        raise state.violation(
            op,
            f"passes on accumulators that wgmma group {group} may still write; wait until none is in flight"
            " [accumulator-in-flight]",
        )
