"""Operations on integers, and their results for known operands.

Operations are named as LLVM names them: `U` is unsigned, `S` signed; the others are the same for both.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import arith

INDEX_BITS = 64


@dataclass(frozen=True)
class Binary:
    """An operation on two integers of one type, with rules to fold it.

    `evaluate` takes both operands as unsigned or, if `signed`, as signed, and returns None if the operation is
    undefined for them. x op `neutral` is x; x op `absorbing` is `absorbing`.
    """

    op: type[Any]
    evaluate: Callable[[int, int], int | None]
    signed: bool = False
    neutral: int | None = None
    absorbing: int | None = None
    commutes: bool = False


def _truncated(x: int, y: int) -> int | None:
    """x / y rounded towards zero, as hardware divides."""
    return None if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _remainder(x: int, y: int) -> int | None:
    quotient = _truncated(x, y)
    return None if quotient is None else x - quotient * y


def _ceiling(x: int, y: int) -> int | None:
    return None if y == 0 else -(-x // y)


ADD = Binary(arith.AddIOp, operator.add, neutral=0, commutes=True)
SUB = Binary(arith.SubIOp, operator.sub, neutral=0)
MUL = Binary(arith.MulIOp, operator.mul, neutral=1, absorbing=0, commutes=True)
UDIV = Binary(arith.DivUIOp, _truncated, neutral=1)
SDIV = Binary(arith.DivSIOp, _truncated, signed=True, neutral=1)
UREM = Binary(arith.RemUIOp, _remainder)
CEIL_UDIV = Binary(arith.CeilDivUIOp, _ceiling, neutral=1)
CEIL_SDIV = Binary(arith.CeilDivSIOp, _ceiling, signed=True, neutral=1)
UMIN = Binary(arith.MinUIOp, min, absorbing=0, commutes=True)
SMIN = Binary(arith.MinSIOp, min, signed=True, commutes=True)
UMAX = Binary(arith.MaxUIOp, max, neutral=0, commutes=True)
SMAX = Binary(arith.MaxSIOp, max, signed=True, commutes=True)
AND = Binary(arith.AndIOp, operator.and_, neutral=-1, absorbing=0, commutes=True)
OR = Binary(arith.OrIOp, operator.or_, neutral=0, absorbing=-1, commutes=True)
XOR = Binary(arith.XOrIOp, operator.xor, neutral=0, commutes=True)
SHL = Binary(arith.ShLIOp, lambda x, y: x << y if y < INDEX_BITS else None, neutral=0)
LSHR = Binary(arith.ShRUIOp, lambda x, y: x >> y if y < INDEX_BITS else None, neutral=0)

PREDICATES: dict[arith.CmpIPredicate, Callable[[int, int], bool]] = {
    arith.CmpIPredicate.eq: operator.eq,
    arith.CmpIPredicate.ne: operator.ne,
    arith.CmpIPredicate.slt: operator.lt,
    arith.CmpIPredicate.sle: operator.le,
    arith.CmpIPredicate.ult: operator.lt,
    arith.CmpIPredicate.ule: operator.le,
}
SIGNED_PREDICATES = (arith.CmpIPredicate.slt, arith.CmpIPredicate.sle)


def _bits(type_: ir.Type) -> int:
    return INDEX_BITS if isinstance(type_, ir.IndexType) else ir.IntegerType(type_).width


def wrapped(value: int, type_: ir.Type, *, signed: bool) -> int:
    """The number that the type's bits hold for a value."""
    bits = _bits(type_)
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value
