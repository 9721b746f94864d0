"""First rows stored while the last K step multiplies the others (`epilogue.start = first_rows`)."""

from functools import cache

import numpy as np
import pytest
from compiled import expected, inputs_of, levels_of, spec
from planting import IN_FLIGHT, Fault

from lowtide.compiler.driver import lower
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError
from lowtide.interpreter import Loaded, Report, interpret

K = 200
SPEC = spec(k=K)
ONE = (
    "grid.tile = [128, 16], order = row, k = 64, stages = 2, roles = cooperative(1), epilogue.path = tma, "
    "epilogue.tile = [64, 16], epilogue.start = first_rows"
)
SCHEDULES = {
    "one": ONE,
    "halves": f"{ONE}, tail = halves",
    "two": ONE.replace("[128, 16]", "[256, 16]").replace("[64, 16]", "[128, 16]").replace("(1)", "(2)"),
    "three blocks": ONE.replace("[128, 16]", "[192, 16]"),
    "narrow parts": ONE.replace("[64, 16]", "[64, 8]"),
    "clusters": f"{ONE}, cluster = [2, 1]",
    "K turned around": f"{ONE}, k_order = serpentine",
    "even_split": f"{ONE}, scheduler = even_split",
}
INPUTS = inputs_of(SPEC, 300, 40, K)


@cache
def levels(name: str) -> dict[str, str]:
    return levels_of(SPEC, SCHEDULES[name], "sm_90a")


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("sms", [1, 2, 4])
def test_every_row_is_stored_once_its_sums_are_complete(name: str, sms: int) -> None:
    texts = levels(name)
    assert "sm.mma_wait_rows" in texts["epilogue"]
    for level in ("epilogue", "nvvm") if sms == 2 else ("epilogue",):
        d = interpret(texts[level], INPUTS, sms=sms, seed=sms, domain="exact")
        np.testing.assert_array_equal(d, expected(SPEC, INPUTS))


FAULTS = [
    Fault("a group more in flight", "epilogue", "sm.mma_wait_rows 1", "sm.mma_wait_rows 2", IN_FLIGHT),
    Fault(
        "a group more in flight",
        "nvvm",
        "sm.ptx_wgmma_wait 1",
        "sm.ptx_wgmma_wait 2",
        r"may still write.*\[accumulator-in-flight\]",
    ),
    Fault("the step before in flight", "epilogue", "sm.mma_wait 2", "sm.mma_wait 3", "race|may still read"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.level}: {fault.name}")
def test_a_planted_fault_is_found(fault: Fault) -> None:
    text = fault.plant(levels("one")[fault.level])
    with pytest.raises(InterpreterError, match=fault.found):
        interpret(text, INPUTS, sms=1, domain="exact")


def test_first_rows_hold_for_every_order_of_agents_down_to_ptx() -> None:
    texts = levels("halves")
    lowered = CompiledKernel(lower(texts["llvm"], target="sm_90a")).levels
    for loaded in (Loaded(texts["nvvm"]), Loaded(texts["llvm"]), Loaded(lowered["llvm"], lowered["ptx"])):
        report = Report()
        d = interpret(loaded, INPUTS, domain="exact", report=report)
        np.testing.assert_array_equal(d, expected(SPEC, INPUTS))
        assert report.holds and report.kernels, str(report)
