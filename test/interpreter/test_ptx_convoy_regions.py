"""Sides of a branch that a convoy runs for all of its warps, each under its mask. Results, errors and counts are the
same as if each warp ran alone."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError
from lowtide.interpreter import run as run_record
from lowtide.interpreter.machine.convoys import Convoy
from lowtide.interpreter.machine.options import Observers, Work
from lowtide.launches import Array, Launch, LaunchRecord, Pointer

THREADS, GRID = 64, 3
T = np.arange(THREADS * GRID)
START = """mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r3, %r2, 64, %r1;
mul.wide.u32 %rd10, %r3, 4;
add.s64 %rd11, %rd1, %rd10;
add.s64 %rd12, %rd2, %rd10;
and.b32 %r4, %r1, 7;
mov.u32 %r5, 0;
"""
END = "bar.sync 0; st.global.u32 [%rd12], %r5;"


def text(body):
    return kernel(START + body + END, ["x", "y"])


def result(body, x=T, seed=0):
    return run(text(body), {"x": ("i32", x), "y": ("i32", len(T))}, threads=THREADS, grid=GRID, seed=seed)["y"]


@pytest.fixture
def masks_of(monkeypatch):
    """A function from a text to the numbers of lanes of a convoy that executed an instruction with this text."""
    found = []
    compute = Convoy.compute

    def noted(self, op):
        found.append((op.describe(), int(self.mask.sum())))
        compute(self, op)

    monkeypatch.setattr(Convoy, "compute", noted)
    return lambda text: {count for op, count in found if text in op}


SIDES = """setp.lt.u32 %p1, %r4, 3;
@%p1 bra SMALL;
ld.global.u32 %r5, [%rd11];
add.u32 %r5, %r5, 100;
bra.uni JOIN;
SMALL:
setp.eq.u32 %p2, %r4, 1;
@%p2 bra JOIN;
add.u32 %r5, %r4, 7;
JOIN:
"""


@pytest.mark.parametrize("seed", range(2))
def test_both_sides_run_for_all_warps_and_ctas(masks_of, seed):
    part = T % 8
    expected = np.where(part >= 3, T + 1100, np.where(part == 1, 0, part + 7))
    np.testing.assert_array_equal(result(SIDES, T + 1000, seed), expected)
    assert masks_of("add.u32 %r5, %r5, 100") == {len(T) * 5 // 8}
    assert masks_of("add.u32 %r5, %r4, 7") == {len(T) * 2 // 8}


def test_an_error_on_one_side_names_the_lane():
    body = "setp.lt.u32 %p1, %r4, 7; @%p1 bra JOIN; ld.global.u32 %r5, [%rd11+{}];\nJOIN:\n"
    np.testing.assert_array_equal(result(body.format(0)), np.where(T % 8 == 7, T, 0))
    with pytest.raises(InterpreterError, match=r"ld\.global.* CTA 2 warp 1 lane 31: .*\[outside-matrices\]"):
        result(body.format(4))


def test_a_race_on_one_side_is_named():
    """Lane 5 of each warp stores to a place of its own, or to the first place."""
    body = "and.b32 %r6, %r1, 31; setp.ne.u32 %p1, %r6, 5; @%p1 bra JOIN; st.global.u32 [{}], %r4;\nJOIN:\n"
    np.testing.assert_array_equal(result(body.format("%rd12")), np.zeros(len(T)))
    with pytest.raises(InterpreterError, match=r"st\.global.* lane 5: race .* wrote.*\[global-race\]"):
        result(body.format("%rd2"))


def test_a_register_that_one_side_writes_stays_unwritten_in_other_warps():
    """Only threads below 20 write it; the others of both warps of a CTA then store it, too."""
    body = (
        "setp.ge.u32 %p1, %r1, {}; @%p1 bra JOIN; mov.u32 %r30, %r1; add.u32 %r30, %r30, 0;\nJOIN:\nmov.u32 %r5, %r30;"
    )
    np.testing.assert_array_equal(result(body.format(64)), T % THREADS)
    with pytest.raises(InterpreterError, match=r"st\.global.* CTA \d warp [01]: .*never written"):
        result(body.format(20))


def test_lanes_of_the_other_side_may_divide_by_zero():
    body = "setp.eq.u32 %p1, %r4, 0; @%p1 bra JOIN; mov.u32 %r6, 840; div.u32 %r5, %r6, %r4;\nJOIN:\n"
    part = T % 8
    np.testing.assert_array_equal(result(body), np.where(part == 0, 0, 840 // np.maximum(part, 1)))


def test_a_side_that_cannot_run_as_one_is_finished_warp_by_warp(masks_of):
    """In the middle of the side, a lane of the other side has a divisor of zero."""
    body = """setp.lt.u32 %p1, %r4, 4;
@%p1 bra JOIN;
add.u32 %r5, %r4, 1;
div.u32 %r6, %r5, %r1;
add.u32 %r5, %r5, %r6;
JOIN:
"""
    part = T % 8
    quotient = (part + 1) // np.maximum(T % THREADS, 1)
    np.testing.assert_array_equal(result(body), np.where(part < 4, 0, part + 1 + quotient))
    assert masks_of("add.u32 %r5, %r4, 1") == {len(T) // 2}


def test_instructions_are_counted_for_the_warps_that_run_them(masks_of):
    """`activemask` does not run for all warps at once, so with it each warp runs the side alone."""
    side = "setp.ge.u32 %p1, %r1, 40; @%p1 bra JOIN; add.u32 %r5, %r5, 1; {} add.u32 %r5, %r5, 1;\nJOIN:\n"
    counted = []
    for further in ("", "activemask.b32 %r20;"):
        work = Work()
        arrays = {each: Array("i32", (len(T),), (), T) for each in "xy"}
        launch = Launch("test", (GRID, 1, 1), (THREADS, 1, 1), (Pointer("x"), Pointer("y")))
        run_record(text(side.format(further)), LaunchRecord(arrays, (launch,)), observers=Observers(work=work))
        counted.append(work.instructions)
        assert masks_of("add.u32 %r5, %r5, 1") == {GRID * 40}
    assert counted[0] == counted[1] - 2 * GRID  # both warps of each CTA have lanes there
