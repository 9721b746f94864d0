"""Products of groups in torch on the GPU: layers of gated experts by torch.compile, forward and backward, and by
`lt.grouped_matmul`, compared with a loop over experts in float64."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from compiled_graphs import error, layer_of_experts

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
ltt = pytest.importorskip("lowtide.torch")
functional = torch.nn.functional
pytestmark = pytest.mark.gpu

ROWS, WIDTH, HIDDEN, EXPERTS = 4096, 512, 768, 8


def experts(x: Any, up: Any, down: Any, ends: Any) -> Any:
    gate, value = torch._grouped_mm(x, up.mT, offs=ends).chunk(2, -1)
    return torch._grouped_mm(functional.silu(gate) * value, down.mT, offs=ends)


def by_a_loop(x: Any, up: Any, down: Any, ends: list[int]) -> Any:
    parts = []
    for group, (first, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        gate, value = (x[first:end] @ up[group].mT).chunk(2, -1)
        parts.append((functional.silu(gate) * value) @ down[group].mT)
    return torch.cat(parts)


def operands(ends: list[int]) -> tuple[list[Any], Any]:
    torch.manual_seed(0)
    shapes = ((ends[-1], WIDTH), (EXPERTS, 2 * HIDDEN, WIDTH), (EXPERTS, WIDTH, HIDDEN))
    given = [(shape[-1] ** -0.5 * torch.randn(*shape, device="cuda")).bfloat16() for shape in shapes]
    return given, torch.tensor(ends, dtype=torch.int32, device="cuda")


SPLITS = ([512 * group for group in range(1, 9)], [0, 300, 300, 301, 2000, 2001, 4000, ROWS], [*[0] * 7, ROWS])


@pytest.mark.parametrize("split", range(len(SPLITS)))
def test_the_backend_takes_products_of_groups_forward_and_backward(split: int) -> None:
    torch._dynamo.reset()
    ends, backend = SPLITS[split], ltt.Backend(explain=True)
    given, on_device = operands(ends)
    own, exact = ([x.detach().to(dtype).requires_grad_() for x in given] for dtype in (torch.bfloat16, torch.float64))
    found, wanted = torch.compile(experts, backend=backend)(*own, on_device), by_a_loop(*exact, ends)
    gradient = torch.randn_like(found)
    found.backward(gradient)
    wanted.backward(gradient.double())
    report = backend.report()
    assert len(report) == 6 and not report.left, str(report)
    assert sum(bool(row.results) for row in report) == 2, str(report)  # gate, up and hidden; their gradients
    pairs = [(found, wanted), *((a.grad, b.grad) for a, b in zip(own, exact, strict=True))]
    for name, (ours, right) in zip(("y", "dx", "d up", "d down"), pairs, strict=True):
        error = ((ours.double() - right).norm() / right.norm()).item()
        assert error < 2**-6, (name, error)
    torch._dynamo.reset()


def needs_own_backward() -> None:
    """Skip the test with a transformers (such as 5.17) that masks rows between the two products in any case, and whose
    op for f16 has a backward pass that cannot be captured."""
    pytest.importorskip("transformers.integrations.moe")
    if not hasattr(torch.ops.transformers, "grouped_mm_fallback_backward"):
        pytest.skip("transformers is too old for this test; 5.24 is known to do")


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe"])
def test_inference_of_experts_of_transformers_is_two_products(name: str) -> None:
    """Gathers, activations and the weights of the router are in their kernels."""
    needs_own_backward()
    torch._dynamo.reset()
    layer, exact = layer_of_experts(name, WIDTH, HIDDEN, EXPERTS, "cuda")
    layer, tokens, backend = layer.bfloat16(), ROWS // 2, ltt.Backend(explain=True)
    x, weight = (torch.randn(tokens, n, device="cuda").bfloat16() for n in (WIDTH, 2))
    chosen = torch.rand(tokens, EXPERTS - 1, device="cuda").argsort(-1)[:, :2]  # the last one has no rows
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", message="torch computes a product")
        found = torch.compile(layer, backend=backend, fullgraph=True, dynamic=False)(x, chosen, weight)
        assert error(found, exact(x.double(), chosen, weight.double())) < 2**-6
    first, second = backend.report()
    assert first.results and second.taken == ("mul",), str(backend.report())
    torch._dynamo.reset()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe"])
def test_the_backend_takes_layers_of_experts_of_transformers(name: str, dtype: str) -> None:
    """For f16, transformers calls an op of its own, which loops over the experts."""
    if dtype == "float16":
        needs_own_backward()
    torch._dynamo.reset()
    layer, exact = layer_of_experts(name, WIDTH, HIDDEN, EXPERTS, "cuda")
    layer, tokens = layer.to(getattr(torch, dtype)), ROWS // 2
    given = [torch.randn(tokens, WIDTH, device="cuda"), torch.rand(tokens, 2, device="cuda")]
    given = [x.to(layer.down_proj.dtype).requires_grad_() for x in given]
    chosen = torch.rand(tokens, EXPERTS - 1, device="cuda").argsort(-1)[:, :2]  # the last one has no rows
    wide, backend = [x.detach().double().requires_grad_() for x in given], ltt.Backend(explain=True)
    y = torch.compile(layer, backend=backend, fullgraph=True, dynamic=False)(given[0], chosen, given[1])
    wanted = exact(wide[0], chosen, wide[1])
    gradient = torch.randn_like(wanted)
    y.backward(gradient.to(y.dtype))
    wanted.backward(gradient)
    report = backend.report()
    assert len(report) == 6 and not report.left, str(report)
    pairs = [*zip(given, wide, strict=True), *zip(layer.parameters(), exact.parameters(), strict=True)]
    assert error(y, wanted) < 2**-6 and all(error(one.grad, other.grad) < 2**-6 for one, other in pairs)
    torch._dynamo.reset()


def weighted(acc, weight: lt.PerRow):
    return weight * acc


@pytest.mark.parametrize("split", range(len(SPLITS)))
def test_a_layer_of_two_calls_has_the_activation_and_the_weights_of_rows_in_its_kernels(split: int) -> None:
    ends = SPLITS[split]
    (x, up, down), on_device = operands(ends)
    weight = torch.rand(ROWS, device="cuda").bfloat16()
    hidden = lt.grouped_matmul(x, up.mT, on_device, epilogue=lt.swiglu, pairs="stacked")
    found = lt.grouped_matmul(hidden, down.mT, on_device, epilogue=weighted, weight=weight)
    wanted = weight.double()[:, None] * by_a_loop(x.double(), up.double(), down.double(), ends)
    assert ((found.double() - wanted).norm() / wanted.norm()).item() < 2**-7


def routed(x: Any, up: Any, down: Any, weights: Any, chosen: Any) -> Any:
    """Two products: the first gathers the rows of tokens, the second scales its rows and scatters them into slots."""
    ends, tokens, places = ltt.routes(chosen, EXPERTS)
    gate, value = ltt.grouped_matmul(x, up.mT, ends, a_rows=tokens).chunk(2, -1)
    hidden, weight = functional.silu(gate) * value, weights.flatten()[places.long()]
    slots = ltt.grouped_matmul(hidden, down.mT, ends, d_rows=places, rows=chosen.numel(), weight=weight)
    return ltt.combine_slots(slots, chosen.shape[1])


def by_tokens(x: Any, up: Any, down: Any, weights: Any, chosen: Any) -> Any:
    """The same by a loop over experts and slots, which leaves out numbers that are no expert."""
    found = torch.zeros_like(x)
    for expert in range(EXPERTS):
        for slot in range(chosen.shape[1]):
            own = (chosen[:, slot] == expert).nonzero()[:, 0]
            gate, value = (x[own] @ up[expert].mT).chunk(2, -1)
            part = weights[own, slot, None] * ((functional.silu(gate) * value) @ down[expert].mT)
            found = found.index_add(0, own, part)
    return found


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("most", [EXPERTS, 3, EXPERTS + 1])
def test_gradients_of_gathered_and_scattered_rows_and_of_weights(most: int, compiled: bool) -> None:
    """The experts are drawn below `most`: all, a few, or with a number that is no expert."""
    torch._dynamo.reset()
    given, _ = operands([512] * EXPERTS)
    given = [*given, torch.rand(len(given[0]), 3, device="cuda")]
    chosen = torch.rand(len(given[0]), most, device="cuda").argsort(-1)[:, :3]
    own = [x.detach().requires_grad_() for x in given]
    exact = [x.detach().double().requires_grad_() for x in given]
    layer = torch.compile(routed, fullgraph=True) if compiled else routed
    found, wanted = layer(*own, chosen), by_tokens(*exact, chosen)
    gradient = torch.randn_like(found)
    of_own, right = torch.autograd.grad(found, own, gradient), torch.autograd.grad(wanted, exact, gradient.double())
    for name, one, other in zip(("dx", "d up", "d down", "d weights"), of_own, right, strict=True):
        assert one.dtype is own[0].dtype or name == "d weights"
        assert ((one.double() - other).norm() / other.norm()).item() < 2**-6, name
    assert ((found.double() - wanted).norm() / wanted.norm()).item() < 2**-6
    again = torch.autograd.grad(layer(*own, chosen), own, gradient)
    assert all(torch.equal(one, other) for one, other in zip(of_own, again, strict=True))  # bits repeat
    torch._dynamo.reset()


def gated(x: Any, gate_up: Any, down: Any, weights: Any, chosen: Any) -> Any:
    ends, tokens, places = ltt.routes(chosen, len(down))
    into = {"d_rows": places, "rows": chosen.numel(), "weight": weights.flatten()[places.long()]}
    return ltt.combine_slots(ltt.grouped_gated_mlp(x, gate_up, down, ends, a_rows=tokens, **into), chosen.shape[1])


def gated_by_tokens(x: Any, gate_up: Any, down: Any, weights: Any, chosen: Any) -> Any:
    found = torch.zeros_like(x)
    for expert in range(len(down)):
        token, place = (chosen == expert).nonzero(as_tuple=True)
        gate, up = (x[token] @ gate_up[expert].mT).chunk(2, -1)
        own = (functional.silu(gate) * up) @ down[expert].mT
        found = found.index_add(0, token, own * weights[token, place, None])
    return found


@pytest.mark.parametrize("most", [EXPERTS, 3, EXPERTS + 1])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_gated_experts_and_their_gradients_agree_with_a_loop(most: int, dtype: str) -> None:
    """With `most` = 3 experts without rows, with one more than there are slots of no expert."""
    torch.manual_seed(most)
    shapes = ((1024, WIDTH), (EXPERTS, 2 * HIDDEN, WIDTH), (EXPERTS, WIDTH, HIDDEN))
    given = [(shape[-1] ** -0.5 * torch.randn(*shape, device="cuda")).to(getattr(torch, dtype)) for shape in shapes]
    given.append(torch.rand(1024, 2, device="cuda"))
    chosen = torch.stack([torch.randperm(most, device="cuda")[:2] for _ in range(1024)])
    own = [x.detach().requires_grad_() for x in given]
    exact = [x.detach().double().requires_grad_() for x in given]
    found, wanted = gated(*own, chosen), gated_by_tokens(*exact, chosen)
    gradient = torch.randn_like(found)
    found.backward(gradient)
    wanted.backward(gradient.double())
    pairs = [(found, wanted), *((a.grad, b.grad) for a, b in zip(own, exact, strict=True))]
    for name, (ours, right) in zip(("y", "dx", "d gate_up", "d down", "d weights"), pairs, strict=True):
        assert error(ours, right) < 2**-6, (name, error(ours, right))


def test_gated_experts_in_order_leave_rows_of_no_expert_at_zero() -> None:
    ends = [0, 300, 300, 301, 2000, 2001, 4000, 4000]
    given, on_device = operands(ends)
    given[0] = torch.randn(ROWS, WIDTH, device="cuda").bfloat16()
    own, exact = ([x.detach().to(dtype).requires_grad_() for x in given] for dtype in (torch.bfloat16, torch.float64))
    found = ltt.grouped_gated_mlp(*own, on_device)
    wanted = by_a_loop(*exact, ends)
    assert not found[4000:].any() and error(found[:4000], wanted) < 2**-6
    gradient = torch.randn_like(found)
    found.backward(gradient)
    wanted.backward(gradient[:4000].double())
    for ours, right in zip(own, exact, strict=True):
        assert error(ours.grad, right.grad) < 2**-6


def test_padded_groups_have_gradients_of_the_rows_that_count() -> None:
    rows, counts = 300, [0, 300, 1, 128, 299, 64, 7, 200]
    given = torch.tensor(counts, dtype=torch.int32, device="cuda")
    a = torch.randn(EXPERTS, rows, WIDTH, device="cuda").bfloat16()
    counted = (torch.arange(rows, device="cuda") < given[:, None])[..., None]
    a = torch.where(counted, a, torch.nan).requires_grad_()  # the other rows are not used
    b = (WIDTH**-0.5 * torch.randn(EXPERTS, HIDDEN, WIDTH, device="cuda")).bfloat16().requires_grad_()
    found = ltt.grouped_matmul(a, b.mT, counts=given)
    exact = [torch.where(counted, a, 0).detach().double().requires_grad_(), b.detach().double().requires_grad_()]
    wanted, gradient = exact[0] @ exact[1].mT, torch.randn_like(found)
    of_own, right = (
        torch.autograd.grad(found, (a, b), gradient),
        torch.autograd.grad(wanted, exact, gradient.double() * counted),
    )
    for one, other in zip((found, *of_own), (wanted, *right), strict=True):
        assert ((one.double() - other).norm() / other.norm()).item() < 2**-7
    assert not of_own[0][0].any()
