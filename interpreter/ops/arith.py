"""The arith dialect: integers exactly in their width, floats in the number domain.

Integers are kept signed; an unsigned op reads them through an unsigned view. Each op works the same on uniform scalars,
on arrays over lanes, and on arrays over the elements of vectors, tiles or fragments.
"""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.blending import blend
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.registers import LOGIC, canonical, unsigned
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import Scalar, Type, Vector
from lowtide.interpreter.ptx.comparisons import COMPARISONS
from lowtide.interpreter.ptx.integers import EXTREMA, truncated_quotient
from lowtide.interpreter.ptx.rounding import flushed

OPS = OpTable(acts=False)

PREDICATES_F = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
    "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip


def element_of(type: Type) -> Scalar:
    """The scalar type of a scalar or vector."""
    if isinstance(type, Vector):
        return type.element
    if isinstance(type, Scalar):
        return type
    raise InterpreterError(f"{type} is not a scalar or vector: arithmetic is interpreted only on numbers [arith-type]")


def _prepare_constant(op: DecodedOp, program: Program) -> Any:
    value, type = op.attributes["value"], op.result_types[0]
    element = element_of(type)
    if element.is_float:
        if isinstance(type, Vector):
            constant = program.domain.constant
            flat = [constant(float(entry), element.name) for entry in value.reshape(-1)]
            return np.array(flat, dtype=program.domain.payload).reshape(1, *type.shape)
        else:
            return program.domain.constant(value, element.name)
    elif isinstance(type, Vector):
        return value.astype(element.dtype).reshape(1, *type.shape)
    else:
        return canonical(value, element.bits)


@OPS.implements("arith.constant", prepare=_prepare_constant)
def constant(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = op.data


# Integers -------------------------------------------------------------------------------------------------------------

_WRAPPING: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.minsi": EXTREMA["min"],
    "arith.maxsi": EXTREMA["max"],
    **{f"arith.{name}i": function for name, function in LOGIC.items()},
}


@OPS.implements(*_WRAPPING, prepare=lambda op, program: (_WRAPPING[op.name], element_of(op.result_types[0])))
def wrapping(state: AgentState, op: DecodedOp) -> None:
    values, (x, y), (function, scalar) = state.values, op.operands, op.data
    result = function(values[x], values[y])
    if result.__class__ is not np.ndarray or result.dtype != scalar.dtype:
        result = canonical(result, scalar.bits)
    values[op.results[0]] = result


