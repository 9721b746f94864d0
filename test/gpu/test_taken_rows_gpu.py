"""Rows of A at an index on the GPU: against float64 within a derived bound, and `lt.grouped_matmul` against a loop over
groups on small integers, with rows that A does not have, and with another index in replays of a graph."""

from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu

SIZES = ((300, 264, 272), (1, 1000, 64), (4097, 72, 512), (33, 40, 33))


_PAIRS = {"pairs": "stacked", "epilogue": lt.swiglu}
CASES: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "mma.sync": ("sm_80", {}, None),
    "mma.sync, groups": ("sm_80", {"groups": None}, None),
    "mma.sync, groups of pairs": ("sm_80", {"groups": None} | _PAIRS, None),
    "mma.sync, B as (K, N)": ("sm_80", {"groups": None, "layout": "tt"}, None),
    "mma.sync, narrow copies": ("sm_80", {}, "a.copy = cp.async.4"),
    "products in f32": ("sm_80", {"a": "f32", "b": "f32", "d": "f32"}, None),
    "wgmma": ("sm_90a", {}, None),
    "wgmma, groups": ("sm_90a", {"groups": None}, None),
    "wgmma, groups of pairs": ("sm_90a", {"groups": None} | _PAIRS, None),
    "wgmma, low tiles": ("sm_90a", {"groups": None}, "grid.tile = [64, 256], roles = cooperative(1)"),
    "wgmma, TMA stores": ("sm_90a", {"groups": None}, "roles = cooperative(2), epilogue.path = tma"),
    "8-bit floats": ("sm_90a", {"a": "e4m3", "b": "e4m3", "groups": None}, None),
}


@pytest.mark.parametrize("groups", [1, 7, 64])
@pytest.mark.parametrize("name", CASES)
def test_random_rows_agree_with_float64(name: str, groups: int) -> None:
    target, fields, schedule = CASES[name]
    if groups > 1 and "groups" not in fields:
        pytest.skip("without groups")
    spec = lt.GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "a_rows": True} | fields))
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    more = {"row_groups": groups} if "groups" in fields else {}
    manifest = {**kernel.manifest, "example": {**kernel.manifest["example"], **more}}
    for seed, size in enumerate(SIZES):
        outcome = verify_kernel(lt.runtime.Kernel(manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, (size, outcome.message)


def expected(torch: Any, a: Any, w: Any, rows: Any, ends: list[int]) -> Any:
    """The product in float64. Rows that A does not have are zeros."""
    exists = (rows >= 0) & (rows < len(a))
    taken = torch.where(exists[:, None], a[rows.clamp(0, len(a) - 1).long()].double(), 0)
    spans = zip([0, *ends[:-1]], ends, strict=True)
    return torch.cat([taken[first:end] @ w[group].double().mT for group, (first, end) in enumerate(spans)])


# Tokens, rows, N, K, groups
LAYERS = {
    "eight of 64 experts a token": (512, 4096, 352, 256, 64),
    "fewer tokens than rows of a tile": (7, 300, 136, 192, 9),
    "more tokens than rows": (5000, 1000, 264, 320, 3),
}


@pytest.mark.parametrize("name", LAYERS)
def test_calls_agree_with_a_loop_at_random_rows_and_splits(name: str) -> None:
    torch = pytest.importorskip("torch")
    tokens, rows, n, k, groups = LAYERS[name]
    torch.manual_seed(groups)
    a = torch.randint(-2, 3, (tokens, k + 8), device="cuda").bfloat16()[:, :k]
    w = torch.randint(-2, 3, (groups, n, k), device="cuda").bfloat16()
    rng = np.random.default_rng(groups)
    for _ in range(20):
        ends = [*np.sort(rng.integers(0, rows + 1, groups - 1)).tolist(), rows]
        index = torch.randint(-1, tokens + 1, (rows,), device="cuda", dtype=torch.int32)
        own = torch.tensor(ends, dtype=torch.int32, device="cuda")
        found = lt.grouped_matmul(a, w.mT, own, a_rows=index)
        assert found.shape == (rows, n)
        assert torch.equal(found, expected(torch, a, w, index, ends).to(found.dtype)), ends


def test_a_graph_is_replayed_with_other_rows() -> None:
    torch = pytest.importorskip("torch")
    tokens, rows, n, k, groups = 300, 512, 256, 128, 5
    a = torch.randint(-3, 4, (tokens, k), device="cuda").bfloat16()
    w = torch.randint(-3, 4, (groups, n, k), device="cuda").bfloat16()
    ends = torch.full((groups,), rows, dtype=torch.int32, device="cuda")
    index, d = torch.zeros(rows, dtype=torch.int32, device="cuda"), torch.zeros(rows, n, device="cuda")
    lt.grouped_matmul(a, w.mT, ends, a_rows=index, out=d)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        lt.grouped_matmul(a, w.mT, ends, a_rows=index, out=d)
    rng = np.random.default_rng(0)
    for _ in range(10):
        own = [*sorted(rng.integers(0, rows + 1, groups - 1).tolist()), rows]
        ends.copy_(torch.tensor(own, dtype=torch.int32))
        index.copy_(torch.from_numpy(rng.integers(-5, tokens + 5, rows).astype(np.int32)))
        graph.replay()
        assert torch.equal(d.double(), expected(torch, a, w, index, own))
