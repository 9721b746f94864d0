"""A last wave in half tiles on the GPU against float64: every element of D written once, whatever the waves."""

import numpy as np
import pytest
from gemm_checks import check

import lowtide as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

TALL = "grid.tile = [256, 64], tail = halves"
KERNELS = {
    "tma": (TALL, lt.GemmSpec(a="bf16", b="bf16", d="bf16", n=None), "epilogue.path = tma"),
    "smem": (TALL, lt.GemmSpec(a="f16", b="f16", d="f32"), "epilogue.path = smem"),
    "direct, nt": (TALL, lt.GemmSpec(a="bf16", b="bf16", d="bf16", layout="nt"), "epilogue.path = direct"),
    "one consumer": ("grid.tile = [128, 40], tail = halves", lt.GemmSpec(a="bf16", b="bf16", d="bf16"), "order = row"),
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
