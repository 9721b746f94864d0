"""The timing of loops: kept from level to level, obeyed at `nvvm`, and refused where it differs from the schedule."""

import re
from collections.abc import Mapping
from functools import cache

import pytest
from test_built_for import edited

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel

_HELD = (
    "grid.tile = [64, 32], order = row, k = 64, atoms = [2, 1, 1], stages = 6, prologue = once, unroll = full, "
    "b.load = once, epilogue.path = direct, epilogue.start = next_tile, ctas_per_sm = 2"
)
_ROWS = (
    "grid.tile = [128, 32], k = 32, roles = cooperative(1), atoms = [1, 1, 1], epilogue.path = tma, "
    "epilogue.tile = [64, 32], epilogue.start = first_rows"
)
_SCALED = (
    "grid.tile = [128, 192], k = 128, roles = cooperative(2), atom = wgmma.m64n192k32, multiply.promote = overlapped"
)
_OF_BLOCKS = lt.GemmSpec(m=256, n=192, k=512, a="e4m3", b="e4m3", d="bf16", block_scales=lt.BlockScales())
KERNELS: Mapping[str, tuple[str, lt.GemmSpec, str]] = {
    "held": ("sm_80", lt.GemmSpec(m=384, n=32, k=192, a="f16", b="f16", d="f16"), _HELD),
    "rows": ("sm_90a", lt.GemmSpec(m=256, n=64, k=128, a="bf16", b="bf16", d="bf16"), _ROWS),
    "scaled": ("sm_90a", _OF_BLOCKS, _SCALED),
}
EDITS = [
    ("held", "epilogue.start = all_sums", "stores = next_tile"),
    ("held", "unroll = none, epilogue.start = all_sums", "steps = unrolled"),
    ("held", "ctas_per_sm = 1", "leaves room for 2 CTAs on an SM"),
    ("rows", "epilogue.start = all_sums", "stores = first_rows"),
    ("scaled", "multiply.promote = per_step", "slot = step_before"),
]


@cache
def compiled(name: str) -> CompiledKernel:
    target, spec, schedule = KERNELS[name]
    return lt.compile_gemm(spec, target=target, schedule=schedule)


@pytest.mark.parametrize("level", ["pipelined", "atoms", "epilogue", "nvvm", "llvm"])
@pytest.mark.parametrize(("name", "fields", "built"), EDITS, ids=[f"{name}: {fields}" for name, fields, _ in EDITS])
def test_a_schedule_that_times_a_lowered_loop_otherwise_is_refused(
    name: str, fields: str, built: str, level: str
) -> None:
    assert lt.compile_ir(compiled(name).levels[level]).ptx == compiled(name).ptx
    with pytest.raises(
        lt.PassError, match=rf"{re.escape(built)}.*, but the kernel's schedule says.*\[not-as-scheduled\]"
    ):
        lt.compile_ir(edited(compiled(name), level, fields))


@pytest.mark.parametrize("name", KERNELS)
def test_a_schedule_still_times_loops_at_level_smem(name: str) -> None:
    fields = next(fields for kernel, fields, _ in EDITS if kernel == name)
    assert lt.compile_ir(edited(compiled(name), "smem", fields)).ptx != compiled(name).ptx


@pytest.mark.parametrize("level", ["pipelined", "atoms", "epilogue"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_loop_whose_timing_alone_is_edited_is_refused(name: str, level: str) -> None:
    text = compiled(name).levels[level]
    without, count = re.subn(r" \{sm\.timing = #sm\.timing<[^>]*>\}", "", text)
    assert count
    with pytest.raises(
        lt.PassError, match=r"has no timing of its own, but the kernel's schedule says.*\[not-as-scheduled\]"
    ):
        lt.compile_ir(without)
