"""`lowtide.torch.grouped_matmul` of padded groups on the CPU: gradients, fake tensors, what is refused."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
ltt = importlib.import_module("lowtide.torch")

GROUPS, ROWS, K, N = 3, 6, 5, 4
COUNTS = [4, -1, 99]


def operands(dtype: Any = torch.float64) -> tuple[Any, Any, Any]:
    """A, B, and counts: some rows, none, and more than there are."""
    torch.manual_seed(0)
    a, b = (torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in ((GROUPS, ROWS, K), (GROUPS, K, N)))
    return a, b, torch.tensor(COUNTS, dtype=torch.int32)


def by_a_mask(a: Any, b: Any, counts: Any) -> Any:
    return torch.where((torch.arange(a.shape[1]) < counts[:, None])[..., None], a, 0) @ b


def multiply(a: Any, b: Any, counts: Any) -> Any:
    return ltt.grouped_matmul(a, b, counts=counts)


@pytest.mark.parametrize("compiled", [False, True])
def test_products_and_gradients_are_those_of_rows_that_count(compiled: bool) -> None:
    a, b, counts = operands()
    function = torch.compile(multiply, backend="aot_eager", fullgraph=True) if compiled else multiply
    found, wanted = function(a, b, counts), by_a_mask(a, b, counts)
    factor = torch.randn_like(found)
    gradients, right = (torch.autograd.grad((d * factor).sum(), (a, b)) for d in (found, wanted))
    for one, other in zip((found, *gradients), (wanted, *right), strict=True):
        assert one.shape == other.shape and torch.allclose(one, other)
    assert not found[0, 4:].any() and not gradients[0][1].any() and not gradients[1][1].any()


def test_values_of_rows_that_do_not_count_have_no_effect() -> None:
    a, b, counts = operands()
    other = torch.where((torch.arange(ROWS) < counts[:, None])[..., None], a, torch.nan).detach().requires_grad_()
    found = [torch.autograd.grad(multiply(x, b, counts).square().sum(), (x, b)) for x in (a, other)]
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


def test_gradients_are_limits_of_differences_also_of_gradients() -> None:
    a, b, counts = operands()
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda x, y: multiply(x, y, counts), (a, b), fast_mode=True)


def test_the_op_passes_torchs_checks_of_custom_ops() -> None:
    a, b, counts = operands(torch.float32)
    torch.library.opcheck(torch.ops.lowtide.grouped_gemm.default, (a, b, counts, None))
    assert ltt.grouped_matmul(a.bfloat16(), b.bfloat16(), counts=counts).dtype is torch.bfloat16
    counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    with counter:
        multiply(a.detach(), b.detach(), counts)
    assert counter.get_total_flops() == 2 * GROUPS * ROWS * K * N


def test_tensors_that_do_not_fit_are_refused() -> None:
    a, b, counts = operands()
    for more, code in (
        ({}, "torch-ends-or-counts"),
        ({"ends": counts}, "torch-ends-or-counts"),
        ({"ends": counts, "counts": counts}, "torch-ends-or-counts"),
        ({"counts": counts[:2]}, "torch-groups"),
        ({"counts": counts.long()}, "torch-ends"),
        ({"counts": counts, "a_rows": counts}, "torch-rows-of-k"),
    ):
        with pytest.raises(lt.LaunchError, match=rf"\[{code}\]"):
            ltt.grouped_matmul(a, b, **more)
    for other in (a[:2], a[..., :3]):
        with pytest.raises(lt.LaunchError, match=r"\[torch-groups\]"):
            ltt.grouped_matmul(other, b, counts=counts)
    with pytest.raises(lt.LaunchError, match=r"\[torch-ends-or-counts\]"):
        ltt.grouped_matmul(a[0], b, counts=counts)
