"""Epilogues of training, on arrays and through kernels on the interpreter: derivatives against differences in float64,
halves of one matrix as results, column sums, and cross entropies."""

from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.epilogue.backward import (
    activated_backward,
    gated,
    gated_backward,
    logits_gradient,
    row_losses,
    with_derivative,
)

ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu")


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_derivative_is_the_limit_of_differences(activation: str) -> None:
    x, step = np.linspace(-6.0, 6.0, 400), 1e-4  # 400 points: not 0, where relu has no derivative
    both = with_derivative(activation)
    differences = (both(x + step)[0] - both(x - step)[0]) / (2 * step)
    assert np.allclose(both(x)[1], differences, atol=1e-6)
    assert not np.allclose(both(x)[1], differences * 1.001, atol=1e-6)


def test_an_activation_without_a_derivative_is_refused() -> None:
    with pytest.raises(lt.SpecError, match=r"\[activation-derivative\]"):
        gated("softsign", True)


def _found(spec: lt.GemmSpec, inputs: dict[str, Any], level: str, out: Any = None) -> Any:
    """The results, each within its bound."""
    kernel = lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [64, 64], k = 32, stages = 3")
    found = kernel.interpret(**inputs, level=level, out=out)
    reference, bound = lt.reference_with_bound(spec, **inputs)
    named = (lambda x: x) if isinstance(found, dict) else (lambda x: {"d": x})
    for name, values in named(found).items():
        outcome = lt.compare(spec.of_result(name), values, named(reference)[name], named(bound)[name])
        assert outcome.ok, (name, outcome.message)
    return found


def test_the_backward_of_a_gated_layer_through_every_kernel() -> None:
    rng = np.random.default_rng(0)
    types = {"a": "bf16", "b": "bf16", "d": "bf16"}
    forward = lt.GemmSpec(**types, pairs="stacked", epilogue=gated("silu", True))  # type: ignore[arg-type]
    inputs = lt.random_inputs(forward, 20, 24, 40, rng)
    saved = _found(forward, inputs, "ptx")
    backward = lt.GemmSpec(**types, layout="tt", epilogue=gated_backward("silu"))  # type: ignore[arg-type]
    given = lt.random_inputs(backward, 20, 24, 16, rng) | {name: saved[name] for name in ("gate", "up")}
    both = np.full((20, 48), np.nan, saved["hidden"].dtype)
    found = _found(backward, given, "ptx", {"dgate": both[:, :24], "dup": both[:, 24:]})
    assert list(found) == ["dgate", "dup", "hidden"] and not np.isnan(both.astype(float)).any()
    assert np.shares_memory(found["dup"], both)
    wide = np.asarray(found["hidden"], np.float64), np.asarray(saved["hidden"], np.float64)
    assert np.allclose(*wide, rtol=2.0**-5, atol=2.0**-5)  # from the rounded gate and up


def test_the_backward_of_an_activation_sums_the_gradient_of_the_bias() -> None:
    rng = np.random.default_rng(1)
    types = {"a": "bf16", "b": "bf16", "d": "bf16"}
    backward = lt.GemmSpec(**types, layout="tt", epilogue=activated_backward("gelu"))  # type: ignore[arg-type]
    found = _found(backward, lt.random_inputs(backward, 70, 24, 16, rng), "ptx")
    sums = np.asarray(found["dpre"], np.float64).sum(axis=0)
    assert np.allclose(found["dbias"], sums, atol=0.05 * np.abs(sums).max())


def test_the_gradient_of_logits_is_that_of_a_cross_entropy() -> None:
    rng = np.random.default_rng(2)
    loss = lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=row_losses)
    inputs = lt.random_inputs(loss, 12, 40, 24, rng)
    inputs["target"] = np.array([3, 39, 0, -1, 40, 2**31 - 1, *range(6)], np.int32)
    found = _found(loss, inputs, "ptx")
    assert not found["wanted"][3:6].any()  # outside of the row
    gradient = lt.GemmSpec(a="bf16", b="bf16", d="f32", epilogue=logits_gradient)
    scale = rng.standard_normal(12).astype(np.float32)
    given = {name: inputs[name] for name in ("a", "b", "target")}
    given |= {"lse": found["lse"], "scale": scale, "column": np.arange(40, dtype=np.int32)}
    d = np.asarray(_found(gradient, given, "cta"))
    logits = np.asarray(inputs["a"], np.float64) @ np.asarray(inputs["b"], np.float64).T
    softmax = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
    onehot = (np.arange(40) == inputs["target"][:, None]).astype(float)
    assert np.allclose(d, scale[:, None] * (softmax - onehot), atol=1e-3)
    assert not np.allclose(d, scale[:, None] * softmax, atol=1e-3)
