"""Words of 128 bits: loads, stores, moves and atomic operations (PTX ISA, "ld", "st", "mov", "atom": .b128)."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

T = np.arange(32)
REGISTERS = ".reg .b128 %q<9>;\n.reg .b128 one;\n"
START = """mov.u32 %r5, place; shl.b32 %r6, %r1, 4; add.s32 %r7, %r5, %r6; mul.wide.u32 %rd10, %r1, 16;
add.s64 %rd11, %rd1, %rd10; cvt.u64.u32 %rd12, %r1; add.s64 %rd13, %rd12, 100; setp.eq.u32 %p1, %r1, 0;
"""


def result(body, z=None):
    """The words of 64 bits of z, two for each thread."""
    text = kernel(REGISTERS + START + body, "z", ".shared .align 16 .b8 place[512];")
    values = np.zeros(128) if z is None else z
    found = run(text, {"z": ("i32", values)})["z"].astype(np.int32)
    return np.ascontiguousarray(found).view(np.int64).reshape(32, 2)


def pairs(low, high):
    return np.stack(np.broadcast_arrays(low, high), axis=1)


@pytest.mark.parametrize("space", ["global", "shared", "weak.shared", "relaxed.gpu.shared::cta", "volatile.shared"])
def test_a_word_is_stored_and_loaded(space):
    order, _, name = space.rpartition(".")
    at = "[%rd11]" if name == "global" else "[%r7]"
    store, load = (f"{verb}.{order + '.' if order else ''}{name}.b128" for verb in ("st", "ld"))
    body = f"""mov.b128 %q1, {{%rd12, %rd13}}; {store} {at}, %q1; {load} one, {at}; mov.b128 %q2, one;
mov.b128 {{%rd20, %rd21}}, %q2; mov.b128 %q3, {{%rd21, %rd20}}; st.global.b128 [%rd11], %q3;"""
    np.testing.assert_array_equal(result(body), pairs(T + 100, T))


def test_a_guarded_move_keeps_the_other_lanes():
    body = "mov.b128 %q1, {%rd12, %rd12}; @%p1 mov.b128 %q1, {%rd13, %rd13}; st.global.b128 [%rd11], %q1;"
    np.testing.assert_array_equal(result(body), pairs(np.where(T, T, 100), np.where(T, T, 100)))


def test_words_are_exchanged_and_compared_as_a_whole():
    body = """mov.b128 %q1, {%rd12, %rd13}; mov.b128 %q2, {7, 8};
st.global.b128 [%rd11], %q1;
add.s64 %rd20, %rd13, 1; setp.lt.u32 %p2, %r1, 9; selp.b64 %rd20, %rd20, %rd13, %p2;
mov.b128 %q3, {%rd12, %rd20};
atom.relaxed.gpu.global.cas.b128 %q4, [%rd11], %q3, %q2;
st.shared.b128 [%r7], %q4;
atom.shared.exch.b128 %q5, [%r7], %q3;
atom.global.exch.b128 %q6, [%rd11], %q5;
mov.b128 {%rd21, %rd22}, %q6; mov.b128 {%rd23, %rd24}, %q5;
add.s64 %rd21, %rd21, %rd23; add.s64 %rd22, %rd22, %rd24; mov.b128 %q7, {%rd21, %rd22};
st.global.b128 [%rd11], %q7;"""
    swapped = T >= 9  # for the others, only the low half is what was wanted
    np.testing.assert_array_equal(
        result(body), pairs(T + np.where(swapped, 7, T), T + 100 + np.where(swapped, 8, T + 100))
    )


def test_lanes_exchange_one_word_in_turn():
    body = """mov.b128 %q1, {%rd12, %rd13}; @%p1 st.shared.b128 [%r5], %q1; bar.sync 0;
atom.shared.exch.b128 %q2, [%r5], %q1; st.global.b128 [%rd11], %q2;"""
    found = result(body)
    np.testing.assert_array_equal(found[:, 1], found[:, 0] + 100)
    assert {*found[:, 0].tolist()} <= {*range(32)}
    assert len({*found[1:, 0].tolist()}) == 31


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("mov.b128 %q1, {%rd12, %rd13}; st.global.b128 [%rd11+8], %q1;", "misaligned-access"),
        ("mov.b128 %q1, {%rd12, %rd13}; st.shared.b128 [%r7+8], %q1;", "misaligned-access"),
        ("ld.global.b128 %q1, [%rd11+256];", "outside-matrices"),
        ("mov.b128 %q1, {%rd12, %rd13}; atom.global.exch.b128 %q2, [%rd11+8], %q1;", "misaligned-access"),
        ("mov.b128 %q1, {%rd12, %rd13}; @%p1 st.shared.b128 [%r5], %q1; ld.shared.b128 %q1, [%r5];", "shared-race"),
        ("mov.b128 %q1, %rd12;", "form-known"),
        ("mov.b128 %q1, {%rd12, %rd13}; atom.global.add.b128 %q2, [%rd11], %q1;", "atomic-type"),
    ],
)
def test_faults_are_found(body, code):
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        result(body)
