"""Constants in an epilogue: which are taken, and that functions of them are folded as the kernel computes them."""

import inspect
import math

import ml_dtypes
import numpy as np
import pytest

import lowtide as lt
from lowtide import interpreter, targets
from lowtide.compiler.epilogue.operands import trace
from lowtide.compiler.problem_ir import problem_text

FUNCTIONS = {
    "maximum": lambda x: lt.maximum(x, 0.1),
    "minimum": lambda x: lt.minimum(0.1, x),
    "relu": lt.relu,
    "clamp": lambda x: lt.clamp(x, -0.7, 1 / 3),
    "exp": lt.exp,
    "log": lt.log,
    "tanh": lt.tanh,
    "erf": lt.erf,
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
