"""Barriers of a CTA in all forms, with planted faults beside the right kernels."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

T = np.arange(128)
PLACE = ".shared .align 16 .b8 place[512];"
ADDRESS = """mov.u32 %r5, place;
shl.b32 %r6, %r1, 2;
add.s32 %r7, %r5, %r6;
add.s64 %rd11, %rd1, %rd9;
shr.u32 %r8, %r1, 5;
"""
EMPTY = "st.shared.u32 [%r7], 0;\nbar.sync 15;\n"
"""Of `place`, so that a read without order is a race and not of what was never written."""


def result(body, threads=128, seed=0, z=None):
    text = kernel(ADDRESS + body, "z", PLACE)
    return run(text, {"z": ("i32", threads if z is None else z)}, threads=threads, seed=seed)["z"]


SHIFTED = (
    EMPTY
    + """st.shared.u32 [%r7], %r1;
{barrier}
add.s32 %r9, %r6, 128;
rem.u32 %r9, %r9, 512;
add.s32 %r9, %r9, %r5;
ld.shared.u32 %r3, [%r9];
st.global.u32 [%rd11], %r3;"""
)


@pytest.mark.parametrize(
    "barrier",
    [
        *("bar.sync 0;", "bar.cta.sync 3;", "barrier.sync 0;", "barrier.sync.aligned 5, 128;"),
        *("barrier.cta.sync 2;", "mov.b32 %r10, 4; mov.b32 %r11, 128; barrier.cta.sync.aligned %r10, %r11;"),
        "bar.red.popc.u32 %r10, 0, %p1;",
    ],
)
def test_a_barrier_orders_the_accesses_of_all_threads(barrier):
    expected = (T + 32) % 128
    np.testing.assert_array_equal(result(SHIFTED.format(barrier=f"setp.eq.u32 %p1, 1, 1; {barrier}")), expected)
    with pytest.raises(InterpreterError, match=r"\[(shared-race|race-with-read)\]"):
        result(SHIFTED.format(barrier="bar.warp.sync -1;"))


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("bar.red.popc.u32 %r3, 1, %p1;", 100),
        ("bar.red.popc.u32 %r3, 1, 128, !%p1;", 28),
        ("barrier.cta.red.popc.aligned.u32 %r3, 1, 128, %p1;", 100),
        ("barrier.red.and.pred %p2, 1, %p1; selp.b32 %r3, 1, 0, %p2;", 0),
        ("bar.red.and.pred %p2, 1, 128, %p3; selp.b32 %r3, 1, 0, %p2;", 1),
        ("bar.red.or.pred %p2, 1, %p1; selp.b32 %r3, 1, 0, %p2;", 1),
        ("bar.red.or.pred %p2, 1, !%p3; selp.b32 %r3, 1, 0, %p2;", 0),
    ],
)
def test_a_barrier_reduces_the_predicates_of_all_threads(reduction, expected):
    body = f"setp.lt.u32 %p1, %r1, 100; setp.lt.u32 %p3, %r1, 999; {reduction} st.global.u32 [%rd11], %r3;"
    assert (result(body) == expected).all()
    assert (result(body, seed=1) == expected).all()


def test_threads_that_are_no_part_of_a_warp_do_not_vote():
    body = "setp.eq.u32 %p1, 1, 1; bar.red.popc.u32 %r3, 0, %p1; st.global.u32 [%rd11], %r3;"
    assert (result(f"setp.lt.u32 %p2, %r1, 40; @!%p2 exit; {body}", 64, z=np.zeros(64)) == 40 * (T[:64] < 40)).all()


# Warp 0 produces two values for the others, through one place.
PIPE = (
    EMPTY
    + """setp.ne.u32 %p1, %r8, 0;
