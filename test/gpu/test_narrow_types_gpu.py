"""Bytes, tf32, and f32 by products of pieces on the GPU against float64: layouts, D, roads of the schedule, presets."""

import itertools

import pytest

import lowtide as lt
from lowtide.compiler.presets import LADDERS
from lowtide.decompositions import DECOMPOSITIONS
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu

SIZES = ((300, 520, 272), (1, 1000, 64), (131, 17, 1040))
ODD = ((301, 523, 277), (3, 129, 7))
LAYOUTS = ("tn", "tt", "nn", "nt")
ROADS = (("sm_80", None), ("sm_90a", None), ("sm_90a", "grid.tile = [128, 128], k_division = split(3)"))


def dequantized(acc, row: lt.PerRow["s32"], scale: lt.PerColumn["f32"]):  # noqa: F821
    """Zero points of A act as a term for each row, exactly; then D is real."""
    return (acc - row) * scale


def agrees(spec: lt.GemmSpec, target: str, schedule: str | None = None, sizes: tuple = SIZES) -> None:
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    for seed, size in enumerate(sizes):
        outcome = verify_kernel(lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, outcome.message


@pytest.mark.parametrize(("target", "schedule"), ROADS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["s8", "u8", "tf32"])
def test_each_layout_agrees_with_float64(dtype, layout, target, schedule):
    form = {"d": "f32"} if dtype == "tf32" else {"d": "s32", "acc": "s32"}
    agrees(lt.GemmSpec(a=dtype, b=dtype, layout=layout, **form), target, schedule)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(("s8", "u8"), repeat=2)))
@pytest.mark.parametrize("d", ["s8", "u8", "bf16", "f32"])
def test_each_pair_of_bytes_goes_with_zero_points_and_each_type_of_d(a, b, d):
    for target in ("sm_80", "sm_90a"):
        agrees(lt.GemmSpec(a=a, b=b, d=d, acc="s32", epilogue=dequantized), target)


@pytest.mark.parametrize("acc", ["f32", "fast"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", DECOMPOSITIONS)
def test_products_of_pieces_agree_with_float64_wherever_matrices_lie(precision, layout, acc):
    agrees(lt.GemmSpec(a="f32", b="f32", d="f32", precision=precision, layout=layout, acc=acc), "sm_90a", sizes=ODD)


@pytest.mark.parametrize("precision", DECOMPOSITIONS)
def test_batches_of_products_of_pieces(precision):
    agrees(lt.GemmSpec(batch=3, a="f32", b="f32", d="f32", precision=precision, layout="nt"), "sm_90a", sizes=ODD)


@pytest.mark.parametrize("name", [name for name, preset in LADDERS.items() if {"s8", "tf32"} & set(preset.dtypes)])
def test_presets_agree_with_float64(name):
    preset = LADDERS[name]
    agrees(preset.spec(preset.dtypes[0]), preset.target, name)


@pytest.mark.parametrize("name", [name for name, preset in LADDERS.items() if "precision" in preset.problem])
def test_presets_of_pieces_agree_with_float64(name):
    agrees(LADDERS[name].spec("f32"), LADDERS[name].target, name)
