"""Extents of 0 in the spec, on the GPU: D = epilogue(0) where K is 0, nothing written where M or N is."""

import pytest

import lowtide as lt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu


def shifted(acc, c: lt.Full):
    return acc + c


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("extents", [(300, 520, 0), (0, 520, 64), (300, 0, 64)])
def test_a_kernel_for_extents_of_0_gives_the_epilogue_of_0(target, extents):
    m, n, k = extents
    spec = lt.GemmSpec(m=m, n=n, k=k, a="bf16", b="bf16", d="bf16", epilogue=shifted)
    kernel = lt.compile_gemm(spec, target=target)
    a, b, c = (torch.randn(shape, device="cuda").bfloat16() for shape in ((m, k), (n, k), (m, n)))
    out = torch.full((m, n), float("nan"), device="cuda").bfloat16()
    kernel(a, b, c=c, out=out)
    torch.cuda.synchronize()
    assert torch.equal(out, c)
