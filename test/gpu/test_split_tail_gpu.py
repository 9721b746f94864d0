"""A last wave in half tiles on the GPU against float64: every element of D written once, whatever the waves."""

import numpy as np
import pytest
from gemm_checks import assert_product, check, random_matrix

import lowtide as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

TALL = "grid.tile = [256, 64], tail = halves"
KERNELS = {
    "tma": (TALL, lt.GemmSpec(a="bf16", b="bf16", d="bf16", n=None), "epilogue.path = tma"),
    "smem": (TALL, lt.GemmSpec(a="f16", b="f16", d="f32"), "epilogue.path = smem"),
    "direct, nt": (TALL, lt.GemmSpec(a="bf16", b="bf16", d="bf16", layout="nt"), "epilogue.path = direct"),
    "one consumer": ("grid.tile = [128, 48], tail = halves", lt.GemmSpec(a="bf16", b="bf16", d="bf16"), "order = row"),
}
# On 132 SMs: a tile, a few, none left over, less than half of a wave left over, just half, more.
TILES = ((1, 1), (3, 20), (12, 22), (11, 30), (9, 22), (11, 21))


@pytest.mark.parametrize("name", KERNELS)
def test_every_element_is_written_once_whatever_is_left_for_the_last_wave(name):
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")
    schedule, spec, rest = KERNELS[name]
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=f"{schedule}, {rest}")
    rows, columns = kernel.schedule.grid.tile
    rng = np.random.default_rng(0)
    for m, n in TILES:
        for short in (8, rows // 2 + 8):  # the last half is ragged, or lies past the edge
            check(spec, kernel, (m * rows - short, n * columns - 8, int(rng.integers(1, 300))), rng)


WAVES = "grid.tile = [256, 64], tail = halves, waves = synchronized, epilogue.path = tma"
SPEC = lt.GemmSpec(a="bf16", b="bf16", d="bf16")
M, N, K = 11 * 256 - 8, 30 * 64 - 8, 200  # two full waves on 132 SMs and a tail of 66


@pytest.fixture(scope="module", params=["[1, 1]", "[2, 1]", "[2, 2]"])
def in_step(request):
    """A kernel whose CTAs keep in step, alone or in clusters."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")
    return lt.compile_gemm(SPEC, target="sm_90a", schedule=f"{WAVES}, cluster = {request.param}")


def test_launch_after_launch_finds_the_counter_of_waves_at_zero(in_step):
    rng = np.random.default_rng(1)
    for size in ((M, N, K), (M, N, K), (300, 72, 40), (M, 40, 64), (M, N, K)):
        check(SPEC, in_step, size, rng)


def test_kernels_that_keep_in_step_run_in_two_streams_at_once_and_in_replays(in_step):
    streams = [torch.cuda.Stream() for _ in range(2)]
    operands = [(random_matrix(M, K), random_matrix(N, K), random_matrix(M, N)) for _ in streams]
    torch.cuda.synchronize()
    graphs = []
    for stream, (a, b, d) in zip(streams, operands, strict=True):
        with torch.cuda.stream(stream):
            in_step(a, b, out=d)
        stream.synchronize()
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1], stream=stream):
            for _ in range(3):
                in_step(a, b, out=d)
    for _, _, d in operands:
        d.fill_(float("nan"))
    torch.cuda.synchronize()
    for _ in range(4):
        for stream, graph, (a, b, d) in zip(streams, graphs, operands, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
                in_step(a, b, out=d)
    torch.cuda.synchronize()
    for a, b, d in operands:
        assert_product(d, a, b)
