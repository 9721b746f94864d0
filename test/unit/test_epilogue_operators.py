"""Python's operators and protocols on the values of an epilogue: each is traced, or refused with a reason."""

import collections.abc
import contextlib
import decimal
import fractions
import inspect
import math
import operator
import typing
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.epilogue.evaluate import evaluate
from lowtide.compiler.epilogue.graph import trace
from lowtide.compiler.epilogue.text import epilogue_text
from lowtide.compiler.epilogue.trace import Predicate, Traced
from lowtide.errors import SpecError

NUMBERS = (int, float, complex, decimal.Decimal, fractions.Fraction, np.ndarray, np.float32)
FUNCTIONS = {name: value for name, value in vars(operator).items() if callable(value) and name.startswith("__")}
FUNCTIONS = {name: value for name, value in FUNCTIONS.items() if inspect.isroutine(value)}
ABSTRACT = {
    name
    for module in (collections.abc, contextlib, typing)
    for type_ in vars(module).values()
    for name in getattr(type_, "__abstractmethods__", ())
}
#: What Python's data model has, by its own modules: another Python may add to it.
SPECIAL = {name for type_ in NUMBERS for name in dir(type_) if name not in dir(object)} | {*FUNCTIONS} | ABSTRACT
SPECIAL = {name for name in SPECIAL if name.startswith("__") and name.endswith("__")}

# What describes or copies an object, and what arrays offer to libraries, which take others by other ways: not defined.
NOT_DEFINED = {
    *("__abstractmethods__", "__class_getitem__", "__copy__", "__deepcopy__", "__getformat__", "__getnewargs__"),
    *("__setstate__", "__array_finalize__", "__array_interface__", "__array_namespace__", "__array_priority__"),
    *("__array_struct__", "__array_wrap__", "__array_prepare__", "__dlpack__", "__dlpack_device__", "__buffer__"),
    "__release_buffer__",
}
OF_CLASSES = {"__module__", "__slots__"}
OF_SEQUENCES = {"__concat__", "__iconcat__"}  # operator's own: not looked up in a value
OPERATORS = sorted(SPECIAL - NOT_DEFINED - OF_CLASSES - OF_SEQUENCES)
#: Those of two numbers or conditions, which also go by what stands on the left.
BINARY = sorted(
    name
    for name in OPERATORS
    if name in FUNCTIONS
    and len(inspect.signature(FUNCTIONS[name]).parameters) == 2
    and name not in ("__contains__", "__delitem__", "__getitem__", "__call__")
)
TRACED = {
    *(
        "__abs__",
        "__add__",
        "__eq__",
        "__ge__",
        "__gt__",
        "__iadd__",
        "__imul__",
        "__ipow__",
        "__isub__",
        "__itruediv__",
    ),
    *("__le__", "__lt__", "__mul__", "__ne__", "__neg__", "__pos__", "__pow__", "__radd__", "__rmul__", "__rsub__"),
    *("__rtruediv__", "__sub__", "__truediv__"),
}
COMBINED = {
    *("__and__", "__eq__", "__iand__", "__inv__", "__invert__", "__ior__", "__ixor__", "__ne__", "__or__", "__rand__"),
    *("__ror__", "__rxor__", "__xor__"),
}
OTHERS = [2.0, True, None, "x", np.float64(2), np.bool_(True), np.ones(3), decimal.Decimal(2), fractions.Fraction(1, 2)]
LEFT = [x for x in OTHERS if x is not None and not isinstance(x, str)]


def outcome(use: Callable[[Any, Any], Any]) -> Any:
    """What an expression of the accumulator and an operand gives. The error of one that is refused."""
    given: list[Any] = []

    def epilogue(acc: Any, c: lt.Full) -> Any:
        given.append(use(acc, c))
        return acc + c

    try:
        trace(epilogue, "f32", "f32")
    except SpecError as error:
        return error
    return given[0]


def is_clear(found: Any) -> bool:
    """Traced, or refused by what it is: not by an exception of Python that someone wrapped."""
    return isinstance(found, Traced | Predicate) or (isinstance(found, SpecError) and " raised " not in str(found))


def apply(name: str, x: Any, y: Any) -> Any:
    """An operator as Python applies it, or a method that only a protocol calls."""
    if name == "__array_ufunc__":
        return np.exp(x)
    if name == "__array_function__":
        return np.sum(x)
    if name in FUNCTIONS:
        count = sum(1 for x in inspect.signature(FUNCTIONS[name]).parameters.values() if x.kind is not x.VAR_KEYWORD)
        return FUNCTIONS[name](*(x, y, y)[:count])
    return getattr(x, name)(y)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_of_numbers_is_traced_or_refused(name: str) -> None:
    found = outcome(lambda acc, c: apply(name, acc, 2 if "pow" in name else c))
    assert isinstance(found, Traced | Predicate) == (name in TRACED), found
    assert is_clear(found), found


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_of_conditions_is_traced_or_refused(name: str) -> None:
    found = outcome(lambda acc, c: apply(name, acc > 0, c > 0))
    assert isinstance(found, Predicate) == (name in COMBINED), found
    assert is_clear(found), found


@pytest.mark.parametrize("name", sorted(NOT_DEFINED))
def test_what_libraries_probe_for_is_not_there(name: str) -> None:
    seen: list[bool] = []
    outcome(lambda acc, c: seen.extend(hasattr(x, name) for x in (acc, acc > 0)))
    assert seen == [False, False]


