"""`lowtide.torch.grouped_gated_mlp` on the CPU: values and gradients against loops in float64, and what is refused."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
ltt = importlib.import_module("lowtide.torch")

TOKENS, SLOTS, K, HIDDEN, N, EXPERTS = 9, 2, 6, 5, 7, 3
ACTIVATIONS = {
    "silu": lambda x: torch.nn.functional.silu(x),
    "gelu": lambda x: torch.nn.functional.gelu(x),
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "relu": lambda x: torch.relu(x),
}
ENDS = [4, 4, 8]  # the last row is of no group


def operands(dtype: Any = torch.float32) -> list[Any]:
    torch.manual_seed(0)
    shapes = (TOKENS, K), (EXPERTS, 2 * HIDDEN, K), (EXPERTS, N, HIDDEN)
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes]


def of_expert(x: Any, gate_up: Any, down: Any, activation: str) -> Any:
    gate, up = (x @ gate_up.mT).chunk(2, dim=-1)
    return (ACTIVATIONS[activation](gate) * up) @ down.mT


def agree(found: Any, inputs: list[Any], exact: Any, of_exact: list[Any], tolerance: float = 1e-5) -> None:
    """Values and gradients, for random gradients of the result."""
    assert found.shape == exact.shape and torch.allclose(found.double(), exact, atol=tolerance)
    factor = torch.randn_like(found)
    own, right = (
        torch.autograd.grad((found * factor).sum(), inputs),
        torch.autograd.grad((exact * factor).sum(), of_exact),
    )
    for one, other in zip(own, right, strict=True):
        assert one.shape == other.shape and torch.allclose(one.double(), other, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_groups_of_rows_and_their_gradients_are_those_of_a_loop(activation: str) -> None:
    given = operands()
    y = ltt.grouped_gated_mlp(*given, torch.tensor(ENDS, dtype=torch.int32), activation=activation)
    exact = [x.detach().double().requires_grad_() for x in given]
    parts, first = [], 0
    for group, end in enumerate(ENDS):
        parts.append(of_expert(exact[0][first:end], exact[1][group], exact[2][group], activation))
        first = end
    agree(y, given, torch.cat([*parts, torch.zeros(TOKENS - first, N, dtype=torch.float64)]), exact)
    with torch.no_grad():
        again = ltt.grouped_gated_mlp(*given, torch.tensor(ENDS, dtype=torch.int32), activation=activation)
    assert torch.equal(again, y)


def layer(x: Any, gate_up: Any, down: Any, weights: Any, experts: Any) -> Any:
    """Rows of tokens are gathered; weighted rows are scattered into the slots of the tokens, and added."""
    ends, tokens, places = ltt.routes(experts, len(down))
    into = {"d_rows": places, "rows": experts.numel(), "weight": weights.flatten()[places.long()]}
    return ltt.combine_slots(ltt.grouped_gated_mlp(x, gate_up, down, ends, a_rows=tokens, **into), experts.shape[1])


def by_a_loop(x: Any, gate_up: Any, down: Any, weights: Any, experts: Any) -> Any:
    found = []
    for token, own in enumerate(experts.tolist()):
        known = [(slot, e) for slot, e in enumerate(own) if 0 <= e < len(down)]
        parts = [weights[token, slot] * of_expert(x[token], gate_up[e], down[e], "silu") for slot, e in known]
        found.append(sum(parts, 0 * x[token, :1] * down[0, :, 0]))
    return torch.stack(found)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_routed_layer_and_its_gradients_are_those_of_a_loop(seed: int) -> None:
    given = operands()
    torch.manual_seed(seed)
    given.append(torch.rand(TOKENS, SLOTS).requires_grad_())
    experts = torch.randint(-1, EXPERTS + 1, (TOKENS, SLOTS))  # some do not exist
    exact = [x.detach().double().requires_grad_() for x in given]
    agree(layer(*given, experts), given, by_a_loop(*exact, experts), exact)


def test_narrow_types_are_rounded_as_by_kernels() -> None:
    given, experts = operands(torch.bfloat16), torch.randint(EXPERTS, (TOKENS, SLOTS))
    given.append(torch.rand(TOKENS, SLOTS).requires_grad_())
    found = layer(*given, experts)
    wanted = by_a_loop(*(x.detach().double() for x in given), experts)
    assert found.dtype is torch.bfloat16 and ((found.double() - wanted).norm() / wanted.norm()) < 2**-6
    found.float().square().sum().backward()
    assert [x.grad.dtype for x in given] == [torch.bfloat16] * 3 + [torch.float32]


def test_six_calls_compute_the_forward_and_the_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    module, calls = importlib.import_module("lowtide.torch.grouped_gated"), []

    def counted(name: str) -> Any:
        own = getattr(module, name)
        return lambda *arguments, **keywords: calls.append(name) or own(*arguments, **keywords)

    for name in ("grouped_results", "grouped_gemm"):
        monkeypatch.setattr(module, name, counted(name))
    given, ends = operands(), torch.tensor(ENDS, dtype=torch.int32)
    y = module.grouped_gated_mlp(*given, ends)
    assert calls == ["grouped_results", "grouped_gemm"]
    y.sum().backward()
    assert calls[2:] == ["grouped_results", "grouped_gemm", "grouped_gemm", "grouped_gemm"]


def test_only_gradients_that_are_wanted_are_computed() -> None:
    given, ends = operands(), torch.tensor(ENDS, dtype=torch.int32)
    right = torch.autograd.grad(ltt.grouped_gated_mlp(*given, ends).square().sum(), given)
    for number in range(len(given)):
        own = [x.detach().requires_grad_(place == number) for place, x in enumerate(given)]
        (found,) = torch.autograd.grad(ltt.grouped_gated_mlp(*own, ends).square().sum(), [own[number]])
        assert torch.equal(found, right[number])


def test_models_with_it_are_compiled_in_parts() -> None:
    given, ends = operands(), torch.tensor(ENDS, dtype=torch.int32)

    def model(x: Any) -> Any:
        return 2 * ltt.grouped_gated_mlp(3 * x, *given[1:], ends)

    found, wanted = torch.compile(model, backend="aot_eager")(given[0]), model(given[0])
    assert torch.allclose(found, wanted)


def test_no_rows_give_no_rows_and_gradients_of_zero() -> None:
    _, gate_up, down = operands()
    x, ends = torch.zeros(0, K, requires_grad=True), torch.zeros(EXPERTS, dtype=torch.int32)
    y = ltt.grouped_gated_mlp(x, gate_up, down, ends)
    y.sum().backward()
    assert y.shape == (0, N) and x.grad.shape == (0, K) and not gate_up.grad.any() and not down.grad.any()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"gate_up": torch.zeros(EXPERTS, 2 * HIDDEN + 1, K)}, "grouped-gated-shapes"),
        ({"down": torch.zeros(EXPERTS, N, HIDDEN).bfloat16()}, "grouped-gated-types"),
        ({"ends": torch.zeros(EXPERTS)}, "torch-ends"),
        ({"d_rows": torch.zeros(TOKENS, dtype=torch.int32)}, "torch-d-rows"),
        ({"weight": torch.zeros(3)}, "torch-row-count"),
        ({"activation": "tanh"}, "activation-derivative"),
    ],
)
def test_what_it_refuses(change: dict[str, Any], code: str) -> None:
    x, gate_up, down = operands()
    given = {"x": x, "gate_up": gate_up, "down": down, "ends": torch.tensor(ENDS, dtype=torch.int32)}
    with pytest.raises(lt.Error, match=rf"\[{code}\]"):
        ltt.grouped_gated_mlp(**given | change)
