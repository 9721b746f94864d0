"""`lowtide.torch.gated_mlp` and `linear_cross_entropy` on a GPU: launches, gradients and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from compiled_graphs import is_product

try:
    import torch

    from lowtide import torch as ltt
except ImportError:
    torch = ltt = None

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for all tests of a run, so that a kernel is compiled once."""
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))


def rows(*shape: int, scale: float = 1.0) -> Any:
    return (torch.randn(*shape, device="cuda") * scale).bfloat16().requires_grad_()


def in_float64(*inputs: Any) -> tuple[Any, ...]:
    return tuple(x.detach().double().requires_grad_() for x in inputs)


def error(found: Any, exact: Any) -> float:
    return ((found.double() - exact).norm() / exact.norm()).item()


def launched(function: Callable[[], Any]) -> list[str]:
    """The names of the kernels and copies that a second call of the function runs on the GPU."""
    function()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        function()
        torch.cuda.synchronize()
    return [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]


SHAPES = ((300, 256, 384, 128), (77, 70, 37, 61), (1, 64, 8, 64), (1024, 512, 1024, 512))  # M, K, hidden, N


@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh", "relu"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_gated_mlp_and_its_gradients(shape: tuple[int, ...], activation: str) -> None:
    m, k, hidden, n = shape
    x, weight, down = rows(m, k), rows(2 * hidden, k, scale=k**-0.5), rows(n, hidden, scale=hidden**-0.5)
    y, dy = ltt.gated_mlp(x, weight, down, activation=activation), rows(m, n).detach()
    exact = in_float64(x, weight, down)
    gate, up = (exact[0] @ exact[1].mT).chunk(2, dim=-1)
    functions = {"gelu_tanh": lambda z: torch.nn.functional.gelu(z, approximate="tanh")}
    act = functions.get(activation) or getattr(torch.nn.functional, activation)
    wanted = (act(gate) * up) @ exact[2].mT
    assert error(y, wanted) < 2.0**-6
    found = torch.autograd.grad(y, (x, weight, down), dy)
    for one, other in zip(found, torch.autograd.grad(wanted, exact, dy.double()), strict=True):
        assert error(one, other) < 2.0**-6


def test_a_gated_mlp_launches_products_alone() -> None:
    """Seven products in six launches. A divided K may add a launch that sums its parts."""
    layer = ltt.GatedLinear(512, 1024, device="cuda", dtype=torch.bfloat16)
    x, dy = rows(1024, 512), rows(1024, 512).detach()
    inputs = (x, layer.weight, layer.down)
    names = launched(lambda: torch.autograd.grad(layer(x), inputs, dy))
    assert sum(is_product(name) for name in names) == 6, names
    assert all(name.startswith("lowtide_gemm_") for name in names), names


@pytest.mark.parametrize("chunk", [None, 128, 100])
@pytest.mark.parametrize("shape", [(300, 256, 1000), (77, 70, 333), (512, 512, 4096)])
def test_a_cross_entropy_and_its_gradients(shape: tuple[int, ...], chunk: int | None) -> None:
    m, k, classes = shape
    x, weight = rows(m, k), rows(classes, k, scale=k**-0.5)
    target = torch.randint(classes, (m,), device="cuda")
    target[::7] = -100
    loss = ltt.linear_cross_entropy(x, weight, target, chunk_rows=chunk)
    exact = in_float64(x, weight)
    wanted = torch.nn.functional.cross_entropy(exact[0] @ exact[1].mT, target)
    assert abs(loss.item() - wanted.item()) < 1e-4
    found = torch.autograd.grad(loss, (x, weight))
    for one, other in zip(found, torch.autograd.grad(wanted, exact), strict=True):
        assert error(one, other) < 2.0**-6
    assert not found[0][::7].any()


def test_targets_outside_of_the_classes_give_nan() -> None:
    x, weight = rows(40, 64), rows(200, 64)
    target = torch.zeros(40, device="cuda", dtype=torch.int64)
    target[:4] = torch.tensor([200, -1, 2**40, -(2**40)])
    losses = ltt.linear_cross_entropy(x, weight, target, reduction="none")
    torch.cuda.synchronize()
    assert losses.isnan().tolist() == [True] * 4 + [False] * 36


def test_a_cross_entropy_does_not_store_logits() -> None:
    m, k, classes = 4096, 256, 32768  # logits of 256 MiB
    x, weight = rows(m, k), rows(classes, k, scale=k**-0.5)
    target = torch.randint(classes, (m,), device="cuda")
    ltt.linear_cross_entropy(x, weight, target, chunk_rows=128).backward()  # compiles
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    loss = ltt.linear_cross_entropy(x, weight, target, chunk_rows=128)
    forward = torch.cuda.max_memory_allocated() - before
    torch.autograd.grad(loss, (x, weight))
    whole = torch.cuda.max_memory_allocated() - before
    assert forward < 32 * 2**20, forward
    assert whole < 4 * classes * k + 2 * 2 * classes * k + 2 * 128 * classes + 16 * 2**20, whole
