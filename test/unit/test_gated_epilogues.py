"""The activations of gated MLPs: their values, and kernels that are made of them by name."""

import math
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.cli.console import problem_line
from lowtide.compiler.epilogue.ready import PAIRED, ready_epilogue
from lowtide.verification.fuzz.case import Case, Ended, run_case

X = np.linspace(-9.0, 9.0, 61, dtype=np.float32)
GATE, UP = np.meshgrid(X, X)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def _gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def _of_gpt_oss(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    gate, up = np.minimum(gate, 7.0), np.clip(up, -7.0, 7.0)
    return gate * _sigmoid(1.702 * gate) * (up + 1.0)


VALUES = {
    "swiglu": (lt.swiglu, lambda gate, up: gate * _sigmoid(gate) * up),
    "geglu": (lt.geglu, lambda gate, up: _gelu(gate) * up),
    "geglu-tanh": (lt.geglu_tanh, lambda gate, up: _gelu_tanh(gate) * up),
    "clamped-swiglu": (lt.clamped_swiglu(), _of_gpt_oss),
    "another clamp": (
        lt.clamped_swiglu(limit=2.0, scale=1.0, shift=0.0),
        lambda gate, up: np.minimum(gate, 2) * _sigmoid(np.minimum(gate, 2)) * np.clip(up, -2, 2),
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_those_of_the_formula(name: str) -> None:
    function, formula = VALUES[name]
    found, wanted = function(GATE, UP), formula(GATE.astype(np.float64), UP.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PAIRED)
def test_a_kernel_has_an_epilogue_by_name(name: str) -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", pairs="interleaved", epilogue=ready_epilogue(name))
    inputs = lt.random_inputs(spec, m=9, n=24, k=40, rng=np.random.default_rng(0))
    kernel = lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [32, 64], k = 32, stages = 2")
    found, values, bounds = kernel.interpret(**inputs, level="cta"), *lt.reference_with_bound(spec, **inputs)
    results: Any = found if isinstance(found, dict) else {"d": found}
    for result, array in results.items():
        value, bound = (x[result] if isinstance(x, dict) else x for x in (values, bounds))
        assert (np.abs(array.astype(np.float64) - value) <= bound).all()


def test_the_line_of_a_problem_says_how_pairs_lie() -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", pairs="interleaved", epilogue=lt.swiglu)
    assert problem_line(spec, (8, 16, None)) == "bf16 tn 8x16x? in interleaved pairs to bf16, f32 accumulators"


def test_fuzz_draws_pairs() -> None:
    others = ("interleaved, swiglu-saved", "apart, swiglu-saved")
    for words in ((("pairs", "stacked, product"), ("dtype", "f16")), *((("pairs", word),) for word in others)):
        case = Case(words)
        assert case.spec.pairs == words[0][1].partition(",")[0]
        assert run_case(case).ended is Ended.right
