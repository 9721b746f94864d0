"""Ping-pong consumers on the GPU: every number of tiles per CTA, ragged extents, every epilogue path, graphs."""

import numpy as np
import pytest
from gemm_checks import assert_product, bits_of, check, random_matrix

import lowtide as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

SPEC = lt.GemmSpec(a="bf16", b="bf16", d="bf16")
PINGPONG = "roles = pingpong(2), k = 64"


@pytest.fixture(scope="module", autouse=True)
def hopper() -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")


@pytest.mark.parametrize(
    "fields",
    [
        "grid.tile = [128, 192], path = tma",
        "grid.tile = [64, 256], path = tma, scheduler = even_split, buffers = 4",
        "grid.tile = [128, 128], path = smem",
        "grid.tile = [64, 64], path = direct, stages = 2",
        "grid.tile = [64, 128], path = tma, roles = pingpong(3)",
    ],
)
def test_ragged_problems_of_few_and_many_tiles_are_right(fields: str) -> None:
    roles = PINGPONG if "pingpong(3)" not in fields else "k = 64"
    kernel = lt.compile_gemm(SPEC, target="sm_90a", schedule=f"{roles}, {fields}")
    rng = np.random.default_rng(len(fields))
    # One tile; fewer than CTAs; about two, three and five for each CTA. K: one step, a few, many.
    sizes = [(1, 8, 8), (120, 184, 64), (1500, 1304, 200), (2500, 2200, 72), (2700, 3600, 1000)]
    for m, n, k in [*sizes, *((int(m), int(n) // 8 * 8, int(k)) for m, n, k in rng.integers(8, 2000, (4, 3)))]:
        check(SPEC, kernel, (m, n, k), rng)


def test_a_graph_replays_ping_pong_kernels_that_feed_each_other() -> None:
    kernel = lt.compile_gemm(SPEC, target="sm_90a", schedule=f"{PINGPONG}, grid.tile = [128, 192], path = tma")
    a, b, c = random_matrix(2600, 520), random_matrix(1504, 520), random_matrix(2008, 1504)
    between, d = random_matrix(2600, 1504), random_matrix(2600, 2008)
    launches = [kernel.bind(a, b, out=between), kernel.bind(between, c, out=d)]
    for launch in launches:
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    for _ in range(3):
        a.copy_(torch.randn_like(a))
        between.fill_(float("nan"))
        d.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert_product(between, a, b)
        assert_product(d, between, c)


def test_the_bits_of_a_product_repeat() -> None:
    kernel = lt.compile_gemm(SPEC, target="sm_90a", schedule=f"{PINGPONG}, grid.tile = [128, 192], path = tma")
    a, b = random_matrix(3000, 2000), random_matrix(4000, 2000)
    first = kernel(a, b)
    assert all(torch.equal(bits_of(kernel(a, b)), bits_of(first)) for _ in range(10))
