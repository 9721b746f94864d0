"""Full operands that TMA loads for the epilogue: right at every level, and faults planted in their loads are found.

A tile has three parts, the last of which is narrow. The first slot is used for two of them, the second slot for the
last one, so that the parity of the second alternates from tile to tile.
"""

from typing import Any

import numpy as np
import pytest
from compiled import expected, inputs_of, levels_of, spec
from planting import RACE, WRONG_NUMBERS, Fault, assert_found, exactly

import lowtide as lt
from lowtide.interpreter import interpret


def added(acc: Any, x: lt.Full) -> Any:
    return acc + x


def two_sizes(acc: Any, x: lt.Full, y: lt.Full["f32"]) -> Any:  # noqa: F821
    return {"d": acc * x + y, "e": acc - y, "s": lt.sum(acc + x, dim=0)}


SPEC = spec(n=104, epilogue=added)
FIELDS = "grid.order = row, k = 64, stages = 2, epilogue.path = tma"
SHARED = f"{FIELDS}, grid.tile = [128, 40], roles = cooperative(2), epilogue.tile = [128, 16], epilogue.prefetch = 1"
IN_TURN = f"{FIELDS}, grid.tile = [64, 64], roles = pingpong(2), epilogue.tile = [64, 32]"
INPUTS = inputs_of(SPEC, 140, 104, 67, full_padding=8)
SEEDS = (0, 1)

# Each wait for an operand stands behind the barrier that frees the scratch.
WAIT = r"(sm\.barrier warpgroup\n) *sm\.mbarrier_wait .*\n"
TOO_EARLY = (
    r"(sm\.load_shared|nvvm\.ldmatrix) .*(race \(read after write\): reads what TMA on .* wrote|in flight: reads what)"
)
DEADLOCK = r"(?s)deadlock.*consumer warpgroup \d waits at `sm\.mbarrier_wait"
# The refill of the first slot: the barrier that all readers have passed, the store of the part, an arrival, a load.
REFILL = r"^( *nvvm\.fence\.proxy .*\n) *nvvm\.barrier id = .*\n"

FAULTS = [
    Fault("wait for an operand left out", "epilogue", WAIT, r"\1", TOO_EARLY),
    Fault("wait for an operand that is loaded again left out", "epilogue", WAIT, r"\1", TOO_EARLY, 1),
    Fault("wait for the narrow part left out", "epilogue", WAIT, r"\1", TOO_EARLY, 2),
    Fault("wait left out, nvvm", "nvvm", r"^ *nvvm\.mbarrier\.try_wait\.parity .*\n", "", TOO_EARLY, 4),
    Fault("parity that does not alternate", "epilogue", r"(mbarrier_wait %\w+\[%c1, )%arg\d+", r"\1%c0", DEADLOCK),
    Fault("parity of the phase before", "epilogue", r"(mbarrier_wait %\w+\[%c0, )%c1", r"\1%c0", TOO_EARLY),
    Fault(
        "too few bytes expected", "epilogue", "expects 2048", "expects 2032", r"sm\.tma_load .*more than were expected"
    ),
    Fault("too many bytes expected", "epilogue", "expects 2048", "expects 2064", DEADLOCK),
    Fault("one arrival of two warpgroups", "epilogue", r"arrivals\(2\)", "arrivals(1)", r"sm\.\w+ .*\[", 1),
    Fault("no barrier before a slot is filled again", "nvvm", REFILL, r"\1", RACE),
    Fault(
        "another part", "epilogue", r"(sm\.tma_load %tensor_map_\d+\[%m, )%\d+(\] to %\d+ )", r"\1%n\2", WRONG_NUMBERS
    ),
]


@pytest.fixture(scope="module")
def levels() -> dict[str, str]:
    """The last text of each level."""
    return levels_of(SPEC, SHARED, "sm_90a")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(levels: dict[str, str], fault: Fault) -> None:
    assert_found(fault, fault.plant(levels[fault.level]), exactly(SPEC, INPUTS, sms=1), SEEDS)


@pytest.mark.parametrize("fields", [SHARED, IN_TURN])
def test_each_level_is_right(fields: str) -> None:
    """Operands of two sizes, several results, and a reduction, whose stores come last."""
    own = spec(n=104, epilogue=two_sizes)
    inputs = inputs_of(own, 140, 104, 67, full_padding=8)
    texts = levels_of(own, fields, "sm_90a")
    for level in ("atoms", "epilogue", "nvvm"):
        found = interpret(texts[level], inputs, sms=1, domain="exact")
        for name, values in expected(own, inputs).items():
            np.testing.assert_array_equal(found[name], values)
