"""Padded groups of rows on the GPU: random counts, each named kind of counts, graphs and epilogues, against float64."""

from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel
from lowtide.verification.checking.splits import COUNTS, ends_of

pytestmark = pytest.mark.gpu

SIZES = ((300, 520, 264), (1, 1000, 64), (700, 136, 512))
CASES: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "mma.sync": ("sm_80", {"a": "bf16", "d": "bf16"}, None),
    "mma.sync, A as (K, M)": ("sm_80", {"a": "f16", "d": "f32", "layout": "nt"}, None),
    "mma.sync, even shares": ("sm_80", {"a": "bf16", "d": "bf16"}, "scheduler = even_split"),
    "integers": ("sm_80", {"a": "s8", "d": "s32"}, None),
    "products in f32": ("sm_80", {"a": "f32", "d": "f32"}, None),
    "wgmma": ("sm_90a", {"a": "bf16", "d": "bf16"}, None),
    "wgmma, B as (K, N)": ("sm_90a", {"a": "bf16", "d": "bf16", "layout": "tt"}, None),
    "wgmma, A as (K, M)": ("sm_90a", {"a": "bf16", "d": "bf16", "layout": "nn"}, None),
    "wgmma in turn": ("sm_90a", {"a": "bf16", "d": "bf16"}, "roles = pingpong(2)"),
    "wgmma, low tiles": ("sm_90a", {"a": "bf16", "d": "bf16"}, "grid.tile = [64, 256]"),
    "wgmma, even shares": ("sm_90a", {"a": "f16", "d": "f16"}, "scheduler = even_split"),
    "wgmma of 8-bit floats": ("sm_90a", {"a": "e4m3", "d": "bf16"}, None),
    "wgmma, clusters along N": ("sm_90a", {"a": "bf16", "d": "bf16"}, "cluster = [1, 2]"),
    "wgmma, K split": ("sm_90a", {"a": "bf16", "d": "bf16"}, "k_division = split(2)"),
    "mma.sync, D by columns": ("sm_80", {"a": "f16", "d": "f32", "d_order": "column"}, None),
    "wgmma, D by columns": ("sm_90a", {"a": "bf16", "d": "bf16", "layout": "nt", "d_order": "column"}, None),
}


