"""Traces the user's epilogue function into a graph of scalar operations.

The function runs once, on `Traced` values that record their operations. The graph is a DAG: equal operations on equal
inputs are one node. Anything that cannot be recorded (a branch on a value, a call into math or numpy) raises
`SpecError` with the line of the user's code.
"""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from lowtide.elements import EPILOGUE_TYPE, INTEGER_TYPE, element_type
from lowtide.errors import SpecError
from lowtide.runtime.dtypes import round_to

_OURS = ("lowtide.", "numpy.", "functools", "inspect")
# Functions with formulas (`math_formulas`) for f32, which exist in f32 only.
_F32_FUNCTIONS = frozenset({"exp", "log", "tanh", "erf", "erfc", "rsqrt", "div_approx"})
# Operations that are computed in s32 if all inputs are integers; all others convert integers first.
_INTEGER_OPS = frozenset({"add", "sub", "mul", "neg", "abs", "max", "min"})
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
#: The number of inputs of a node, by its op; ops without inputs (acc, operand, const) are left out.
ARITY: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("neg", "abs", "exp", "log", "tanh", "erf", "erfc", "sqrt", "rsqrt", "real", "cast", "not"), 1),
        **dict.fromkeys(("add", "sub", "mul", "div", "div_approx", "max", "min", *_COMPARISONS, "and", "or"), 2),
        "where": 3,
    }
)


@dataclass(frozen=True, eq=False)
class Node:
    """One operation on one element, in the tracer's type or in s32. Comparisons and their combinations are truth
    values.

    `op` is one of: acc (attribute 1: the second of a pair), operand (attribute: its index), const (its value); neg,
    abs, exp, log, tanh, erf, erfc, sqrt, rsqrt; add, sub, mul, div, div_approx (for divisors of at least 1:
    `math_formulas.DIVIDE_APPROX`), max, min; real (an integer converted to the tracer's type); cast (to the type in the
    attribute and back); lt, le, gt, ge, eq, ne, and, or, not; where.
    """

    op: str
    inputs: tuple["Node", ...] = ()
    attribute: float | int | str | None = None
    is_integer: bool = False
    """Whether it is computed in s32, which wraps around; for a comparison, whether it compares integers."""


class Tracer:
    """Makes the nodes of one trace, each distinct one once. Values are computed in `dtype`, sums of integers in s32."""

    def __init__(self, dtype: str = EPILOGUE_TYPE) -> None:
        self.dtype = dtype
        self._known: dict[tuple[Any, ...], Node] = {}

    def node(
        self,
        op: str,
        inputs: Sequence[Node] = (),
        attribute: float | int | str | None = None,
        is_integer: bool = False,
    ) -> Node:
        # repr distinguishes 0.0 from −0.0, and is equal for equal NaNs
        key = (op, *(id(node) for node in inputs), repr(attribute), is_integer)
        return self._known.setdefault(key, Node(op, tuple(inputs), attribute, is_integer))

    def real(self, value: object) -> Node:
        """The node of a value in the tracer's type; an integer is converted, rounded to nearest."""
        node = self.lift(value)
        return self.node("real", [node]) if node.is_integer else node

    def alike(self, *values: object) -> list[Node]:
        """The nodes of values in one type: s32 if all are integers (traced or constant), otherwise the tracer's
        type."""
        traced = [value for value in values if isinstance(value, Traced)]
        if not traced or not all(is_integer(value) for value in values):
            return [self.real(value) for value in values]
        return [self.lift(value) if isinstance(value, Traced) else self.integer(value) for value in values]

    def integer(self, value: object) -> Node:
        """The node of an integer constant."""
        if (fault := number_fault(value, INTEGER_TYPE)) is not None:
            refuse(*fault)
        return self.node("const", (), int(value), is_integer=True)  # type: ignore[call-overload]

    def lift(self, value: object) -> Node:
        """The node of a traced value or a number. Raises `SpecError` for anything else."""
        if isinstance(value, Traced | Predicate):
            if value._tracer is not self:
                refuse("a value of another epilogue's trace", "use only this function's own arguments")
            if isinstance(value, Predicate):
                refuse("a comparison used as a number", "choose with lt.where(condition, x, y)")
            return value._node
        number = number_of(value)
        if number is None:
            if isinstance(value, np.ndarray) and value.ndim:
                return refuse(f"an array of shape {value.shape} beside a traced value", _ARRAY_OUT)
            return refuse(
                f"{type_name(value)} beside a traced value",
                f"constants are real numbers: int, float, and numpy's and ml_dtypes'; {_ARRAY_OUT}",
            )
        if (fault := number_fault(value, self.dtype)) is not None:
            refuse(*fault)
        return self.node("const", (), number)

    def lift_predicate(self, value: object) -> Node:
        """The node of a comparison."""
        if not isinstance(value, Predicate):
            return refuse(f"{type(value).__name__} as a condition", "compare first, as in lt.where(x > 0, x, y)")
        if value._tracer is not self:
            return refuse("a value of another epilogue's trace", "use only this function's own arguments")
        return value._node

    def apply(self, op: str, *values: object, attribute: float | int | str | None = None) -> "Traced":
        if op in _F32_FUNCTIONS and self.dtype != EPILOGUE_TYPE:
            refuse(
                f"{op.removesuffix('_approx')} in {self.dtype}: its formula has the precision of {EPILOGUE_TYPE}",
                "an f64 epilogue has + − × ÷, abs, lt.sqrt, lt.maximum, lt.minimum, lt.clamp, lt.relu and lt.where",
            )
        inputs = self.alike(*values) if op in _INTEGER_OPS else [self.real(value) for value in values]
        is_integer = op in _INTEGER_OPS and inputs[0].is_integer
        if op == "add" and (argument := _of_one_plus_erf(*inputs)) is not None:
            return Traced(self, self.node("erfc", [self.node("neg", [argument])]))
        return Traced(self, self.node(op, inputs, attribute, is_integer))

    def compare(self, op: str, x: object, y: object) -> "Predicate":
        inputs = self.alike(x, y)
        return Predicate(self, self.node(op, inputs, None, inputs[0].is_integer))

    def repeated(self, op: str, inputs: Sequence[object], attribute: str | None = None) -> "Traced | Predicate":
        """The operation of a node of another trace, applied to these values. Raises `SpecError` if that is
        impossible."""
        if op in _COMPARISONS:
            return self.compare(op, *inputs)
        if op in ("and", "or", "not"):
            return Predicate(self, self.node(op, [self.lift_predicate(value) for value in inputs]))
        if op == "where":
            condition, *choices = inputs
            nodes = self.alike(*choices)
            return Traced(self, self.node(op, [self.lift_predicate(condition), *nodes], None, nodes[0].is_integer))
        if op == "real":
            return Traced(self, self.real(*inputs))
        return self.apply(op, *inputs, attribute=attribute)


