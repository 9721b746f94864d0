"""Constants in an epilogue: which are taken, and that functions of them are folded as the kernel computes them."""

import decimal
import fractions
import inspect
import math

import ml_dtypes
import numpy as np
import pytest

import lowtide as lt
from lowtide import interpreter, targets
from lowtide.compiler.epilogue.graph import trace
from lowtide.compiler.epilogue.text import epilogue_text
from lowtide.compiler.problem_ir import problem_text
from lowtide.errors import SpecError

FUNCTIONS = {
    "maximum": lambda x: lt.maximum(x, 0.1),
    "minimum": lambda x: lt.minimum(0.1, x),
    "relu": lt.relu,
    "clamp": lambda x: lt.clamp(x, -0.7, 1 / 3),
    "exp": lt.exp,
    "log": lt.log,
    "tanh": lt.tanh,
    "erf": lt.erf,
    "erfc": lt.erfc,
    "sqrt": lt.sqrt,
    "rsqrt": lt.rsqrt,
    "sigmoid": lt.sigmoid,
    "silu": lt.silu,
    "gelu": lt.gelu,
    "gelu by tanh": lambda x: lt.gelu(x, approximate="tanh"),
    "cast to f16": lambda x: lt.cast(x, "f16"),
    "cast to bf16": lambda x: lt.cast(x, "bf16"),
    "cast to f32": lambda x: lt.cast(x, "f32"),
}
VALUES = (0.1, -2.3, 0.0, 7.7, 1e5, -1e5)

# Which numbers are taken: all of them 0.1, as exactly as their type has it.
NUMBERS = {
    "a float": 0.1,
    "a numpy float64": np.float64(0.1),
    "a numpy float32": np.float32(0.1),
    "a numpy float16": np.float16(0.1),
    "a bfloat16": ml_dtypes.bfloat16(0.1),
    "an array of no dimensions": np.array(0.1),
    "an f32 array of no dimensions": np.array(0.1, np.float32),
    "a bfloat16 array of no dimensions": np.array(0.1, ml_dtypes.bfloat16),
}


def interpreted(epilogue, **operands: float) -> float:
    """D of a 1×1×8 GEMM of zeros, as the interpreter computes it at level problem."""
    spec = lt.GemmSpec(m=1, n=1, k=8, a="bf16", b="bf16", d="f32", epilogue=epilogue)
    zeros = np.zeros((1, 8), ml_dtypes.bfloat16)
    text = problem_text(spec, targets.get("sm_80"), None)
    return float(interpreter.interpret(text, {"a": zeros, "b": zeros, "d": np.zeros((1, 1)), **operands})[0, 0])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("value", VALUES)
def test_a_function_of_a_constant_is_the_constant_that_the_interpreter_computes(name, value):
    """The same function of the same number, once known to the tracer and once given at the call."""
    function = FUNCTIONS[name]

    def at_run_time(acc, x: lt.Scalar):
        return function(x)

    constant = function(value)
    assert isinstance(constant, np.float32)
    np.testing.assert_equal(float(constant), interpreted(at_run_time, x=value))
    np.testing.assert_equal(float(constant), interpreted(lambda acc: constant))
    graph = trace(lambda acc: function(value) * acc, "f32", "f32")
    assert [node.op for node in graph.nodes] == ["const", "acc", "mul"]


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize(
    "use",
    [
        lambda acc, x: x * acc,
        lambda acc, x: acc * x,
        lambda acc, x: lt.cast(x, "f32") * acc,
        lambda acc, x: acc * lt.maximum(x, x),
        lambda acc, x: acc * lt.where(True, x, 0.0),
        lambda acc, x: acc * lt.where(np.array(False), acc, x),
    ],
)
def test_numbers_of_every_kind_are_constants(kind, use):
    value = NUMBERS[kind]
    graph = trace(lambda acc: use(acc, value), "f32", "f32")
    (constant,) = {node.attribute for node in graph.nodes if node.op == "const"}
    assert np.float32(constant) == np.float32(float(value))


def test_a_cast_constant_is_that_of_the_issue():
    graph = trace(lambda acc: lt.cast(0.1, "bf16") * acc, "f32", "f32")
    assert [node.attribute for node in graph.nodes if node.op == "const"] == [0.10009765625]


def test_constants_overflow_as_the_device_does():
    assert lt.exp(1000.0) == math.inf
    assert lt.cast(1e5, "f16") == math.inf
    assert math.isnan(lt.sqrt(-1.0))
    assert lt.where(math.nan > 0, 1.0, 2.0) == 2.0


def test_a_known_condition_chooses():
    graph = trace(lambda acc: lt.where(np.bool_(True), acc, acc + 1.0), "f32", "f32")
    assert [node.op for node in graph.nodes] == ["acc"]


