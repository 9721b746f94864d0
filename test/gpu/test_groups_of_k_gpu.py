"""Groups of K on the GPU: against float64, random and named splits, NaN beside groups, graphs, sums added to D.

Kernels with TMA show that addresses of boxes wrap around (the reliance `wrapped-addresses`).
"""

import importlib
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel
from lowtide.verification.checking.splits import SPLITS, ends_of

pytestmark = pytest.mark.gpu

SIZES = ((300, 520, 264), (64, 1000, 5), (136, 264, 4097))
FP8: dict[str, Any] = {"a": "e4m3", "d": "bf16"}
CASES: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "mma.sync": ("sm_80", {"a": "bf16", "d": "f32"}, None),
    "mma.sync, D in bf16": ("sm_80", {"a": "bf16", "d": "bf16"}, None),
    "mma.sync of f16, even shares": ("sm_80", {"a": "f16", "d": "f32"}, "scheduler = even_split"),
    "mma.sync of 8-bit integers": ("sm_80", {"a": "s8", "d": "s32"}, None),
    "products in f32": ("sm_80", {"a": "f32", "d": "f32"}, None),
    "wgmma": ("sm_90a", {"a": "bf16", "d": "f32"}, None),
    "wgmma, D in bf16": ("sm_90a", {"a": "bf16", "d": "bf16"}, None),
    "wgmma, low tiles": ("sm_90a", {"a": "bf16", "d": "bf16"}, "grid.tile = [64, 256]"),
    "wgmma, two warpgroups": ("sm_90a", {"a": "f16", "d": "f32"}, "grid.tile = [128, 128], roles = cooperative(2)"),
    "wgmma in clusters": ("sm_90a", {"a": "bf16", "d": "bf16"}, "grid.tile = [128, 128], grid.cluster = [2, 1]"),
    "wgmma, copies by threads": ("sm_90a", {"a": "bf16", "d": "bf16"}, "roles = cooperative(2), a.copy = staged.2"),
    "mma.sync of 8-bit floats": ("sm_90a", {"a": "e4m3", "d": "bf16"}, None),
    "scales of rows and columns": ("sm_90a", FP8 | {"block_scales": lt.BlockScales(b=(1, 128))}, None),
    "scales of rows and 128 columns": ("sm_90a", FP8 | {"block_scales": lt.BlockScales()}, None),
    "scales of blocks, steps of 64": ("sm_90a", FP8 | {"block_scales": lt.BlockScales(a=(128, 128))}, "k = 64"),
}


