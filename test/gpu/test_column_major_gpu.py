"""D by columns on the GPU, in every layout: (N, M) arrays, and (M, N) arrays of products that are swapped, checked with
float64 and with guards around them."""

import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu


def every_kind(acc, c: lt.Full, row: lt.PerRow, column: lt.PerColumn):
    return acc + c - row + column


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
@pytest.mark.parametrize("epilogue", [None, every_kind])
def test_d_by_columns_agrees_with_float64_at_ragged_shapes(target, layout, epilogue):
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", layout=layout, d_order="column", epilogue=epilogue)
    kernel = lt.compile_gemm(spec, target=target)
    for size in ((300, 520, 264), (1, 1000, 64), (1031, 17, 333)):
        outcome = verify_kernel(lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin), size=size)
        assert outcome.ok, outcome.message


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
@pytest.mark.parametrize("epilogue", [None, every_kind])
@pytest.mark.parametrize(("m", "k"), [(1, 4096), (17, 333), (32, 4096)])
def test_products_of_few_rows_that_are_swapped_agree_with_float64(layout, epilogue, m, k):
    spec = lt.GemmSpec(m=m, n=4104, k=k, a="bf16", b="bf16", d="bf16", layout=layout, epilogue=epilogue)
    fields = "operands = swapped" if lt.compile_gemm(spec, target="sm_90a").schedule.grid.operands is None else None
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=fields)
    outcome = verify_kernel(lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin))
    assert outcome.ok, outcome.message
