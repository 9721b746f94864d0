"""Bounds of an epilogue in interval arithmetic on float64 arrays, for `verify`.

The manifest's `epilogue_program` is the region of `tile.gemm`, op by op, on one element: the accumulator and the
epilogue operands by name, arith and math ops, one result of D's type. Each value is a triple (value, low, high): the
result of exact arithmetic, and an interval that holds the kernel's result. Operations widen it by their rounding,
`math` functions by the error that their expansions are allowed. Casts to a narrower type round both ends, which is
exact because rounding is monotone. Integers are s32, modulo 2³², and exact if their inputs are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from lowtide.elements import ELEMENTS, EPILOGUE_TYPE, INTEGER_TYPE, ElementType, element_of_ir, element_type
from lowtide.errors import LoadError
from lowtide.runtime.dtypes import half_unit, round_to, wrapped

Interval = tuple[np.ndarray, np.ndarray, np.ndarray]

_FUNCTION_ERROR = 2.0**-17  # relative
_LOG_ERROR = 2.0**-22  # absolute: the error of a logarithm of a number near 1
_ERFC_ERROR = 2.0**-23  # absolute
_FLUSHED = 2.0**-125  # absolute, twice the least normal number: approximate powers and quotients below it may be 0
_SUBNORMAL = 4  # times the smallest number: the rounding error of a subnormal


def check_program(program: Mapping[str, Any], operands: Collection[str]) -> None:
    """Check that `evaluate` can run a program on operands of these names. Raises ValueError that names the op."""
    sums = accumulators_of(program)
    known = {*sums, *operands}
    if len(known) < len(sums) + len({*operands}):
        raise ValueError(f"epilogue_program: its accumulator {sums[0]!r} is also the name of an operand")
    conditions: set[str] = set()  # values that are true or false, or constants, which may be either kind
    numbers = set(known)
    for position, op in enumerate(program["ops"]):
        name, inputs = op["op"], op.get("operands", [])
        at = f"epilogue_program[{position}] ({name})"
        if name not in _ARITY:
            raise ValueError(f"{at}: unknown op, perhaps of another version")
        if len(inputs) != _ARITY[name] or len(op.get("results", ())) != 1:
            raise ValueError(f"{at}: must have {_ARITY[name]} operands and one result")
        undefined = [value for value in inputs if value not in known]
        if undefined:
            raise ValueError(f"{at}: value {undefined[0]!r} is used before it is defined")
        wanted = len(inputs) if name in _CONDITIONS else int(name == "arith.select")
        for number, value in enumerate(inputs):
            if value not in (conditions if number < wanted else numbers):
                raise ValueError(f"{at}: operand {value!r} must be a {'condition' if number < wanted else 'number'}")
        _check_attributes(at, name, op.get("attributes", {}))
        result = op["results"][0]
        if result in known:
            raise ValueError(f"{at}: value {result!r} is defined twice")
        known.add(result)
        is_condition = name in _COMPARISONS or name in _CONDITIONS
        (conditions if is_condition else numbers).add(result)
        (numbers if is_condition else conditions).discard(result)
        if name == "arith.constant":
            conditions.add(result)
    for result in results_of(program):
        if result not in numbers:
            raise ValueError(f"epilogue_program: its result {result!r} is not a number that it defines")


def accumulators_of(program: Mapping[str, Any]) -> list[str]:
    """The names of the accumulators: one, or two with pairs of columns."""
    return [program["accumulator"], *([program["second"]] if "second" in program else [])]


def results_of(program: Mapping[str, Any]) -> list[str]:
    """The names of the values of the full results, in order."""
    return [program["result"], *program.get("others", [])]


def _check_attributes(at: str, name: str, attributes: Mapping[str, Any]) -> None:
    value, type_, predicate = (attributes.get(key) for key in ("value", "type", "predicate"))
    if name == "arith.constant" and not isinstance(value, bool | int | float):
        raise ValueError(f"{at}: attribute 'value' is {value!r}, must be a number")
    if name == "arith.constant" and isinstance(value, int) and abs(value) >= 2**64:
        raise ValueError(f"{at}: attribute 'value' must have at most 64 bits")
    floats = [row.ir for row in ELEMENTS.values() if row.is_float]
    if name == "arith.truncf" and type_ not in floats:
        raise ValueError(f"{at}: attribute 'type' is {type_!r}, must be one of {', '.join(floats)}")
    if name in _COMPARISONS and predicate not in _PREDICATES:
        raise ValueError(f"{at}: attribute 'predicate' is {predicate!r}, must be one of {', '.join(_PREDICATES)}")


def evaluate(
    program: Mapping[str, Any],
    accumulator: Interval,
    operands: Mapping[str, Any],
    d: str,
    acc: str = EPILOGUE_TYPE,
    second: Interval | None = None,
) -> tuple[Interval, np.ndarray]:
    """(value, low, high) of D, shape (M, N), from the accumulator's interval and the operands' float64 values; and D's
    error bound: the distance from the value before the last rounding to the interval's ends, plus that rounding.

    `second`: the other accumulator of pairs of columns. `operands` broadcast against (M, N); `acc` is the accumulator's
    type, which determines the type of the computation. Raises LoadError for an unknown op or an undefined value.
    """
    computed = element_type(element_type(acc).computes_in)
    sums = [accumulator] if second is None else [accumulator, second]
    values: dict[str, Interval] = dict(zip(accumulators_of(program), sums, strict=True))
    for name, array in operands.items():
        exact = np.asarray(array, dtype=np.float64)
        values[name] = (exact, exact, exact)
    with np.errstate(all="ignore"):
        for op in program["ops"]:
            try:
                inputs = [values[name] for name in op.get("operands", ())]
            except KeyError as error:
                raise LoadError(
                    f"epilogue_program: {op['op']} uses the undefined value {error}; save it again [program-value]"
                ) from None
            values[op["results"][0]] = _apply(op["op"], inputs, op.get("attributes", {}), computed)
    result = program["result"]
    if result not in values:
        raise LoadError(f"epilogue_program: its result {result!r} is not defined; save it again [program-result]")
    # Without truncf, D has the type of the accumulator or of an operand.
    unrounded = {op["results"][0]: op["operands"][0] for op in program["ops"] if op["op"] == "arith.truncf"}
    return values[result], _reach(values[unrounded.get(result, result)], d)


def _reach(x: Interval, dtype: str) -> np.ndarray:
    value, low, high = x
    with np.errstate(all="ignore"):
        return np.maximum(high - value, value - low) + half_unit(np.maximum(np.abs(low), np.abs(high)), dtype)


def _apply(name: str, inputs: list[Interval], attributes: Mapping[str, Any], dtype: ElementType) -> Interval:
    tiny = _SUBNORMAL * dtype.smallest
    if name == "arith.constant":
        value = np.float64(attributes["value"])
        return value, value, value
    if name in _SAME:
        return inputs[0]
    if name == "arith.sitofp":
        value, low, high = inputs[0]
        return value, round_to(low, dtype.name), round_to(high, dtype.name)
    if name in _OF_INTEGERS:
        return _of_integers(_OF_INTEGERS[name], inputs)
    if name == "arith.truncf":
        return _cast(inputs[0], attributes.get("type", ""))
    if name in _COMPARISONS:
        return _compare(attributes.get("predicate", ""), *inputs)
    if name in _CONDITIONS:
        return _CONDITIONS[name](*(_truth(x) for x in inputs))
    if name == "arith.select":
        return _select(*inputs)
    if name == "math.fma":
        product = _corners(np.multiply, inputs[0], inputs[1])
        return _widen(_corners(np.add, product, inputs[2]), dtype, dtype.spacing, tiny)
    if name in _ARITHMETIC:
        # The spacing is twice the unit roundoff, so for f64 it includes the rounding of the limits.
        function, spacings = _ARITHMETIC[name]
        absolute = _FLUSHED if name == "arith.divf" and dtype.name == "f32" else tiny
        return _widen(_corners(function, *inputs), dtype, spacings * dtype.spacing, absolute if spacings else 0.0)
    if name in _MONOTONE:
        absolute = _ABSOLUTE.get(name, tiny)
        return _widen(_corners(_MONOTONE[name], inputs[0]), dtype, _FUNCTION_ERROR, absolute)
    if name == "math.roundeven":
        return tuple(np.rint(part) for part in inputs[0])  # type: ignore[return-value]
    if name == "math.absf":
        value, low, high = inputs[0]
        least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
        return np.abs(value), least, np.maximum(np.abs(low), np.abs(high))
    raise LoadError(
        f"epilogue_program: unknown op {name}; the kernel was saved by another version, save it again [program-op]"
    )


def _of_integers(function: Callable[..., Any], inputs: list[Interval]) -> Interval:
    """Exact, modulo 2³², if each input is one number; else any integer."""
    parts = [tuple(np.asarray(part).astype(np.int64) for part in x) for x in inputs]
    value, low, high = (
        wrapped(function(*(part[which] for part in parts)).astype(np.int32), INTEGER_TYPE) for which in range(3)
    )
    if all(np.array_equal(x[1], x[2]) for x in inputs):
        return value, low, high
    row = element_type(INTEGER_TYPE)
    return value, np.full_like(low, row.lowest), np.full_like(high, row.largest)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(a / b)


_erf, _erfc = (np.vectorize(function, otypes=[np.float64]) for function in (math.erf, math.erfc))

# The function, and its error in spacings of the type.
_ARITHMETIC: dict[str, tuple[Callable[..., Any], float]] = {
    "arith.addf": (np.add, 1.0),
    "arith.subf": (np.subtract, 1.0),
    "arith.mulf": (np.multiply, 1.0),
    "arith.divf": (_divide, 4.0),
    "arith.negf": (np.negative, 0.0),
    "arith.maximumf": (np.maximum, 0.0),
    "arith.minimumf": (np.minimum, 0.0),
    "arith.maxnumf": (np.fmax, 0.0),
    "arith.minnumf": (np.fmin, 0.0),
}
_OF_INTEGERS: dict[str, Callable[..., Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
}
# Ops that keep the number: integers are saturated before they are cut, floats rounded before they are converted.
_SAME = ("arith.extf", "arith.extsi", "arith.extui", "arith.trunci", "arith.fptosi")
_COMPARISONS = ("arith.cmpf", "arith.cmpi")
# The absolute errors of functions of f32, if they are above that of a subnormal.
_ABSOLUTE: Mapping[str, float] = {
    **dict.fromkeys(("math.log", "math.log2"), _LOG_ERROR),
    **dict.fromkeys(("math.exp", "math.exp2"), _FLUSHED),
    "math.erfc": _ERFC_ERROR,
}
_MONOTONE: dict[str, Callable[[Any], Any]] = {
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.tanh": np.tanh,
    "math.erf": _erf,
    "math.erfc": _erfc,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: 1.0 / np.sqrt(x),
}


def _corners(function: Callable[..., Any], *inputs: Interval) -> Interval:
    """The interval of a function that is monotone in each argument, from its values at the corners.

    A quotient with a divisor that may be 0, and a function whose argument may leave its domain, have no bound.
    """
    value = function(*(x[0] for x in inputs))
    ends: list[Any] = [()]
    for x in inputs:
        ends = [(*end, bound) for end in ends for bound in x[1:]]
    corners = [function(*end) for end in ends]
    low, high = corners[0], corners[0]
    for corner in corners[1:]:
        low, high = np.minimum(low, corner), np.maximum(high, corner)
    unbounded = np.isnan(low) | np.isnan(high)
    if function is _divide:
        unbounded |= (inputs[1][1] <= 0) & (inputs[1][2] >= 0)
    return value, np.where(unbounded, -math.inf, low), np.where(unbounded, math.inf, high)


def _widen(x: Interval, dtype: ElementType, relative: float, absolute: float) -> Interval:
    """The interval widened by the rounding error, and to infinity beyond the type's largest number."""
    value, low, high = x
    largest = dtype.largest
    low = low - (np.where(np.isfinite(low), np.abs(low), 0.0) * relative + absolute)
    high = high + (np.where(np.isfinite(high), np.abs(high), 0.0) * relative + absolute)
    return value, np.where(low < -largest, -math.inf, low), np.where(high > largest, math.inf, high)


