"""%envreg: the workspace by which the CTAs of a cooperative launch wait for each other, as nvcc's grid.sync() does."""

import numpy as np
import pytest

import lowtide as lt

# Each thread writes its number, all CTAs meet, and each thread reads that of the next thread of the grid. They meet
# again before it writes another number, and twice more. Some then find the counter as changed for the next meeting.
TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 z, .param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<12>;
ld.param.u64 %rd1, [z]; ld.param.u64 %rd2, [out];
POINTER
setp.ne.s64 %p1, %rd3, 0;
@%p1 bra VALID;
trap;
VALID:
mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %nctaid.x;
mad.lo.s32 %r5, %r3, %r2, %r1; mul.lo.s32 %r6, %r4, %r2;
add.s32 %r7, %r5, 1; rem.u32 %r7, %r7, %r6;
mad.wide.u32 %rd4, %r5, 4, %rd1; mad.wide.u32 %rd5, %r7, 4, %rd1; mad.wide.u32 %rd6, %r5, 4, %rd2;
mov.u32 %r8, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra OTHERS;
mov.u32 %r8, 0x80000001; sub.u32 %r8, %r8, %r4;
OTHERS:
st.global.u32 [%rd4], %r5;
BARRIER1
ld.global.u32 %r9, [%rd5];
BARRIER2
st.global.u32 [%rd4], %r6;
st.global.u32 [%rd6], %r9;
BARRIER3
BARRIER4
ret;
}
"""
BARRIER = """barrier.sync 0;
setp.ne.u32 %p3, %r1, 0; @%p3 bra MET{0};
ORDER %r10, [%rd3+4], %r8;
AGAIN{0}:
ld.acquire.gpu.u32 %r11, [%rd3+4];
xor.b32 %r12, %r11, %r10; setp.gt.s32 %p3, %r12, -1; @%p3 bra AGAIN{0};
MET{0}:
barrier.sync 0;"""
TWO = "mov.u32 %r13, %envreg2; mov.u32 %r14, %envreg1; mov.b64 %rd3, {%r13, %r14};"


def report(pointer=TWO, order="atom.add.release.gpu.u32", **launch):
    text = TEXT.replace("POINTER", pointer)
    for number in range(1, 5):
        text = text.replace(f"BARRIER{number}", BARRIER.format(number).replace("ORDER", order))
    arrays = [np.zeros(128, np.int32), np.zeros(128, np.int32)]
    expect = [np.full(128, 128, np.int32), np.roll(np.arange(128, dtype=np.int32), -1)]
    return lt.ptx.load(text)["k"].check(grid=4, block=32, args=arrays, expect=expect, **launch)


@pytest.mark.parametrize("pointer", [TWO, "mov.b64 %rd3, {%envreg2, %envreg1};"])
def test_ctas_of_a_cooperative_launch_meet(pointer):
    assert report(pointer, cooperative=True).ok


def test_a_barrier_without_release_orders_nothing():
    assert report(order="atom.add.relaxed.gpu.u32", cooperative=True).kind == "race"


def test_a_launch_that_is_not_cooperative_has_no_workspace():
    assert report().kind == "trap"
