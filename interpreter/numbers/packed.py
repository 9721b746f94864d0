"""Registers that hold several numbers: two of 16 bits in 32, as in ldmatrix and mma.sync, or some of 8 bits.

In IR they are i32, i16 or i8; here they keep the numbers of the domain and their type. They can be passed on, selected,
stored and cast back to vectors of the same type. Arithmetic on such bits is refused.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import ELEMENTS, ElementType
from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.blending import blend
from lowtide.interpreter.numbers.codes import ZERO_TYPE
from lowtide.interpreter.numbers.domains import Domain

Values = NDArray[Any]

_REGISTER_BYTES = 4
_BYTES = {row.ir: row.bytes for row in ELEMENTS.values() if row.is_float}

PACKED_TYPES: tuple[str, ...] = tuple(row.ir for row in ELEMENTS.values() if row.is_float and row.bits == 16)
"""Types, by MLIR name, with two elements in a 32-bit register."""

NARROW_TYPES: tuple[str, ...] = tuple(row.ir for row in ELEMENTS.values() if row.is_float and row.bits <= 16)
"""Types with several elements in a register."""


@dataclass(eq=False, slots=True)
class Mixed:
    """`first` in lanes where the condition (32,) holds, else `second`; of different kinds."""

    condition: Any
    first: Any
    second: Any

    def blend(self, condition: Any, other: Any) -> Any:
        """This in lanes where the condition (32,) holds, else `other`."""
        return self if other is None else self.under(~condition, other)

    def under(self, condition: Any, value: Any) -> Any:
        """`value` in lanes where the condition (32,) holds, else this. Values of one kind stay together."""
        if isinstance(value, Mixed):
            result: Any = self
            for lanes, part in value.parts():
                result = result.under(condition & lanes, part)
            return result
        if _are_alike(value, self.first):
            return Mixed(self.condition | condition, blend(condition, value, self.first), self.second)
        if _are_alike(value, self.second):
            return Mixed(self.condition & ~condition, self.first, blend(condition, value, self.second))
        if isinstance(self.second, Mixed):  # keeps one of each kind, however often lanes change theirs
            return Mixed(self.condition & ~condition, self.first, self.second.under(condition, value))
        return Mixed(condition, value, self)

    def parts(self) -> Iterator[tuple[Any, Any]]:
        """The parts: disjoint lanes, and their value."""
        yield self.condition, self.first
        rest = ~self.condition
        if not isinstance(self.second, Mixed):
            yield rest, self.second
            return
        for lanes, part in self.second.parts():
            yield rest & lanes, part

    def map(self, function: Callable[[Any], Any]) -> Any:
        """The results of the function on both, numpy arrays or scalars, as one."""
        first, second = np.asarray(function(self.first)), np.asarray(function(self.second))
        extra = max(first.ndim, second.ndim) - 1
        return np.where(np.asarray(self.condition).reshape(-1, *(1,) * max(extra, 0)), first, second)


def joined(condition: Any, value: Any, other: Any) -> Any:
    """`value` in lanes where the condition (32,) holds, else `other`, which is of another kind."""
    if other is None:
        return value
    if isinstance(other, Mixed):
        return other.under(condition, value)
    return value.under(~condition, other) if isinstance(value, Mixed) else Mixed(condition, value, other)


def _are_alike(x: Any, y: Any) -> bool:
    """Whether two values are of one kind, and of one type of numbers."""
    if isinstance(x, int | np.ndarray) or isinstance(y, int | np.ndarray):
        return isinstance(x, int | np.ndarray) and isinstance(y, int | np.ndarray)
    return type(x) is type(y) and getattr(x, "dtype", "") == getattr(y, "dtype", "")


class Packed:
    """Integers, one or a vector, that hold numbers of a type `dtype` with the same width, a half or a quarter.

    `payload`: array (32, k) for an integer with k numbers, (32, n, k) for a vector of n, with 1 in place of 32 if
    uniform; the lowest first. `dtype` is ZERO_TYPE if the halves are zero of any type.
    """

    __array_ufunc__ = None  # makes numpy use the operators below
    __slots__ = ("dtype", "payload")

    def __init__(self, payload: Values, dtype: str) -> None:
        self.payload = payload
        self.dtype = dtype

    def unpack(self, dtype: str) -> Values:
        """The payload, as numbers of `dtype`. Raises InterpreterError if it holds another type, and is not a zero of
        the same width."""
        if self.dtype not in (dtype, ZERO_TYPE) and (_BYTES.get(self.dtype) != _BYTES.get(dtype) or self._has_bits()):
            raise InterpreterError(
                f"a register that holds two {self.dtype} is read as two {dtype}; load it as {dtype} [pair-read]"
            )
        return self.payload

    def _has_bits(self) -> bool:
        """Whether some number is nonzero or negative zero."""
        payload = np.asarray(self.payload)
        return bool(payload.any() or (payload.dtype.kind == "f" and np.signbit(payload).any()))

    def at(self, place: Any) -> "Packed":
        """An element of a vector of registers."""
        return Packed(self.payload[place], self.dtype)

    def blend(self, condition: Any, other: Any) -> Any:
        """This in lanes where the condition (32,) holds, else `other`."""
        if not isinstance(other, Packed):
            return joined(condition, self, other)
        if self.dtype != other.dtype and ZERO_TYPE not in (self.dtype, other.dtype):
            raise InterpreterError(
                f"a register that holds {self.dtype} is joined with one that holds {other.dtype} [pair-joined]"
            )
        column = np.asarray(condition).reshape(-1, *(1,) * (self.payload.ndim - 1))
        dtype = other.dtype if self.dtype == ZERO_TYPE else self.dtype
        return Packed(np.where(column, self.payload, other.payload), dtype)

    def __len__(self) -> int:
        """32, or 1 if uniform."""
        return len(self.payload)

    def _refuse(self, *operands: Any) -> NoReturn:
        raise InterpreterError(
            f"integer arithmetic on a register that holds two {self.dtype}: the interpreter keeps numbers, not their "
            "bits; cast it to a vector of its type first (llvm.bitcast) [pair-arithmetic]"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __and__ = __rand__ = __or__ = __ror__ = _refuse
    __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __floordiv__ = __mod__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __index__ = __neg__ = __invert__ = __abs__ = __bool__ = _refuse


def narrowed_pair(values: Values, row: ElementType, domain: Domain) -> Packed:
    """Numbers (32 or 1, k) rounded to a narrower type, 8-bit floats clamped to finite values, as a register."""
    if row.bits == 8 and domain.is_float:
        values = np.clip(values, row.lowest, row.largest)  # NaN stays NaN
    return Packed(domain.round(values, row.ir), row.ir)
