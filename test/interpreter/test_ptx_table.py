"""The table of PTX instructions: families against numpy, register values, and what is refused."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.packed import Mixed, Packed, joined
from lowtide.interpreter.numbers.registers import Number, chosen
from lowtide.interpreter.ptx.rows import ROWS

_RNG = np.random.default_rng(0)
X, Y, Z = (_RNG.integers(-(2**31), 2**31, 32).astype(np.int32) for _ in range(3))
F, G = (_RNG.standard_normal(32).astype(np.float32) for _ in range(2))


def u(values):
    return values.view(np.uint32)


def wide(values):
    return values.astype(np.int64)


INTEGERS = {
    "add.s32": (X + Y),
    "sub.s32": (X - Y),
    "mul.lo.s32": (X * Y),
    "mul.hi.u32": (u(X).astype(np.uint64) * u(Y) >> np.uint64(32)).astype(np.uint32),
    "mul.hi.s32": (wide(X) * Y >> 32).astype(np.int32),
    "div.u32": u(X) // u(Y),
    "rem.u32": u(X) % u(Y),
    "div.s32": np.trunc(X / Y.astype(np.float64)).astype(np.int32),
    "rem.s32": np.fmod(X, Y),
    "min.u32": np.minimum(u(X), u(Y)),
    "max.s32": np.maximum(X, Y),
    "and.b32": X & Y,
    "or.b32": X | Y,
    "xor.b32": X ^ Y,
}


def _bytes(selector):
    """prmt on X and Y: by bytes, with bit 3 of a nibble only the sign."""
    both = np.concatenate([X[:, None].view(np.int8), Y[:, None].view(np.int8)], axis=1)
    nibbles = [selector >> 4 * at & 15 for at in range(4)]
    chosen = [both[:, nibble & 7] >> (7 if nibble & 8 else 0) for nibble in nibbles]
    return np.ascontiguousarray(np.stack(chosen, axis=1)).view(np.int32)[:, 0]


def _ballot():
    return np.packbits(X < Y, bitorder="little").view(np.int32)[0]


def binary(instruction, x, y, dtype="i32", domain="float"):
    body = f"""
