"""Each case is compiled once per session."""

from collections.abc import Callable

import pytest
from case import Case
from compiled import Step, steps_of


@pytest.fixture(scope="session")
def steps() -> Callable[[Case], list[Step]]:
    """The steps that compile a case."""
    compiled: dict[str, list[Step]] = {}

    def of(case: Case) -> list[Step]:
        if case.name not in compiled:
            compiled[case.name] = steps_of(case.spec, case.schedule, case.target)
        return compiled[case.name]

    return of
