"""What a warpgroup must execute together (.aligned): faults in which only some of its warps do, by the warp."""

import numpy as np
import pytest
from compiled import expected, inputs_of, spec, steps_of
from one_cta import run_kernel
from planting import Fault, assert_found, exactly

from lowtide import targets
from lowtide.dialects.levels import Level
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret

SPEC = spec(d="f32")
SHAPE = (128, 64, 448)
SCHEDULE = "roles = cooperative(2), grid.tile = [128, 64], k = 64, stages = 3"

RULE = r"the four warps of a warpgroup must execute the same instruction \(\.aligned\): take it out of the branch"
OTHER = rf"CTA 0 warp \d+.*: warp \d+(, warp \d+)* of its warpgroup executed `.*` at .* here; {RULE}"
# Threads of the first consumer warpgroup begin at 128, of the second at 256.
WARP = "ult, %2, %planted_160"
TWO_WARPS = "ult, %2, %planted_192"
THREE_WARPS = "ult, %2, %planted_224"
LAST_WARP = "uge, %2, %planted_352"


def only(threads: str, op: str, otherwise: str = "") -> str:
    """The op under a branch that some warps take; the condition is written where it stands."""
    bound = threads.rpartition("_")[2]
    other = f" else {{\n{otherwise}\n}}" if otherwise else ""
    return (
        f"%planted_{bound} = arith.constant {bound} : i32\n%taken = arith.cmpi {threads} : i32\n"
        f"scf.if %taken {{\n{op}\n}}{other}\n"
    )


INCREASE = "nvvm.setmaxregister  increase 232\n"
WAIT = "nvvm.wgmma.wait.group.sync.aligned 1\n"
COMMIT = "nvvm.wgmma.commit.group.sync.aligned\n"
FENCE = "nvvm.wgmma.fence.aligned\n"

FAULTS = [
    *(
        Fault(f"an increase of registers by {name}", "nvvm", INCREASE, only(warps, INCREASE), OTHER)
        for name, warps in (("one warp", WARP), ("two warps", TWO_WARPS), ("three warps", THREE_WARPS))
    ),
    Fault(
        "232 registers in two warps and 224 in the others",
        "nvvm",
        INCREASE,
        only(TWO_WARPS, INCREASE, INCREASE.replace("232", "224")),
        OTHER,
    ),
    *(
        Fault(f"a wait by {name}", "nvvm", WAIT, only(warps, WAIT), OTHER)
        for name, warps in (("one warp", WARP), ("half of them", TWO_WARPS))
    ),
    # Here the producer may come first, and write what a group still reads that nobody has waited for.
    Fault("a wait by the last warp", "nvvm", WAIT, only(LAST_WARP, WAIT), rf"{OTHER}|race \(write after read\)"),
    Fault("waits of other depths", "nvvm", WAIT, only(TWO_WARPS, WAIT, WAIT.replace("1", "0")), OTHER),
    Fault("a commit by half of them", "nvvm", COMMIT, only(TWO_WARPS, COMMIT), OTHER),
    Fault("one fence too many in one warp", "nvvm", COMMIT, COMMIT + only(WARP, FENCE), OTHER),
    Fault("one fence too many at the end", "nvvm", r"(} \{roles = )", only(WARP, FENCE) + r"\1", RULE),
]


@pytest.fixture(scope="module")
def text() -> str:
    steps = steps_of(SPEC, SCHEDULE, targets.get("sm_90a"))
    found = next(step.after for step in reversed(steps) if step.level is Level.NVVM)
    assert "%2 = nvvm.read.ptx.sreg.tid.x" in found
    return found


def run(text: str, seed: int) -> np.ndarray:
    return interpret(text, inputs_of(SPEC, *SHAPE), sms=1, seed=seed, domain="exact")


def test_the_kernel_without_a_fault_is_right(text: str) -> None:
    np.testing.assert_array_equal(run(text, 0), expected(SPEC, inputs_of(SPEC, *SHAPE)))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found_under_every_order(text: str, fault: Fault) -> None:
    assert_found(fault, fault.plant(text), exactly(SPEC, inputs_of(SPEC, *SHAPE), sms=1), (0, 1, 2))


REGISTERS = """
gpu.module @kernels {
  gpu.func @kernel() kernel {
    %bound = arith.constant BOUND : i32
    %c128 = arith.constant 128 : i32
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %first = arith.cmpi ult, %tid, %c128 : i32
    %some = arith.cmpi ult, %tid, %bound : i32
    scf.if %first {
      scf.if %some {
        nvvm.setmaxregister decrease 24
      }
    }
    gpu.return
  }
}
"""


@pytest.mark.parametrize(("bound", "missing"), [(32, "warp 1, warp 2, warp 3"), (64, "warp 2, warp 3"), (96, "warp 3")])
def test_the_last_instruction_that_some_warps_leave_out_is_found_when_they_have_ended(bound: int, missing: str) -> None:
    for seed in range(3):
        with pytest.raises(
            InterpreterError,
            match=rf"decrease 24` at .*executed by warp 0.*, not by {missing} of the.*\[warpgroup-unmet\]",
        ):
            run_kernel(REGISTERS.replace("BOUND", str(bound)), [], threads=256, seed=seed)


def test_a_whole_warpgroup_does_it_together() -> None:
    run_kernel(REGISTERS.replace("BOUND", "128"), [], threads=256)


def test_warps_that_form_no_warpgroup_are_refused() -> None:
    text = REGISTERS.replace("BOUND", "128")
    with pytest.raises(
        InterpreterError, match=r"the CTA's 3 warps leave 3 from warp 0 on; a warpgroup has four.*\[warpgroup-whole\]"
    ):
        run_kernel(text, [], threads=96)
