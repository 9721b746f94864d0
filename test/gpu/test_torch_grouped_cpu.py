"""`lowtide.torch.grouped_matmul` on the CPU: groups of rows and of K, gradients, fake tensors, what is refused."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
ltt = importlib.import_module("lowtide.torch")

ROWS, K, N, GROUPS = 11, 5, 4, 3


def ends_of(*ends: int) -> Any:
    return torch.tensor(ends, dtype=torch.int32)


def factors(of_k: bool, dtype: Any = torch.float64) -> tuple[Any, Any]:
    """A and B whose 11 rows, or K, are grouped."""
    shapes = ((K, ROWS), (ROWS, N)) if of_k else ((ROWS, K), (GROUPS, K, N))
    a, b = (torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes)
    return a, b


def by_a_loop(a: Any, b: Any, ends: Any) -> Any:
    """For ends that do not decrease."""
    spans = list(zip([0, *ends.tolist()[:-1]], ends.tolist(), strict=True))
    if b.dim() == 2:
        return torch.stack([a[:, first:end] @ b[first:end] for first, end in spans])
    parts = [a[first:end] @ b[group] for group, (first, end) in enumerate(spans)]
    return torch.cat([*parts, a.new_zeros(len(a) - spans[-1][1], b.shape[-1])])


@pytest.mark.parametrize("of_k", [False, True])
def test_products_and_gradients_are_those_of_a_loop(of_k: bool) -> None:
    (a, b), ends = factors(of_k), ends_of(4, 4, 9)
    d = ltt.grouped_matmul(a, b, ends)
    weights = torch.randn_like(d)
    found = torch.autograd.grad((d * weights).sum(), (a, b))
    expected = torch.autograd.grad((by_a_loop(a, b, ends) * weights).sum(), (a, b))
    assert torch.allclose(d, by_a_loop(a, b, ends))
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape and torch.allclose(one, other)
    assert not (found[0].mT if of_k else found[0])[9:].any()  # rows of no group


@pytest.mark.parametrize("of_k", [False, True])
def test_gradients_are_limits_of_differences_also_of_gradients(of_k: bool) -> None:
    def multiply(a: Any, b: Any) -> Any:
        return ltt.grouped_matmul(a, b, ends_of(4, 4, 9))

    assert torch.autograd.gradcheck(multiply, factors(of_k))
    assert torch.autograd.gradgradcheck(multiply, factors(of_k))


@pytest.mark.parametrize("of_k", [False, True])
def test_the_op_passes_torchs_checks_of_custom_ops(of_k: bool) -> None:
    a, b = factors(of_k, torch.float32)
    torch.library.opcheck(torch.ops.lowtide.grouped_gemm.default, (a, b, ends_of(2, 7, 11), None))


def test_wrong_ends_are_clamped() -> None:
    (a, b), (x, y) = factors(False), factors(True)
    assert torch.allclose(ltt.grouped_matmul(a, b, ends_of(4, -9, 99)), by_a_loop(a, b, ends_of(4, 4, 11)))
    found = ltt.grouped_matmul(x, y, ends_of(4, -9, 99))
    assert torch.allclose(found, torch.stack([x[:, :4] @ y[:4], torch.zeros(K, N), x @ y]))


def test_types_are_those_of_kernels() -> None:
    a, b = (x.detach() for x in factors(True, torch.bfloat16))
    ends = ends_of(4, 4, 9)
    assert ltt.grouped_matmul(a, b, ends).dtype is torch.bfloat16
    found = ltt.grouped_matmul(a, b, ends, out_dtype=torch.float32)
    assert torch.allclose(found, by_a_loop(a.float(), b.float(), ends))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ltt.grouped_matmul(a.float(), b.float(), ends).dtype is torch.bfloat16


@pytest.mark.parametrize(
    ("a", "b", "ends", "code"),
    [
        ((5, 4), (3, 4, 2), torch.zeros(3, dtype=torch.int64), "torch-ends"),
        ((5, 4), (3, 4, 2), torch.zeros(2, dtype=torch.int32), "torch-groups"),
        ((5, 4), (5, 2), torch.zeros(2, dtype=torch.int32), "torch-groups"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(a: Any, b: Any, ends: Any, code: str) -> None:
    with pytest.raises(lt.LaunchError, match=rf"\[{code}\]"):
        ltt.grouped_matmul(torch.zeros(a), torch.zeros(b), ends)


def test_tensors_elsewhere_and_gradients_of_8_bit_floats_are_refused() -> None:
    a, b = (x.detach() for x in factors(False, torch.float32))
    with pytest.raises(lt.LaunchError, match=r"\[torch-groups-device\]"):
        ltt.grouped_matmul(a, b.to("meta"), ends_of(2, 7, 11))
    narrow = [x.to(torch.float8_e4m3fn).requires_grad_() for x in (a, b)]
    with pytest.raises(lt.LaunchError, match=r"\[torch-groups-narrow\]"):
        ltt.grouped_matmul(*narrow, ends_of(2, 7, 11))


def test_other_devices_than_a_gpu_and_the_cpu_are_refused() -> None:
    compute = importlib.import_module("lowtide.torch.grouped")._grouped
    with pytest.raises(lt.LaunchError, match=r"\[torch-groups-gpu\]"):
        compute(*(x.detach().to("meta") for x in factors(False)), ends_of(2, 7, 11).to("meta"), None)


def test_a_layer_of_experts_is_compiled_whole() -> None:
    """Forward and backward, of fake tensors first."""

    def layer(x: Any, up: Any, down: Any, ends: Any) -> Any:
        return ltt.grouped_matmul(torch.relu(ltt.grouped_matmul(x, up, ends)), down, ends)

    x, up = factors(False)
    down, ends = torch.randn(GROUPS, N, K, dtype=torch.float64, requires_grad=True), ends_of(4, 4, 9)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    found = torch.autograd.grad(compiled(x, up, down, ends).square().sum(), (x, up, down))
    hidden = torch.relu(by_a_loop(x, up, ends))
    expected = torch.autograd.grad(by_a_loop(hidden, down, ends).square().sum(), (x, up, down))
    assert all(torch.allclose(one, other) for one, other in zip(found, expected, strict=True))
