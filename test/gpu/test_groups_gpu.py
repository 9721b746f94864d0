"""Groups of rows on the GPU: against float64 at random splits, each named split, wrong ends, graphs and other ends."""

from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel
from lowtide.verification.checking.splits import SPLITS, ends_of

pytestmark = pytest.mark.gpu

SIZES = ((300, 520, 264), (1, 1000, 64), (4097, 136, 512))
CASES: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "mma.sync": ("sm_80", {"a": "bf16", "d": "bf16"}, None),
    "mma.sync, B as (K, N)": ("sm_80", {"a": "f16", "d": "f32", "layout": "tt"}, None),
    "mma.sync, from fragments": ("sm_80", {"a": "bf16", "d": "bf16"}, "epilogue.path = direct"),
    "mma.sync, even shares": ("sm_80", {"a": "bf16", "d": "bf16"}, "scheduler = even_split"),
    "integers": ("sm_80", {"a": "s8", "d": "s32"}, None),
    "products in f32": ("sm_80", {"a": "f32", "d": "f32"}, None),
    "wgmma": ("sm_90a", {"a": "bf16", "d": "bf16"}, None),
    "wgmma, B as (K, N)": ("sm_90a", {"a": "bf16", "d": "bf16", "layout": "tt"}, None),
    "wgmma in turn": ("sm_90a", {"a": "bf16", "d": "bf16"}, "roles = pingpong(2)"),
    "wgmma, low tiles": ("sm_90a", {"a": "bf16", "d": "bf16"}, "grid.tile = [64, 256]"),
    "wgmma, tall tiles": ("sm_90a", {"a": "bf16", "d": "bf16"}, "grid.tile = [256, 128]"),
    "wgmma, three consumers": ("sm_90a", {"a": "bf16", "d": "f32"}, "roles = cooperative(3), grid.tile = [192, 128]"),
    "wgmma, even shares": ("sm_90a", {"a": "f16", "d": "f16"}, "scheduler = even_split"),
    "wgmma of 8-bit floats": ("sm_90a", {"a": "e4m3", "d": "bf16"}, None),
    "wgmma, clusters along N": ("sm_90a", {"a": "bf16", "d": "bf16"}, "cluster = [1, 2]"),
    "wgmma, clusters of four": ("sm_90a", {"a": "f16", "d": "f32"}, "cluster = [1, 4], grid.tile = [128, 64]"),
    "wgmma in turn, clusters": ("sm_90a", {"a": "bf16", "d": "bf16"}, "cluster = [1, 2], roles = pingpong(2)"),
    "mma.sync, K split": ("sm_80", {"a": "bf16", "d": "f32"}, "k_division = split(3)"),
    "wgmma, K split": ("sm_90a", {"a": "bf16", "d": "bf16"}, "k_division = split(2)"),
    "wgmma, K split, clusters": ("sm_90a", {"a": "bf16", "d": "bf16"}, "k_division = split(4), cluster = [1, 2]"),
    "mma.sync, D by columns": ("sm_80", {"a": "f16", "d": "f32", "d_order": "column"}, None),
    "products in f32, D by columns": ("sm_80", {"a": "f32", "d": "f32", "d_order": "column"}, None),
    "wgmma, D by columns": ("sm_90a", {"a": "bf16", "d": "bf16", "layout": "nt", "d_order": "column"}, None),
}


