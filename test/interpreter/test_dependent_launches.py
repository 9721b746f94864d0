"""Programmatic launches: right at every level, and an access before the wait for the kernels before is an error."""

import re

import numpy as np
import pytest
from compiled import expected, inputs_of, last_texts, spec, steps_of
from planting import Fault, assert_found, exactly

import lowtide as lt
from lowtide import targets
from lowtide.dialects.levels import Level
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret, run
from lowtide.launches import Array, Launch, LaunchRecord, Pointer

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
        (schedule, level): text
        for schedule in (ROLES, SINGLE)
        for level, text in last_texts(steps_of(SPEC, schedule, SM_90A)).items()
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
        "the consumer waits, not the producer",
        "epilogue",
        r"(?s)^ *tile\.grid_dependency_wait\n(.*consumer warps[^{]*{)",
        r"\1\ntile.grid_dependency_wait",
        EARLY,
    ),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_an_access_before_the_wait_is_found(texts: dict[tuple[str, Level], str], fault: Fault) -> None:
    assert_found(fault, fault.plant(texts[ROLES, Level.named(fault.level)]), exactly(SPEC, INPUTS, sms=2))


# Lane 0 waits, then {sync}, then the lanes of {guard} store.
LANES = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 at) {{
  .reg .b64 %rd<4>; .reg .b32 %r<2>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [at];
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 griddepcontrol.wait;
  {sync}
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  {guard}st.global.u32 [%rd3], %r1;
  ret;
}}
"""


def store_after_a_wait_of_lane_0(sync: str, guard: str) -> None:
    launch = Launch("kernel", (1, 1, 1), (32, 1, 1), (Pointer("x"),), programmatic=True)
    run(LANES.format(sync=sync, guard=guard), LaunchRecord({"x": Array("i32", (32,), ())}, (launch,)))


@pytest.mark.parametrize(("sync", "guard"), [("", "@%p1 "), ("bar.warp.sync 0xffffffff;", "")])
def test_lanes_may_access_memory_once_one_has_waited_and_told_them(sync: str, guard: str) -> None:
    store_after_a_wait_of_lane_0(sync, guard)


def test_a_wait_of_one_lane_is_not_one_of_the_others() -> None:
    with pytest.raises(lt.Error, match=EARLY):
        store_after_a_wait_of_lane_0("", "")


def test_the_same_kernel_launched_serialized_need_not_wait(texts: dict[tuple[str, Level], str]) -> None:
    text = texts[ROLES, Level.EPILOGUE].replace(" programmatic args", " args")
    text = FAULTS[0].plant(text)
    np.testing.assert_array_equal(interpret(text, INPUTS, sms=2, domain="exact"), expected(SPEC, INPUTS))


def test_a_launch_that_finishes_a_reduction_waits_for_the_partial_results() -> None:
    summed = spec(dtype="f16", epilogue=lambda acc: {"d": acc, "sums": lt.sum(acc, dim=0)})
    text = lt.compile_gemm(summed, target="sm_90a", schedule=ROLES).levels["epilogue"]
    inputs = inputs_of(summed, 70, 40, 70)
    found = interpret(text, inputs, sms=2, domain="exact")
    np.testing.assert_array_equal(found["sums"], found["d"].astype(np.int64).sum(axis=0))
    wait = re.compile(r"(?s)(tile\.kernel @\w+_finish_sum\(.*?)tile\.grid_dependency_wait\n")
    with pytest.raises(InterpreterError, match=EARLY):
        interpret(wait.sub(r"\1", text), inputs, sms=2, domain="exact")
