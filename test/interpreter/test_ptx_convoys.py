"""Convoys: the warps of a CTA at one place run together. Results and errors are the same as if each warp ran alone."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError
from lowtide.interpreter import run as run_record
from lowtide.interpreter.machine.convoys import Convoy
from lowtide.interpreter.machine.options import Observers, Work
from lowtide.launches import Array, Launch, LaunchRecord, Pointer

THREADS = 128
T = np.arange(THREADS)
SHARED = ".shared .align 16 .b8 s[1024];\n"
START = """mov.u32 %r2, s;
mad.lo.u32 %r3, %r1, 4, %r2;
add.s64 %rd11, %rd1, %rd9;
add.s64 %rd12, %rd2, %rd9;
xor.b32 %r4, %r1, 96;
mad.lo.u32 %r4, %r4, 4, %r2;
"""
END = "st.global.u32 [%rd12], %r5;"


def result(body, x=T, seed=0):
    buffers = {"x": ("i32", x), "y": ("i32", THREADS)}
    return run(kernel(START + body + END, ["x", "y"], SHARED), buffers, threads=THREADS, seed=seed)["y"]


def test_instructions_are_counted_once_for_each_warp():
    """Also if warps join after a barrier, and separate before a branch that they take differently."""
    body = "bar.sync 0; mov.u32 %r5, %r1; setp.lt.u32 %p1, %r1, 64; @%p1 bra END; add.u32 %r5, %r5, 1;\nEND:\n"
    text = kernel(START + body + END, ["x", "y"], SHARED)
    ended, work = [], Work()
    watch = Observers(on_progress=lambda *counts: ended.append(counts), work=work)
    arrays = {"x": Array("i32", (128,), (), T), "y": Array("i32", (128,), (), T)}
    launch = Launch("test", (1, 1, 1), (THREADS, 1, 1), (Pointer("x"), Pointer("y")))
    run_record(text, LaunchRecord(arrays, (launch,)), observers=watch)
    assert (ended, work.instructions) == ([(1, 1)], 4 * 16 + 2)


@pytest.fixture
def ran(monkeypatch):
    """The texts of the instructions that convoys have run as one, and those that they have run warp by warp."""
    together, each = [], []
    run_op, run_each = Convoy.run, Convoy.run_each
    monkeypatch.setattr(Convoy, "run", lambda self, op: (together.append(op.describe()), run_op(self, op))[1])
    monkeypatch.setattr(Convoy, "run_each", lambda self, op: (each.append(op.describe()), run_each(self, op))[1])
    return lambda text: (any(text in op for op in together), any(text in op for op in each))


EXCHANGE = "ld.global.u32 %r5, [%rd11]; st.shared.u32 [%r3], %r5; {} ld.shared.u32 %r5, [%r4];"


def test_arithmetic_and_accesses_run_once_for_all_warps(ran):
    np.testing.assert_array_equal(result(EXCHANGE.format("bar.sync 0;")), T ^ 96)
    for text in ("mad.lo.u32", "ld.global", "st.shared", "ld.shared", "st.global"):
        assert ran(text) == (True, False), text


def test_a_race_between_two_warps_of_a_convoy_is_named():
    with pytest.raises(
        InterpreterError, match=r"ld\.shared.* warp 0 lane 0: .*what warp 3 lane 0 wrote.*\[shared-race\]"
    ):
        result(EXCHANGE.format(""))


def test_two_warps_that_store_to_one_place_race():
    with pytest.raises(
        InterpreterError, match=r"st\.shared.* warp 1 lane 0: .*what warp 0 lane 0 wrote.*\[shared-race\]"
    ):
        result("and.b32 %r6, %r1, 31; mad.lo.u32 %r6, %r6, 4, %r2; st.shared.u32 [%r6], %r1; mov.u32 %r5, 0;")


def test_two_warps_that_store_to_one_place_in_global_memory_race():
    with pytest.raises(
        InterpreterError, match=r"st\.global.* warp 1 lane 0: .*CTA 0 warp 0 lane 0 wrote.*\[global-race\]"
    ):
        result("and.b32 %r6, %r1, 31; mul.wide.u32 %rd13, %r6, 4; add.s64 %rd12, %rd2, %rd13; mov.u32 %r5, 0;")


def test_a_later_store_races_with_the_reads_of_all_warps():
    """All warps read x[0]; then one of them writes it."""
    body = "ld.global.u32 %r5, [%rd1]; {} setp.eq.u32 %p1, %r1, 64; @%p1 st.global.u32 [%rd1], %r1;"
    np.testing.assert_array_equal(result(body.format("bar.sync 0;"), T + 7), np.full(THREADS, 7))
    with pytest.raises(InterpreterError, match=r"warp 2 lane 0: race \(write after read\)"):
        result(body.format(""))


def test_warps_part_at_a_branch_and_join_after_a_barrier(ran):
    body = """shr.u32 %r6, %r1, 5;
setp.eq.u32 %p1, %r6, 1;
mov.u32 %r5, %r1;
@!%p1 bra OTHER;
add.u32 %r5, %r5, 1000;
OTHER:
bar.sync 0;
sub.u32 %r5, %r5, 1;
"""
    np.testing.assert_array_equal(result(body), T - 1 + np.where(T // 32 == 1, 1000, 0))
    assert ran("add.u32 %r5, %r5, 1000") == (False, False)
    assert ran("sub.u32") == (True, False)


def test_a_value_that_is_uniform_in_each_warp_may_differ_between_them(ran):
    """The warps wait at different named barriers, by the number of the warp."""
    body = "shr.u32 %r6, %r1, 6; add.u32 %r6, %r6, 1; bar.sync %r6, 64; mov.u32 %r5, %r6;"
    np.testing.assert_array_equal(result(body), T // 64 + 1)
    assert ran("mov.u32 %r5, %r6") == (True, False)


def test_an_undefined_register_parts_a_convoy_and_is_found_where_it_is_used():
    body = "shfl.sync.idx.b32 %r5, %r1, 20, 31, 65535;"
    with pytest.raises(InterpreterError, match=r"CTA 0 warp \d: .*(lane 16 executes it and is no member|undefined)"):
        result(body)


@pytest.mark.parametrize("seed", range(3))
def test_several_warps_signal_one_by_one(ran, seed):
    """Each warp counts the arrivals that it sees; no two see the same number."""
    body = "and.b32 %r7, %r1, 31; setp.eq.u32 %p1, %r7, 0; mov.u32 %r5, -1; @%p1 atom.global.add.u32 %r5, [%rd1], 1;"
    found = result(body, np.zeros(THREADS), seed)
    assert sorted(found[::32].tolist()) == [0, 1, 2, 3]
    assert ran("atom.global") == (False, False)


def test_an_access_out_of_bounds_names_the_warp_and_the_lane():
    with pytest.raises(InterpreterError, match=r"ld\.global.* warp 3 lane 30: .*\[(outside-matrices|out-of-bounds)\]"):
        result("ld.global.u32 %r5, [%rd11+8];")
