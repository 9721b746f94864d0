"""Rows of D at an index on the GPU: against float64 within a derived bound, and `lt.grouped_matmul` with rows of A at
an index too, against a loop over groups on small integers; rows that D does not have, rows that are not named, and
another index in replays of a graph. A layer of experts gives the same bits in each run."""

import importlib
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu

SIZES = ((300, 264, 272), (1, 1000, 64), (4097, 72, 512), (33, 40, 33))


def weighted(acc, weight: lt.PerRow):
    return acc * weight


def several(acc, weight: lt.PerRow):
    return {"d": acc * weight, "plain": acc}


_GROUPS: dict[str, Any] = {"groups": None, "a_rows": True, "epilogue": weighted}
_PAIRS = {"pairs": "stacked", "epilogue": lt.swiglu, "groups": None}
CASES: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "mma.sync": ("sm_80", {}, None),
    "mma.sync, groups, gathered": ("sm_80", _GROUPS, None),
    "mma.sync, from registers": ("sm_80", _GROUPS, "epilogue.path = direct"),
    "mma.sync, A as (K, M)": ("sm_80", {"layout": "nn"}, None),
    "products in f32": ("sm_80", {"a": "f32", "b": "f32", "d": "f32"}, None),
    "f16": ("sm_90a", {"a": "f16", "b": "f16", "d": "f16", "groups": None}, None),
    "wgmma": ("sm_90a", {}, None),
    "wgmma, B as (K, N)": ("sm_90a", {"layout": "tt"}, None),
    "wgmma, groups, gathered": ("sm_90a", _GROUPS, None),
    "wgmma, groups of pairs": ("sm_90a", _PAIRS, None),
    "wgmma, from registers": ("sm_90a", _GROUPS, "roles = cooperative(2), epilogue.path = direct"),
    "wgmma, low tiles": ("sm_90a", _GROUPS, "grid.tile = [64, 256], roles = cooperative(1)"),
    "wgmma, clusters": ("sm_90a", {}, "grid.tile = [128, 128], roles = cooperative(2), cluster = [2, 1]"),
    "two results": ("sm_90a", {"epilogue": several, "result_types": {"plain": "f32"}}, None),
    "8-bit floats": ("sm_90a", {"a": "e4m3", "b": "e4m3", "groups": None}, None),
    "results of 8 bits": ("sm_90a", {"a": "e4m3", "b": "e4m3", "d": "e4m3", "groups": None}, None),
}


