"""The passes that make level `nvvm` leave the numbers alone: the same D before and after, bit for bit."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from by_level import case_named, tried_at
from case import Case, check, hold, step_named
from compiled import Step, inputs_of, steps_of
from math_cases import ABSOLUTE, FORMULAS, SCHEDULE
from support import cast

from lowtide.dialects.levels import Level
from lowtide.interpreter import interpret


@pytest.mark.parametrize(("case", "name"), tried_at(Level.NVVM))
def test_a_pass_keeps_the_numbers(steps: Callable[[Case], list[Step]], case: Case, name: str) -> None:
    hold(steps(case), name, case)


@pytest.mark.parametrize("sms", [2, 3])
def test_an_even_split_covers_ragged_grids_on_any_number_of_sms(steps: Callable[[Case], list[Step]], sms: int) -> None:
    case = case_named("raster-groups-even-split")
    step = step_named(steps(case), "convert-sm-to-nvvm")
    for shape in ((150, 90, 8), (20, 130, 8), (130, 20, 8), (1, 1, 1)):
        check(step, case.spec, shape, orders=(0,), sms=sms)


@pytest.mark.parametrize("name", FORMULAS)
def test_expanded_functions_stay_within_their_errors(name: str) -> None:
    """On integers these functions have no value, so they run in f32."""
    formula = FORMULAS[name]
    expand = step_named(steps_of(formula.spec, SCHEDULE), "expand-math")
    inputs = cast(inputs_of(formula.spec, 23, 29, 24), ml_dtypes.bfloat16)
    acc = inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64).T
    want = formula.exact(acc)
    reach = formula.error.argument
    moved = np.maximum(*(np.abs(formula.exact(acc * (1 + e)) - want) for e in (-reach, reach)))
    allowed = formula.error.relative * np.abs(want) + formula.error.absolute + moved
    assert f"math.{name} " in expand.before and f"math.{name} " not in expand.after
    for text in (expand.before, expand.after):
        found = interpret(text, inputs).astype(np.float64)
        assert (np.abs(found - want) <= allowed).all()


def test_an_absolute_value_is_exact_when_functions_are_expanded() -> None:
    check(step_named(steps_of(ABSOLUTE, SCHEDULE), "expand-math"), ABSOLUTE, (23, 29, 24))