def _cast(x: Interval, dtype: str) -> Interval:
    row = element_of_ir(dtype)
    if row is None or not row.is_float:
        floats = ", ".join(row.ir for row in ELEMENTS.values() if row.is_float)
        raise LoadError(f"epilogue_program: arith.truncf to {dtype!r}, must be one of {floats} [program-cast]")
    return x[0], round_to(x[1], row.name), round_to(x[2], row.name)


def _compare(predicate: str, a: Interval, b: Interval) -> Interval:
    """A predicate as (value, certainly true, possibly true), each 0 or 1. Without NaN, ordered equals unordered."""
    kind = predicate[1:] if predicate[:1] in ("o", "u", "s") and len(predicate) == 3 else predicate
    if kind in ("lt", "le"):
        return _compare({"lt": "gt", "le": "ge"}[kind], b, a)
    if kind == "gt":
        return a[0] > b[0], a[1] > b[2], a[2] > b[1]
    if kind == "ge":
        return a[0] >= b[0], a[1] >= b[2], a[2] >= b[1]
    same = (a[1] == a[2]) & (b[1] == b[2]) & (a[1] == b[1])
    meets = (a[1] <= b[2]) & (b[1] <= a[2])
    if kind == "eq":
        return a[0] == b[0], same, meets
    if kind == "ne":
        return a[0] != b[0], ~meets, ~same
    raise LoadError(
        f"epilogue_program: predicate {predicate!r} of arith.cmpf is not known; save the kernel again"
        " [program-predicate]"
    )


