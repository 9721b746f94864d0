"""Products of groups in torch on the GPU: layers of gated experts by torch.compile, forward and backward, and by
`lt.grouped_matmul`, compared with a loop over experts in float64."""

from __future__ import annotations

from typing import Any

import pytest

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
    pairs = [(found, wanted), *((a.grad, b.grad) for a, b in zip(own, exact, strict=True))]
    for name, (ours, right) in zip(("y", "dx", "d up", "d down"), pairs, strict=True):
        error = ((ours.double() - right).norm() / right.norm()).item()
        assert error < 2**-6, (name, error)
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
