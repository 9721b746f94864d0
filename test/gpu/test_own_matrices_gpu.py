"""Saved kernels, compiled by their defaults, take the problem's own dense matrices on a GPU, whatever their extents."""

import pytest

import lowtide as lt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

TYPES = {"f16": torch.float16, "f32": torch.float32, "f64": torch.float64, "s8": torch.int8, "e5m2": torch.float8_e5m2}


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("extents", [(129, 257, 129), (1, 1, 1), (17, 3, 5), (5, 7, 0)])
@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
@pytest.mark.parametrize("target", ["sm_89", "sm_90a"])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_saved_kernel_takes_dense_matrices(dtype, target, layout, extents, is_open, tmp_path):
    (m, n, k), d = extents, {"s8": "s32", "f64": "f64"}.get(dtype, "f32")
    known = {} if is_open else {"m": m, "n": n, "k": k}
    spec = lt.GemmSpec(a=dtype, b=dtype, d=d, layout=layout, **known)
    lt.compile_gemm(spec, target=target).save(tmp_path / "kernel")
    shapes = (m, k) if layout[0] == "t" else (k, m), (n, k) if layout[1] == "n" else (k, n)
    a, b = (torch.randint(-2, 3, shape, device="cuda").double() for shape in shapes)
    out = torch.full((m, n), 7, device="cuda", dtype={"s32": torch.int32, "f64": torch.float64}.get(d, torch.float32))
    lt.runtime.load(tmp_path / "kernel")(a.to(TYPES[dtype]), b.to(TYPES[dtype]), out=out)
    wanted = (a if layout[0] == "t" else a.T) @ (b.T if layout[1] == "n" else b)
    assert torch.equal(out.double(), wanted)
