"""Values of atomic operations, by type and state space, and what is none of them."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError


def changed(operation, dtype, start, operands, space="global"):
    """(Old values, new value) of a word after each lane in turn has applied an atomic operation to it; `operands` by
    register: a constant, or %r1 for the lane."""
    width = {"b16": 16, "b32": 32, "u32": 32, "s32": 32, "f32": 32, "b64": 64, "u64": 64, "s64": 64}[dtype]
    register = {16: "%rs", 32: "%r", 64: "%rd"}[width]
    found = f"{register}8"
    body = f"""
mul.wide.u32 %rd9, %r1, {width // 8};
add.s64 %rd10, %rd2, %rd9;
cvt.u64.u32 %rd11, %r1;
cvt.u16.u32 %rs1, %r1;
mov.u64 %rd12, %rd1;
atom{space}.{operation}.{dtype} {found}, [%rd12], {operands};
st.global.b{width} [%rd10], {found};"""
    kind = f"{'f' if dtype[0] == 'f' else 'i'}{width}"
    buffers = {"word": (kind, np.array([start])), "old": (kind, 32)}
    result = run(kernel(body, list(buffers)), buffers)
    return result["old"], result["word"][0]


@pytest.mark.parametrize(
    ("operation", "dtype", "start", "operands", "old", "new"),
    [
        ("add", "u32", 5, "%r1", 5 + np.cumsum(np.arange(32)) - np.arange(32), 5 + 496),
        ("add", "s32", -7, "%r1", -7 + np.cumsum(np.arange(32)) - np.arange(32), -7 + 496),
        ("add", "u64", 5, "%rd11", 5 + np.cumsum(np.arange(32)) - np.arange(32), 5 + 496),
        ("add", "f32", 0.5, "0f3F800000", 0.5 + np.arange(32), 32.5),
        ("inc", "u32", 0, "4", np.arange(32) % 5, 2),
        ("dec", "u32", 2, "4", (2 - np.arange(32)) % 5, 0),
        ("min", "s32", 3, "-4", [3] + [-4] * 31, -4),
        ("min", "u32", 3, "-4", [3] * 32, 3),
        ("max", "s64", -3, "%rd11", [-3, *range(31)], 31),
        ("max", "u32", 3, "-4", [3] + [-4] * 31, -4),
        ("and", "b32", 12, "10", [12] + [8] * 31, 8),
        ("or", "b64", 12, "10", [12] + [14] * 31, 14),
        ("xor", "b32", 12, "10", [12, 6] * 16, 12),
        ("exch", "b32", 9, "%r1", [9, *range(31)], 31),
        ("exch", "b64", 9, "%rd11", [9, *range(31)], 31),
        ("cas", "b32", 9, "9, 5", [9] + [5] * 31, 5),
        ("cas", "b64", 9, "8, 5", [9] * 32, 9),
        ("cas", "b16", 0, "%rs1, 1", [0, *[1] * 31], 1),
    ],
)
@pytest.mark.parametrize("space", [".global", ""])
def test_an_atomic_operation_gives_the_old_value_to_each_lane(operation, dtype, start, operands, old, new, space):
    found, word = changed(operation, dtype, start, operands, space)
    np.testing.assert_array_equal(found, old)
    assert word == new


@pytest.mark.parametrize("operation", ["add", "xor", "max", "exch"])
def test_lanes_that_are_off_change_no_word_that_others_change(operation):
    # Lanes 0 … 20 act on three words in turn; lanes 21 … 31 have their addresses, too.
    body = f"""rem.u32 %r2, %r1, 3;
mul.wide.u32 %rd10, %r2, 4;
add.s64 %rd11, %rd1, %rd10;
add.s64 %rd12, %rd2, %rd9;
setp.lt.u32 %p1, %r1, 21;
mov.u32 %r8, 77;
@%p1 atom.global.{operation}.{"b32" if operation in ("xor", "exch") else "u32"} %r8, [%rd11], %r1;
st.global.b32 [%rd12], %r8;"""
    buffers = {"words": ("i32", np.array([5, 6, 7])), "old": ("i32", 32)}
    result = run(kernel(body, list(buffers)), buffers)
    change = {"add": np.add, "xor": np.bitwise_xor, "max": np.maximum, "exch": lambda old, new: new}[operation]
    words, old = [5, 6, 7], [77] * 32
    for lane in range(21):
        old[lane], words[lane % 3] = words[lane % 3], change(words[lane % 3], lane)
    np.testing.assert_array_equal(result["words"], words)
    np.testing.assert_array_equal(result["old"], old)


@pytest.mark.parametrize(("dtype", "kind"), [("f16", "f16"), ("bf16", "bf16")])
def test_halves_are_added_one_by_one_and_in_pairs(dtype, kind):
    body = f"""
ld.global.b32 %r2, [%rd2];
ld.global.b16 %rs1, [%rd2];
red.global.add.noftz.{dtype}x2 [%rd1], %r2;
red.relaxed.gpu.global.add.noftz.{dtype} [%rd1+4], %rs1;"""
    found = run(kernel(body, ["x", "y"]), {"x": (kind, np.zeros(4)), "y": (kind, np.array([0.5, 2.0]))})["x"]
    np.testing.assert_array_equal(found, [16, 64, 16, 0])


def test_atomics_on_shared_memory_through_generic_addresses():
    body = """
setp.ne.u32 %p1, %r1, 0;
mov.u32 %r4, 0;
@!%p1 st.shared.u32 [buffer], %r4;
bar.sync 0;
mov.u64 %rd10, buffer;
cvta.shared.u64 %rd10, %rd10;
atom.add.u32 %r5, [%rd10], 2;
atom.shared.add.u32 %r6, [buffer], 1;
bar.sync 0;
ld.shared.u32 %r7, [buffer];
add.s64 %rd11, %rd1, %rd9;
st.global.u32 [%rd11], %r7;"""
    found = run(kernel(body, ["x"], ".shared .align 4 .b32 buffer;"), {"x": ("i32", 64)}, threads=64)["x"]
    np.testing.assert_array_equal(found, np.full(64, 192))


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("atom.global.u32 %r2, [%rd1], 1;", r"\[atomic-kind\]"),
        ("atom.global.add.b32 %r2, [%rd1], 1;", r"\.add takes u32, .*\[atomic-type\]"),
        ("red.global.inc.s32 [%rd1], 1;", r"\.inc takes u32, not s32 \[atomic-type\]"),
        ("red.global.add.f16 [%rd1], %rs1;", r"\[atomic-noftz\]"),
        ("atom.global.b256.exch %rd2, [%rd1], %rd3;", r"\.b256 of atom is not interpreted.*\[modifier-unknown\]"),
        ("fence.acq_rel;", r"a fence has a scope: .*\[fence-scope\]"),
        ("membar;", r"a membar has a level: cta, gl, sys \[membar-level\]"),
    ],
)
def test_what_is_no_atomic_operation_or_fence_is_named(instruction, message):
    with pytest.raises(InterpreterError, match=message):
        run(kernel(instruction, ["x"]), {"x": ("i32", 1)})


def test_local_memory_has_no_atomics():
    body = "mov.u64 %rd2, slot;\ncvta.local.u64 %rd2, %rd2;\natom.add.u32 %r2, [%rd2], 1;"
    text = kernel(body, ["x"]).replace(".reg .pred %p<9>;", ".reg .pred %p<9>;\n.local .align 4 .b32 slot;")
    with pytest.raises(InterpreterError, match=r"global and shared memory \[atomic-space\]"):
        run(text, {"x": ("i32", 1)})


def test_a_lock_of_compare_and_swap_waits_for_its_release():
    body = """
setp.ne.u32 %p1, %r1, 0;
@%p1 bra $END;
$AGAIN:
atom.acquire.gpu.global.cas.b32 %r2, [%rd1], 0, 1;
setp.ne.u32 %p2, %r2, 0;
@%p2 bra $AGAIN;
ld.global.u32 %r3, [%rd2];
add.u32 %r3, %r3, 1;
st.global.u32 [%rd2], %r3;
atom.release.gpu.global.exch.b32 %r4, [%rd1], 0;
$END:"""
    buffers = {"lock": ("i32", np.zeros(1)), "count": ("i32", np.zeros(1))}
    assert run(kernel(body, list(buffers)), buffers, grid=4, threads=64, resident=4)["count"][0] == 4
    broken = kernel(body.replace("atom.release", "atom.relaxed"), list(buffers))
    with pytest.raises(InterpreterError, match=r"race.*\[global-race\]"):
        run(broken, buffers, grid=4, threads=64, resident=4)


@pytest.mark.parametrize(("dtype", "kind"), [("f32", "f32"), ("f16", "f16"), ("bf16", "bf16")])
def test_the_elements_of_a_vector_are_added_one_by_one(dtype, kind):
    """By each lane to the same two elements; then to elements of its own, whose old values it gets."""
    one, two = {"f32": ("0f3F800000", "0f40000000"), "f16": ("0x3C00", "0x4000"), "bf16": ("0x3F80", "0x4000")}[dtype]
    register, bits, size = ("%r", 32, 4) if dtype == "f32" else ("%rs", 16, 2)
    noftz = "" if dtype == "f32" else ".noftz"
    body = f"""mov.b{bits} {register}1, {one}; mov.b{bits} {register}2, {two}; mov.u32 %r30, %tid.x;
    red.global.add{noftz}.v2.{dtype} [%rd1], {{{register}1, {register}2}};
    mul.wide.u32 %rd5, %r30, {2 * size}; add.s64 %rd6, %rd2, %rd5; add.s64 %rd7, %rd3, %rd5;
    atom.global.relaxed.gpu.add{noftz}.v2.{dtype} {{{register}3, {register}4}}, [%rd6], {{{register}1, {register}2}};
    st.global.v2.b{bits} [%rd7], {{{register}3, {register}4}};"""
    start = np.arange(64)
    buffers = {"sums": (kind, np.zeros(2)), "own": (kind, start), "old": (kind, 64)}
    found = {name: np.asarray(each, np.float64) for name, each in run(kernel(body, list(buffers)), buffers).items()}
    np.testing.assert_array_equal(found["sums"], [32, 64])
    np.testing.assert_array_equal(found["own"], start + np.tile([1, 2], 32))
    np.testing.assert_array_equal(found["old"], start)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_the_elements_of_a_vector_of_halves_become_the_least_or_the_greatest(kind):
    """Of the numbers of all lanes, and of those in memory; a NaN is left out."""
    body = f"""mov.u32 %r30, %tid.x; cvt.rn.f32.u32 %r31, %r30; cvt.rn.{kind}.f32 %rs1, %r31; neg.{kind} %rs2, %rs1;
    setp.eq.u32 %p1, %r30, 5; @%p1 mov.b16 %rs1, 0x7FFF;
    red.global.max.noftz.v2.{kind} [%rd1], {{%rs1, %rs2}};
    mov.b32 %r32, {{%rs1, %rs2}};
    atom.global.min.noftz.v2.{kind}x2 {{%r33, %r34}}, [%rd1+4], {{%r32, %r32}};"""
    found = run(kernel(body, "x"), {"x": (kind, np.full(6, 7.0))})["x"]
    np.testing.assert_array_equal(np.asarray(found, np.float64), [31, 7, 0, -31, 0, -31])


@pytest.mark.parametrize("instruction", ["add.v2.u32", "exch.v2.f32", "add.v8.f32", "min.v2.f32"])
def test_vectors_that_no_atomic_operation_takes_are_refused(instruction):
    with pytest.raises(InterpreterError, match=r"\[atomic-vector\]|\[atomic-type\]"):
        run(kernel(f"atom.global.{instruction} {{%r2, %r3}}, [%rd1], {{%r2, %r3}};", "x"), {"x": ("f32", 8)})
