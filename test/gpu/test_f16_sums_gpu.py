"""Sums in f16 by wgmma on the GPU: against float64 within the bound, and against the interpreter to the bit."""

import numpy as np
import pytest
from gemm_checks import check, least_k

import lowtide as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

LAYOUTS = ("tn", "tt", "nn", "nt")


@pytest.fixture(scope="module", autouse=True)
def hopper() -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")


def biased(acc, bias: lt.PerColumn):
    return lt.gelu(acc + bias)


def full(acc, c: lt.Full, alpha: lt.Scalar):
    return alpha * acc - c


KERNELS = {
    "chosen": (None, {}),
    "by TMA": ("grid.tile = [128, 256], epilogue.path = tma", {}),
    "through shared memory": ("grid.tile = [128, 256], epilogue.path = smem", {}),
    "direct": ("grid.tile = [128, 256], epilogue.path = direct", {}),
    "a bias": (None, {"epilogue": biased}),
    "a full operand": (None, {"epilogue": full}),
    "D of f32": (None, {"d": "f32"}),
    "the largest tile": ("grid.tile = [256, 256], roles = cooperative(2)", {}),
    "in turn": ("grid.tile = [128, 256], roles = pingpong(2)", {}),
    "first rows": ("grid.tile = [256, 256], roles = cooperative(2), epilogue.start = first_rows", {"k": 136}),
    "K divided": ("grid.tile = [128, 128], k_division = split(2)", {}),
}
SIZES = ((1024, 768, 512), (264, 72, 136), (1, 8, 136), (700, 1000, 136))  # aligned, and ragged


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_agrees_with_float64(name, layout):
    schedule, fields = KERNELS[name]
    spec = lt.GemmSpec(**{"a": "f16", "b": "f16", "d": "f16", "acc": "f16", "layout": layout} | fields)
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=schedule)
    assert "f16.f16.f16" in kernel.ptx
    rng = np.random.default_rng(len(name))
    for m, n, k in SIZES:
        check(spec, kernel, (m, n, spec.k or max(k, least_k(kernel.schedule))), rng)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bits_are_those_of_the_interpreter(layout):
    """Numbers of many magnitudes, which are rounded differently where sums are rounded at another time."""
    m, n, k = 136, 200, 272
    spec = lt.GemmSpec(m=m, n=n, k=k, a="f16", b="f16", d="f16", acc="f16", layout=layout)
    kernel = lt.compile_gemm(spec, target="sm_90a")
    rng = np.random.default_rng(7)
    shapes = ((m, k) if layout[0] == "t" else (k, m), (n, k) if layout[1] == "n" else (k, n))
    a, b = (np.ldexp(rng.standard_normal(s), rng.integers(-7, 5, s)).astype(np.float16) for s in shapes)
    out = torch.empty((m, n), device="cuda", dtype=torch.float16)
    kernel(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda(), out=out)
    expected = kernel.interpret(a, b, level="atoms", domain="hopper")
    assert np.array_equal(out.cpu().numpy().view(np.uint16), expected.view(np.uint16))
