"""Generic addresses of lanes in several state spaces, and addresses of variables with an offset."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError, NotInterpreted

L = np.arange(32)
PLACE = ".shared .align 16 .b8 place[128];\n.global .align 4 .b32 table[4] = {1, 2, 3, 4};\n"
# Lanes 0..9 address `place`, 10..19 local memory, others the array x: each its own word.
START = """.local .align 16 .b8 own[128];
add.s64 %rd11, %rd1, %rd9;
mov.u64 %rd20, place;
cvta.shared.u64 %rd20, %rd20;
mov.u64 %rd21, own;
cvta.local.u64 %rd21, %rd21;
add.s64 %rd20, %rd20, %rd9;
add.s64 %rd21, %rd21, %rd9;
add.s64 %rd22, %rd2, %rd9;
st.b32 [%rd20], 100;
st.b32 [%rd21], 200;
setp.lt.u32 %p1, %r1, 10;
setp.lt.u32 %p2, %r1, 20;
selp.b64 %rd23, %rd21, %rd22, %p2;
selp.b64 %rd23, %rd20, %rd23, %p1;
"""
END = """
st.global.b32 [%rd11], %r3;"""
X = 1000 + L
HELD = np.select([L < 10, L < 20], [100, 200], X)


def result(body):
    text = kernel(START + body + END, "zx", PLACE)
    return run(text, {"z": ("i32", np.zeros(32)), "x": ("i32", X)})


@pytest.mark.parametrize("load", ["ld.b32", "ld.volatile.b32"])
def test_lanes_load_from_several_state_spaces(load):
    np.testing.assert_array_equal(result(f"{load} %r3, [%rd23];")["z"], HELD)


@pytest.mark.parametrize("store", ["st.b32", "st.volatile.b32"])
def test_lanes_store_to_several_state_spaces(store):
    found = result(f"{store} [%rd23], %r1; ld.b32 %r3, [%rd23];")
    np.testing.assert_array_equal(found["z"], L)
    np.testing.assert_array_equal(found["x"], np.where(L < 20, X, L))


def test_lanes_add_to_words_of_several_state_spaces():
    body = "selp.b64 %rd23, %rd20, %rd22, %p1; atom.add.u32 %r4, [%rd23], 1; ld.b32 %r3, [%rd23];"
    found = result(body)
    np.testing.assert_array_equal(found["z"], np.where(L < 10, 101, X + 1))
    np.testing.assert_array_equal(found["x"], np.where(L < 10, X, X + 1))


def test_a_lane_beyond_its_space_is_found_among_lanes_of_others():
    with pytest.raises(InterpreterError, match=r"lane 3: .*\[(smem-\w+|out-of-bounds)\]"):
        result("setp.eq.u32 %p3, %r1, 3; @%p3 add.s64 %rd23, %rd23, 4096; ld.b32 %r3, [%rd23];")


def test_the_address_of_a_byte_of_a_variable():
    np.testing.assert_array_equal(result("mov.u64 %rd24, table+8; ld.global.b32 %r3, [%rd24+-4];")["z"], 2 + 0 * L)
    assert (result("bar.sync 0; mov.u32 %r4, place+12; ld.shared.b32 %r3, [%r4];")["z"] == 100).all()
    with pytest.raises(InterpreterError, match=r"\[smem-variable\]"):
        result("bar.sync 0; mov.u32 %r4, place+128; ld.shared.b32 %r3, [%r4];")


@pytest.mark.parametrize("how", ["volatile", "relaxed.gpu"])
def test_strong_accesses_of_the_memory_of_a_thread_and_of_constants_do_not_exist(how):
    text = kernel(f"ld.{how}.const.b32 %r3, [fixed];", "z", ".const .b32 fixed = 7;\n")
    with pytest.raises(NotInterpreted, match=r"\[strong-space\]"):
        run(text, {"z": ("i32", 32)})
    with pytest.raises(NotInterpreted, match=r"\[strong-space\]"):
        run(kernel(f".local .b32 own; st.{how}.local.b32 [own], %r1;", "z"), {"z": ("i32", 32)})


@pytest.mark.parametrize("space", [".shared", ".local", ".global"])
def test_a_variable_that_is_named_by_an_access_without_a_space_is_found_in_its_own(space):
    body = f"""{{ {space} .align 4 .b32 word; setp.eq.u32 %p1, %r1, 5;
@%p1 st.b32 [word], 40; bar.warp.sync -1; @%p1 atom.add.u32 %r2, [word], 2; @%p1 ld.b32 %r3, [word];
add.s64 %rd11, %rd1, %rd9; @%p1 st.global.b32 [%rd11], %r3; }}"""
    body = body.replace("atom.add.u32 %r2, [word], 2", "st.b32 [word], 42") if space == ".local" else body
    assert run(kernel(body, "z"), {"z": ("i32", np.zeros(32))})["z"][5] == 42
