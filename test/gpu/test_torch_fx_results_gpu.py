"""Kernels of compiled graphs that give several results, on a GPU: errors beside those of eager, and launches beside
Inductor's. The default rule takes all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from compiled_graphs import BY_ANOTHER, cross_entropy, errors, gated, gated_of_two, is_product, residual, with_biases

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
ltt = pytest.importorskip("lowtide.torch")
several = pytest.importorskip("lowtide.torch.several")
pytestmark = pytest.mark.gpu

ROWS, WIDTH, HIDDEN = 2048, 1024, 1536
SHAPES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], int, int]] = {
    # the function, the shapes of its inputs, and the numbers of kernels with results forward and backward, and forward
    "gated": (gated, ((2, ROWS // 2, WIDTH), (2 * HIDDEN, WIDTH), (WIDTH, HIDDEN)), 2, 1),
    "gated of two": (gated_of_two, ((2, ROWS // 2, WIDTH), *[(HIDDEN, WIDTH)] * 2, (WIDTH, HIDDEN)), 3, 1),
    "biases": (with_biases, ((2, ROWS // 2, WIDTH), (HIDDEN, WIDTH), (HIDDEN,), (WIDTH, HIDDEN), (WIDTH,)), 2, 0),
    "residual": (
        residual,
        ((2, ROWS // 2, WIDTH), (HIDDEN, WIDTH), (2, ROWS // 2, HIDDEN), (HIDDEN,), (HIDDEN, HIDDEN)),
        0,
        1,
    ),
    "cross entropy": (cross_entropy, ((2, ROWS // 2, WIDTH), (4096, WIDTH)), 1, 1),
}


@pytest.fixture(autouse=True)
def fresh(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One cache of kernels for all tests of a run. A product that torch computes instead of a kernel is an error."""
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))
    torch._dynamo.reset()
    several.warn.cache_clear()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="torch computes a product")
        yield
    torch._dynamo.reset()


def inputs_of(name: str) -> list[Any]:
    torch.manual_seed(0)
    shapes = SHAPES[name][1]
    scales = [1.0 if len(shape) > 2 else shape[-1] ** -0.5 for shape in shapes]
    found = [(s * torch.randn(*shape, device="cuda")).bfloat16() for s, shape in zip(scales, shapes, strict=True)]
    if name == "cross entropy":
        target = torch.randint(4096, (ROWS,), device="cuda")
        target[::7] = -100
        found.append(target)
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_forward_and_backward_are_as_near_to_float64_as_eager(name: str) -> None:
    function, _, trained, _ = SHAPES[name]
    inputs, backend = inputs_of(name), ltt.Backend(explain=True)
    found = errors(torch.compile(function, backend=backend, dynamic=False), function, inputs)
    torch.manual_seed(0)
    wanted = errors(function, function, inputs)
    assert all(found[each] <= 1.25 * wanted[each] + 2**-12 for each in found), (found, wanted)
    report = backend.report()
    assert sum(bool(row.results) for row in report) == trained and not report.left, str(report)


def launched(function: Callable[[], Any]) -> list[str]:
    """The names of the kernels and copies that a third call of the function runs on the GPU."""
    for _ in range(2):
        function()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        function()
        torch.cuda.synchronize()
    return [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]


@pytest.mark.parametrize("name", ["gated", "gated of two", "residual", "cross entropy"])
def test_inference_launches_products_and_little_else(name: str) -> None:
    """Inductor launches a kernel after the product. Kernels of ours are named lowtide_gemm_; reductions have finishers.
    Other kernels compute the mean of the cross entropy, the scales of the norm's rows, and the last residual sum."""
    function, _, _, inferred = SHAPES[name]
    inputs, backend = inputs_of(name), ltt.Backend(explain=True)
    with torch.no_grad():
        ours = torch.compile(function, backend=backend, dynamic=False)
        names = launched(lambda: ours(*inputs))
        exact = function(*(x.double() if x.is_floating_point() else x for x in inputs))
        assert ((ours(*inputs).double() - exact).norm() / exact.norm()).item() < 2**-6
    report = backend.report()
    assert sum(bool(row.results) for row in report) == inferred and not report.left, str(report)
    others = [each for each in names if not each.startswith("lowtide_gemm_")]
    assert sum(map(is_product, names)) == sum(not row.reason.startswith(BY_ANOTHER) for row in report), names
    assert len(others) <= {"cross entropy": 4, "residual": 3}.get(name, 0), names


@pytest.mark.parametrize("name", ["gated", "gated of two", "biases"])
def test_training_launches_fewer_other_kernels_than_inductor(name: str) -> None:
    function = SHAPES[name][0]
    counts = []
    for backend in (ltt.Backend(), "inductor"):
        inputs = [x.requires_grad_() for x in inputs_of(name)]
        compiled = torch.compile(function, backend=backend, dynamic=False)
        gradient = torch.ones_like(compiled(*inputs))

        def step(compiled: Any = compiled, inputs: Any = inputs, gradient: Any = gradient) -> None:
            torch.autograd.grad(compiled(*inputs), inputs, gradient)

        names = launched(step)
        counts.append(sum("triton" in each for each in names))
        torch._dynamo.reset()
    assert counts[0] < counts[1], counts


def test_a_cross_entropy_without_a_backward_pass_stores_no_logits() -> None:
    rows, classes = 4096, 32768  # logits of 256 MiB
    x = torch.randn(1, rows, 1024, device="cuda").bfloat16()
    w = torch.randn(classes, 1024, device="cuda").div_(32).bfloat16()
    target = torch.randint(classes, (rows,), device="cuda")
    compiled = torch.compile(cross_entropy, backend=ltt.Backend(), dynamic=False)
    with torch.no_grad():
        compiled(x, w, target)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        loss = compiled(x, w, target)
        torch.cuda.synchronize()
        used = torch.cuda.max_memory_allocated() - before
    assert used < 32 * 2**20 and abs(loss.item() - cross_entropy(x.double(), w.double(), target).item()) < 1e-4
