"""What a traced epilogue computes: in numpy, in the interval of its bound, and compiled for the CPU at hand."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
from mlir import ir
from mlir.execution_engine import ExecutionEngine
from mlir.passmanager import PassManager
from test_epilogue import module_of

from lowtide.compiler.epilogue import functions as lt
from lowtide.compiler.epilogue.evaluate import evaluate
from lowtide.compiler.epilogue.graph import trace
from lowtide.compiler.epilogue.operands import PerRow
from lowtide.passes.nvvm.expand_math import ExpandMath
from lowtide.targets import get
from lowtide.verification.checking.bound import Interval, propagate

# Not all of the functions below read their second argument.
pytestmark = pytest.mark.filterwarnings("ignore:D does not depend on the epilogue's operand")

EPILOGUES = {
    "fused": lambda acc, y: lt.relu(1.5 * acc + 0.5 * y) - y / 3.0,
    "abs": lambda acc, y: abs(-acc) + y,
    "divide": lambda acc, y: acc / (1.0 + y * y),
    "extrema": lambda acc, y: lt.clamp(acc, -0.5, y) + lt.minimum(acc, y),
    "exp": lambda acc, y: lt.exp(acc) - y,
    "tanh": lambda acc, y: lt.tanh(acc) * y,
    "erf": lambda acc, y: lt.erf(acc + y),
    "erfc": lambda acc, y: lt.erfc(acc + y),
    "log": lambda acc, y: lt.log(1e-3 + acc * acc),
    "sigmoid": lambda acc, y: lt.sigmoid(acc) * y,
    "silu": lambda acc, y: lt.silu(4.0 * acc),
    "gelu": lambda acc, y: lt.gelu(acc),
    "gelu tanh": lambda acc, y: lt.gelu(acc, approximate="tanh"),
    "sqrt": lambda acc, y: lt.sqrt(acc * acc) + lt.rsqrt(0.01 + y * y),
    "power": lambda acc, y: acc**3 - y**2,
    "where": lambda acc, y: lt.where((acc > y) & ~(acc == 0.25) | (y < -1.0), acc * 2.0, y),
}


def two_operands(function):
    def epilogue(acc, y: PerRow):
        return function(acc, y)

    return epilogue


def sample(count=1500):
    rng = np.random.default_rng(7)
    acc = np.concatenate([rng.normal(0, 2, count), rng.normal(0, 30, count // 3), [0.0, 0.25, 1.0, -1.0]])
    return acc.astype(np.float32), rng.normal(0, 1, acc.size).astype(np.float32)


@pytest.mark.parametrize("name", EPILOGUES)
def test_the_same_function_runs_in_numpy(name):
    acc, y = (x.astype(np.float64) for x in sample())
    graph = trace(two_operands(EPILOGUES[name]), "f32", "f32")
    with np.errstate(all="ignore"):
        direct = EPILOGUES[name](acc, y)
    np.testing.assert_allclose(evaluate(graph, acc, [y]), direct, rtol=1e-13)


def run_compiled(function, acc: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The emitted IR with its math expanded, compiled for the CPU at hand."""
    with ir.Context(), ir.Location.unknown():
        module = module_of(function, d="f32")
        ExpandMath().run(module, get("sm_80"))
        PassManager.parse("builtin.module(convert-to-llvm,reconcile-unrealized-casts)").run(module.operation)
        engine = ExecutionEngine(module, opt_level=0)
        compiled = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("f"))  # takes pointers, the result's last
        x, other, result = (ctypes.c_float() for _ in range(3))
        pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in (x, other, result)))
        results = []
        for x.value, other.value in zip(acc.tolist(), y.tolist(), strict=True):
            compiled(pointers)
            results.append(result.value)
        return np.array(results)


def worst_error(name: str, compiled_name: str) -> float:
    """Error of the compiled epilogue against float64 of another, as a share of the latter's bound."""
    acc, y = sample()
    graph = trace(two_operands(EPILOGUES[name]), "f32", "f32")
    got = run_compiled(two_operands(EPILOGUES[compiled_name]), acc, y)
    wide = acc.astype(np.float64)
    interval = propagate(graph, [Interval(wide, wide)], [y.astype(np.float64)])
    want = evaluate(graph, wide, [y.astype(np.float64)])
    bound = np.maximum(interval.high - want, want - interval.low)
    checked = np.isfinite(bound)  # eˣ overflows f32 for some
    assert np.count_nonzero(checked) > 0.9 * checked.size
    return float(np.max(np.abs(got - want)[checked] / np.maximum(bound, 1e-300)[checked]))


@pytest.mark.parametrize("name", EPILOGUES)
def test_the_compiled_epilogue_stays_in_its_interval(name):
    assert worst_error(name, name) <= 1.0


@pytest.mark.parametrize(("name", "other"), [("gelu", "gelu tanh"), ("fused", "extrema"), ("silu", "sigmoid")])
def test_another_epilogue_leaves_the_interval(name, other):
    assert worst_error(name, other) > 10.0


def test_an_open_comparison_takes_both_sides():
    graph = trace(lambda acc: lt.where(acc > 0.0, 5.0, -3.0), "f32", "f32")
    interval = propagate(graph, [Interval(np.array([[-1.0, 1.0, -2.0]]), np.array([[1.0, 2.0, -1.0]]))], [])
    assert interval.low.tolist() == [[-3.0, 5.0, -3.0]]
    assert interval.high.tolist() == [[5.0, 5.0, -3.0]]


def test_a_divisor_that_may_be_zero_has_no_bound():
    graph = trace(lambda acc: 1.0 / acc, "f32", "f32")
    interval = propagate(graph, [Interval(np.array([[-1.0, 1.0]]), np.array([[1.0, 2.0]]))], [])
    assert np.isinf(interval.high[0, 0])
    assert np.isinf(interval.low[0, 0])
    assert interval.low[0, 1] == pytest.approx(0.5)


def test_the_numpy_erf_is_erf():
    x = np.concatenate([np.linspace(-7, 7, 20001), 10.0 ** np.arange(-300, 1)])
    exact = np.array([math.erf(value) for value in x])
    np.testing.assert_allclose(lt.erf(x), exact, rtol=1e-14)
    np.testing.assert_allclose(lt.erfc(x), 1.0 - exact, atol=1e-14)
    assert np.isnan(lt.erf(math.nan))
