"""The passes of level `llvm` that leave a module which is still interpreted keep the numbers."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from by_level import tried_at
from case import Case, check, hold, step_named
from compiled import Step, inputs_of, steps_of
from math_cases import ABSOLUTE, FORMULAS, SCHEDULE
from support import cast

from lowtide.dialects.levels import Level
from lowtide.interpreter import interpret


@pytest.mark.parametrize(("case", "name"), tried_at(Level.LLVM))
def test_a_pass_keeps_the_numbers(steps: Callable[[Case], list[Step]], case: Case, name: str) -> None:
    hold(step_named(steps(case), name), case)


@pytest.mark.parametrize("name", FORMULAS)
def test_intrinsics_give_the_same_numbers_as_the_math_ops(name: str) -> None:
    problem = FORMULAS[name].spec
    convert = step_named(steps_of(problem, SCHEDULE), "convert-math-to-intrinsics")
    inputs = cast(inputs_of(problem, 23, 29, 24), ml_dtypes.bfloat16)
    assert "math." in convert.before and "math." not in convert.after
    np.testing.assert_array_equal(interpret(convert.after, inputs, seed=1), interpret(convert.before, inputs))


def test_an_absolute_value_is_exact_as_an_intrinsic() -> None:
    check(step_named(steps_of(ABSOLUTE, SCHEDULE), "convert-math-to-intrinsics"), ABSOLUTE, (23, 29, 24))
