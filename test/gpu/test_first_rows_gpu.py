"""First rows stored while others are multiplied, and K turned around, on the GPU against float64."""

import numpy as np
import pytest
from gemm_checks import check

import lowtide as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu


def biased(acc, row: lt.PerRow["f32"], column: lt.PerColumn):  # noqa: F821
    return lt.relu(acc + row) + column


FIRST = "grid.tile = [256, 128], roles = cooperative(2), epilogue.start = first_rows"
KERNELS = {
    "bf16": (FIRST, {}),
    "f16, nt": (FIRST, {"a": "f16", "b": "f16", "d": "f16", "layout": "nt"}),
    "D of f32": (f"{FIRST}, tail = halves", {"d": "f32"}),
    "an epilogue": (FIRST, {"epilogue": biased}),
    "clusters": (f"{FIRST}, cluster = [2, 1]", {}),
    "one consumer": ("grid.tile = [192, 64], roles = cooperative(1), epilogue.start = first_rows", {}),
    "K turned around": (f"{FIRST}, k_order = serpentine", {}),
    "K turned around, in turn": ("roles = pingpong(2), k_order = serpentine", {}),
    "K turned around, in parts": ("grid.tile = [128, 64], k_order = serpentine, k_division = tail(2)", {}),
}


@pytest.mark.parametrize("k", [72, 136, 1000])
@pytest.mark.parametrize("name", KERNELS)
def test_every_element_is_stored_after_its_last_k_step(name, k):
    """In one wave of tiles, and in three."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")
    schedule, fields = KERNELS[name]
    spec = lt.GemmSpec(**{"k": k, "a": "bf16", "b": "bf16", "d": "bf16"} | fields)
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=schedule)
    rows, columns = kernel.schedule.grid.tile
    rng = np.random.default_rng(k)
    for m, n in ((1, 1), (9, 21), (17, 23)):
        check(spec, kernel, (m * rows - 8, n * columns - 16, k), rng)
