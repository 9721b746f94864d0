"""Faults planted in a kernel whose last wave runs as half tiles: what goes on from the full waves to the halves.

Two CTAs compute five tiles: two whole ones each, then a half each, on one ring and the same two scratch buffers.
"""

import numpy as np
import pytest
from compiled import expected, inputs_of, levels_of, spec
from planting import IN_FLIGHT, RACE, Fault, assert_found, exactly

from lowtide.interpreter import interpret

SPEC = spec()
SCHEDULE = (
    "grid.tile = [128, 48], order = row, k = 32, stages = 2, roles = cooperative(1), tail = halves, "
    "epilogue.path = tma, epilogue.tile = [64, 16], epilogue.buffers = 2"
)
INPUTS = inputs_of(SPEC, 600, 40, 70)  # five tiles, the halves of the last ragged; three K steps: the ring is mid-way

AGAIN = r"( *%\d+:2 = tile\.work_tiles .* part\(tail_halves\) iter_args\(%arg\d+ = )%\d+#0, (%arg\d+ = )%\d+#1"
FAULTS = [
    Fault("the full waves take the tail too", "cta", r" part\(full_waves\)", "", f"{RACE}write after write"),
    Fault("the halves are not taken", "cta", r"part\(tail_halves\)", "part(full_waves)", f"{RACE}|wrote"),
    Fault("the producer's cursor begins anew", "pipelined", AGAIN, r"\1%c0, \2%c0", "slot|phase|deadlock"),
    Fault("the consumers' cursor begins anew", "atoms", AGAIN, r"\1%c0, \2%c0", f"deadlock|{IN_FLIGHT}|{RACE}", 1),
    Fault(
        "a half expects the bytes of a whole tile", "epilogue", "expects 7168", "expects 11264", "(?s)deadlock.* 4096"
    ),
]


@pytest.fixture(scope="module")
def levels() -> dict[str, str]:
    return levels_of(SPEC, SCHEDULE, "sm_90a")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(levels: dict[str, str], fault: Fault) -> None:
    assert_found(fault, fault.plant(levels[fault.level]), exactly(SPEC, INPUTS, sms=2))


@pytest.mark.parametrize("level", ["cta", "pipelined", "atoms", "epilogue", "nvvm"])
def test_the_kernel_without_a_fault_is_right(levels: dict[str, str], level: str) -> None:
    for seed in (0, 1):
        d = interpret(levels[level], INPUTS, sms=2, seed=seed, domain="exact")
        np.testing.assert_array_equal(d, expected(SPEC, INPUTS))
