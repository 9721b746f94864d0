"""What entries of a manifest are made of: names of results, and the attributes of arith ops."""

from collections.abc import Collection, Iterator
from itertools import count
from typing import Any

from mlir import ir

# Predicates of arith.cmpi and arith.cmpf, by their numbers in IR.
_CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_CMPF = tuple(
    ["false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"]
)


def unused_names(prefix: str, taken: Collection[str], first: int = 0) -> Iterator[str]:
    """The prefix with a number, counting from `first`, except for names of arguments, which users choose."""
    return (name for number in count(first) if (name := f"{prefix}{number}") not in taken)


def host_attributes(op: ir.OpView) -> dict[str, Any]:
    """The attributes of an arith op of a host function."""
    if op.operation.name == "arith.cmpi":
        return {"predicate": _CMPI[int(ir.IntegerAttr(op.attributes["predicate"]).value)]}
    if op.operation.name in ("arith.trunci", "arith.index_cast", "arith.extsi", "arith.extui"):
        return {"type": str(op.results[0].type)}
    return {}


def region_attributes(op: ir.OpView) -> dict[str, Any]:
    """The attributes of an op of an epilogue region."""
    name = op.operation.name
    if name == "arith.constant":
        return {"value": op.attributes["value"].value, "type": str(op.results[0].type)}
    if name in ("arith.truncf", "arith.extf"):
        return {"type": str(op.results[0].type)}
    if name in ("arith.cmpf", "arith.cmpi"):
        names = _CMPF if name == "arith.cmpf" else _CMPI
        return {"predicate": names[int(ir.IntegerAttr(op.attributes["predicate"]).value)]}
    return {}
