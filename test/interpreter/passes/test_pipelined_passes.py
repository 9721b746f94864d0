"""The passes that make level `pipelined` leave the numbers alone: the same D before and after, bit for bit."""

from collections.abc import Callable

import pytest
from by_level import tried_at
from case import Case, hold
from compiled import Step

from lowtide.dialects.levels import Level


@pytest.mark.parametrize(("case", "name"), tried_at(Level.PIPELINED))
def test_a_pass_keeps_the_numbers(steps: Callable[[Case], list[Step]], case: Case, name: str) -> None:
    hold(steps(case), name, case)