@pytest.mark.parametrize("groups", [1, 7, 64])
@pytest.mark.parametrize("name", CASES)
def test_random_groups_agree_with_float64(name: str, groups: int) -> None:
    target, fields, schedule = CASES[name]
    spec = lt.GemmSpec(**({"b": fields["a"], "groups": None} | fields))
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    manifest = {**kernel.manifest, "example": {**kernel.manifest["example"], "row_groups": groups}}
    for seed, size in enumerate(SIZES):
        outcome = verify_kernel(lt.runtime.Kernel(manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, outcome.message


def expected(torch: Any, a: Any, b: Any, ends: list[int], d: Any) -> Any:
    """D of a loop over groups, in float64; other rows as in `d`."""
    found, first = d.double(), 0
    for end, matrix in zip(ends, b, strict=True):
        last = min(max(end, first), len(a))
        found[first:last] = a[first:last].double() @ matrix.double()
        first = last
    return found


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("split", SPLITS)
def test_each_split_is_right_and_other_rows_are_not_written(split: str, transposed: bool) -> None:
    torch = pytest.importorskip("torch")
    rows, n, k, groups = 1000, 200, 192, 9
    a = torch.randint(-3, 4, (rows, k), device="cuda").bfloat16()
    b = torch.randint(-3, 4, (groups, n, k) if transposed else (groups, k, n), device="cuda").bfloat16()
    b = b.mT if transposed else b
    ends = list(ends_of(split, rows, 128, groups))
    d = torch.full((rows, n), 77.0, device="cuda")
    lt.grouped_matmul(a, b, torch.tensor(ends, dtype=torch.int32, device="cuda"), out=d)
    assert torch.equal(d.double(), expected(torch, a, b, ends, torch.full_like(d, 77.0)))


def scaled(acc, row: lt.PerRow["f32"], bias: lt.PerColumn["f32"]):  # noqa: F821
    return acc * row + bias


# Rows, N, K, groups, and the types of A and D. TMA stores D if its rows are multiples of 16 bytes.
PRODUCTS = {
    "few rows a group": (700, 520, 192, 64, "bfloat16", "bfloat16"),
    "one group": (1000, 264, 320, 1, "float16", "float32"),
    "many groups": (3000, 136, 128, 1000, "bfloat16", "bfloat16"),
    "large groups": (16384, 776, 1088, 4, "bfloat16", "bfloat16"),
    "rows of D of an odd length": (900, 333, 192, 7, "bfloat16", "float32"),
}


@pytest.mark.parametrize("with_epilogue", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", PRODUCTS)
def test_random_splits_are_right(name: str, transposed: bool, with_epilogue: bool) -> None:
    """20 splits of each product; groups of all of them may be empty."""
    torch = pytest.importorskip("torch")
    rows, n, k, groups, of_a, of_d = PRODUCTS[name]
    torch.manual_seed(groups)
    dtype, out = getattr(torch, of_a), getattr(torch, of_d)
    a = torch.randint(-2, 3, (rows, k), device="cuda").to(dtype)
    b = torch.randint(-2, 3, (groups, n, k) if transposed else (groups, k, n), device="cuda").to(dtype)
    b = b.mT if transposed else b
    more: dict[str, Any] = {}
    if with_epilogue:
        row, bias = (torch.randint(-2, 3, (extent,), device="cuda").float() for extent in (rows, n))
        more = {"epilogue": scaled, "row": row, "bias": bias}
    rng = np.random.default_rng(groups)
    for _ in range(20):
        ends = np.sort(rng.integers(0, rows + 1, groups)).tolist()
        d = torch.full((rows, n), 77.0, device="cuda", dtype=out)
        found = expected(torch, a, b, ends, d)
        if with_epilogue:
            found[: ends[-1]] = found[: ends[-1]] * row[: ends[-1], None] + bias
        lt.grouped_matmul(a, b, torch.tensor(ends, dtype=torch.int32, device="cuda"), out=d, **more)
        assert torch.equal(d, found.to(out)), ends


BY_TMA = {
    "first rows early": "grid.tile = [256, 192], epilogue.start = first_rows",
    "two blocks, one consumer": "roles = cooperative(1), grid.tile = [128, 64], epilogue.buffers = 2",
    "three consumers": "roles = cooperative(3), grid.tile = [192, 128], epilogue.buffers = 2",
    "consumers in turn": "roles = pingpong(2), grid.tile = [128, 192], epilogue.buffers = 3",
    "even shares": "scheduler = even_split, grid.tile = [128, 256], epilogue.buffers = 4",
}


@pytest.mark.parametrize("name", BY_TMA)
def test_random_splits_are_stored_by_tma_and_threads(name: str) -> None:
    torch = pytest.importorskip("torch")
    rows, n, k, groups = 5000, 776, 1088, 9
    spec = lt.GemmSpec(n=n, k=k, groups=groups, a="bf16", b="bf16", d="bf16")
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=f"{BY_TMA[name]}, epilogue.path = tma")
    a = torch.randint(-2, 3, (rows, k), device="cuda").bfloat16()
    b = torch.randint(-2, 3, (groups, n, k), device="cuda").bfloat16()
    rng = np.random.default_rng(len(name))
    for number in range(20):
        ends = np.sort(rng.integers(0, rows + 1, groups))
        ends = (ends // 64 * 64 if number % 2 else ends).tolist()  # half of them at the ends of blocks
        d = torch.full((rows, n), 77.0, device="cuda", dtype=torch.bfloat16)
        found = expected(torch, a, b.mT, ends, d)
        kernel(a, b, ends=torch.tensor(ends, dtype=torch.int32, device="cuda"), out=d)
        assert torch.equal(d, found.to(d.dtype)), ends


def test_a_graph_is_replayed_with_other_ends() -> None:
    torch = pytest.importorskip("torch")
    rows, n, k, groups = 512, 256, 128, 5
    a = torch.randint(-3, 4, (rows, k), device="cuda").bfloat16()
    b = torch.randint(-3, 4, (groups, k, n), device="cuda").bfloat16()
    ends = torch.full((groups,), rows, dtype=torch.int32, device="cuda")
    d = torch.zeros(rows, n, device="cuda")
    lt.grouped_matmul(a, b, ends, out=d)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        lt.grouped_matmul(a, b, ends, out=d)
    rng = np.random.default_rng(0)
    for _ in range(20):
        own = sorted(rng.integers(0, rows + 1, groups).tolist())
        ends.copy_(torch.tensor(own, dtype=torch.int32))
        d.fill_(-5.0)
        graph.replay()
        assert torch.equal(d.double(), expected(torch, a, b, own, torch.full_like(d, -5.0)))


def test_ends_of_another_kernel_of_the_stream_are_read_after_it() -> None:
    """The launch is programmatic: it may start while the kernel before it still writes the ends."""
    torch = pytest.importorskip("torch")
    rows, n, k, groups = 4096, 256, 64, 8
    a = torch.randint(-3, 4, (rows, k), device="cuda").bfloat16()
    b = torch.randint(-3, 4, (groups, k, n), device="cuda").bfloat16()
    d = torch.zeros(rows, n, device="cuda")
    for seed in range(20):
        own = sorted(np.random.default_rng(seed).integers(0, rows + 1, groups).tolist())
        counts = torch.tensor(np.diff([0, *own]), device="cuda")
        d.fill_(3.0)
        ends = counts.cumsum(0, dtype=torch.int32)
        lt.grouped_matmul(a, b, ends, out=d)
        assert torch.equal(d.double(), expected(torch, a, b, own, torch.full_like(d, 3.0)))
