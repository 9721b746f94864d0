"""Kernels with stamps on the GPU: the bits of D without stamps, and times in order."""

from __future__ import annotations

import numpy as np
import pytest
from gemm_checks import random_matrix

import lowtide as lt
from lowtide.inspection.timeline.measured import stamps_of
from lowtide.measurement.stamped import race_stamped
from lowtide.passes.nvvm.stamp_agents import StampLayout

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

SCHEDULES = {
    "shared tiles": "grid.tile = [128, 256], roles = cooperative(2)",
    "turns": "grid.tile = [128, 128], roles = pingpong(2)",
    "clusters": "grid.tile = [128, 128], grid.cluster = [2, 1], roles = cooperative(2)",
    "warps": "roles = single, atom = mma.m16n8k16",
    "halves": "grid.tile = [256, 128], roles = cooperative(2), tail = halves",
    "shares of K": "grid.tile = [128, 256], roles = cooperative(2), k_division = stream_k",
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_stamps_leave_d_alone_and_cover_every_tile(name: str) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")
    spec = lt.GemmSpec(m=2000, n=2048, k=512, a="bf16", b="bf16", d="bf16")
    plain, stamped = (lt.compile_gemm(spec, "sm_90a", SCHEDULES[name], stamps=stamps) for stamps in (False, True))
    a, b = random_matrix(2000, 512), random_matrix(2048, 512)
    wanted, d = plain(a, b), torch.full((2000, 2048), float("nan"), device="cuda", dtype=torch.bfloat16)
    ran = race_stamped(plain, stamped, a, b, d)
    assert torch.equal(d, wanted)
    threads = next(each["attributes"]["block"][0] for each in stamped.manifest["host"] if each["op"] == "tile.launch")
    layout = StampLayout.of(stamped.schedule, threads)
    stamps = stamps_of(ran.words, layout.agents, layout.tiles)
    written = ~np.isnan(stamps.times[..., 0])
    assert (np.diff(stamps.times[written], axis=-1) >= 0).all() and 0 < stamps.total * 1e-6 < 2 * ran.stamped
    rows, columns = stamped.schedule.tile_mnk[:2]
    tiles = -(-2000 // rows) * -(-2048 // columns)
    of_consumers = written[:, 1:] if len(layout.agents) > 1 else written
    is_divided = name in ("halves", "shares of K")  # then some tiles are several work items
    assert (of_consumers.sum() >= tiles if is_divided else of_consumers.sum() == tiles) and stamps.is_whole
    assert 500 < stamps.clock_mhz < 3000
