"""Three presets, one of each kind of main loop, pass `lt.check`; `lowtide check --all-presets` checks all of them."""

import pytest

import lowtide as lt
from lowtide.compiler.presets import LADDERS

BUDGET = 0.8  # seconds: a part of the conditions
# Not packed: otherwise check runs all levels for each place where matrices may lie. test_check.py checks packing, on a
# small kernel.
SCHEDULES = {
    name: LADDERS[name].schedule.with_(pack="none") for name in ("sm80-simt", "sm80-persistent", "sm90-pingpong")
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_preset_passes(name: str) -> None:
    preset = LADDERS[name]
    kernel = lt.compile_gemm(preset.spec(), preset.target, SCHEDULES[name])
    result = lt.check(kernel, budget=BUDGET, jobs=1)
    assert result.ok, result
