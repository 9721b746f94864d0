"""Products of matrices of integers and halves by mma.sync in further forms, movmatrix, and generic addresses."""

import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

_RNG = np.random.default_rng(5)
L = np.arange(32)
LIMITS = {"s8": (-128, 128), "u8": (0, 256), "s4": (-8, 8), "u4": (0, 16), "b1": (0, 2)}
BITS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}


def registers(matrix, bits, rows):
    """The registers (n, 32) of a matrix (M, K) by the ISA's figures.

    A lane has 32 / bits values along K of row lane / 4, then of the row 8 below, then of the next 128 / bits columns.
    """
    each, (m, k) = 32 // bits, matrix.shape
    found = []
    for part in range(k // (4 * each)):
        for below in range(0, m, 8):
            words = np.zeros(32, np.uint64)
            for lane in range(32):
                for i in range(each):
                    value = int(matrix[lane // 4 + below, part * 4 * each + lane % 4 * each + i])
                    words[lane] |= np.uint64((value & (1 << bits) - 1) << bits * i)
            found.append(words.astype(np.uint32).view(np.int32))
    assert len(found) == rows
    return np.array(found)


def product(name, a_type, b_type, c, limits=None):
    """D (M, 8) of an instruction, A and B."""
    shape = name.split(".")[3]
    m, k = int(shape[1:].split("n")[0]), int(shape.split("k")[1])
    bits = BITS[a_type]
    a = _RNG.integers(*(limits or LIMITS[a_type]), (m, k))
    b = _RNG.integers(*(limits or LIMITS[b_type]), (8, k))
    count = m // 8 * k * bits // 128
    held_a, held_b = registers(a, bits, count), registers(b, bits, count * 8 // m)
    sums = m // 4
    names = {"a": held_a, "b": held_b, "c": c[:sums]}
    loads, groups, at = "", {}, 10
    for place, (key, values) in enumerate(names.items(), start=2):
        loads += f"add.s64 %rd1{place}, %rd{place}, %rd9;\n"
        own = [f"%r{at + i}" for i in range(len(values))]
        loads += "".join(f"ld.global.b32 {each}, [%rd1{place}+{128 * i}];\n" for i, each in enumerate(own))
        groups[key], at = own, at + len(values)
    listed = {key: f"{{{', '.join(own)}}}" for key, own in groups.items()}
    d = [f"%r{at + i}" for i in range(sums)]
    body = (
        f"{loads}{name} {{{', '.join(d)}}}, {listed['a']}, {listed['b']}, {listed['c']};\nadd.s64 %rd11, %rd1, %rd9;\n"
    )
    body += "".join(f"st.global.b32 [%rd11+{128 * i}], {each};\n" for i, each in enumerate(d))
    buffers = {"z": ("i32", 32 * sums)} | {key: ("i32", values.reshape(-1)) for key, values in names.items()}
    found = run(kernel(body, "zabc"), buffers)["z"].reshape(sums, 32).astype(np.int64)
    return by_rows(found, m), a, b


def by_rows(values, m):
    """Accumulators (m / 4, 32) as the matrix (m, 8): row lane / 4, and 8 more for the upper half of the registers."""
    matrix = np.zeros((m, 8), np.int64)
    for i in range(m // 4):
        matrix[L // 4 + 8 * (i // 2), L % 4 * 2 + i % 2] = values[i]
    return matrix


@pytest.mark.parametrize(
    ("shape", "a", "b"),
    [
        ("m8n8k16", "s8", "s8"),
        ("m8n8k16", "u8", "s8"),
        ("m16n8k16", "s8", "u8"),
        ("m16n8k32", "u8", "u8"),
        ("m8n8k32", "s4", "s4"),
        ("m16n8k32", "s4", "u4"),
        ("m16n8k64", "u4", "u4"),
        ("m16n8k64", "s4", "s4"),
    ],
)
def test_products_of_integers_of_all_widths(shape, a, b):
    c = _RNG.integers(-1000, 1000, (4, 32)).astype(np.int32)
    found, left, right = product(f"mma.sync.aligned.{shape}.row.col.s32.{a}.{b}.s32", a, b, c)
    np.testing.assert_array_equal(found, left @ right.T + by_rows(c, len(left)))


@pytest.mark.parametrize("shape", ["m8n8k128", "m16n8k128", "m16n8k256"])
@pytest.mark.parametrize("how", ["and", "xor"])
def test_products_of_bits(shape, how):
    c = _RNG.integers(-9, 9, (4, 32)).astype(np.int32)
    found, a, b = product(f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{how}.popc", "b1", "b1", c)
    pairs = (a[:, None, :] & b[None]) if how == "and" else (a[:, None, :] ^ b[None])
    np.testing.assert_array_equal(found, pairs.sum(axis=2) + by_rows(c, len(a)))


def test_sums_wrap_or_are_clamped():
    c = np.full((4, 32), 2**31 - 10, np.int32)
    name = "mma.sync.aligned.m16n8k32.row.col{}.s32.u8.u8.s32"
    found, a, b = product(name.format(""), "u8", "u8", c)
    np.testing.assert_array_equal(found, (a @ b.T + 2**31 - 10).astype(np.int32))
    assert (product(name.format(".satfinite"), "u8", "u8", c)[0] == 2**31 - 1).all()
    found, a, b = product("mma.sync.aligned.m16n8k64.row.col.satfinite.s32.s4.s4.s32", "s4", "s4", -c)
    np.testing.assert_array_equal(found, np.maximum(a @ b.T - (2**31 - 10), -(2**31)))


def mixed(d, c):
    """D of A = B = 1, K = 16, and C of 0.5 in all places, as %r of types d and c."""
    ones = "mov.b32 %r2, 0x3C003C00;"
    half = {"f32": "mov.b32 %r3, 0x3F000000;", "f16": "mov.b32 %r3, 0x38003800;"}[c]
    groups = {"f32": "{%r3, %r3, %r3, %r3}", "f16": "{%r3, %r3}"}
    results = {"f32": "{%r5, %r6, %r7, %r8}", "f16": "{%r5, %r6}"}[d]
    instruction = f"mma.sync.aligned.m16n8k16.row.col.{d}.f16.f16.{c} {results}, {{%r2, %r2, %r2, %r2}}, {{%r2, %r2}}, "
    store = "add.s64 %rd11, %rd1, %rd9; st.global.b32 [%rd11], %r5;"
    size = 32 if d == "f32" else 64
    return run(kernel(f"{ones} {half} {instruction}{groups[c]}; {store}", "z"), {"z": (d, size)})["z"]


@pytest.mark.parametrize("type", ["f16", "f32"])
def test_accumulators_of_f16_and_f32_do_not_mix(type):
    assert (mixed(type, type) == 16.5).all()
    with pytest.raises(InterpreterError, match=r"\[ptx-mma-one-type\]"):
        mixed(type, "f32" if type == "f16" else "f16")


MATRIX = """.shared .align 128 .b8 place[512];
mov.u32 %r5, place;
shl.b32 %r6, %r1, 2; add.s32 %r7, %r5, %r6;
add.s64 %rd12, %rd2, %rd9; ld.global.b32 %r2, [%rd12];
{body}
add.s64 %rd11, %rd1, %rd9; st.global.b32 [%rd11], %r3;"""


@pytest.mark.parametrize("dtype", ["i32", "f16"])
def test_movmatrix_transposes_a_matrix_of_a_warp(dtype):
    values = _RNG.integers(-1000, 1000, 64).astype(np.int16)
    whole = values.view(np.int32) if dtype == "i32" else values
    body = MATRIX.format(body="movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2;")
    size = 32 if dtype == "i32" else 64
    found = run(kernel(body, "zx"), {"z": (dtype, size), "x": (dtype, whole)})["z"]
    found = found.astype(np.int64).astype(np.int32).view(np.int16) if dtype == "i32" else found
    np.testing.assert_array_equal(found.reshape(8, 8), values.reshape(8, 8).T)


def test_matrices_are_loaded_and_stored_through_generic_addresses():
    values = np.arange(64)
    body = MATRIX.format(
        body="""st.shared.b32 [%r7], %r2; bar.warp.sync -1;
mov.u64 %rd20, place; cvta.shared.u64 %rd21, %rd20; and.b32 %r8, %r1, 7; mul.wide.u32 %rd22, %r8, 16;
add.s64 %rd23, %rd21, %rd22; ldmatrix.sync.aligned.m8n8.x1.trans.b16 {%r4}, [%rd23];
stmatrix.sync.aligned.m8n8.x1.b16 [%rd23+128], {%r4}; bar.warp.sync -1; ld.shared.b32 %r3, [%r7+128];"""
    )
    found = run(kernel(body, "zx"), {"z": ("f16", 64), "x": ("f16", values)})["z"]
    np.testing.assert_array_equal(found.reshape(8, 8), values.reshape(8, 8).T)


@pytest.mark.parametrize(
    ("types", "code"),
    [("s32.s4.s8.s32", "mma-small-types"), ("s32.s8.s8.f32", "ptx-mma-one-type"), ("s32.b1.s4.s32", "mma-small-types")],
)
def test_types_that_are_not_multiplied_are_refused(types, code):
    operands = "{%r3, %r4, %r5, %r6}, {%r1, %r1}, {%r1}, {%r1, %r1, %r1, %r1}"
    body = f"mma.sync.aligned.m16n8k32.row.col.{types} {operands};"
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        run(kernel(body, "z"), {"z": ("i32", 1)})


ONES = """.shared .align 1024 .b8 tile[4096];
mov.u32 %r5, tile;
shl.b32 %r6, %r1, 5;
add.s32 %r7, %r5, %r6;
mov.b32 %r8, 0f3F800000;
cvt.rn.bf16x2.f32 %r8, %r8, %r8;
st.shared.v4.b32 [%r7], {{%r8, %r8, %r8, %r8}};
st.shared.v4.b32 [%r7+16], {{%r8, %r8, %r8, %r8}};
fence.proxy.async.shared::cta;
bar.sync 0;
shr.u32 %r9, %r5, 4;
cvt.u64.u32 %rd20, %r9;
or.b64 %rd21, %rd20, 0x0000000800080000;
mov.b32 %r10, 0f40000000; mov.b32 %r11, %r10; mov.b32 %r12, %r10; mov.b32 %r13, %r10;
setp.eq.u32 %p1, 1, 1;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%r10, %r11, %r12, %r13}}, %rd21, %rd21, %p1, {signs}0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
add.s64 %rd11, %rd1, %rd9;
st.global.b32 [%rd11], %r10;"""


@pytest.mark.parametrize(("signs", "expected"), [("1, 1, ", 18), ("-1, 1, ", -14), ("1, -1, ", -14), ("-1, -1, ", 18)])
def test_wgmma_negates_operands(signs, expected):
    """Of ones, K = 16, added to 2."""
    found = run(kernel(ONES.format(signs=signs), "z"), {"z": ("f32", 128)}, threads=128, domain="exact")["z"]
    assert (found == expected).all()


def test_wgmma_takes_two_signs():
    for signs in ("0, 1, ", "1, ", ""):
        with pytest.raises(InterpreterError, match=r"\[ptx-wgmma-negated\]"):
            run(kernel(ONES.format(signs=signs), "z"), {"z": ("f32", 128)}, threads=128)
