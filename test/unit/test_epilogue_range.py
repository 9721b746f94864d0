"""Every function of an epilogue over the whole range of f32: against float64, and how far its bound lets it go."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from test_math_formulas import NumpyOps, every_float

from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.epilogue import functions as lt
from lowtide.compiler.epilogue.evaluate import evaluate
from lowtide.compiler.epilogue.graph import EpilogueGraph, trace
from lowtide.compiler.epilogue.trace import FUNCTIONS
from lowtide.compiler.spec import GemmSpec
from lowtide.passes.support.ir import math_formulas as formulas
from lowtide.runtime.epilogue import evaluate as evaluate_program
from lowtide.verification.checking.bound import Interval, propagate

erfc = np.vectorize(math.erfc, otypes=[np.float64])
ROUNDED = 2.0**-24
SMALL = 2.0**-140  # a handful of bits above the smallest number, far below the smallest normal one
FLUSHED = 2.0**-125  # of powers and quotients, whose results below 2⁻¹²⁶ are 0: twice that
MOST = 104 * ROUNDED  # of powers, whose exponent is rounded: |x| is at most 104 where the result is not 0


@dataclass(frozen=True)
class Function:
    """A function of x as an epilogue has it, the same in float64, and how far from it f32 may be."""

    of: Callable[[Any], Any]
    exact: Callable[[np.ndarray], np.ndarray]
    relative: float
    absolute: Callable[[np.ndarray], Any] = lambda x: SMALL


def _doubled(x: np.ndarray) -> np.ndarray:
    return np.asarray(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))


def _gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / (1.0 + np.exp(-_doubled(x))))


CASES = {
    "maximum": Function(lambda x: lt.maximum(x, 1.0), lambda x: np.maximum(x, 1.0), 0.0),
    "minimum": Function(lambda x: lt.minimum(x, 1.0), lambda x: np.minimum(x, 1.0), 0.0),
    "relu": Function(lt.relu, lambda x: np.maximum(x, 0.0), 0.0),
    "clamp": Function(lambda x: lt.clamp(x, -1.0, 2.0), lambda x: np.clip(x, -1.0, 2.0), 0.0),
    "where": Function(lambda x: lt.where(x < 1.0, x, 1.0), lambda x: np.where(x < 1.0, x, 1.0), 0.0),
    "cast": Function(lambda x: lt.cast(x, "f32"), lambda x: x, 0.0),
    "exp": Function(lt.exp, np.exp, 8 * ROUNDED + 1.25 * MOST, lambda x: FLUSHED),
    "log": Function(lt.log, np.log, 8 * ROUNDED, lambda x: 2.0**-22),
    "tanh": Function(lt.tanh, np.tanh, 8 * ROUNDED),
    "erf": Function(lt.erf, np.vectorize(math.erf, otypes=[np.float64]), 8 * ROUNDED),
    "erfc": Function(lt.erfc, erfc, 8 * ROUNDED, lambda x: 2 * ROUNDED),
    "sqrt": Function(lt.sqrt, np.sqrt, ROUNDED),
    "rsqrt": Function(lt.rsqrt, lambda x: 1.0 / np.sqrt(x), 8 * ROUNDED),
    "sigmoid": Function(lt.sigmoid, lambda x: 1.0 / (1.0 + np.exp(-x)), 16 * ROUNDED + 1.25 * MOST, lambda x: FLUSHED),
    "silu": Function(
        lt.silu,
        lambda x: x / (1.0 + np.exp(-x)),
        16 * ROUNDED + 1.25 * MOST,
        lambda x: FLUSHED * np.maximum(1.0, np.abs(x)),
    ),
    "gelu": Function(
        lt.gelu, lambda x: 0.5 * x * erfc(-x * math.sqrt(0.5)), 8 * ROUNDED, lambda x: SMALL + 4 * ROUNDED * np.abs(x)
    ),
    # 2u is rounded in each of its steps.
    "gelu by tanh": Function(
        lambda x: lt.gelu(x, approximate="tanh"),
        _gelu_by_tanh,
        8 * MOST,
        lambda x: FLUSHED * np.maximum(1.0, np.abs(x)),
    ),
}
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4028235e38, -3.4028235e38, 1e-45, -1e-45, -88.8, -89.0, -103.5]
)


def in_f32(graph: EpilogueGraph, x: np.ndarray, push: float) -> np.ndarray:
    """What a kernel computes; `push` in [−1, 1] moves each approximate result by that share of its error."""
    ops = NumpyOps(push)
    known: dict[str, Callable[..., Any]] = {
        "neg": ops.negate,
        "abs": ops.absolute,
        "add": ops.add,
        "mul": ops.multiply,
        "div_approx": ops.divide_approx,
        "max": ops.maximum,
        "min": ops.minimum,
        "lt": ops.less,
        "where": ops.select,
        "sqrt": np.sqrt,
        "rsqrt": lambda y: ops._approx(1.0 / np.sqrt(np.float64(y)), formulas.RSQRT_APPROX),
        **{
            f.__name__: partial(f, ops)
            for f in (formulas.exp, formulas.log, formulas.tanh, formulas.erf, formulas.erfc)
        },
    }
    values: dict[int, Any] = {}
    for node in graph.nodes:
        inputs = [values[id(other)] for other in node.inputs]
        leaf = x if node.op == "acc" else np.float32(node.attribute or 0.0)
        values[id(node)] = known[node.op](*inputs) if inputs else leaf
    return np.asarray(values[id(graph.result)], dtype=np.float64)


def sample() -> np.ndarray:
    return np.concatenate([SPECIAL.astype(np.float32), every_float(1 << 15, -math.inf, math.inf)])


def tolerance(case: Function, x: np.ndarray, want: np.ndarray) -> np.ndarray:
    return np.asarray(case.relative * np.abs(want) + case.absolute(x))


def overflows(value: np.ndarray) -> np.ndarray:
    """Whether it may be infinite in f32."""
    return np.asarray(np.abs(value) > 3.402e38)


def test_every_function_is_here() -> None:
    public = {
        name
        for name, value in vars(lt).items()
        if inspect.isfunction(value) and value.__module__ == lt.__name__ and not name.startswith("_")
    }
    assert public == {*CASES} - {"gelu by tanh"} == {*FUNCTIONS}


@pytest.mark.parametrize("push", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("name", CASES)
def test_it_is_float64s_over_the_whole_range(name: str, push: float) -> None:
    case, x = CASES[name], sample()
    with np.errstate(all="ignore"):
        want = case.exact(x.astype(np.float64))
        got = in_f32(trace(lambda acc: case.of(acc), "f32", "f32"), x, push)
        near = np.abs(got - want) <= tolerance(case, x.astype(np.float64), want)
    same = (
        near | (np.isnan(got) & np.isnan(want)) | (got == want) | (overflows(want) & overflows(got) & (got * want > 0))
    )
    assert same.all(), [(float(x[i]), got[i], want[i]) for i in np.flatnonzero(~same)[:5]]


@pytest.mark.parametrize("name", CASES)
def test_its_bound_holds_it_and_little_more(name: str) -> None:
    case, x = CASES[name], sample()
    graph = trace(lambda acc: case.of(acc), "f32", "f32")
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        want = case.exact(wide)
        bound = propagate(graph, [Interval.exact(wide)], [])
        for push in (-0.6, 0.0, 0.6):  # the rounding of the pushed result stays within the hardware's error
            got = in_f32(graph, x, push)
            held = np.where(np.isnan(got), bound.maybe_nan, (bound.low <= got) & (got <= bound.high))
            assert held.all(), [(float(x[i]), got[i]) for i in np.flatnonzero(~held)[:5]]
        slack = 4 * tolerance(case, wide, want)
        tight = (want - bound.low <= slack) & (bound.high - want <= slack)
    tight |= np.isnan(want) | np.isinf(want) | overflows(want)
    assert tight.all(), [(float(x[i]), want[i], bound.low[i], bound.high[i]) for i in np.flatnonzero(~tight)[:5]]


@pytest.mark.parametrize("name", CASES)
def test_the_reference_is_float64s(name: str) -> None:
    case, x = CASES[name], sample().astype(np.float64)
    graph = trace(lambda acc: case.of(acc), "f32", "f32")
    with np.errstate(all="ignore"):
        want = case.exact(x)
    absolute = 1e-13 if name == "erf" else 1e-45
    np.testing.assert_allclose(evaluate(graph, x, []), want, rtol=1e-12, atol=absolute)


@pytest.mark.parametrize("name", CASES)
def test_integers_do_not_wrap_around_within_a_function(name: str) -> None:
    case, x = CASES[name], np.array([-(2.0**31), -2000.0, -3.0, 0.0, 1.0, 1291.0, 2.0**31 - 1])
    with np.errstate(all="ignore"):
        want = case.exact(x)
    got = evaluate(trace(lambda acc: case.of(acc), "s32", "f32"), x, [])
    np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sqrt", "rsqrt", "sigmoid", "silu", "gelu by tanh"])
def test_the_bound_of_a_saved_kernel_holds_it_and_little_more(name: str) -> None:
    """`verify` computes it from the kernel's manifest, without the compiler."""
    case, x = CASES[name], sample()
    graph = trace(lambda acc: case.of(acc), "f32", "f32")
    spec = GemmSpec(m=16, n=16, k=16, a="bf16", b="bf16", d="f32", epilogue=lambda acc: case.of(acc))
    program = compile_gemm(spec, target="sm_80").manifest["epilogue_program"]
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        want = case.exact(wide)
        (_, low, high), _ = evaluate_program(program, (wide, wide, wide), {}, "f32")
        results = [in_f32(graph, x, push) for push in (-0.6, 0.0, 0.6)]
        slack = max(2.0**-15, 16 * case.relative) * np.abs(want) + 64 * case.absolute(wide)
        tight = (want - low <= slack) & (high - want <= slack)
    skipped = ~np.isfinite(want) | overflows(want)
    for got in results:
        held = ((low <= got) & (got <= high)) | skipped
        assert held.all(), [(float(x[i]), got[i], low[i], high[i]) for i in np.flatnonzero(~held)[:5]]
    tight |= skipped
    assert tight.all(), [(float(x[i]), want[i], low[i], high[i]) for i in np.flatnonzero(~tight)[:5]]
