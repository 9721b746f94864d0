"""The arith ops of host functions as Python expressions on exact integers.

`{0}`, `{1}` stand for the names of the operands; `M` is 2⁶⁴−1, for ops that read their operands as unsigned.
i1 is Python's bool. Semantics: MLIR, "'arith' Dialect".
"""

from __future__ import annotations

MASK = (1 << 64) - 1
PREDICATES = {
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "slt": "{0} < {1}",
    "sle": "{0} <= {1}",
    "sgt": "{0} > {1}",
    "sge": "{0} >= {1}",
    "ult": "({0} & M) < ({1} & M)",
    "ule": "({0} & M) <= ({1} & M)",
    "ugt": "({0} & M) > ({1} & M)",
    "uge": "({0} & M) >= ({1} & M)",
}
BINARY = {
    "arith.addi": "{0} + {1}",
    "arith.subi": "{0} - {1}",
    "arith.muli": "{0} * {1}",
    "arith.divsi": "{0} // {1} if {0} >= 0 < {1} else divsi({0}, {1})",
    "arith.divui": "({0} & M) // ({1} & M)",
    "arith.ceildivsi": "-(-{0} // {1})",
    "arith.ceildivui": "-(-({0} & M) // ({1} & M))",
    "arith.floordivsi": "{0} // {1}",
    "arith.remsi": "{0} % {1} if {0} >= 0 < {1} else remsi({0}, {1})",
    "arith.remui": "({0} & M) % ({1} & M)",
    "arith.minsi": "min({0}, {1})",
    "arith.maxsi": "max({0}, {1})",
    "arith.minui": "min({0} & M, {1} & M)",
    "arith.maxui": "max({0} & M, {1} & M)",
    "arith.andi": "{0} & {1}",
    "arith.ori": "{0} | {1}",
    "arith.xori": "{0} ^ {1}",
    "arith.shli": "{0} << shift({1})",
    "arith.shrsi": "{0} >> shift({1})",
    "arith.shrui": "({0} & M) >> shift({1})",
}
KEEPS_I1 = {"arith.andi", "arith.ori", "arith.xori"}
SIGNED_CASTS = {"arith.index_cast", "arith.extsi"}
UNSIGNED_CASTS = {"arith.index_castui", "arith.extui"}
WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


def divsi(a: int, b: int) -> int:
    return -(-a // b) if (a < 0) != (b < 0) else a // b


def remsi(a: int, b: int) -> int:
    return a - b * divsi(a, b)


def wrap(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
