"""f32 without tensor cores on the GPU against float64, within the derived bound: presets, layouts, epilogues."""

import numpy as np
import pytest
from gemm_checks import check

import lowtide as lt
from lowtide.compiler.presets import LADDERS

pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

LAYOUTS = ("tn", "tt", "nn", "nt")
SIZES = ((264, 72, 104), (1, 1, 1), (700, 1001, 333))
SIMT = [name for name, preset in LADDERS.items() if "f32" in preset.dtypes and not preset.problem]
ALONG_K = (
    "permutation = [16, 8, 4], atoms = [16, 8, 1], grid.tile = [128, 64], k = 16, stages = 3, "
    "a.copy = cp.async.16, b.copy = cp.async.16"
)


def everything(acc, c: lt.Full, row: lt.PerRow, bias: lt.PerColumn, alpha: lt.Scalar):
    return lt.gelu(alpha * acc + 0.5 * c + bias) - row


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SIMT)
def test_a_preset_agrees_with_float64_at_ragged_shapes(name, layout):
    rng = np.random.default_rng(len(name))
    spec = lt.GemmSpec(a="f32", b="f32", d="f32", layout=layout)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule=name)
    for size in SIZES:
        check(spec, kernel, size, rng)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("d", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_gemms_with_every_kind_of_operand(layout, d, target):
    rng = np.random.default_rng(LAYOUTS.index(layout))
    spec = lt.GemmSpec(a="f32", b="f32", d=d, layout=layout, epilogue=everything)
    kernel = lt.compile_gemm(spec, target=target)
    for _ in range(4):
        m, n, k = (int(rng.integers(1, top)) for top in (400, 400, 700))
        check(spec, kernel, (m, n, k), rng)


@pytest.mark.parametrize(
    "schedule",
    [ALONG_K, "epilogue.path = smem", "epilogue.path = smem, epilogue.math = rows", "scheduler = persistent"],
)
def test_other_schedules(schedule):
    rng = np.random.default_rng(5)
    spec = lt.GemmSpec(a="f32", b="f32", d="f32", epilogue=everything)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule=f"{schedule}, ctas_per_sm = 1")
    for size in SIZES:
        check(spec, kernel, size, rng)
