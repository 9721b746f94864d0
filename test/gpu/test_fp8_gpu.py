"""8-bit floats on the GPU against float64: pairs of types, sums, D, roads of the schedule, presets, and scales."""

import itertools

import pytest
from gemm_checks import least_k

import lowtide as lt
from lowtide.compiler.presets import LADDERS
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu

SIZES = ((300, 520, 272), (1, 1000, 64), (131, 17, 1040))
SCHEDULES = [
    None,
    "grid.tile = [64, 64], stages = 2",
    "grid.tile = [256, 64], tail = halves, scheduler = persistent",
    "roles = pingpong(2), grid.tile = [128, 64]",
    "roles = cooperative(3), grid.tile = [192, 64], k = 64",
    "grid.tile = [128, 128], cluster = [2, 1]",
    "grid.tile = [128, 128], k_division = split(3)",
    "grid.tile = [128, 128], k_division = stream_k",
]


def scaled(acc, row: lt.PerRow["f32"], column: lt.PerColumn["f32"], whole: lt.Scalar):  # noqa: F821
    return acc * row * column * whole


def agrees(spec: lt.GemmSpec, schedule: str | None = None, target: str = "sm_90a") -> None:
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    for seed, (m, n, k) in enumerate(SIZES):
        size = m, n, max(k, least_k(kernel.schedule))
        outcome = verify_kernel(lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, outcome.message


@pytest.mark.parametrize("acc", ["f32", "fast"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_products_agree_with_float64_at_ragged_shapes(schedule, acc):
    agrees(lt.GemmSpec(a="e4m3", b="e4m3", d="bf16", acc=acc), schedule)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(("e4m3", "e5m2"), repeat=2)))
@pytest.mark.parametrize("d", ["f16", "f32", "e4m3", "e5m2"])
def test_each_pair_of_types_goes_with_each_type_of_d_and_with_scales(a, b, d):
    agrees(lt.GemmSpec(a=a, b=b, d=d, epilogue=scaled))


@pytest.mark.parametrize("target", ["sm_90", "sm_90a"])
def test_d_of_8_bits_goes_with_wider_operands(target):
    agrees(lt.GemmSpec(a="bf16", b="bf16", d="e4m3", layout="nt"), target=target)


def beside(acc, c: lt.Full["e4m3"], row: lt.PerRow["e5m2"], column: lt.PerColumn["e4m3"]):  # noqa: F821
    return (acc + c) * row - column


@pytest.mark.parametrize("d_order", ["row", "column"])
@pytest.mark.parametrize("d", ["bf16", "f32", "e4m3"])
@pytest.mark.parametrize("target", ["sm_89", "sm_90a"])
@pytest.mark.parametrize("dtype", ["bf16", "e4m3"])
def test_operands_of_8_bits_are_widened_exactly(dtype, target, d, d_order):
    agrees(lt.GemmSpec(a=dtype, b=dtype, d=d, d_order=d_order, epilogue=beside), target=target)


@pytest.mark.parametrize("name", [name for name, preset in LADDERS.items() if "e4m3" in preset.dtypes])
def test_presets_agree_with_float64(name):
    agrees(lt.GemmSpec(**{"a": "e4m3", "b": "e5m2", "d": "bf16", **LADDERS[name].problem}), name)


@pytest.mark.parametrize(
    "schedule",
    [
        *SCHEDULES,
        *(f"grid.tile = {tile}" for tile in ("[128, 96], k = 64", "[64, 176]", "[128, 160], k_division = tail(3)")),
    ],
)
@pytest.mark.parametrize(
    "scales", [lt.BlockScales(), lt.BlockScales(a=(128, 128)), lt.BlockScales(a=(128, 128), b=(1, 128))]
)
def test_scales_of_blocks_agree_with_float64_at_ragged_shapes(schedule, scales):
    agrees(lt.GemmSpec(a="e4m3", b="e5m2", d="bf16", block_scales=scales), schedule)
