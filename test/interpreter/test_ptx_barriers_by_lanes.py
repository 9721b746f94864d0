"""Barriers without .aligned, at which the lanes of a warp arrive apart, with planted faults beside the right ones."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError, NotInterpreted

T = np.arange(64)
LOW = T < 20  # so that warp 0 parts
PLACE = ".shared .align 16 .b8 place[256];"
START = """mov.u32 %r5, place;
shl.b32 %r6, %r1, 2;
add.s32 %r7, %r5, %r6;
add.s64 %rd11, %rd1, %rd9;
setp.lt.u32 %p1, %r1, 20;
mov.b32 %r3, 0;
st.shared.b32 [%r7], 0;
bar.sync 0;
"""
END = "\nst.global.b32 [%rd11], %r3;"
BY_SIDE = "@%p1 bra LOW; {high} bra MEET; LOW: {low} MEET:"


def result(body, seed=0, **options):
    text = kernel(START + body + END, "z", PLACE)
    return run(text, {"z": ("i32", np.zeros(64))}, threads=64, seed=seed, max_steps=5000, **options)["z"]


def by_side(low, high=None):
    return BY_SIDE.format(low=low, high=low if high is None else high)


REVERSED = """st.shared.b32 [%r7], %r1;
{barrier}
xor.b32 %r8, %r6, 252;
add.s32 %r8, %r8, %r5;
ld.shared.b32 %r3, [%r8];"""


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "barrier",
    [
        by_side("barrier.sync 1;"),
        by_side("barrier.cta.sync 1, 64;", "mov.b32 %r9, 1; barrier.sync %r9, 64;"),
        "@%p1 barrier.sync 1; @!%p1 barrier.sync 1;",
        "@%p1 barrier.sync 1; @!%p1 barrier.sync 1; bar.sync 2;",  # together again
        by_side("barrier.arrive 1, 128;") + " barrier.sync 1, 128;",
        by_side("barrier.cluster.arrive;") + " barrier.cluster.wait;",
        by_side("barrier.cluster.arrive; barrier.cluster.wait;"),
        "@!%p1 bra OTHERS; setp.lt.u32 %p2, %r1, 5; @%p2 barrier.sync 1; @!%p2 barrier.sync 1; bra MEET; "
        "OTHERS: barrier.sync 1; MEET:",
    ],
)
def test_lanes_that_arrive_apart_are_ordered(barrier, seed):
    np.testing.assert_array_equal(result(REVERSED.format(barrier=barrier), seed), 63 - T)


def test_a_barrier_of_fewer_threads_orders_only_those():
    """With an arrival of both sides and no wait, nothing orders the loads."""
    with pytest.raises(InterpreterError, match=r"\[shared-race\]"):
        result(REVERSED.format(barrier=by_side("barrier.arrive 1, 64;")))


def test_lanes_reduce_with_the_predicates_of_their_own_sides():
    side = "setp.{} %p2, %r1, 5; barrier.red.popc.u32 %r{}, 1, %p2;"
    body = by_side(side.format("lt.u32", 3), side.format("eq.u32", 4) + " mov.b32 %r3, %r4;")
    assert (result(body) == 5).all()
    body = by_side("barrier.red.and.pred %p3, 1, %p1;", "barrier.red.and.pred %p3, 1, !%p1;")
    assert (result(body + " selp.b32 %r3, 1, 0, %p3;") == 1).all()


def test_lanes_that_leave_a_loop_earlier_arrive_after_it():
    """20 threads pass the barrier three times in the loop; the others twice there and once behind it."""
    body = """mov.b32 %r4, 0;
selp.b32 %r9, 3, 2, %p1;
LOOP: barrier.sync 1, 64;
add.s32 %r4, %r4, 1;
setp.lt.u32 %p2, %r4, %r9;
@%p2 bra LOOP;
{last}
mov.b32 %r3, %r4;"""
    np.testing.assert_array_equal(result(body.format(last="@!%p1 barrier.sync 1, 64;")), np.where(LOW, 3, 2))
    with pytest.raises(InterpreterError, match=r"\[agents-deadlock\]"):  # warp 1 ends after the third round
        result(body.format(last="barrier.sync 1, 64;"))


def test_ended_lanes_are_not_waited_for():
    found = result("@!%p1 bra OUT; barrier.sync 1; mov.b32 %r3, 1; st.global.b32 [%rd11], %r3; OUT: exit;")
    np.testing.assert_array_equal(found, LOW)


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ("barrier.sync 2;", "barrier-lanes-apart"),
        ("barrier.cluster.arrive;", "barrier-lanes-apart"),
        ("barrier.arrive 1, 64;", "barrier-forms-apart"),
    ],
)
def test_lanes_of_a_warp_that_wait_at_two_barriers_wait_for_ever(other, code):
    with pytest.raises(InterpreterError, match=rf"lanes \[0, .*, and lanes \[.*\[{code}\]") as found:
        result(by_side("barrier.sync 1;", other))
    assert not isinstance(found.value, NotInterpreted)
