"""Programmatic launches: right at every level, and an access before the wait for the kernels before is an error."""

import numpy as np
import pytest
from compiled import expected, inputs_of, spec, steps_of
from planting import Fault, assert_found, exactly

import lowtide as lt
from lowtide import targets
from lowtide.dialects.levels import Level
from lowtide.interpreter import interpret

SM_90A = targets.get("sm_90a")


def add_bias(acc, bias: lt.PerColumn):
    return acc + bias


SPEC = spec(dtype="f16", epilogue=add_bias)
INPUTS = inputs_of(SPEC, 70, 40, 70)
ROLES = "grid.tile = [64, 16], k = 64, stages = 2, roles = cooperative(1), launch = programmatic"
SINGLE = "grid.tile = [32, 32], k = 32, stages = 2, atoms = [1, 1, 1], roles = single, launch = programmatic"
EARLY = "the kernels before this one may still write here; wait for them by griddepcontrol.wait"


@pytest.fixture(scope="module")
def texts() -> dict[tuple[str, Level], str]:
    """The last text of each level, by schedule."""
    return {
        (schedule, step.level): step.after
        for schedule in (ROLES, SINGLE)
        for step in steps_of(SPEC, schedule, SM_90A)
        if Level.EPILOGUE <= step.level <= Level.NVVM
    }


@pytest.mark.parametrize("level", [Level.EPILOGUE, Level.NVVM])
@pytest.mark.parametrize("schedule", [ROLES, SINGLE], ids=["roles", "single"])
def test_a_programmatic_launch_waits_before_it_accesses_memory(
    texts: dict[tuple[str, Level], str], schedule: str, level: Level
) -> None:
    d = interpret(texts[schedule, level], INPUTS, sms=2, seed=1, domain="exact")
    np.testing.assert_array_equal(d, expected(SPEC, INPUTS))


FAULTS = [
    Fault("no wait", "epilogue", r"^ *tile\.grid_dependency_wait\n", "", EARLY),
    Fault("no wait, nvvm", "nvvm", r"^ *nvvm\.griddepcontrol +wait\n", "", EARLY),
    Fault(
        "the wait after the roles",
        "epilogue",
        r"(?s)^ *tile\.grid_dependency_wait\n(.*)(    tile\.return\n)",
        r"\1tile.grid_dependency_wait\n\2",
        EARLY,
    ),
    Fault(
        "only the consumer waits",
        "epilogue",
        r"(?s)^ *tile\.grid_dependency_wait\n(.*consumer warps[^{]*{)",
        r"\1\ntile.grid_dependency_wait",
        EARLY,
    ),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_an_access_before_the_wait_is_found(texts: dict[tuple[str, Level], str], fault: Fault) -> None:
    assert_found(fault, fault.plant(texts[ROLES, Level.named(fault.level)]), exactly(SPEC, INPUTS, sms=2))


def test_the_full_barriers_tell_the_consumers_that_the_producer_has_waited(
    texts: dict[tuple[str, Level], str],
) -> None:
    pattern = r"(?s)^ *tile\.grid_dependency_wait\n(.*?producer warps[^{]*{)"
    only = Fault("only the producer waits", "epilogue", pattern, r"\1\ntile.grid_dependency_wait", "")
    d = interpret(only.plant(texts[ROLES, Level.EPILOGUE]), INPUTS, sms=2, seed=0, domain="exact")
    np.testing.assert_array_equal(d, expected(SPEC, INPUTS))


def test_the_same_kernel_launched_serialized_need_not_wait(texts: dict[tuple[str, Level], str]) -> None:
    text = texts[ROLES, Level.EPILOGUE].replace(" programmatic args", " args")
    text = FAULTS[0].plant(text)
    np.testing.assert_array_equal(interpret(text, INPUTS, sms=2, domain="exact"), expected(SPEC, INPUTS))