@pytest.mark.parametrize("groups", [1, 7, 64])
@pytest.mark.parametrize("name", CASES)
def test_random_groups_agree_with_float64(name: str, groups: int) -> None:
    target, fields, schedule = CASES[name]
    spec = lt.GemmSpec(**({"b": fields["a"], "groups": lt.Groups(axis="k"), "layout": "nt"} | fields))
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    manifest = {**kernel.manifest, "example": {**kernel.manifest["example"], "groups_of_k": groups}}
    for seed, size in enumerate(SIZES):
        outcome = verify_kernel(lt.runtime.Kernel(manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, outcome.message


def adds(acc, c: lt.Full):
    return acc + c


def expected(torch: Any, a: Any, b: Any, ends: list[int]) -> Any:
    """D of a loop over groups, in float64."""
    d, k = [], len(a)
    for before, end in zip([0, *ends[:-1]], ends, strict=True):
        first = min(max(before, 0), k)
        last = min(max(end, first), k)
        d.append(a[first:last].double().T @ b[first:last].double())
    return torch.stack(d)


def compiled(epilogue: Any = None) -> Any:
    spec = lt.GemmSpec(groups=lt.Groups(axis="k"), a="bf16", b="bf16", d="f32", layout="nt", epilogue=epilogue)
    return lt.compile_gemm(spec)


@pytest.mark.parametrize("split", SPLITS)
def test_each_split_is_right_and_added_to_d(split: str) -> None:
    torch = pytest.importorskip("torch")
    k, m, n, groups = 1000, 200, 192, 9
    a, b = (torch.randint(-3, 4, (k, x), device="cuda").bfloat16() for x in (m, n))
    ends = list(ends_of(split, k, 64, groups))
    on_device = torch.tensor(ends, dtype=torch.int32, device="cuda")
    found = compiled()(a, b, ends=on_device)
    assert torch.equal(found.double(), expected(torch, a, b, ends))
    d = torch.randint(-9, 10, (groups, m, n), device="cuda").float()
    before = d.double()
    compiled(adds)(a, b, c=d, ends=on_device, out=d)
    assert torch.equal(d.double(), before + expected(torch, a, b, ends))


def test_calls_with_scales_of_blocks_round_ends_down_to_whole_blocks() -> None:
    """Scales are powers of two, so that sums are exact."""
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("scales of blocks need sm_90a")
    k, m, n, block = 1000, 192, 272, 128
    torch.manual_seed(0)
    x, y = (torch.randint(-3, 4, (k, each), device="cuda").float().to(torch.float8_e4m3fn) for each in (m, n))
    of_x, of_y = (2.0 ** torch.randint(-1, 2, (-(-k // block), each), device="cuda") for each in (m, n))
    at = torch.arange(k, device="cuda") // block
    left, right = x.double() * of_x[at].double(), y.double() * of_y[at].double()
    for ends in ([128, 128, 512, 896, k], [0, 100, 600, 700, k], [k] * 5, [0] * 5):
        d = torch.full((len(ends), m, n), 77.0, device="cuda")
        on_device = torch.tensor(ends, dtype=torch.int32, device="cuda")
        scales = {"block_scales": lt.BlockScales(b=(1, 128)), "scale_a": of_x, "scale_b": of_y}
        lt.grouped_matmul(x.mT, y, on_device, out=d, **scales)
        rounded = [end if end == k else end // block * block for end in ends]
        assert torch.equal(d.double(), expected(torch, left, right, rounded)), ends


@pytest.mark.parametrize("seed", range(20))
def test_nan_in_rows_of_no_group_is_not_multiplied(seed: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    k, m, n = (int(x) for x in rng.integers(1, 600, 3))
    m, n, groups = 8 * m, 8 * n, int(rng.integers(1, 33))
    a, b = (torch.randint(-3, 4, (k, x), device="cuda").bfloat16() for x in (m, n))
    ends = sorted(rng.integers(0, k + 1, groups).tolist())
    a[ends[-1] :], b[ends[-1] :] = float("nan"), float("inf")
    found = compiled()(a, b, ends=torch.tensor(ends, dtype=torch.int32, device="cuda"))
    assert torch.equal(found.double(), expected(torch, a, b, ends))


def added(acc, c: lt.Full):
    return acc + c


def test_groups_are_added_to_d_and_empty_ones_leave_it() -> None:
    torch = pytest.importorskip("torch")
    k, m, n = 700, 256, 136
    a, b = (torch.randint(-3, 4, (k, x), device="cuda").bfloat16() for x in (m, n))
    for own in ([0, 100, 100, 650], [0, 0, 0, 0], [700, 700, 700, 700]):
        d = torch.randint(-9, 10, (len(own), m, n), device="cuda").float()
        wanted = d.double() + expected(torch, a, b, own)
        ends = torch.tensor(own, dtype=torch.int32, device="cuda")
        lt.grouped_matmul(a.mT, b, ends, epilogue=added, c=d, out=d)
        assert torch.equal(d.double(), wanted), own


def test_a_graph_is_replayed_with_other_ends() -> None:
    torch = pytest.importorskip("torch")
    k, m, n, groups = 512, 256, 128, 5
    a, b = (torch.randint(-3, 4, (k, x), device="cuda").bfloat16() for x in (m, n))
    ends = torch.full((groups,), k, dtype=torch.int32, device="cuda")
    d, kernel = torch.zeros(groups, m, n, device="cuda"), compiled()
    kernel(a, b, ends=ends, out=d)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, ends=ends, out=d)
    rng = np.random.default_rng(0)
    for _ in range(20):
        own = sorted(rng.integers(0, k + 1, groups).tolist())
        ends.copy_(torch.tensor(own, dtype=torch.int32))
        d.fill_(-5.0)
        graph.replay()
        assert torch.equal(d.double(), expected(torch, a, b, own))


def test_grouped_matmul_takes_factors_of_two_dimensions() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    for seed in range(10):
        k, m, n = (8 * int(x) for x in rng.integers(1, 100, 3))
        a, b = (torch.randint(-3, 4, (k, x), device="cuda").bfloat16() for x in (m, n))
        own = sorted(np.random.default_rng(seed).integers(0, k + 1, 6).tolist())
        d = torch.empty(6, m, n, device="cuda")
        lt.grouped_matmul(a.mT, b, torch.tensor(own, dtype=torch.int32, device="cuda"), out=d)
        assert torch.equal(d.double(), expected(torch, a, b, own))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_layer_of_experts_and_its_gradients_agree_with_a_loop_in_float64(compiled: bool) -> None:
    torch = pytest.importorskip("torch")
    grouped_matmul = importlib.import_module("lowtide.torch").grouped_matmul
    rows, width, hidden, experts = 700, 256, 320, 8
    own = [0, 90, 91, 91, 300, 450, 640, 680]  # an empty expert first, and 20 rows of none
    ends = torch.tensor(own, dtype=torch.int32, device="cuda")
    shapes = (rows, width), (experts, width, hidden), (experts, hidden, width)
    x, up, down = ((torch.randn(*shape, device="cuda") / 16).bfloat16().requires_grad_() for shape in shapes)

    def layer(x: Any, up: Any, down: Any) -> Any:
        return grouped_matmul(torch.relu(grouped_matmul(x, up, ends)), down, ends)

    y = (torch.compile(layer) if compiled else layer)(x, up, down)
    dy = torch.randn_like(y)
    found = [y.detach(), *torch.autograd.grad(y, (x, up, down), dy)]
    wide = [each.detach().double().requires_grad_() for each in (x, up, down)]
    parts = [
        torch.relu(wide[0][first:end] @ wide[1][expert]) @ wide[2][expert]
        for expert, (first, end) in enumerate(zip([0, *own[:-1]], own, strict=True))
    ]
    whole = torch.cat([*parts, wide[0].new_zeros(rows - own[-1], width)])
    wanted = [whole.detach(), *torch.autograd.grad(whole, wide, dy.double())]
    for one, other in zip(found, wanted, strict=True):
        assert (one.double() - other).norm() < 2**-6 * other.norm()
    assert not found[0][own[-1] :].any() and not found[1][own[-1] :].any() and not found[2][0].any()
