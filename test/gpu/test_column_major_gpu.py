"""D by columns on the GPU, in every layout: (N, M) arrays, checked against float64 with guards around them."""

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