mov.b32 %r3, 0;
mov.b32 %r10, 0;
@%p1 bra CONSUMER;
PRODUCER:
bar.sync 2, 128;
add.s32 %r11, %r10, %r1;
st.shared.u32 [%r7], %r11;
bar.arrive 1, {full};
add.s32 %r10, %r10, 100;
setp.lt.u32 %p2, %r10, 200;
@%p2 bra PRODUCER;
bra OUT;
CONSUMER:
and.b32 %r12, %r6, 127;
add.s32 %r12, %r12, %r5;
LOOP:
{empty}
{wait}
ld.shared.u32 %r11, [%r12];
add.s32 %r3, %r3, %r11;
add.s32 %r10, %r10, 1;
setp.lt.u32 %p2, %r10, 2;
@%p2 bra LOOP;
OUT:
st.global.u32 [%rd11], %r3;"""
)
RIGHT = {"full": 128, "empty": "bar.arrive 2, 128;", "wait": "bar.sync 1, 128;"}


@pytest.mark.parametrize("seed", range(4))
def test_warps_arrive_without_a_wait(seed):
    expected = np.where(T < 32, 0, 2 * (T % 32) + 100)
    np.testing.assert_array_equal(result(PIPE.format(**RIGHT), seed=seed), expected)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"wait": "bar.sync 1, 96;", "full": 96}, "shared-race|race-with-read|agents-deadlock"),
        ({"wait": "bar.sync 1, 160;", "full": 128}, "barrier-counts|agents-deadlock"),
        ({"full": 64}, "barrier-counts"),
        ({"wait": ""}, "shared-race|race-with-read|agents-deadlock"),
        ({"empty": "setp.eq.u32 %p3, %r10, 0; @%p3 bar.arrive 2, 128;"}, "agents-deadlock"),
        ({"empty": "bar.arrive 2, 96;"}, "barrier-counts|agents-deadlock"),
        ({"wait": "bar.arrive 1, 128;"}, "shared-race|race-with-read|agents-deadlock"),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_faults_of_arrivals_are_found(change, code, seed):
    with pytest.raises(InterpreterError, match=rf"\[({code})\]"):
        result(PIPE.format(**RIGHT | change), seed=seed)


def test_too_few_arrivals_are_a_deadlock_that_names_the_missing_warps():
    body = "setp.eq.u32 %p1, %r8, 0; @%p1 bar.arrive 1, 96; setp.eq.u32 %p1, %r8, 1; @%p1 bar.sync 1, 96;"
    with pytest.raises(InterpreterError, match=r"\[agents-deadlock\]") as caught:
        result(body)
    assert "barrier 1: 2 of 3 warps have arrived, 1 of them without a wait, not warp 0 (ended)" in str(caught.value)


def test_warps_that_have_ended_are_not_waited_for_unless_a_number_says_so():
    """By the CUDA C++ Programming Guide, __syncthreads waits for the threads that have not exited."""
    body = "setp.gt.u32 %p1, %r8, 1; @%p1 exit; {} st.global.u32 [%rd11], %r1;"
    found = result(body.format("bar.sync 0;"), z=np.zeros(128))
    np.testing.assert_array_equal(found, np.where(T < 64, T, 0))
    with pytest.raises(InterpreterError, match=r"\[agents-deadlock\]"):
        result(body.format("bar.sync 0, 128;"), z=np.zeros(128))


def test_a_part_of_a_warp_at_an_aligned_barrier():
    body = "setp.lt.u32 %p1, %r1, 7; @%p1 {} 0{};"
    for name, rest in (("bar.sync", ""), ("bar.arrive", ", 128"), ("barrier.cta.sync.aligned", "")):
        with pytest.raises(InterpreterError, match=r"lanes \[7, .*\[barrier-divergent\]"):
            result(body.format(name, rest))


@pytest.mark.parametrize(
    ("instruction", "code"),
    [
        ("mov.b32 %r20, 16; bar.sync %r20;", "barrier-number"),
        ("mov.b32 %r20, 33; bar.sync 1, %r20;", "barrier-threads"),
        ("bar.arrive 1;", "form-known"),
    ],
)
def test_barriers_that_cannot_be_are_refused(instruction, code):
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        result(instruction)
