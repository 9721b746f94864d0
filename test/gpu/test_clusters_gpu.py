"""Kernels launched in clusters on the GPU: every shape, order and epilogue path, ragged extents, graphs and streams."""

from itertools import pairwise

import pytest
from gemm_checks import assert_product, random_matrix

import lowtide as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

CLUSTERS = ("2, 1", "1, 2", "2, 2", "4, 1", "1, 4", "4, 2", "2, 4")
# Members of a cluster past the edge of D in either direction, one K step, more K steps than stages, several tiles.
SIZES = ((128, 128, 64), (130, 136, 72), (1000, 328, 648), (1290, 2056, 200), (64, 4104, 1032))
SPEC = lt.GemmSpec(a="bf16", b="bf16", d="bf16")


@pytest.fixture(scope="module", autouse=True)
def hopper() -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")


def stored(layout: str, m: int, n: int, k: int) -> tuple["torch.Tensor", "torch.Tensor"]:
    """A and B as they lie in memory."""
    return random_matrix(*((m, k) if layout[0] == "t" else (k, m))), random_matrix(
        *((n, k) if layout[1] == "n" else (k, n))
    )


def check(kernel: object, layout: str, m: int, n: int, k: int) -> None:
    a, b = stored(layout, m, n, k)
    d = random_matrix(m, n).fill_(float("nan"))
    kernel(a, b, out=d)
    torch.cuda.synchronize()
    assert_product(d, a if layout[0] == "t" else a.t(), b if layout[1] == "n" else b.t())


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_cluster_multiplies_in_every_layout(cluster: str, layout: str) -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", layout=layout)
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=f"grid.tile = [128, 128], cluster = [{cluster}]")
    for size in SIZES:
        check(kernel, layout, *size)


@pytest.mark.parametrize("path", ["direct", "smem", "tma"])
@pytest.mark.parametrize("order", ["row, scheduler = even_split", "groups(2, 3)", "grouped(4)"])
def test_every_epilogue_path_and_scheduler_stores_nothing_past_the_edge(path: str, order: str) -> None:
    schedule = f"grid.tile = [128, 64], cluster = [2, 2], order = {order}, epilogue.path = {path}"
    kernel = lt.compile_gemm(SPEC, target="sm_90a", schedule=schedule)
    for size in SIZES:
        check(kernel, "tn", *size)


@pytest.mark.parametrize("copy", ["tma", "tma.3d", "tma.5d"])
def test_shares_are_boxes_of_maps_of_any_rank(copy: str) -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", layout="nt")
    schedule = f"grid.tile = [128, 128], cluster = [2, 2], a.copy = {copy}, b.copy = {copy}"
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=schedule)
    check(kernel, "nt", 640, 320, 200)


def test_a_graph_replays_launches_in_clusters_one_behind_the_other() -> None:
    kernel = lt.compile_gemm(SPEC, target="sm_90a", schedule="grid.tile = [128, 128], cluster = [2, 1]")
    matrices = [random_matrix(712, 712) for _ in range(4)]
    factor = random_matrix(712, 712)
    launches = [kernel.bind(before, factor, out=after) for before, after in pairwise(matrices)]
    for launch in launches:
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    for _ in range(3):
        matrices[0].copy_(torch.randn_like(matrices[0]) / 27)
        graph.replay()
        torch.cuda.synchronize()
        for before, after in pairwise(matrices):
            assert_product(after, before, factor)
