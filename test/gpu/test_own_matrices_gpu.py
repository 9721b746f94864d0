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


@pytest.mark.parametrize("gap", [0, 2])
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize(("layout", "m", "n"), [("nt", 1, 520), ("nn", 1, 520), ("tt", 264, 1), ("nt", 264, 1)])
def test_a_column_lies_anywhere(layout, m, n, offset, gap):
    """A (K, 1) or B (K, 1), contiguous, strided or with an unaligned base."""
    k = 328
    kernel = lt.compile_gemm(lt.GemmSpec(m=m, n=n, k=k, a="bf16", b="bf16", d="f32", layout=layout))
    shapes = (m, k) if layout[0] == "t" else (k, m), (n, k) if layout[1] == "n" else (k, n)
    wanted, given = [], []
    for rows, columns in shapes:
        more = (offset, gap) if columns == 1 else (0, 0)
        memory = torch.randint(-2, 3, (more[0] + rows * (columns + more[1]),), device="cuda").bfloat16()
        given.append(memory[more[0] :].view(rows, columns + more[1])[:, :columns])
        wanted.append(given[-1].double())
    a, b = wanted
    product = (a if layout[0] == "t" else a.T) @ (b.T if layout[1] == "n" else b)
    out = torch.full((m, n), 7.0, device="cuda")
    launch = kernel.bind(*given, out=out)
    launch(), launch()
    assert torch.equal(out.double(), product)
