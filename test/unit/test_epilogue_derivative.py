"""Derivatives of epilogues: as finite differences have them, in torch's conventions, refused where there are none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.epilogue.derivative import pullback
from lowtide.compiler.epilogue.evaluate import evaluate
from lowtide.compiler.epilogue.graph import EpilogueGraph, trace
from lowtide.compiler.epilogue.text import TextEpilogue
from lowtide.compiler.epilogue.trace import ARITY
from lowtide.errors import SpecError


def smooth(acc: Any, bias: lt.PerColumn, c: lt.Full, alpha: lt.Scalar) -> Any:
    x = lt.silu(alpha * acc + bias) - lt.tanh(acc) / (2.0 + c * c)
    return (
        lt.gelu(x) * lt.exp(-c)
        + lt.erf(acc) * lt.sqrt(1.5 + lt.sigmoid(x))
        - lt.rsqrt(2.0 + acc * acc) * lt.log(2.0 + c * c)
    )


def pieces(acc: Any, bias: lt.PerColumn, c: lt.Full, alpha: lt.Scalar) -> Any:
    x = lt.clamp(acc * alpha, -0.5, 0.7) + lt.maximum(acc, c) - lt.minimum(-acc, bias) + abs(acc - bias)
    return lt.where((acc > c) & ~(c == 0.25), x * c * x, lt.relu(-x) + 0.5 * bias)


def values_of(graph: EpilogueGraph, given: dict[str, Any]) -> np.ndarray:
    return evaluate(graph, given["acc"], [given[operand.name] for operand in graph.operands])


def derivative(graph: EpilogueGraph, name: str | None, given: dict[str, Any]) -> np.ndarray:
    text = pullback(graph, name, graph.d)
    assert text is not None
    return values_of(TextEpilogue(text).graph(), given)


@pytest.mark.parametrize(("function", "acc"), [(smooth, "f32"), (pieces, "f64")])
def test_it_is_the_limit_of_differences(function: Callable[..., Any], acc: str) -> None:
    graph, rng, step = trace(function, acc, acc), np.random.default_rng(0), 1e-6
    given = {name: rng.normal(size=(30, 40)) for name in ("acc", "bias", "c", "alpha", "grad")}
    for name in ("acc", "bias", "c", "alpha"):
        more, less = ({**given, name: given[name] + d} for d in (step, -step))
        expected = given["grad"] * (values_of(graph, more) - values_of(graph, less)) / (2 * step)
        found = derivative(graph, None if name == "acc" else name, given)
        near = np.abs(found - expected) <= 1e-6 * (1 + np.abs(expected))
        assert near.mean() > 0.999  # but where a kink lies between


def test_every_op_is_differentiated_above() -> None:
    ops = {node.op for graph in (trace(smooth, "f32", "f32"), trace(pieces, "f64", "f64")) for node in graph.nodes}
    assert ops >= {*ARITY} - {"real", "cast", "lt", "le", "ge", "ne", "or"}


def test_a_cast_has_the_derivative_1() -> None:
    text = "(acc: f32, %grad: full f32) -> f32 { %grad }"
    assert pullback(trace(lambda acc: lt.cast(acc, "bf16"), "f32", "f32"), None, "f32") == text


def test_ties_are_as_in_torch() -> None:
    given: dict[str, Any] = {"acc": np.zeros((1, 1)), "c": np.zeros((1, 1)), "grad": np.ones((1, 1))}

    def larger(acc: Any, c: lt.Full) -> Any:
        return lt.maximum(acc, c)

    for function, expected in ((lambda acc: lt.relu(acc), 0.0), (lambda acc: abs(acc), 0.0), (larger, 0.5)):
        assert derivative(trace(function, "f32", "f32"), None, given) == expected


def test_infinite_exponentials_have_finite_derivatives() -> None:
    x = np.array([[-1000.0, -100.0, 100.0, 1000.0]])
    given = {"acc": x, "grad": np.ones_like(x)}
    silu, sigmoid = (derivative(trace(f, "f32", "f32"), None, given) for f in (lt.silu, lt.sigmoid))
    np.testing.assert_allclose(silu, [[0, 0, 1, 1]], atol=1e-30)
    np.testing.assert_allclose(sigmoid, [[0, 0, 0, 0]], atol=1e-30)


def _of_acc(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda acc: function(acc)


def test_the_derivatives_at_0_are_those_of_smooth_functions() -> None:
    given: dict[str, Any] = {"acc": np.zeros((1, 1)), "grad": np.ones((1, 1))}
    for function, expected in ((lt.sigmoid, 0.25), (lt.silu, 0.5), (lambda x: lt.gelu(x, approximate="tanh"), 0.5)):
        assert derivative(trace(_of_acc(function), "f32", "f32"), None, given) == expected


def test_a_choice_by_sign_is_no_sigmoid() -> None:
    def epilogue(acc: Any) -> Any:
        return lt.where(acc < 0.0, 3.0 * acc, acc / (2.0 + acc))

    given: dict[str, Any] = {"acc": np.array([[-1.0, 2.0]]), "grad": np.ones((1, 2))}
    for dtype in ("f32", "f64"):
        np.testing.assert_allclose(derivative(trace(epilogue, dtype, dtype), None, given), [[3.0, 0.125]])


def test_it_reads_what_it_needs() -> None:
    def epilogue(acc: Any, bias: lt.PerColumn, c: lt.Full, alpha: lt.Scalar) -> Any:
        return alpha * acc + bias + lt.where(bias > 0.0, c, 0.0)

    graph = trace(epilogue, "f32", "bf16")
    assert pullback(graph, None, "bf16") == (
        "(acc: f32, %alpha: scalar f32, %grad: full bf16) -> bf16 { %0 = mul %grad, %alpha; %0 }"
    )
    assert pullback(graph, "bias", "f32") == "(acc: f32, %grad: full bf16) -> f32 { %grad }"
    assert pullback(trace(lambda acc: lt.where(acc > 0.0, 1.0, 2.0), "f32", "bf16"), None, "bf16") is None
    assert pullback(trace(lambda acc: 1.0, "f32", "bf16"), None, "bf16") is None


def test_integers_have_no_derivative() -> None:
    def zero_points(acc: Any, zeros: lt.PerColumn["s32"]) -> Any:  # noqa: F821
        return 0.5 * (acc - zeros)

    for acc, d, name, what in (
        ("f32", "s8", None, r"a D of s8 has no derivative.*\[derivative-of-d\]"),
        ("s32", "bf16", None, r"sums of integers: integers have no derivative.*\[derivative-of-integers\]"),
        ("s32", "bf16", "zeros", r"zeros.*\[derivative-of-integers\]"),
    ):
        with pytest.raises(SpecError, match=what):
            pullback(trace(zero_points, acc, d), name, "bf16")