def _of_one_plus_erf(x: Node, y: Node) -> Node | None:
    """u if the sum is 1 + erf(u), which is erfc(−u): that does not cancel, and costs less."""
    one, other = (x, y) if x.op == "const" else (y, x)
    is_found = one.op == "const" and one.attribute == 1.0 and other.op == "erf"
    return other.inputs[0] if is_found else None


def number_of(value: object) -> float | None:
    """The value of a real number of Python, numpy or ml_dtypes, or of a zero-dimensional array; None for anything else.

    A value beyond float64's range is infinite.
    """
    value = _element(value)
    if isinstance(value, np.generic):
        is_real = value.dtype.kind in "fiu" or type(value).__module__ == ml_dtypes.__name__
        return float(value) if is_real else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def number_fault(value: object, dtype: str) -> tuple[str, str] | None:
    """Why a number cannot be a constant of this type, and what to do. None if it can, or if it is not a number.

    A constant is rounded to nearest: one less than half a unit beyond the largest value becomes the largest value.
    """
    number, row = number_of(value), element_type(dtype)
    if number is None:
        return None
    if not row.is_float:
        if row.lowest <= number <= row.largest:
            return None
        what = f"the constant {_spelled(value)}, which {row} does not hold"
        return what, f"write an integer from {row.lowest:.0f} to {row.largest:.0f}, or a float: 1.0 for 1"
    is_infinite = not isinstance(value, int) and bool(np.isinf(_element(value)))  # type: ignore[call-overload]
    if is_infinite or not np.isinf(round_to(number, dtype)):
        return None
    return f"the constant {_spelled(value)}, beyond the largest {dtype} ({row.largest:.6g})", "scale it down"


def _element(value: object) -> object:
    """The element of a zero-dimensional array; other values unchanged."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _spelled(value: object) -> str:
    """A number as a message shows it; a long integer by its length."""
    is_long = isinstance(value, int) and value.bit_length() > 256
    return f"of {value.bit_length()} bits" if is_long else f"{_element(value)}"  # type: ignore[attr-defined]


def is_integer(value: object) -> bool:
    """Whether a traced value or a constant is an integer."""
    if isinstance(value, Traced):
        return value._node.is_integer
    return isinstance(_element(value), int | np.integer) and not isinstance(value, bool)


def truth_of(value: object) -> bool | None:
    """The value of a bool of Python or numpy, or of a zero-dimensional array; None for anything else."""
    value = _element(value)
    return bool(value) if isinstance(value, bool | np.bool_) else None


def type_name(value: object) -> str:
    """A message's word for a value that is not a number."""
    return f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


