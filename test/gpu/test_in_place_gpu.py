"""D in place of a full operand on the GPU: C <- epilogue(A · B, C), as with another output."""

import pytest

import lowtide as lt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu


def accumulate(acc, c: lt.Full):
    return acc + c


@pytest.mark.parametrize(
    ("target", "schedule"),
    [
        ("sm_80", None),
        ("sm_80", "epilogue.path = direct"),
        ("sm_80", "grid.tile = [64, 64], k = 32, grid.k_division = stream_k, scheduler = persistent"),
        ("sm_90a", None),
        ("sm_90a", "grid.tile = [128, 64], tail = halves, roles = cooperative(1)"),
        ("sm_90a", "roles = pingpong(2), epilogue.path = tma"),
        ("sm_90a", "grid.tile = [64, 64], grid.k_division = scatter(2), epilogue.path = direct"),
    ],
)
def test_d_in_place_of_an_operand_has_the_bits_of_d_apart(target, schedule):
    m, n, k = 1000, 520, 264
    spec = lt.GemmSpec(m=m, n=n, k=k, a="bf16", b="bf16", d="bf16", epilogue=accumulate)
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    a, b, c = (torch.randn(shape, device="cuda").bfloat16() for shape in ((m, k), (n, k), (m, n)))
    apart = kernel(a, b, c=c)
    for _ in range(5):
        place = c.clone()
        kernel(a, b, c=place, out=place)
        torch.cuda.synchronize()
        assert torch.equal(place, apart)
