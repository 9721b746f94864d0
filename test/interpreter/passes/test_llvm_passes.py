"""The passes of level `llvm` keep the numbers."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from by_level import tried_at
from case import SM_80, TN, Case, check, hold, step_named
from compiled import Step, inputs_of, steps_of
from math_cases import ABSOLUTE, FORMULAS, SCHEDULE
from support import cast

from lowtide import targets
from lowtide.dialects.levels import Level
from lowtide.interpreter import interpret
from lowtide.passes.pipeline import STEPS
from lowtide.targets import Target

SM_90A = targets.get("sm_90a")
LOWERED = {
    ("grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 2, k_division = split(3)", SM_80): "split K",
    ("grid.tile = [64, 16], k = 64, stages = 2, roles = cooperative(1), epilogue.cache = streaming", SM_90A): "roles",
}


@pytest.mark.parametrize(("case", "name"), tried_at(Level.LLVM))
def test_a_pass_keeps_the_numbers(steps: Callable[[Case], list[Step]], case: Case, name: str) -> None:
    hold(steps(case), name, case)


@pytest.mark.parametrize("name", FORMULAS)
def test_intrinsics_give_the_same_numbers_as_the_math_ops(name: str) -> None:
    problem = FORMULAS[name].spec
    convert = step_named(steps_of(problem, SCHEDULE), "convert-math-to-intrinsics")
    inputs = cast(inputs_of(problem, 23, 29, 24), ml_dtypes.bfloat16)
    assert "math." in convert.before and "math." not in convert.after
    np.testing.assert_array_equal(interpret(convert.after, inputs, seed=1), interpret(convert.before, inputs))


@pytest.mark.parametrize(("schedule", "target"), LOWERED, ids=LOWERED.values())
def test_each_step_to_the_end_of_level_llvm_keeps_the_numbers(schedule: str, target: Target) -> None:
    steps = [step for step in steps_of(TN, schedule, target, "name-kernels") if step.level == Level.LLVM]
    assert len(steps) == len(STEPS[Level.LLVM])
    for step in steps:
        check(step, TN, (45, 40, 136), orders=(0,))


def test_an_absolute_value_is_exact_as_an_intrinsic() -> None:
    check(step_named(steps_of(ABSOLUTE, SCHEDULE), "convert-math-to-intrinsics"), ABSOLUTE, (23, 29, 24))