def user_line() -> str:
    """`file:line` of the innermost frame outside Lowtide and numpy."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def is_ours(module: str) -> bool:
    return any(module == name.rstrip(".") or module.startswith(name) for name in _OURS)


def refuse(what: str, way_out: str) -> Any:
    raise SpecError(f"{user_line()}: the epilogue cannot be traced through {what}; {way_out} [epilogue-traced]")


def _refused(what: str, way_out: str) -> Callable[..., Any]:
    """A method that always refuses."""

    def method(self: object, *arguments: object, **keywords: object) -> Any:
        return refuse(what, way_out)

    return method


#: The functions that `lowtide.compiler.epilogue.functions` defines.
FUNCTIONS = (
    *("cast", "clamp", "erf", "erfc", "exp", "gelu", "log", "maximum", "minimum", "relu", "rsqrt", "sigmoid", "silu"),
    *("sqrt", "tanh", "where"),
)
_NUMPY_ARITHMETIC = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div"}
_NUMPY_COMPARISONS = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
_NUMPY_COMPARISONS |= {"equal": "eq", "not_equal": "ne"}
_NUMPY_NAMES = {"clip": "clamp"} | {name: name for name in FUNCTIONS}
_BRANCH = "a branch: if, and/or/not, while, or a chain such as 0 < x < 1"
_BRANCH_OUT = "choose with lt.where(condition, x, y), combine conditions with & | ~, or use lt.maximum, lt.clamp"
_ARRAY_OUT = (
    "make it an operand: a parameter of the epilogue annotated lt.Full, lt.PerRow or lt.PerColumn, given at each call"
)
_NUMBER_OUT = "the value is not known yet: use lt.exp, lt.tanh, lt.sqrt, … instead of math's functions"
_FUNCTIONS_OUT = f"the functions are {', '.join(f'lt.{name}' for name in FUNCTIONS)}"
_ONE_ELEMENT = "the function sees one element of D"


class _Recorded:
    """Base of traced numbers and conditions: refuses every operation that it does not record.

    In-place operators are not defined, so Python computes `x += y` as `x = x + y`.
    """

    __slots__ = ("_node", "_tracer")

    def __init__(self, tracer: Tracer, node: Node) -> None:
        self._tracer = tracer
        self._node = node

    __bool__ = _refused(_BRANCH, _BRANCH_OUT)
    __float__ = __int__ = __index__ = __complex__ = __bytes__ = _refused("a conversion to a Python number", _NUMBER_OUT)
    __array__ = _refused("a conversion to a numpy array", _NUMBER_OUT)
    __getitem__ = __setitem__ = __delitem__ = _refused("indexing", f"{_ONE_ELEMENT}; shapes come from operands' kinds")
    __iter__ = __next__ = __reversed__ = __len__ = __length_hint__ = _refused("iteration", _ONE_ELEMENT)
    __contains__ = _refused("in", f"{_ONE_ELEMENT}; compare with ==")
    __hash__ = _refused("a look-up by value (a set, a dict or a cache)", _BRANCH_OUT)
    __round__ = __floor__ = __ceil__ = __trunc__ = _refused("rounding to an integer", "use lt.cast to round to a type")
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _refused("// or %", "use / alone")
    __matmul__ = __rmatmul__ = _refused("@", f"the product A·B is already computed; {_ONE_ELEMENT}")
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refused("a shift", "multiply by a power of 2")
    __call__ = _refused("a call of a value", _FUNCTIONS_OUT)
    __enter__ = __exit__ = __aenter__ = __aexit__ = _refused("with", _ONE_ELEMENT)
    __await__ = __aiter__ = __anext__ = _refused("await", "write def in place of async def")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols that libraries probe for
            raise AttributeError(name)
        no_such = f"{_FUNCTIONS_OUT}; {_ONE_ELEMENT}, so it cannot reduce, split or reshape"
        way_out = f"write lt.{name}(x)" if name in FUNCTIONS else no_such
        return refuse(f"the attribute .{name}", f"a traced value has operators, but no methods; {way_out}")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        return self.__array_function__(ufunc, (), inputs, keywords)

    def __array_function__(self, function: Any, types: Any, inputs: Any, keywords: Any) -> Any:
        name = function.__name__
        way_out = f"use lt.{_NUMPY_NAMES[name]}" if name in _NUMPY_NAMES else _FUNCTIONS_OUT
        return refuse(f"numpy.{name}", way_out)


def _applied(op: str, *, is_reflected: bool = False) -> Callable[[Any, Any], "Traced"]:
    """The method of a binary operator. If it is reflected, the traced value is on the right."""

    def method(self: "Traced", other: object) -> "Traced":
        return self._tracer.apply(op, other, self) if is_reflected else self._tracer.apply(op, self, other)

    return method


def _compared(op: str) -> Callable[[Any, Any], "Predicate"]:
    """The method of a comparison."""

    def method(self: "Traced", other: object) -> "Predicate":
        return self._tracer.compare(op, self, other)

    return method


class Traced(_Recorded):
    """A number of the epilogue. Supports + − × ÷, unary −, abs, whole powers and comparisons."""

    __slots__ = ()
    __hash__ = _Recorded.__hash__  # defining __eq__ would remove it
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _refused(
        "& | ^ ~ of numbers", "they combine comparisons in parentheses: (x > 0) & (x < 1)"
    )
    __rpow__ = _refused("a constant ** x", "use lt.exp(x * math.log(constant))")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """Allow numpy numbers beside traced values; refuse numpy functions of traced values."""
        name = ufunc.__name__
        if method == "__call__" and not keywords and name in _NUMPY_ARITHMETIC:
            return self._tracer.apply(_NUMPY_ARITHMETIC[name], *inputs)
        if method == "__call__" and not keywords and name in _NUMPY_COMPARISONS:
            return self._tracer.compare(_NUMPY_COMPARISONS[name], *inputs)
        return super().__array_ufunc__(ufunc, method, *inputs, **keywords)

    __add__, __radd__ = _applied("add"), _applied("add", is_reflected=True)
    __sub__, __rsub__ = _applied("sub"), _applied("sub", is_reflected=True)
    __mul__, __rmul__ = _applied("mul"), _applied("mul", is_reflected=True)
    __truediv__, __rtruediv__ = _applied("div"), _applied("div", is_reflected=True)
    __lt__, __le__, __gt__, __ge__ = _compared("lt"), _compared("le"), _compared("gt"), _compared("ge")
    __eq__, __ne__ = _compared("eq"), _compared("ne")  # type: ignore[assignment]

    def __pow__(self, exponent: Any, modulus: Any = None) -> "Traced":
        """x¹, x² … x⁸ by multiplication."""
        times = number_of(exponent)
        if times is None or times not in range(1, 9) or modulus is not None:
            return refuse(
                f"** {type_name(exponent) if times is None else _spelled(exponent)}",
                "whole exponents 1 to 8 are; else lt.sqrt, lt.exp(y * lt.log(x)) or 1 / x",
            )
        base = self if is_integer(exponent) else Traced(self._tracer, self._tracer.real(self))
        power = base
        for _ in range(int(times) - 1):
            power = power * base
        return power

    def __neg__(self) -> "Traced":
        return self._tracer.apply("neg", self)

    def __pos__(self) -> "Traced":
        return self

    def __abs__(self) -> "Traced":
        return self._tracer.apply("abs", self)


class Predicate(_Recorded):
    """A comparison, for `lt.where` only. Combine conditions with & | ~, and with == and != (which is ^)."""

    __slots__ = ()
    __hash__ = _Recorded.__hash__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = (
        __neg__
    ) = __pos__ = __abs__ = _refused("arithmetic on a comparison", "choose with lt.where(condition, 1.0, 0.0)")
    __lt__ = __le__ = __gt__ = __ge__ = _refused("an order of comparisons", "combine them with & | ~, == or !=")

    def __and__(self, other: Any) -> "Predicate":
        return self._combined("and", other)

    def __or__(self, other: Any) -> "Predicate":
        return self._combined("or", other)

    def __xor__(self, other: Any) -> "Predicate":
        """Exclusive or."""
        return (self | other) & ~(self & other)

    def __eq__(self, other: Any) -> "Predicate":  # type: ignore[override]
        return ~(self ^ other)

    def __ne__(self, other: Any) -> "Predicate":  # type: ignore[override]
        return self ^ other

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> "Predicate":
        return Predicate(self._tracer, self._tracer.node("not", [self._node]))

    def _combined(self, op: str, other: object) -> "Predicate":
        return Predicate(self._tracer, self._tracer.node(op, [self._node, self._tracer.lift_predicate(other)]))


def in_order(result: Node) -> Iterator[Node]:
    """All nodes that the result needs, inputs before users."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(result, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((other, False) for other in reversed(node.inputs))