def test_arrays_are_still_left_to_numpy():
    values = np.array([0.5, -1.0])
    np.testing.assert_array_equal(lt.exp(values), np.exp(values))
    np.testing.assert_array_equal(lt.maximum(values, 0.1), [0.5, 0.1])


def test_the_functions_keep_their_signatures():
    assert list(inspect.signature(lt.clamp).parameters) == ["x", "low", "high"]
    assert lt.gelu.__doc__.startswith("x · Φ(x)")


LARGEST = 3.4028234663852886e38
TAKEN = [
    -3.4028235e38,
    3.4028235e38,
    LARGEST,
    math.inf,
    -math.inf,
    math.nan,
    2**127,
    2**24 + 1,
    1e-50,
    np.float64("inf"),
]
#: By kind: a number that no constant of f32 can be, and what the message says of it.
REFUSED = {
    "a float": (1e39, r"the constant 1e\+39, beyond the largest f32 \(3\.40282e\+38\); scale it down"),
    "half a unit beyond": (float.fromhex("0x1.ffffffp127"), r"beyond the largest f32"),
    "a numpy float": (np.float64(-1e39), r"the constant -1e\+39, beyond the largest f32"),
    "a long double": (np.longdouble("1e400"), r"the constant .*, beyond the largest f32"),
    "an integer": (10**39, r"the constant 10{39}, beyond the largest f32"),
    "a long integer": (10**400, r"the constant of 1329 bits, beyond the largest f32"),
    "a negative one of more digits than Python prints": (-(10**5000), r"the constant of 16610 bits, beyond"),
    "an array of no dimensions": (np.array(1e39), r"the constant 1e\+39, beyond the largest f32"),
    "a bool": (True, "bool"),
    "a numpy bool": (np.bool_(True), "bool"),
    "a complex number": (1j, "complex"),
    "a decimal": (decimal.Decimal("0.5"), "Decimal"),
    "a fraction": (fractions.Fraction(1, 2), "Fraction"),
    "text": ("1", "str"),
    "a date": (np.datetime64("2020"), "datetime64"),
}
USES = {
    "added": lambda acc, x: acc + x,
    "added to": lambda acc, x: x + acc,
    "compared": lambda acc, x: lt.where(acc < x, acc, 0.0),
    "a maximum": lambda acc, x: lt.maximum(acc, x),
    "of a function": lambda acc, x: acc * lt.maximum(x, 1.0),
    "chosen": lambda acc, x: lt.where(acc > 0, acc, x),
    "returned": lambda acc, x: x,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("value", TAKEN, ids=str)
def test_what_rounds_to_a_number_of_f32_is_a_constant(value, use):
    trace(lambda acc: USES[use](acc, value), "f32", "f32")


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", REFUSED)
def test_a_constant_that_cannot_be_is_refused_by_what_it_is(kind, use):
    value, message = REFUSED[kind]
    with pytest.raises(SpecError, match=message) as caught:
        trace(lambda acc: USES[use](acc, value), "f32", "f32")
    assert str(caught.value).startswith(f"{__file__}:")
    assert " raised " not in str(caught.value)


@pytest.mark.parametrize("d", ["s8", "s32"])
@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, np.int64(2**31), 10**400])
def test_an_integer_beyond_s32_is_refused_as_one(value, d):
    with pytest.raises(
        SpecError,
        match=r"returned the constant .*, which s32 does not hold; write an integer from -2147.*\[epilogue-constant\]",
    ):
        trace(lambda acc: value, "s32", d)
    with pytest.raises(
        SpecError, match=r"the constant .*, which s32 does not hold; write an integer from -2147.*\[epilogue-traced\]"
    ):
        trace(lambda acc: acc + value, "s32", d)


def test_a_numpy_integer_is_an_integer_on_either_side():
    texts = {
        epilogue_text(function, "s32", "s32")
        for function in (lambda acc: 3 * acc, lambda acc: np.int64(3) * acc, lambda acc: np.int8(3) * acc)
    }
    assert texts == {"(acc: s32) -> s32 { %0 = mul 3, acc; %0 }"}
    assert epilogue_text(lambda acc: np.int32(3), "s32", "s32") == epilogue_text(lambda acc: 3, "s32", "s32")


@pytest.mark.parametrize("two", [2, 2.0, np.int64(2), np.float32(2), np.array(2)])
def test_a_whole_power_is_one_in_any_type(two):
    assert epilogue_text(lambda acc: acc**two, "f32", "f32") == "(acc: f32) -> f32 { %0 = mul acc, acc; %0 }"


def test_a_power_of_an_integer_wraps_around_where_the_exponent_is_one():
    first, second = (epilogue_text(f, "s32", "f32") for f in (lambda acc: acc**2, lambda acc: acc**2.0))
    assert "{ %0 = mul acc, acc; %1 = real %0; %1 }" in first
    assert "{ %0 = real acc; %1 = mul %0, %0; %1 }" in second