_DIVIDING: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "arith.divsi": (truncated_quotient, False),
    "arith.remsi": (lambda x, y: x - y * truncated_quotient(x, y), False),
    "arith.floordivsi": (operator.floordiv, False),
    "arith.ceildivsi": (lambda x, y: -(-x // y), False),
    "arith.divui": (operator.floordiv, True),
    "arith.remui": (operator.mod, True),
    "arith.ceildivui": (lambda x, y: -(-x // y), True),
}


def _prepare_scalar(op: DecodedOp, program: Program) -> Any:
    return element_of(op.result_types[0])


@OPS.effects(*_DIVIDING, prepare=_prepare_scalar)
def dividing(state: AgentState, op: DecodedOp, *operands: Any) -> Any:
    (function, is_unsigned), scalar = _DIVIDING[op.name], op.data
    x, y = (np.asarray(v, np.int64) if isinstance(v, np.ndarray) else v for v in operands)
    if state.mask is not None and isinstance(y, np.ndarray):
        y = np.where(state.mask, y, 1)  # other lanes do not divide
    if not (y.all() if isinstance(y, np.ndarray) else y):
        raise state.violation(op, "a division by zero has no value; guard the divisor [division-by-zero]")
    if is_unsigned:  # unsigned numbers as signed 64-bit ones; 64-bit operands are never that large here
        x, y = (_widen(v, scalar) for v in (x, y))
    return canonical(function(x, y), scalar.bits)


def _widen(value: Any, scalar: Scalar) -> Any:
    if isinstance(value, np.ndarray):
        return value & ((1 << scalar.bits) - 1) if scalar.bits < 64 else value
    return unsigned(value, scalar.bits)


@OPS.effects("arith.minui", "arith.maxui", prepare=_prepare_scalar)
def unsigned_extremum(state: AgentState, op: DecodedOp, x: Any, y: Any) -> Any:
    bits = op.data.bits
    return canonical(EXTREMA[op.name[-5:-2]](unsigned(x, bits), unsigned(y, bits)), bits)


@OPS.implements("arith.shli", "arith.shrsi", "arith.shrui", prepare=_prepare_scalar)
def shift(state: AgentState, op: DecodedOp) -> None:
    scalar, values = op.data, state.values
    x, amount = values[op.operands[0]], values[op.operands[1]]
    if not (0 <= amount < scalar.bits if isinstance(amount, int) else np.all((amount >= 0) & (amount < scalar.bits))):
        raise state.violation(
            op, f"a shift by {amount} is poison for {scalar.name}; shift by 0 … {scalar.bits - 1} [shift-poison]"
        )
    if op.name == "arith.shli":
        result = x << amount
    elif op.name == "arith.shrsi":
        result = x >> amount
    else:
        x = unsigned(x, scalar.bits)
        result = x >> (
            amount.astype(x.dtype) if isinstance(x, np.ndarray) and isinstance(amount, np.ndarray) else amount
        )
    state.values[op.results[0]] = canonical(result, scalar.bits)


# By the number of the predicate: its function, and whether it compares unsigned integers.
_COMPARE_I = [
    (COMPARISONS[name], is_unsigned)
    for names, is_unsigned in ((("eq", "ne", "lt", "le", "gt", "ge"), False), (("lt", "le", "gt", "ge"), True))
    for name in names
]


def _prepare_cmpi(op: DecodedOp, program: Program) -> Any:
    return *_COMPARE_I[op.attributes["predicate"]], element_of(op.operand_types[0])


@OPS.implements("arith.cmpi", prepare=_prepare_cmpi)
def cmpi(state: AgentState, op: DecodedOp) -> None:
    (function, is_unsigned, scalar), values = op.data, state.values
    x, y = values[op.operands[0]], values[op.operands[1]]
    if is_unsigned:
        x, y = unsigned(x, scalar.bits), unsigned(y, scalar.bits)
    values[op.results[0]] = function(x, y)


def _prepare_cast(op: DecodedOp, program: Program) -> Any:
    return element_of(op.operand_types[0]), element_of(op.result_types[0])


@OPS.implements("arith.index_cast", "arith.extsi", "arith.trunci", prepare=_prepare_cast)
def signed_cast(state: AgentState, op: DecodedOp) -> None:
    value = state.values[op.operands[0]]
    source, scalar = op.data
    if scalar.bits > 1 and source.bits == 1:  # i1 is -1 or 0 when signed
        value = -value.astype(np.int8) if isinstance(value, np.ndarray) else -int(value)
    elif scalar.bits == 1 and isinstance(value, np.ndarray):
        value = value & 1
    state.values[op.results[0]] = canonical(value, scalar.bits)


@OPS.implements("arith.index_castui", "arith.extui", prepare=_prepare_cast)
def unsigned_cast(state: AgentState, op: DecodedOp) -> None:
    source, target = op.data
    state.values[op.results[0]] = canonical(unsigned(state.values[op.operands[0]], source.bits), target.bits)


# Floats ---------------------------------------------------------------------------------------------------------------

_ROUNDED = {"arith.addf": "add", "arith.subf": "subtract", "arith.mulf": "multiply", "arith.divf": "divide"}
_UNROUNDED = {
    "arith.maximumf": "maximum",
    "arith.minimumf": "minimum",
    "arith.maxnumf": "max_number",
    "arith.minnumf": "min_number",
}


def _prepare_float(op: DecodedOp, program: Program) -> Any:
    if op.name in _UNROUNDED:
        return getattr(program.domain, _UNROUNDED[op.name])
    dtype = element_of(op.result_types[0]).name
    function = partial(getattr(program.domain, _ROUNDED[op.name]), dtype=dtype)
    return flushing(program.domain, dtype, function) if is_approximate(op) else function


def is_approximate(op: DecodedOp) -> bool:
    """Whether an op is one that the hardware approximates (afn): a division or a power of 2."""
    attributes = op.source.attributes
    return "fastmath" in attributes and str(attributes["fastmath"]) == "#arith.fastmath<afn>"


def flushing(domain: Domain, dtype: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as its instruction computes it, with `.ftz`: subnormal operands and results count as 0."""
    flush = flushed(domain, dtype)
    return lambda *operands: flush(function(*map(flush, operands)))


@OPS.implements(*_ROUNDED, *_UNROUNDED, prepare=_prepare_float)
def of_floats(state: AgentState, op: DecodedOp) -> None:
    values, (x, y) = state.values, op.operands
    values[op.results[0]] = op.data(values[x], values[y])


@OPS.implements("arith.negf")
def negf(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.machine.domain.negate(state.values[op.operands[0]])


@OPS.effects("arith.cmpf")
def cmpf(state: AgentState, op: DecodedOp, x: Any, y: Any) -> Any:
    return state.machine.domain.compare(PREDICATES_F[op.attributes["predicate"]], x, y)


@OPS.effects("arith.truncf", "arith.extf")
def float_cast(state: AgentState, op: DecodedOp, value: Any) -> Any:
    return state.machine.domain.round(value, element_of(op.result_types[0]).name)


@OPS.effects("arith.sitofp", "arith.uitofp")
def from_integer(state: AgentState, op: DecodedOp, value: Any) -> Any:
    source = element_of(op.operand_types[0])
    if op.name == "arith.uitofp":
        value = unsigned(value, source.bits)
    elif source.bits == 1:
        value = -np.asarray(value, np.int8)
    return state.machine.domain.from_integer(value, element_of(op.result_types[0]).name)


@OPS.effects("arith.fptosi", "arith.fptoui")
def to_integer(state: AgentState, op: DecodedOp, value: Any) -> Any:
    scalar = element_of(op.result_types[0])
    dtype = scalar.dtype if op.name == "arith.fptosi" else np.dtype(f"u{scalar.bytes}")
    result = np.asarray(state.machine.domain.to_integer(value, dtype)).view(scalar.dtype)
    return result if result.ndim else int(result)


@OPS.effects("arith.bitcast")
def bitcast(state: AgentState, op: DecodedOp, value: Any) -> Any:
    source, target = element_of(op.operand_types[0]), element_of(op.result_types[0])
    domain = state.machine.domain
    if source.is_float:
        bits = np.asarray(domain.to_bits(value, source.name))
        if not target.is_float:
            bits = bits.view(target.dtype)
            return bits if bits.ndim else int(bits)
    else:
        bits = np.asarray(unsigned(value, source.bits)).astype(f"u{source.bytes}")
    return domain.from_bits(bits, target.name)


@OPS.effects("arith.select")
def select(state: AgentState, op: DecodedOp, condition: Any, x: Any, y: Any) -> Any:
    if not isinstance(condition, np.ndarray):
        result = x if condition else y
    else:
        result = blend(condition, x, y)
        if isinstance(op.result_types[0], Scalar) and not op.result_types[0].is_float:
            result = canonical(result, op.result_types[0].bits)
    return result
