"""Convoys of several CTAs, of kernels whose CTAs do not wait for each other. Results and errors are the same as if each
CTA ran alone."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.convoys import Convoy

THREADS, GRID = 64, 5
T = np.arange(THREADS * GRID)
SHARED = ".shared .align 16 .b8 s[256];\n"
START = """mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r3, %r2, 64, %r1;
mul.wide.u32 %rd10, %r3, 4;
add.s64 %rd11, %rd1, %rd10;
add.s64 %rd12, %rd2, %rd10;
mov.u32 %r8, s;
mad.lo.u32 %r9, %r1, 4, %r8;
xor.b32 %r7, %r1, 32;
mad.lo.u32 %r7, %r7, 4, %r8;
"""
END = "st.global.u32 [%rd12], %r5;"


def result(body, x=T, seed=0):
    buffers = {"x": ("i32", x), "y": ("i32", len(T))}
    text = kernel(START + body + END, ["x", "y"], SHARED)
    return run(text, buffers, threads=THREADS, grid=GRID, seed=seed)["y"]


@pytest.fixture
def ctas_of(monkeypatch):
    """A function from a text to the numbers of CTAs of the convoys that ran an instruction with this text."""
    found = []
    run_op = Convoy.run

    def noted(self, op):
        found.append((op.describe(), len(self.all_ctas)))
        return run_op(self, op)

    monkeypatch.setattr(Convoy, "run", noted)
    return lambda text: {count for op, count in found if text in op}


EXCHANGE = "ld.global.u32 %r5, [%rd11]; st.shared.u32 [%r9], %r5; {} ld.shared.u32 %r5, [%r7]; add.u32 %r5, %r5, 1;"


def test_ctas_run_as_one_and_each_has_its_shared_memory(ctas_of):
    np.testing.assert_array_equal(result(EXCHANGE.format("bar.sync 0;")), (T ^ 32) + 1)
    for text in ("ld.global", "st.shared", "ld.shared", "add.u32 %r5", "st.global"):
        assert ctas_of(text) == {GRID}, text


def test_one_address_holds_another_word_in_each_cta(ctas_of):
    body = "setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [s+4], %r2; bar.sync 0; ld.shared.u32 %r5, [s+4];"
    np.testing.assert_array_equal(result(body), T // THREADS)
    assert ctas_of("ld.shared") == {GRID}


def test_a_race_in_the_shared_memory_of_a_cta_is_named():
    with pytest.raises(InterpreterError, match=r"ld\.shared.* CTA 0 warp 0 lane 0: .*what warp 1 .*\[shared-race\]"):
        result(EXCHANGE.format(""))


def test_two_ctas_that_store_to_one_place_race():
    """CTA 4 stores where CTA 3 does, by the same instruction."""
    body = "mov.u32 %r5, 1; setp.eq.u32 %p1, %r2, {}; @%p1 add.s64 %rd12, %rd12, -256;"
    np.testing.assert_array_equal(result(body.format(5)), np.ones(len(T)))
    with pytest.raises(
        InterpreterError, match=r"st\.global.* CTA 4 warp 0 lane 0: race .*CTA 3 warp 0 lane 0 wrote.*\[global-race\]"
    ):
        result(body.format(4))


def test_a_cta_that_reads_what_another_has_written_races():
    """Each CTA stores to its part, and after a barrier loads from that of the next one."""
    body = "mov.u32 %r5, %r1; st.global.u32 [%rd12], %r5; bar.sync 0; {} ld.global.u32 %r6, [%rd12+{}]; bar.sync 0;"
    guard = "setp.lt.u32 %p1, %r2, 4; @%p1"
    np.testing.assert_array_equal(result(body.format(guard, 0)), T % THREADS)
    with pytest.raises(
        InterpreterError, match=r"ld\.global.* CTA (\d) .* race \(read after write\).* CTA (\d) .*\[global-race\]"
    ):
        result(body.format(guard, 4 * THREADS))


def test_a_cta_that_writes_what_others_have_read_races():
    body = "ld.global.u32 %r5, [%rd1]; {} setp.eq.u32 %p1, %r3, {}; @%p1 st.global.u32 [%rd1+{}], %r1;"
    np.testing.assert_array_equal(result(body.format("bar.sync 0;", 64, 4), T + 7), np.full(len(T), 7))
    with pytest.raises(InterpreterError, match=r"CTA 1 warp 0 lane 0: race \(write after read\).* CTA \d .* read"):
        result(body.format("bar.sync 0;", 64, 0), T + 7)


@pytest.mark.parametrize("seed", range(2))
def test_ctas_with_loops_of_different_lengths_separate(ctas_of, seed):
    """CTA n adds its neighbours' numbers n + 1 times."""
    body = """mov.u32 %r6, 0;
mov.u32 %r5, 0;
LOOP:
st.shared.u32 [%r9], %r1;
bar.sync 0;
ld.shared.u32 %r4, [%r7];
bar.sync 0;
add.u32 %r5, %r5, %r4;
add.u32 %r6, %r6, 1;
setp.le.u32 %p1, %r6, %r2;
@%p1 bra LOOP;
"""
    times, thread = T // THREADS + 1, T % THREADS
    np.testing.assert_array_equal(result(body, seed=seed), times * (thread ^ 32))
    assert ctas_of("add.u32 %r5") >= {GRID, 1}


def test_an_access_out_of_bounds_names_the_cta():
    with pytest.raises(InterpreterError, match=r"ld\.global.* CTA 4 warp 1 lane 31: .*\[outside-matrices\]"):
        result("ld.global.u32 %r5, [%rd11+4];")


def test_a_register_that_was_never_written_is_an_error_of_the_warp_that_reads_it():
    """cp.async runs CTA by CTA; only CTA 3 comes to it without an address."""
    body = """setp.eq.u32 %p1, %r2, {};
@!%p1 mov.u32 %r20, %r9;
cp.async.ca.shared.global [%r20], [%rd11], 4;
cp.async.wait_all;
ld.shared.u32 %r5, [%r9];
"""
    np.testing.assert_array_equal(result(body.format(99)), T)
    with pytest.raises(InterpreterError, match=r"cp\.async.* CTA 3 warp 0.* never written"):
        result(body.format(3))


def test_ctas_that_may_wait_for_each_other_run_apart(ctas_of):
    body = "mov.u32 %r5, %r1; atom.global.add.u32 %r6, [%rd1], 0; add.u32 %r5, %r5, 1;"
    np.testing.assert_array_equal(result(body), T % THREADS + 1)
    assert ctas_of("mov.u32 %r5") == {1}


def test_a_deadlock_of_one_cta_is_found():
    body = "mov.u32 %r5, %r1; setp.eq.u32 %p1, %r3, 130; @%p1 bra END; bar.sync 0;\nEND:\n"
    with pytest.raises(InterpreterError, match=r"CTA 2 warp 0.*divergent"):
        result(body)
