"""Tall problems of few K steps on the GPU against float64: rings deeper than what they keep, and tiles of D that are
stored among the products of the next one."""

import numpy as np
import pytest
from gemm_checks import check

import lowtide as lt
from lowtide.dialects.tile import EpilogueStart

pytest.importorskip("torch")

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("k", [128, 192, 256])
@pytest.mark.parametrize("tiles", [132 * 3, 132 * 3 + 1, 1280])
def test_each_tile_of_a_tall_product_is_stored(dtype: str, k: int, tiles: int) -> None:
    spec = lt.GemmSpec(m=64 * tiles, n=256, k=k, a=dtype, b=dtype, d=dtype)
    kernel = lt.compile_gemm(spec, target="sm_90")
    assert kernel.schedule.grid.tile == (64, 256) and kernel.schedule.mainloop.stages == 2 * k // 64
    assert (kernel.schedule.epilogue.start is EpilogueStart.next_tile) == (k != 128)
    rng = np.random.default_rng(k)
    for _ in range(2):
        check(spec, kernel, (spec.m, spec.n, spec.k), rng)


@pytest.mark.parametrize("layout", ["tn", "nn", "nt", "tt"])
@pytest.mark.parametrize(("ctas", "stages"), [(1, 8), (2, 4), (1, 4)])
def test_tiles_that_are_held_are_stored_in_every_layout(layout: str, ctas: int, stages: int) -> None:
    spec = lt.GemmSpec(m=64 * 300, n=64, k=128, a="bf16", b="bf16", d="bf16", layout=layout)
    schedule = (
        f"grid.tile = [64, 64], k = 32, stages = {stages}, atoms = [2, 2, 1], scheduler = persistent, order = row, "
        f"ctas_per_sm = {ctas}, prologue = once, unroll = full, b.load = once, epilogue.path = direct, "
        "epilogue.start = next_tile"
    )
    kernel = lt.compile_gemm(spec, target="sm_80", schedule=schedule)
    check(spec, kernel, (spec.m, spec.n, spec.k), np.random.default_rng(0))
