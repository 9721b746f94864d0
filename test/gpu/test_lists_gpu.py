"""Lists of matrices on the GPU: groups of rows and batches, saved kernels, tables made on the device, and graphs."""

from typing import Any

import pytest

import lowtide as lt
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu

# TMA loads by tensor maps that a launch makes on the device. It is the default of kernels with roles.
_B_BY_THREADS = "b.copy = cp.async.16"
_THREADS, _TMA = "copy = cp.async.16", "a.copy = tma, b.copy = tma"

CASES: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "mma.sync, groups": ("sm_80", {"groups": None}, None),
    "mma.sync, groups, B as (K, N)": ("sm_80", {"groups": None, "layout": "tt"}, None),
    "mma.sync, a batch": ("sm_80", {"batch": None}, None),
    "products in f32": ("sm_80", {"groups": None, "a": "f32", "d": "f32"}, None),
    "wgmma, groups": ("sm_90a", {"groups": None}, _B_BY_THREADS),
    "wgmma, groups, B as (K, N)": ("sm_90a", {"groups": None, "layout": "tt"}, _B_BY_THREADS),
    "wgmma, groups, in turn": ("sm_90a", {"groups": None}, f"roles = pingpong(2), {_B_BY_THREADS}"),
    "wgmma, groups, rows at indices": ("sm_90a", {"groups": None, "a_rows": True, "d_rows": True}, _B_BY_THREADS),
    "TMA, groups, rows at indices": ("sm_90a", {"groups": None, "a_rows": True, "d_rows": True}, None),
    "wgmma, a batch": ("sm_90a", {"batch": None}, _B_BY_THREADS),
    "wgmma, padded groups": ("sm_90a", {"batch": None, "counts": True}, _B_BY_THREADS),
    "mma.sync, D of a batch": ("sm_80", {"batch": None, "lists": "d"}, None),
    "wgmma, D of a batch": ("sm_90a", {"batch": None, "lists": "d"}, None),
    "wgmma, D of a batch by TMA": ("sm_90a", {"batch": None, "lists": "d"}, "epilogue.path = tma"),
    "wgmma of 8-bit floats": ("sm_90a", {"groups": None, "a": "e4m3"}, _B_BY_THREADS),
    "mma.sync, lists of products": ("sm_80", {"batch": None, "counts": True, "lists": "abd"}, None),
    "wgmma, lists of products": ("sm_90a", {"batch": None, "counts": True, "lists": "abd"}, _THREADS),
    "TMA, groups": ("sm_90a", {"groups": None}, None),
    "TMA, groups, B as (K, N)": ("sm_90a", {"groups": None, "layout": "tt"}, "b.copy = tma"),
    "TMA, groups, in turn": ("sm_90a", {"groups": None}, "roles = pingpong(2), b.copy = tma"),
    "TMA, a batch": ("sm_90a", {"batch": None}, "b.copy = tma"),
    "TMA, padded groups": ("sm_90a", {"batch": None, "counts": True}, "b.copy = tma"),
    "TMA, 8-bit floats": ("sm_90a", {"groups": None, "a": "e4m3"}, "b.copy = tma"),
    "TMA, lists of products": ("sm_90a", {"batch": None, "counts": True, "lists": "abd"}, _TMA),
    "TMA, lists of products, A (K, M)": (
        "sm_90a",
        {"batch": None, "counts": True, "lists": "abd", "layout": "nt"},
        _TMA,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_saved_kernels_agree_with_float64(name: str) -> None:
    target, fields, schedule = CASES[name]
    fields = {"a": "bf16", "d": "bf16", "lists": "b"} | fields
    kernel = lt.compile_gemm(lt.GemmSpec(**({"b": fields["a"]} | fields)), target=target, schedule=schedule)
    for seed, size in enumerate(((300, 520, 264), (1, 1000, 64), (700, 136, 512))):
        size = size if fields["a"] == "bf16" else tuple(-(-extent // 16) * 16 for extent in size)
        outcome = verify_kernel(lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, outcome.message


def expected(a: Any, matrices: list[Any], ends: list[int], d: Any) -> Any:
    found, first = d.double(), 0
    for b, end in zip(matrices, ends, strict=True):
        found[first:end] = a[first:end].double() @ b.double()
        first = end
    return found


@pytest.mark.parametrize("by_k", [False, True])
def test_grouped_matmul_takes_a_list_also_in_a_graph_with_other_ends(by_k: bool) -> None:
    torch = pytest.importorskip("torch")
    rows, n, k, count = 400, 200, 192, 9
    a = torch.randint(-3, 4, (rows, k), device="cuda").bfloat16()
    shape = (n, k) if by_k else (k, n)
    matrices = [torch.randint(-3, 4, shape, device="cuda").bfloat16() for _ in range(count)]
    matrices = [each.mT if by_k else each for each in matrices][::-1]
    ends = torch.tensor([0, 3, 100, 100, 101, 228, 300, 399, 399], dtype=torch.int32, device="cuda")
    d = torch.full((rows, n), 77.0, device="cuda")
    lt.grouped_matmul(a, matrices, ends, out=d)
    assert torch.equal(d.double(), expected(a, matrices, ends.tolist(), torch.full_like(d, 77.0)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        lt.grouped_matmul(a, matrices, ends, out=d)
    for given in ([400] * count, [0] * count, [1, 2, 3, 4, 5, 6, 7, 8, 400]):
        d.fill_(77)
        ends.copy_(torch.tensor(given, dtype=torch.int32))
        graph.replay()
        assert torch.equal(d.double(), expected(a, matrices, given, torch.full_like(d, 77.0)))


def test_a_table_may_be_made_on_the_device() -> None:
    torch = pytest.importorskip("torch")
    rows, n, k, count = 100, 64, 128, 4
    a = torch.randint(-3, 4, (rows, k), device="cuda").bfloat16()
    pool = torch.randint(-3, 4, (10, n, k + 8), device="cuda").bfloat16()
    chosen = torch.tensor([7, 2, 9, 0], device="cuda")
    table = torch.stack(
        [pool.data_ptr() + chosen * n * (k + 8) * 2, *(torch.full_like(chosen, x) for x in (n, k, k + 8))]
    )
    b = lt.matrix_list(table=table.T.contiguous(), shape=(count, n, k), dtype="bf16")
    kernel = lt.compile_gemm(lt.GemmSpec(n=n, k=k, groups=count, a="bf16", b="bf16", d="f32", lists="b"))
    ends = torch.tensor([30, 31, 90, 100], dtype=torch.int32, device="cuda")
    d = kernel(a, b, ends=ends)
    matrices = [pool[number, :, :k].mT for number in chosen.tolist()]
    assert torch.equal(d.double(), expected(a, matrices, ends.tolist(), torch.zeros_like(d)))


def test_tma_loads_products_of_any_sizes_also_in_a_graph() -> None:
    """Each replay makes the tensor maps anew, in the workspace of the graph."""
    torch = pytest.importorskip("torch")
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("wgmma is of sm_90a alone")
    drawn = torch.randint(0, 60, (40, 3), generator=torch.manual_seed(2)).tolist()
    sizes = [[8 * m, 8 * n, 8 * k] for m, n, k in drawn] + [[1, 8, 8], [7, 1000, 264], [300, 8, 0], [3000, 2000, 512]]

    def matrices(shapes: Any) -> list[Any]:
        return [torch.randint(-3, 4, shape, device="cuda").bfloat16() for shape in shapes]

    a, b = matrices((m, k) for m, _, k in sizes), matrices((n, k) for _, n, k in sizes)
    d = [torch.full((m, n), 77.0, device="cuda").bfloat16() for m, n, _ in sizes]
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", batch=None, counts=True, lists="abd")
    kernel = lt.compile_gemm(spec)
    assert kernel.schedule.mainloop.a.copy == kernel.schedule.mainloop.b.copy == "tma"
    counts = torch.tensor([m for m, *_ in sizes], dtype=torch.int32, device="cuda")
    lists = [lt.matrix_list(each) for each in (a, b, d)]

    def check() -> None:
        for x, y, found in zip(a, b, d, strict=True):
            assert torch.equal(found, (x.double() @ y.double().T).to(found.dtype))

    def launch() -> None:
        kernel(*lists[:2], counts=counts, out=lists[2])

    launch()
    check()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    for x in (*a, *b):
        x.copy_(torch.randint(-3, 4, x.shape, device="cuda"))
    for each in d:
        each.fill_(77)
    graph.replay()
    check()


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("odd", [False, True])
def test_lists_of_products_of_any_sizes(dtype: str, odd: bool) -> None:
    torch = pytest.importorskip("torch")
    kind, unit = getattr(torch, dtype), 1 if odd else 8
    sizes = [[unit * int(x) for x in size] for size in torch.randint(0, 40, (30, 3), generator=torch.manual_seed(1))]
    a = [torch.randint(-3, 4, (m, k), device="cuda").to(kind) for m, _, k in sizes]
    for by_k in (False, True):
        b = [torch.randint(-3, 4, (n, k) if by_k else (k, n), device="cuda").to(kind) for _, n, k in sizes]
        b = [each.mT if by_k else each for each in b]
        out = [torch.full((m, n), 77.0, device="cuda") for m, n, _ in sizes]
        for found in (lt.grouped_matmul(a, b), lt.grouped_matmul(a, b, out=out)):
            for x, y, d in zip(a, b, found, strict=True):
                wanted = (x.double() @ y.double()).to(d.dtype)
                assert torch.equal(d, wanted)
