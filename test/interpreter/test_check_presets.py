"""Three presets, one of each kind of main loop, pass `lt.check`; `lowtide check --all-presets` checks all of them."""

import pytest

import lowtide as lt
from lowtide.compiler.presets import LADDERS

BUDGET = 0.8  # seconds: a part of the conditions


@pytest.mark.parametrize("name", ["sm80-simt", "sm80-persistent", "sm90-pingpong"])
def test_a_preset_passes(name: str) -> None:
    preset = LADDERS[name]
    kernel = lt.compile_gemm(preset.spec(), preset.target, preset.schedule)
    result = lt.check(kernel, budget=BUDGET, jobs=1)
    assert result.ok, result