add.s64 %rd11, %rd1, %rd9;
add.s64 %rd12, %rd2, %rd9;
add.s64 %rd13, %rd3, %rd9;
ld.global.b32 %r2, [%rd11];
ld.global.b32 %r3, [%rd12];
{instruction}
st.global.b32 [%rd13], %r4;"""
    return run(kernel(body, "xyz"), {"x": (dtype, x), "y": (dtype, y), "z": (dtype, 32)}, domain=domain)["z"]


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_wrap_as_numpys(name):
    found = binary(f"{name} %r4, %r2, %r3;", X, Y)
    np.testing.assert_array_equal(found.astype(np.int64).astype(np.int32), INTEGERS[name].astype(np.int32))


@pytest.mark.parametrize("type", ["s64", "u64"])
def test_the_upper_half_of_a_product_of_64_bits(type):
    """Of values by lane and of a constant, against Python's integers."""
    factor = 0x9E3779B97F4A7C15 if type == "u64" else -0x61C8864680B583EB
    product = f"mov.b64 %rd15, {factor};\nmul.hi.{type} %rd16, %rd14, %rd15;"
    found = binary(f"cvt.{type}.s32 %rd14, %r2;\n{product}\ncvt.u32.u64 %r4, %rd16;", X, Y)
    expected = [((int(x) % 2**64 if type == "u64" else int(x)) * factor >> 64) % 2**32 for x in X]
    np.testing.assert_array_equal(found.astype(np.int64) % 2**32, expected)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("mad.lo.s32 %r4, %r2, %r3, 7;", X * Y + np.int32(7)),
        ("neg.s32 %r4, %r2;", -X),
        ("not.b32 %r4, %r2;", ~X),
        ("shl.b32 %r4, %r2, 5;", X << 5),
        ("shl.b32 %r4, %r2, 40;", X * 0),
        ("shr.u32 %r4, %r2, 5;", u(X) >> 5),
        ("shr.s32 %r4, %r2, 40;", X >> 31),
        ("and.b32 %r3, %r3, 31; shr.u32 %r4, %r2, %r3;", u(X) >> u(Y & 31)),
        ("shl.b32 %r4, %r2, %r3;", np.where(u(Y) < 32, X << (Y & 31), 0)),
        ("bfe.u32 %r4, %r2, 3, 9;", u(X) >> 3 & 511),
        ("bfe.s32 %r4, %r2, 3, 9;", (X << 20) >> 23),
        ("bfi.b32 %r4, %r2, %r3, 5, 11;", (Y & ~0xFFE0) | (X << 5 & 0xFFE0)),
        ("popc.b32 %r4, %r2;", np.array([int(each).bit_count() for each in u(X)])),
        ("clz.b32 %r5, %r2; shr.u32 %r6, %r2, 9; clz.b32 %r7, %r6; sub.s32 %r4, %r7, %r5;", np.full(32, 9)),
        ("prmt.b32 %r4, %r2, %r3, 0x7053;", _bytes(0x7053)),
        ("prmt.b32 %r4, %r2, %r9, 0x0032;", _bytes(0x0032)),  # no byte of %r9, which was never written, is chosen
        ("prmt.b32 %r4, %r2, %r3, 0x9f3c;", _bytes(0x9F3C)),
        # LLVM inserts a byte into a vector that also has an undefined byte.
        (
            "prmt.b32 %r5, %r9, 0, 0x3340; prmt.b32 %r6, %r2, %r5, 0x5410; bfi.b32 %r4, %r3, %r6, 16, 8;",
            (X & 0xFFFF) | ((Y & 0xFF) << 16),
        ),
        ("shfl.sync.bfly.b32 %r4, %r2, 5, 31, -1;", X[np.arange(32) ^ 5]),
        ("shfl.sync.idx.b32 %r4, %r2, 3, 0x181f, -1;", X[np.arange(32) & 24 | 3]),
        ("shfl.sync.up.b32 %r4, %r2, 3, 0, -1;", X[np.where(np.arange(32) >= 3, np.arange(32) - 3, np.arange(32))]),
        ("shfl.sync.down.b32 %r4, %r2, 30, 31, -1;", X[np.where(np.arange(32) < 2, np.arange(32) + 30, np.arange(32))]),
        ("setp.lt.s32 %p1, %r2, %r3; vote.sync.ballot.b32 %r4, %p1, -1;", np.full(32, _ballot())),
        ("setp.lt.u32 %p1, %r2, %r3; selp.b32 %r4, %r2, %r3, %p1;", np.minimum(u(X), u(Y))),
        ("setp.lt.s32 %p1, %r2, %r3; setp.ge.and.s32 %p2, %r2, 0, %p1; selp.b32 %r4, 1, 0, %p2;", (X < Y) & (X >= 0)),
        ("setp.ne.b32 %p1, %r2, 0; @!%p1 bra $OUT; mov.b32 %r4, 1; $OUT:", np.ones(32, np.int32)),
        ("mov.b32 %r4, 5; setp.gt.s32 %p1, %r2, %r3; @%p1 mov.b32 %r4, %r2;", np.where(X > Y, X, 5)),
        ("cvt.s64.s32 %rd20, %r2; shr.u64 %rd21, %rd20, 32; cvt.u32.u64 %r4, %rd21;", X >> 31),
        ("cvt.u64.u32 %rd20, %r2; mul.lo.s64 %rd21, %rd20, 3; cvt.u32.u64 %r4, %rd21;", X * 3),
        (
            "cvt.u16.u32 %rs1, %r2; cvt.u16.u32 %rs2, %r3; mul.wide.u16 %r4, %rs1, %rs2;",
            (u(X) & 65535) * (u(Y) & 65535),
        ),
        ("mul.wide.s32 %rd20, %r2, %r3; mov.b64 {%r5, %r4}, %rd20;", (wide(X) * Y >> 32).astype(np.int32)),
        ("mov.b64 %rd20, {%r2, %r3}; shr.u64 %rd21, %rd20, 32; cvt.u32.u64 %r4, %rd21;", Y),
        ("mov.b32 {%rs1, %rs2}, %r2; mov.b32 %r4, {%rs2, %rs1};", (X << 16) | (u(X) >> 16).astype(np.int32)),
    ],
)
def test_bits_and_conversions_of_integers(instruction, expected):
    found = binary(instruction, X, Y).astype(np.int64).astype(np.int32)
    np.testing.assert_array_equal(found, expected.astype(np.int64).astype(np.int32))


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("add.rn.f32 %r4, %r2, %r3;", F + G),
        ("sub.rn.f32 %r4, %r2, %r3;", F - G),
        ("mul.rn.f32 %r4, %r2, 0f40000000;", F * 2),
        ("fma.rn.f32 %r4, %r2, %r3, %r2;", (F.astype(np.float64) * G + F).astype(np.float32)),
        ("max.NaN.f32 %r4, %r2, %r3;", np.maximum(F, G)),
        ("min.f32 %r4, %r2, %r3;", np.minimum(F, G)),
        ("neg.f32 %r4, %r2;", -F),
        ("xor.b32 %r4, %r2, 0x80000000;", -F),
        ("abs.f32 %r4, %r2;", np.abs(F)),
        ("and.b32 %r4, %r2, 0x7fffffff;", np.abs(F)),
        ("copysign.f32 %r4, %r2, %r3;", np.copysign(G, F)),
        ("ex2.approx.f32 %r4, %r2;", np.exp2(F.astype(np.float64)).astype(np.float32)),
        ("setp.lt.f32 %p1, %r2, %r3; selp.f32 %r4, %r2, %r3, %p1;", np.minimum(F, G)),
        ("cvt.rn.f16.f32 %rs1, %r2; cvt.f32.f16 %r4, %rs1;", F.astype(np.float16).astype(np.float32)),
        ("cvt.rn.bf16x2.f32 %r5, %r3, %r2; shl.b32 %r4, %r5, 16;", F.astype(ml_dtypes.bfloat16).astype(np.float32)),
        (
            "cvt.rn.bf16x2.f32 %r5, %r3, %r2; and.b32 %r4, %r5, -65536;",
            G.astype(ml_dtypes.bfloat16).astype(np.float32),
        ),
        ("cvt.rzi.s32.f32 %r5, %r2; cvt.rn.f32.s32 %r4, %r5;", np.trunc(F)),
        ("mov.b32 %r4, 0x3F800000; add.rn.f32 %r4, %r4, %r2;", F + 1),
        ("mov.b64 %rd20, {%r2, %r3}; mov.b64 {%r5, %r4}, %rd20;", G),
    ],
)
def test_floats_round_once(instruction, expected):
    found = binary(instruction, F, G, "f32")
    np.testing.assert_array_equal(found.astype(np.float32), expected)


