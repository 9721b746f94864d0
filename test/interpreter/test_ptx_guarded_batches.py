"""Consecutive guarded loads and stores run together, also if their guards hold in different lanes."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

# Lane l reads x[l], x[32 + l] and x[64 + l], each under its own guard, and stores what it has read.
GUARDS = """setp.lt.u32 %p1, %r1, 32;
setp.lt.u32 %p2, %r1, 8;
setp.ge.u32 %p3, %r1, {first};
add.s64 %rd11, %rd1, %rd9;
add.s64 %rd12, %rd2, %rd9;
mov.u32 %r2, -1; mov.u32 %r3, -2; mov.u32 %r4, -3;
"""
LOADS = """@%p1 ld.global.b32 %r2, [%rd11];
@%p2 ld.global.b32 %r3, [%rd11+128];
@!%p3 ld.global.b32 %r4, [%rd11+256];
"""
STORES = """@%p1 st.global.b32 [%rd12], %r2;
@%p1 st.global.b32 [%rd12+128], %r3;
@%p2 st.global.b32 [%rd12+256], %r4;
@%p3 st.global.b32 [%rd12+384], %r4;
"""


def results(first, body=LOADS + STORES):
    text = kernel(GUARDS.format(first=first) + body, ["x", "y"])
    return run(text, {"x": ("i32", np.arange(96)), "y": ("i32", np.full(128, 7))})["y"]


@pytest.mark.parametrize("first", [0, 8, 20, 32])
def test_each_guard_chooses_its_lanes(first):
    lane = np.arange(32)
    third = np.where(lane >= first, -3, lane + 64)
    y = results(first)
    np.testing.assert_array_equal(y[:32], lane)
    np.testing.assert_array_equal(y[32:64], np.where(lane < 8, lane + 32, -2))
    np.testing.assert_array_equal(y[64:96], np.where(lane < 8, third, 7))
    np.testing.assert_array_equal(y[96:], np.where(lane >= first, -3, 7))


def test_a_later_store_of_a_lane_wins():
    body = "mov.u32 %r2, 1; mov.u32 %r3, 2; mov.u32 %r4, 3;\n" + "".join(
        f"@{guard} st.global.b32 [%rd12], {value};\n"
        for guard, value in (("%p1", "%r2"), ("%p2", "%r3"), ("!%p3", "%r4"))
    )
    lane = np.arange(32)
    np.testing.assert_array_equal(results(4, body)[:32], np.where(lane < 4, 3, np.where(lane < 8, 2, 1)))


def test_the_instruction_and_the_lane_that_go_out_of_bounds_are_named():
    body = LOADS.replace("[%rd11+128]", "[%rd11+380]")
    with pytest.raises(InterpreterError, match=r"%r3, \[%rd11\+380\].* lane 1: .*\[outside-matrices\]"):
        results(20, body)