@pytest.mark.parametrize("name", BINARY)
def test_beside_any_other_value_it_is_clear_too(name: str) -> None:
    function = FUNCTIONS[name]
    pairs: list[Callable[[Any, Any], Any]] = []
    for of, other in product((lambda acc: acc, lambda acc: acc > 0), OTHERS):
        pairs.append(lambda acc, c, of=of, other=other: function(of(acc), other))
    for of, other in product((lambda acc: acc, lambda acc: acc > 0), LEFT):
        pairs.append(lambda acc, c, of=of, other=other: function(other, of(acc)))
    pairs.append(lambda acc, c: function(acc, c > 0))
    pairs.append(lambda acc, c: function(acc > 0, c))
    unclear = [found for found in map(outcome, pairs) if not is_clear(found)]
    assert not unclear


def test_a_place_for_each_name_that_is_not_an_operator() -> None:
    assert OF_CLASSES | OF_SEQUENCES <= SPECIAL
    assert {*OPERATORS} >= TRACED | COMBINED


def _in_an_if(acc: Any, c: Any) -> Any:
    return acc if acc == c else c


def _in_a_with(acc: Any, c: Any) -> Any:
    with acc as value:
        return value


EXPRESSIONS: list[Callable[[Any, Any], Any]] = [
    _in_an_if,
    lambda acc, c: acc and c,
    lambda acc, c: not acc,
    lambda acc, c: 0 < acc < 1,
    lambda acc, c: acc in [0.0, 1.0],
    lambda acc, c: acc in {0.0, 1.0},
    lambda acc, c: {0.0: 1.0}.get(acc, 2.0),
    lambda acc, c: {acc > 0: 1.0},
    lambda acc, c: 1.0 in acc,
    lambda acc, c: max(acc, c),
    lambda acc, c: sorted([acc, c]),
    lambda acc, c: any([acc]),
    lambda acc, c: list(acc),
    lambda acc, c: len(acc),
    lambda acc, c: reversed(acc),
    lambda acc, c: next(acc),
    lambda acc, c: divmod(acc, 2),
    lambda acc, c: divmod(2, acc),
    lambda acc, c: pow(acc, 2, 3),
    lambda acc, c: 2**acc,
    lambda acc, c: round(acc, 2),
    lambda acc, c: math.floor(acc),
    lambda acc, c: math.exp(acc),
    lambda acc, c: math.isnan(acc),
    lambda acc, c: bytes(acc),
    lambda acc, c: range(acc),
    lambda acc, c: [1.0, 2.0][acc > 0],
    lambda acc, c: acc(c),
    _in_a_with,
    lambda acc, c: np.asarray(acc),
    lambda acc, c: np.array([acc, c]),
    lambda acc, c: np.add(acc, c, out=np.zeros(1)),
    lambda acc, c: np.logical_and(acc > 0, c > 0),
    lambda acc, c: np.isnan(acc),
    lambda acc, c: lt.where(acc > 0, acc > 0, c),
    lambda acc, c: lt.where((acc > 0) == True, acc, c),  # noqa: E712
    lambda acc, c: lt.where(acc, acc, c),
    lambda acc, c: lt.maximum(acc > 0, c),
    lambda acc, c: lt.Full["f32"] + acc,
    lambda acc, c: acc * lt.Full,
]


@pytest.mark.parametrize("use", EXPRESSIONS)
def test_what_needs_the_value_is_refused_at_its_line(use: Callable[[Any, Any], Any]) -> None:
    found = outcome(use)
    assert isinstance(found, SpecError) and is_clear(found), found
    assert str(found).startswith(f"{__file__}:")


@pytest.mark.parametrize("combine", [operator.eq, operator.ne, operator.xor, operator.and_, operator.or_])
def test_conditions_combine_as_truth_values(combine: Callable[[Any, Any], Any]) -> None:
    def epilogue(acc: Any, c: lt.Full) -> Any:
        return lt.where(combine(acc > 0, c > 0), 1.0, 0.0)

    x, y = np.array([[-1.0, 1.0, -1.0, 1.0]]), np.array([[-1.0, -1.0, 1.0, 1.0]])
    graph = trace(epilogue, "f32", "f32")
    assert evaluate(graph, x, [y]).tolist() == [[float(combine(a, b)) for a, b in zip(x[0] > 0, y[0] > 0, strict=True)]]


def test_in_place_operators_give_what_the_plain_ones_do() -> None:
    def in_place(acc: Any, bias: lt.PerColumn) -> Any:
        acc += bias
        acc *= 2.0
        above = acc > 0.0
        above &= bias > 0.0
        above ^= acc > 1.0
        return lt.where(above, acc, bias)

    def plain(acc: Any, bias: lt.PerColumn) -> Any:
        y = (acc + bias) * 2.0
        return lt.where(((y > 0.0) & (bias > 0.0)) ^ (y > 1.0), y, bias)

    assert epilogue_text(in_place, "f32", "f32") == epilogue_text(plain, "f32", "f32")


@pytest.mark.parametrize("level", ["problem", "ptx"])
def test_a_kernel_compares_conditions_by_their_truth(level: str) -> None:
    def epilogue(acc: Any) -> Any:
        return lt.where((acc > 0) == (acc < 2), acc, -9.0)

    spec = lt.GemmSpec(m=16, n=16, k=16, a="f16", b="f16", d="f32", epilogue=epilogue)
    a = np.zeros((16, 16), np.float16)
    a[:, 0] = np.arange(16) / 4 - 1
    b = np.zeros((16, 16), np.float16)
    b[:, 0] = 1
    found = lt.compile_gemm(spec, target="sm_80").interpret(a, b, level=level)
    x = a[:, :1].astype(np.float32) @ b[:, :1].T.astype(np.float32)
    np.testing.assert_array_equal(found, np.where((x > 0) == (x < 2), x, -9))
