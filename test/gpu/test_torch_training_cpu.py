"""`lowtide.torch.gated_mlp` and `linear_cross_entropy` on the CPU: values and gradients against float64, and what is
refused."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
ltt = importlib.import_module("lowtide.torch")

ACTIVATIONS = {
    "silu": lambda x: torch.nn.functional.silu(x),
    "gelu": lambda x: torch.nn.functional.gelu(x),
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "relu": lambda x: torch.relu(x),
}


def in_float64(*inputs: Any) -> tuple[Any, ...]:
    return tuple(x.detach().double().requires_grad_() for x in inputs)


def gated(x: Any, weight: Any, down: Any, activation: str) -> Any:
    gate, up = (x @ weight.mT).chunk(2, dim=-1)
    return (ACTIVATIONS[activation](gate) * up) @ down.mT


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_gated_mlp_and_its_gradients(activation: str) -> None:
    layer = ltt.GatedLinear(6, 10, 7, activation=activation)
    x = torch.randn(2, 5, 6, requires_grad=True)
    y, inputs = layer(x), (x, layer.weight, layer.down)
    weights = torch.randn_like(y)
    exact = in_float64(*inputs)
    wanted = gated(*exact, activation)
    assert y.shape == (2, 5, 7) and torch.allclose(y.double(), wanted, atol=1e-5)
    found = torch.autograd.grad((y * weights).sum(), inputs)
    for one, other in zip(found, torch.autograd.grad((wanted * weights).sum(), exact), strict=True):
        assert one.shape == other.shape and torch.allclose(one.double(), other, atol=1e-5)
    with torch.no_grad():
        assert torch.equal(layer(x), y)


def test_a_gated_mlp_computes_seven_products_in_six_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    module, counts = importlib.import_module("lowtide.torch.results"), []

    def counted(graph: Any, accs: Any, given: Any) -> Any:
        counts.append(len(accs))
        return evaluate(graph, accs, given)

    evaluate = module.evaluate_results
    monkeypatch.setattr(module, "evaluate_results", counted)
    layer, x = ltt.GatedLinear(6, 10), torch.randn(5, 6, requires_grad=True)
    y = layer(x)
    assert counts == [2, 1]
    y.sum().backward()
    assert counts == [2, 1, 1, 1, 1, 1]


def test_gradients_that_are_not_needed_are_not_computed() -> None:
    layer, x = ltt.GatedLinear(6, 10), torch.randn(5, 6)
    layer.down.requires_grad_(False)
    layer(x).sum().backward()
    assert layer.weight.grad is not None and layer.down.grad is None and x.grad is None


@pytest.mark.parametrize("chunk", [None, 4, 1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_cross_entropy_and_its_gradients(chunk: int | None, reduction: str) -> None:
    x, weight = torch.randn(3, 3, 6, requires_grad=True), torch.randn(11, 6, requires_grad=True)
    target = torch.tensor([[0, 10, -100], [5, -100, 5], [1, 2, 3]])
    loss = ltt.linear_cross_entropy(x, weight, target, reduction=reduction, chunk_rows=chunk)
    exact = in_float64(x, weight)
    logits = (exact[0] @ exact[1].mT).reshape(9, 11)
    wanted = torch.nn.functional.cross_entropy(logits, target.reshape(9), reduction=reduction).reshape(loss.shape)
    assert loss.dtype is torch.float32 and torch.allclose(loss.double(), wanted, atol=1e-5)
    weights = torch.randn_like(loss)
    found = torch.autograd.grad((loss * weights).sum(), (x, weight))
    for one, other in zip(found, torch.autograd.grad((wanted * weights).sum(), exact), strict=True):
        assert one.shape == other.shape and torch.allclose(one.double(), other, atol=1e-5)


def test_targets_outside_of_the_classes_give_nan_and_ignored_rows_nothing() -> None:
    x, weight = torch.randn(4, 6, requires_grad=True), torch.randn(11, 6)
    target = torch.tensor([3, 11, 2**40, -7])
    losses = ltt.linear_cross_entropy(x, weight, target, reduction="none", ignore_index=-7, chunk_rows=2)
    assert losses.isnan().tolist() == [False, True, True, False] and losses[3] == 0
    losses[0].backward()
    assert x.grad[0].isfinite().all() and x.grad[1:3].isnan().all() and not x.grad[3].any()
    with torch.no_grad():
        x[3] = torch.inf  # an ignored row
    losses = ltt.linear_cross_entropy(x, weight, torch.tensor([3, 0, 1, -7]), ignore_index=-7)
    assert losses.isfinite() and torch.autograd.grad(losses, x)[0][:3].isfinite().all()


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("cross-entropy-smoothing", {"label_smoothing": 0.1}),
        ("cross-entropy-reduction", {"reduction": "max"}),
        ("cross-entropy-chunk", {"chunk_rows": 0}),
        ("cross-entropy-shapes", {"target": torch.zeros(3, dtype=torch.int64)}),
        ("cross-entropy-types", {"target": torch.zeros(4)}),
    ],
)
def test_what_a_cross_entropy_refuses(code: str, changed: dict[str, Any]) -> None:
    given = {"x": torch.zeros(4, 6), "weight": torch.zeros(11, 6), "target": torch.zeros(4, dtype=torch.int64)}
    with pytest.raises(lt.LaunchError, match=rf"\[{code}\]"):
        ltt.linear_cross_entropy(**given | changed)


def test_what_a_gated_mlp_refuses() -> None:
    x, weight, down = torch.zeros(4, 6), torch.zeros(20, 6), torch.zeros(7, 10)
    with pytest.raises(lt.LaunchError, match=r"\[gated-shapes\]"):
        ltt.gated_mlp(x, weight[:19], down)
    with pytest.raises(lt.LaunchError, match=r"\[gated-types\]"):
        ltt.gated_mlp(x, weight.bfloat16(), down)
    with pytest.raises(lt.SpecError, match=r"\[activation-derivative\]"):
        ltt.GatedLinear(6, 10, activation="tanh")
    compute = importlib.import_module("lowtide.torch.results").results
    with pytest.raises(lt.LaunchError, match=r"\[results-gpu\]"):
        compute(x.to("meta"), weight.to("meta"), None, {})


def test_models_with_them_are_compiled_in_parts() -> None:
    layer, x, weight = ltt.GatedLinear(6, 10), torch.randn(5, 6, requires_grad=True), torch.randn(11, 6)
    target = torch.arange(5)

    def model(x: Any) -> Any:
        return 2 * ltt.linear_cross_entropy(layer(x * 3), weight, target)

    found, wanted = torch.compile(model, backend="aot_eager")(x), model(x)
    assert torch.allclose(found, wanted)
    of_found, of_wanted = (torch.autograd.grad(loss, x)[0] for loss in (found, wanted))
    assert torch.allclose(of_found, of_wanted)