def test_what_moves_numbers_needs_no_bits():
    """In the exact domain: halves packed, swapped, negated, a bf16 widened by a shift."""
    x, y = np.arange(32), np.arange(32) - 16
    swap = """cvt.rn.bf16x2.f32 %r5, %r3, %r2;
mov.b32 {%rs1, %rs2}, %r5;
mov.b32 %r6, {%rs2, %rs1};
shr.u32 %r7, %r5, 16;
shl.b32 %r8, %r5, 16;
or.b32 %r7, %r7, %r8;
prmt.b32 %r9, %r5, %r7, 0x5410;
prmt.b32 %r7, %r9, %r7, 0x7632;
xor.b32 %r7, %r7, 0x80008000;
and.b32 %r6, %r6, -65536;
shl.b32 %r7, %r7, 16;
add.rn.f32 %r4, %r6, %r7;"""
    np.testing.assert_array_equal(binary(swap, x, y, "f32", "exact"), x - y)


def test_bits_of_numbers_are_refused_where_there_are_none():
    where = r"`add\.s32 %r4, %r2, %r3;` at test\.ptx:\d+, level ptx, CTA 0 warp 0"
    rule = r"an integer operation on a register that holds an f32: the number domain 'exact'"
    with pytest.raises(InterpreterError, match=rf"{where}: {rule}.*\[register-not-bits\]"):
        binary("add.s32 %r4, %r2, %r3;", np.arange(32), np.arange(32), "f32", "exact")
    found = binary("add.s32 %r4, %r2, 1;", F, G, "f32").astype(np.float32)
    np.testing.assert_array_equal(found.view(np.int32), F.view(np.int32) + 1)