@pytest.mark.parametrize("groups", [1, 7, 64])
@pytest.mark.parametrize("name", CASES)
def test_random_rows_agree_with_float64_and_others_are_not_written(name: str, groups: int) -> None:
    target, fields, schedule = CASES[name]
    if groups > 1 and "groups" not in fields:
        pytest.skip("without groups")
    spec = lt.GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "d_rows": True} | fields))
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    more = {"row_groups": groups} if "groups" in fields else {}
    manifest = {**kernel.manifest, "example": {**kernel.manifest["example"], **more}}
    for seed, size in enumerate(SIZES):
        outcome = verify_kernel(lt.runtime.Kernel(manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, (size, outcome.message)


def expected(a: Any, w: Any, ends: list[int], d: Any, operands: dict[str, Any]) -> Any:
    """D in float64, where the other rows are those of `d`, for operands `a_rows`, `d_rows` and `weight`."""
    torch, found, first = importlib.import_module("torch"), d.double(), 0
    rows, places = operands["a_rows"].long(), operands["d_rows"].long()
    exists = (rows >= 0) & (rows < len(a))
    taken = torch.where(exists[:, None], a[rows.clamp(0, len(a) - 1)].double(), 0)
    for group, end in enumerate(ends):
        own = torch.arange(first, end, device=a.device)
        own = own[(places[own] >= 0) & (places[own] < len(d))]
        found[places[own]] = operands["weight"].double()[own, None] * (taken[own] @ w[group].double().mT)
        first = end
    return found


def an_index(torch: Any, rng: np.random.Generator, rows: int, of_d: int) -> Any:
    """Different rows of D, in any order, and elements outside of it, which may repeat."""
    index = rng.permutation(max(rows, of_d))[:rows]
    outside = rng.random(rows) < 0.2
    index[outside] = rng.choice([-(2**31), -1, of_d, of_d + 100, 2**31 - 1], np.count_nonzero(outside))
    return torch.from_numpy(index.astype(np.int32)).cuda()


# Tokens, rows, rows of D, N, K, groups, the type of D
LAYERS = {
    "eight of 64 experts a token": (512, 4096, 4096, 352, 256, 64, "bfloat16"),
    "fewer rows of D": (7, 300, 90, 136, 192, 9, "bfloat16"),
    "more rows of D": (5000, 1000, 3000, 264, 320, 3, "float32"),
    "rows of 2 bytes": (300, 700, 900, 133, 64, 5, "bfloat16"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_calls_agree_with_a_loop_at_random_rows_and_splits(name: str) -> None:
    torch = pytest.importorskip("torch")
    tokens, rows, of_d, n, k, groups, dtype = LAYERS[name]
    torch.manual_seed(groups)
    a = torch.randint(-2, 3, (tokens, k + 8), device="cuda").bfloat16()[:, :k]
    w = torch.randint(-1, 2, (groups, n, k), device="cuda").bfloat16()
    rng = np.random.default_rng(groups)
    for _ in range(20):
        ends = np.sort(rng.integers(0, rows + 1, groups)).tolist()  # some rows may be in no group
        own = torch.tensor(ends, dtype=torch.int32, device="cuda")
        operands = {
            "a_rows": torch.randint(-1, tokens + 1, (rows,), device="cuda", dtype=torch.int32),
            "d_rows": an_index(torch, rng, rows, of_d),
            "weight": torch.randint(-1, 2, (rows,), device="cuda").to(getattr(torch, dtype)),
        }
        d = torch.randint(-9, 10, (of_d + 2, n), device="cuda").to(getattr(torch, dtype))
        wanted = expected(a, w, ends, d[1:-1], operands).to(d.dtype)
        guards = d[[0, -1]].clone()
        lt.grouped_matmul(a, w.mT, own, epilogue=weighted, out=d[1:-1], **operands)
        assert torch.equal(d[1:-1], wanted), ends
        assert torch.equal(d[[0, -1]], guards)


def with_sums(acc, weight: lt.PerRow):
    return {"d": acc * weight, "sums": lt.sum(acc, dim=1), "most": lt.amax(acc * weight, dim=1)}


@pytest.mark.parametrize("schedule", [None, "roles = pingpong(2)"])
def test_reductions_of_rows_lie_in_the_order_of_the_product(schedule: str | None) -> None:
    torch = pytest.importorskip("torch")
    rows, n, k, groups = 700, 333, 128, 6
    spec = lt.GemmSpec(groups=None, a="bf16", b="bf16", d="f32", d_rows=True, epilogue=with_sums)
    kernel = lt.compile_gemm(spec, schedule=schedule)
    rng = np.random.default_rng(0)
    for _ in range(10):
        a = torch.randint(-2, 3, (rows, k), device="cuda").bfloat16()
        w = torch.randint(-1, 2, (groups, n, k), device="cuda").bfloat16()
        weight = torch.randint(-1, 2, (rows,), device="cuda").float()
        own = np.sort(rng.integers(0, rows + 1, groups)).tolist()
        ends, places = torch.tensor(own, dtype=torch.int32, device="cuda"), an_index(torch, rng, rows, 900)
        d = torch.randint(-9, 10, (900, n), device="cuda").float()
        sums, most = (torch.full((rows,), 7.0, device="cuda") for _ in range(2))
        operands = {"a_rows": torch.arange(rows, device="cuda"), "d_rows": places, "weight": weight}
        wanted, first = expected(a, w, own, d, operands), 0
        kernel(a, w, ends=ends, d_rows=places, weight=weight, out={"d": d, "sums": sums, "most": most})
        assert torch.equal(d.double(), wanted)
        for group, end in enumerate(own):
            product = a[first:end].double() @ w[group].double().mT
            assert torch.equal(sums[first:end].double(), product.sum(1))
            if end > first:
                weighed = product * weight[first:end, None].double()
                assert torch.equal(most[first:end].double(), weighed.amax(1))
            first = end
        assert (sums[first:] == 7).all() and (most[first:] == 7).all()


def test_a_graph_is_replayed_with_other_rows() -> None:
    torch = pytest.importorskip("torch")
    tokens, rows, n, k, groups = 300, 512, 256, 128, 5
    a = torch.randint(-3, 4, (tokens, k), device="cuda").bfloat16()
    w = torch.randint(-3, 4, (groups, n, k), device="cuda").bfloat16()
    ends = torch.full((groups,), rows, dtype=torch.int32, device="cuda")
    index = {name: torch.zeros(rows, dtype=torch.int32, device="cuda") for name in ("a_rows", "d_rows")}
    operands = index | {"weight": torch.ones(rows, device="cuda")}
    index["d_rows"].copy_(torch.arange(rows))
    d = torch.zeros(600, n, device="cuda")
    lt.grouped_matmul(a, w.mT, ends, epilogue=weighted, out=d, **operands)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        lt.grouped_matmul(a, w.mT, ends, epilogue=weighted, out=d, **operands)
    rng = np.random.default_rng(0)
    for _ in range(10):
        own = [*sorted(rng.integers(0, rows + 1, groups - 1).tolist()), rows]
        ends.copy_(torch.tensor(own, dtype=torch.int32))
        index["a_rows"].copy_(torch.from_numpy(rng.integers(-5, tokens + 5, rows).astype(np.int32)))
        index["d_rows"].copy_(an_index(torch, rng, rows, 600))
        wanted = expected(a, w, own, d, operands)
        graph.replay()
        assert torch.equal(d.double(), wanted)


def test_a_layer_of_experts_agrees_with_a_loop_and_repeats_its_bits() -> None:
    torch = pytest.importorskip("torch")
    routing = importlib.import_module("lowtide.torch")
    tokens, slots, experts, width, hidden = 700, 4, 16, 256, 320
    torch.manual_seed(0)
    x = torch.randn(tokens, width, device="cuda").bfloat16()
    up = (torch.randn(experts, 2 * hidden, width, device="cuda") * width**-0.5).bfloat16()
    down = (torch.randn(experts, width, hidden, device="cuda") * hidden**-0.5).bfloat16()
    weights, chosen = torch.randn(tokens, experts, device="cuda").softmax(1).topk(slots)

    def layer() -> Any:
        ends, taken, places = routing.routes(chosen, experts)
        h = lt.grouped_matmul(x, up.mT, ends, epilogue=lt.swiglu, pairs="stacked", a_rows=taken)
        stored = torch.zeros(tokens * slots, width, device="cuda", dtype=x.dtype)
        weight = weights.flatten()[places.long()].to(x.dtype)
        lt.grouped_matmul(h, down.mT, ends, epilogue=weighted, weight=weight, d_rows=places, out=stored)
        return routing.combine_slots(stored, slots)

    found = layer()
    both = torch.einsum("tk,tshk->tsh", x.double(), up[chosen].double())
    gate, value = both.chunk(2, dim=-1)
    wanted = torch.einsum("tsh,tsnh->tsn", torch.nn.functional.silu(gate) * value, down[chosen].double())
    wanted = (wanted * weights.double()[..., None]).sum(1)
    assert (found.double() - wanted).norm() / wanted.norm() < 2**-7
    for _ in range(5):
        assert torch.equal(layer(), found)