@pytest.mark.parametrize("groups", [1, 7, 64])
@pytest.mark.parametrize("name", CASES)
def test_random_counts_agree_with_float64(name: str, groups: int) -> None:
    target, fields, schedule = CASES[name]
    spec = lt.GemmSpec(**({"b": fields["a"], "batch": None, "counts": True} | fields))
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    manifest = {**kernel.manifest, "example": {**kernel.manifest["example"], "batch": groups}}
    for seed, size in enumerate(SIZES):
        outcome = verify_kernel(lt.runtime.Kernel(manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, outcome.message


def expected(torch: Any, a: Any, b: Any, counts: list[int], d: Any) -> Any:
    """D of a loop over groups, in float64; other rows as in `d`."""
    found = d.double()
    for group, count in enumerate(counts):
        rows = min(max(count, 0), a.shape[1])
        found[group, :rows] = a[group, :rows].double() @ b[group].double()
    return found


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("split", COUNTS)
def test_each_kind_of_counts_is_right_and_other_rows_are_not_written(split: str, transposed: bool) -> None:
    torch = pytest.importorskip("torch")
    rows, n, k, groups = 400, 200, 192, 9
    a = torch.randint(-3, 4, (groups, rows, k), device="cuda").bfloat16()
    b = torch.randint(-3, 4, (groups, n, k) if transposed else (groups, k, n), device="cuda").bfloat16()
    b = b.mT if transposed else b
    counts = list(ends_of(split, rows, 128, groups, padded=True))
    d = torch.full((groups, rows, n), 77.0, device="cuda")
    given = torch.tensor(counts, dtype=torch.int32, device="cuda")
    for expected_rows in (None, 20):
        d.fill_(77)
        lt.grouped_matmul(a, b, counts=given, expected_rows=expected_rows, out=d)
        assert torch.equal(d.double(), expected(torch, a, b, counts, torch.full_like(d, 77.0)))


def scaled(acc, row: lt.PerRow["f32"], bias: lt.PerColumn["f32"]):  # noqa: F821
    return acc * row + bias


@pytest.mark.parametrize("n", [776, 333])  # TMA stores D if its rows are multiples of 16 bytes
def test_random_counts_of_matrices_that_are_apart_are_right(n: int) -> None:
    """A and D are parts of larger arrays, and their matrices have strides of their own."""
    torch = pytest.importorskip("torch")
    rows, k, groups = 600, 320, 6
    a = torch.randint(-2, 3, (groups, rows + 8, k), device="cuda").bfloat16()[:, :rows]
    b = torch.randint(-2, 3, (groups, n, k), device="cuda").bfloat16().mT
    row, bias = (torch.randint(-2, 3, (groups, extent), device="cuda").float() for extent in (rows, n))
    whole = torch.empty((groups, rows + 3, n), device="cuda", dtype=torch.bfloat16)
    rng = np.random.default_rng(n)
    for _ in range(20):
        counts = rng.integers(0, rows + 1, groups).tolist()
        whole.fill_(77)
        d = whole[:, :rows]
        found = expected(torch, a, b, counts, d)
        for group, count in enumerate(counts):
            found[group, :count] = found[group, :count] * row[group, :count, None] + bias[group]
        given = torch.tensor(counts, dtype=torch.int32, device="cuda")
        lt.grouped_matmul(a, b, counts=given, epilogue=scaled, row=row, bias=bias, out=d)
        assert torch.equal(d, found.to(d.dtype)), counts
        assert (whole[:, rows:] == 77).all()


def test_the_first_product_of_gated_experts_is_one_launch() -> None:
    torch = pytest.importorskip("torch")
    rows, n, k, groups = 256, 384, 512, 5
    a = torch.randn((groups, rows, k), device="cuda").bfloat16()
    w = (torch.randn((groups, 2 * n, k), device="cuda") / k**0.5).bfloat16()
    counts = torch.tensor([0, 256, 3, 100, 129], dtype=torch.int32, device="cuda")
    d = torch.full((groups, rows, n), 77.0, device="cuda", dtype=torch.bfloat16)
    lt.grouped_matmul(a, w.mT, counts=counts, epilogue=lt.swiglu, pairs="stacked", out=d)
    gate, up = (a.double() @ w.double().mT).chunk(2, dim=-1)
    found = torch.nn.functional.silu(gate) * up
    counted = torch.arange(rows, device="cuda") < counts[:, None]
    torch.testing.assert_close(d[counted].double(), found[counted], rtol=2e-2, atol=2e-2)
    assert (d[~counted] == 77).all()


def test_a_graph_is_replayed_with_other_counts() -> None:
    torch = pytest.importorskip("torch")
    rows, n, k, groups = 200, 256, 128, 5
    a = torch.randint(-3, 4, (groups, rows, k), device="cuda").bfloat16()
    b = torch.randint(-3, 4, (groups, k, n), device="cuda").bfloat16()
    given, d = torch.zeros(groups, dtype=torch.int32, device="cuda"), torch.empty((groups, rows, n), device="cuda")
    lt.grouped_matmul(a, b, counts=given, out=d)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        lt.grouped_matmul(a, b, counts=given, out=d)
    for counts in ([200, 0, 1, 64, 130], [5, 6, 7, 8, 9], [0] * groups):
        given.copy_(torch.tensor(counts, dtype=torch.int32))
        d.fill_(77)
        graph.replay()
        assert torch.equal(d.double(), expected(torch, a, b, counts, torch.full_like(d, 77.0)))