def _truth(x: Interval) -> Interval:
    """A predicate, which may be the constant 0 or 1, as three arrays of bool."""
    value, certainly, possibly = (np.asarray(part, dtype=bool) for part in x)
    return value, certainly, possibly


def _xor(a: Interval, b: Interval) -> Interval:
    return a[0] ^ b[0], a[1] & ~b[2] | ~a[2] & b[1], a[2] & ~b[1] | ~a[1] & b[2]


# Ops on predicates in the form of `_compare`.
_CONDITIONS: dict[str, Callable[[Interval, Interval], Interval]] = {
    "arith.andi": lambda a, b: (a[0] & b[0], a[1] & b[1], a[2] & b[2]),
    "arith.ori": lambda a, b: (a[0] | b[0], a[1] | b[1], a[2] | b[2]),
    "arith.xori": _xor,  # with the constant true it is "not"
}


def _select(condition: Interval, a: Interval, b: Interval) -> Interval:
    value, certainly, possibly = _truth(condition)
    low = np.where(certainly, a[1], np.where(possibly, np.minimum(a[1], b[1]), b[1]))
    high = np.where(certainly, a[2], np.where(possibly, np.maximum(a[2], b[2]), b[2]))
    return np.where(value, a[0], b[0]), low, high


_PREDICATES = ("eq", "ne", *(order + kind for order in "ous" for kind in ("eq", "ne", "gt", "ge", "lt", "le")))
#: The ops of a program, and their numbers of operands.
_ARITY: Mapping[str, int] = {
    "arith.constant": 0,
    "arith.truncf": 1,
    "arith.sitofp": 1,
    "math.roundeven": 1,
    **{name: 1 for name in _SAME},
    **{name: 2 for name in _COMPARISONS},
    **{name: 2 for name in _OF_INTEGERS},
    "arith.select": 3,
    "math.fma": 3,
    "math.absf": 1,
    **{name: 1 if name == "arith.negf" else 2 for name in _ARITHMETIC},
    **{name: 1 for name in _MONOTONE},
    **{name: 2 for name in _CONDITIONS},
}