def test_a_spilled_packed_pair_in_part_of_a_warp_joins_plain_zeros():
    body = """
setp.lt.u32 %p1, %r1, 8;
mov.b32 %r2, 0;
add.s64 %rd11, %rd1, %rd9;
@%p1 ld.global.b32 %r2, [%rd11];
mov.b32 {%rs1, %rs2}, %r2;
cvt.f32.f16 %r3, %rs2;
add.s64 %rd12, %rd2, %rd9;
st.global.b32 [%rd12], %r3;"""
    found = run(kernel(body, "xy"), {"x": ("f16", np.arange(64)), "y": ("f32", 32)}, domain="exact")["y"]
    np.testing.assert_array_equal(found, np.where(np.arange(32) < 8, 2 * np.arange(32) + 1, 0))


def test_numbers_and_plain_bits_may_take_turns_in_a_divergent_loop():
    """However often: they are not piled up."""
    body = """
add.s64 %rd11, %rd1, %rd9;
ld.global.b32 %r3, [%rd11];
mov.b32 %r2, 0;
mov.b32 %r4, 0;
$LOOP:
setp.gt.u32 %p1, %r4, %r1;
@%p1 bra $PLAIN;
add.rn.f32 %r2, %r2, %r3;
bra $NEXT;
$PLAIN:
mov.b32 %r2, 0;
$NEXT:
add.s32 %r4, %r4, 1;
setp.lt.u32 %p2, %r4, 32;
@%p2 bra $LOOP;
st.global.b32 [%rd11], %r2;"""
    found = run(kernel(body, "x"), {"x": ("f32", np.arange(32))}, domain="exact")["x"]
    np.testing.assert_array_equal(found, np.where(np.arange(32) == 31, 31 * 32, 0))


def test_a_register_has_one_part_for_each_kind_of_value_however_often_lanes_change_theirs():
    """Plain bits, pairs of 16-bit numbers and f32 numbers: a tenth of the lanes takes another kind at each turn."""
    kinds = [np.zeros(32, np.int32), Packed(np.ones((32, 2)), "bf16"), Number(np.ones(32), "f32")]
    rng = np.random.default_rng(0)
    value: Any = kinds[0]
    last = np.zeros(32, int)
    for turn in range(1, 301):
        lanes, kind = rng.random(32) < 0.1, turn % 3
        last[lanes] = kind
        value = chosen(lanes, kinds[kind], value, 32)
        before, other = value, rng.random(32) < 0.5  # values of several kinds meet, too
        value = chosen(other, joined(~other, kinds[turn % 2], value), before, 32)
    found = np.full(32, -1)
    depth = 0
    while isinstance(value, Mixed):
        here = value.condition & (found < 0)
        found[here] = next(at for at, each in enumerate(kinds) if type(each) is type(value.first))
        value, depth = value.second, depth + 1
    found[found < 0] = next(at for at, each in enumerate(kinds) if type(each) is type(value))
    assert depth == 2
    np.testing.assert_array_equal(found, last)


def test_loads_take_the_type_that_lies_there_and_stores_that_of_the_matrix():
    body = """
mul.wide.u32 %rd10, %r1, 16;
add.s64 %rd11, %rd1, %rd10;
add.s64 %rd12, %rd2, %rd10;
ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd11];
mov.b32 %r3, 0;
st.global.v2.b32 [%rd12], {%r2, %r3};
st.global.v2.b32 [%rd12+8], {%r3, %r3};"""
    x = np.arange(256)
    found = run(kernel(body, "xy"), {"x": ("bf16", x), "y": ("bf16", 256)}, domain="exact")["y"]
    np.testing.assert_array_equal(found, np.where(x % 8 < 2, x, 0))


def test_a_load_narrower_than_its_register_is_filled_up():
    body = """
mul.wide.u32 %rd10, %r1, 2;
add.s64 %rd11, %rd1, %rd10;
ld.global.b16 %r2, [%rd11];
shl.b32 %r3, %r2, 16;
or.b32 %r4, %r3, %r2;
mov.b32 {%rs1, %rs2}, %r4;
cvt.f32.bf16 %r5, %rs2;
add.s64 %rd12, %rd2, %rd9;
st.global.b32 [%rd12], %r5;"""
    found = run(kernel(body, "xy"), {"x": ("bf16", np.arange(32)), "y": ("f32", 32)}, domain="exact")["y"]
    np.testing.assert_array_equal(found, np.arange(32))


