"""Batches, and D by columns by its presets, on the GPU: against float64, with guards around D and shared operands."""

import pytest

import lowtide as lt
from lowtide.compiler.presets import LADDERS
from lowtide.elements import WEIGHT_ROWS
from lowtide.runtime.verify import verify_kernel

pytestmark = pytest.mark.gpu

SIZES = ((300, 520, 264), (1, 1000, 64), (131, 17, 333))
PACKED = "a.pack = rows, b.pack = rows, epilogue.pack = rows"
SCHEDULES = [
    ("sm_80", None),
    ("sm_80", "grid.tile = [64, 64], scheduler = persistent, k_division = stream_k"),
    ("sm_80", f"grid.tile = [64, 64], {PACKED}"),
    ("sm_90a", None),
    ("sm_90a", "roles = cooperative(2), grid.tile = [128, 128], cluster = [2, 1]"),
    ("sm_90a", f"roles = cooperative(2), grid.tile = [128, 128], epilogue.path = tma, {PACKED}"),
]


def every_kind(acc, c: lt.Full, row: lt.PerRow, column: lt.PerColumn):
    return acc + c - row + column


def sizes_of(spec: lt.GemmSpec) -> list[tuple[int, int, int]]:
    """Those at which the problem can be run: with its own M, and packed weights in whole rows and groups."""
    rows, group = (WEIGHT_ROWS, spec.group or 1) if spec.is_mixed else (1, 1)
    return [(spec.m or m, -(-n // rows) * rows, -(-k // group) * group) for m, n, k in SIZES]


def agrees(spec: lt.GemmSpec, target: str, schedule: str | None, batch: int | None = None) -> None:
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    manifest = kernel.manifest
    if batch is not None:
        manifest = {**manifest, "example": {**manifest["example"], "batch": batch}}
    for seed, size in enumerate(sizes_of(spec)):
        outcome = verify_kernel(lt.runtime.Kernel(manifest, kernel.ptx, kernel.cubin), size=size, seed=seed)
        assert outcome.ok, outcome.message


@pytest.mark.parametrize("batch", [1, 5, 67])
@pytest.mark.parametrize("layout", ["tn", "nt"])
@pytest.mark.parametrize(("target", "schedule"), SCHEDULES)
def test_batches_agree_with_float64_at_ragged_shapes(target, schedule, layout, batch):
    agrees(lt.GemmSpec(batch=None, a="bf16", b="bf16", d="bf16", layout=layout), target, schedule, batch)


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("epilogue", [None, every_kind])
@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_batches_of_d_by_columns_agree_with_float64(target, layout, epilogue, batch):
    spec = lt.GemmSpec(batch=None, a="bf16", b="bf16", d="bf16", layout=layout, d_order="column", epilogue=epilogue)
    agrees(spec, target, None, batch)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_operands_of_the_epilogue_are_own_or_shared(target):
    agrees(lt.GemmSpec(batch=5, a="bf16", b="bf16", d="bf16", epilogue=every_kind), target, None)


@pytest.mark.parametrize(
    "name", [name for name, preset in LADDERS.items() if preset.problem and "f16" in preset.dtypes]
)
def test_presets_for_a_form_of_problem_agree_with_float64(name):
    preset = LADDERS[name]
    spec = preset.spec()
    agrees(spec, preset.target, name, 5 if spec.is_batched else None)
