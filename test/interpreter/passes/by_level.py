"""All cases, and which of their passes make a level."""

import cases
import pytest
import role_cases
import simt_cases
import store_cases
from case import Case

from lowtide.dialects.levels import Level
from lowtide.passes.pipeline import STEPS

ALL: list[Case] = [*cases.CASES, *role_cases.CASES, *store_cases.CASES, *simt_cases.CASES]


def tried_at(level: Level) -> list[object]:
    """A parameter (case, pass) for each pass of the level that a case tries."""
    names = {step.name for step in STEPS[level]}
    return [pytest.param(case, name, id=f"{case.name}-{name}") for case in ALL for name in case.passes if name in names]


def case_named(name: str) -> Case:
    return next(case for case in ALL if case.name == name)