def test_lanes_take_different_ways_and_meet_again():
    body = """
add.s64 %rd11, %rd1, %rd9;
mov.b32 %r2, 0;
mov.b32 %r3, %r1;
$LOOP:
setp.eq.s32 %p1, %r3, 0;
@%p1 bra $DONE;
add.s32 %r2, %r2, %r3;
add.s32 %r3, %r3, -1;
bra.uni $LOOP;
$DONE:
st.global.b32 [%rd11], %r2;"""
    found = run(kernel(body, "x"), {"x": ("i32", 32)})["x"]
    np.testing.assert_array_equal(found, np.arange(32) * (np.arange(32) + 1) // 2)


HANDED_OVER = """
setp.ne.b32 %p1, %r1, 0;
mov.u32 %r9, %ctaid.x;
setp.ne.b32 %p2, %r9, 0;
@%p2 bra $SECOND;
st.global.b32 [%rd1], 7;
bar.sync 0;
@%p1 bra $END;
red.release.gpu.global.add.s32 [%rd2], 1;
bra $END;
$SECOND:
@%p1 bra $MEET;
$AGAIN:
ld.acquire.gpu.global.s32 %r3, [%rd2];
setp.lt.s32 %p3, %r3, 1;
@%p3 bra $AGAIN;
$MEET:
bar.sync 0;
@%p1 bra $END;
ld.global.b32 %r4, [%rd1];
st.global.b32 [%rd3], %r4;
$END:"""


def handed_over(body, seed=0):
    body = body.replace("st.global.b32 [%rd1], 7;", "mov.b32 %r8, 7; @!%p1 st.global.b32 [%rd1], %r8;")
    buffers = {"x": ("i32", 1), "semaphore": ("i32", np.zeros(1)), "y": ("i32", 1)}
    return run(kernel(body, list(buffers)), buffers, grid=2, seed=seed)["y"]


def test_a_loop_of_acquiring_loads_waits_for_a_release():
    assert {int(handed_over(HANDED_OVER, seed)[0]) for seed in range(4)} == {7}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("red.release", "red.relaxed", r"race"),
        ("ld.acquire", "ld.relaxed", r"race"),
        ("setp.lt.s32 %p3, %r3, 1", "setp.lt.s32 %p3, %r3, 2", r"deadlock.*for a semaphore, which is 1, to change"),
    ],
)
def test_a_semaphore_without_its_order_or_its_count_is_found(old, new, found):
    broken = HANDED_OVER.replace(old, new)
    assert broken != HANDED_OVER
    with pytest.raises(InterpreterError, match=f"(?s){found}"):
        handed_over(broken)


def test_a_loop_without_end_is_reported_with_where_it_stands():
    with pytest.raises(InterpreterError, match=r"(?s)has run 100000 ops and has not ended.*at test\.ptx:\d+"):
        run(kernel("mov.b32 %r2, 0;\n$AGAIN: add.s32 %r2, %r2, 1;\nbra $AGAIN;", "x"), {"x": ("f32", 1)})


@pytest.mark.parametrize(
    ("instruction", "found"),
    [
        (
            "frobnicate.b32 %r4, %r2;",
            r"`frobnicate\.b32 %r4, %r2;` at test\.ptx:\d+: instruction 'frobnicate' is not interpreted; known"
            r".*\[instruction-unknown\]",
        ),
        (
            "add.sod.s32 %r4, %r2, %r3;",
            r"`add\.sod\.s32 .*: modifier \.sod of add is not interpreted; known are \.bf16,.*\[modifier-unknown\]",
        ),
    ],
)
def test_what_the_table_lacks_is_named_with_line_and_text(instruction, found):
    with pytest.raises(InterpreterError, match=found):
        binary(instruction, X, Y)


def test_every_row_cites_its_section():
    assert all("Instructions" in row.section or ":" in row.section for row in ROWS)
