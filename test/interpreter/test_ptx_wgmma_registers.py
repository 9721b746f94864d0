"""wgmma with A in registers, of each type (PTX ISA, "Register Fragments for wgmma.mma_async")."""

import ml_dtypes
import numpy as np
import pytest
from ptx_kernels import kernel, run
from test_ptx_matrices import registers

from lowtide.errors import InterpreterError

_RNG = np.random.default_rng(7)
BODY = """.shared .align 1024 .b8 tile[256];
mov.u32 %r5, tile;
shl.b32 %r6, %r1, 4;
cvt.u64.u32 %rd12, %r6;
add.s64 %rd13, %rd3, %rd12;
add.s32 %r7, %r5, %r6;
setp.lt.u32 %p2, %r1, 16;
@%p2 ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%rd13];
@%p2 st.shared.v4.b32 [%r7], {{%r20, %r21, %r22, %r23}};
fence.proxy.async.shared::cta;
bar.sync 0;
add.s64 %rd14, %rd2, %rd12;
ld.global.v4.b32 {{%r30, %r31, %r32, %r33}}, [%rd14];
shr.u32 %r9, %r5, 4;
cvt.u64.u32 %rd20, %r9;
or.b64 %rd21, %rd20, 0x0000000800080000;
setp.eq.u32 %p1, 1, 0;
{fence}
wgmma.mma_async.sync.aligned.m64n8k{k}.{types} {{%r10, %r11, %r12, %r13}}, {{%r30, %r31, %r32, %r33}}, %rd21, %p1{more};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
add.s64 %rd15, %rd1, %rd12;
st.global.v4.b32 [%rd15], {{%r10, %r11, %r12, %r13}};"""
TYPES = {
    "s8": (8, np.int8, "s32.s8.s8", ""),
    "u8": (8, np.uint8, "s32.u8.u8", ""),
    "e4m3": (8, ml_dtypes.float8_e4m3fn, "f32.e4m3.e4m3", ", 1, 1"),
    "e5m2": (8, ml_dtypes.float8_e5m2, "f32.e5m2.e5m2", ", 1, 1"),
    "bf16": (16, ml_dtypes.bfloat16, "f32.bf16.bf16", ", 1, 1, 0"),
    "tf32": (32, np.float32, "f32.tf32.tf32", ", 1, 1"),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_in_registers_is_multiplied(name):
    bits, dtype, types, more = TYPES[name]
    k, is_integer = 256 // bits, name in ("s8", "u8")
    low, high = (-128, 128) if name == "s8" else (0, 256) if name == "u8" else (-2, 3)
    held_as = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "bf16": "bf16", "tf32": "f32"}.get(name, "i8")
    a, b = (_RNG.integers(low, high, (rows, k)) for rows in (64, 8))
    words_a = a.astype(dtype).view(f"u{bits // 8}")
    held = np.concatenate([np.stack(registers(words_a[16 * warp : 16 * warp + 16], bits, 4), 1) for warp in range(4)])
    core = np.concatenate([b[:, : k // 2], b[:, k // 2 :]]).reshape(-1)  # columns of 16 bytes, one after the other
    body = BODY.format(k=k, types=types, more=more, fence="wgmma.fence.sync.aligned;")
    buffers = {"d": ("i32" if is_integer else "f32", 512), "a": ("i32", held.reshape(-1)), "b": (held_as, core)}
    found = run(kernel(body, "dab"), buffers, threads=128)["d"].reshape(4, 8, 4, 2, 2)
    rows = found.transpose(0, 3, 1, 2, 4).reshape(64, 8)  # warp, half, lane / 4, lane % 4, column
    np.testing.assert_array_equal(rows, a @ b.T)


def sums(before, more):
    """D of 127s by 127s, K = 32, added to a number."""
    body = BODY.format(k=32, types=f"{more}s32.s8.s8", more="", fence="wgmma.fence.sync.aligned;")
    first = "".join(f"mov.b32 %r1{at}, {before};" for at in range(4))
    body = body.replace("setp.eq.u32 %p1, 1, 0;", f"{first} setp.eq.u32 %p1, 1, 1;")
    held = np.full(512, 0x7F7F7F7F)
    return run(kernel(body, "dab"), {"d": ("i32", 512), "a": ("i32", held), "b": ("i32", held[:64])}, threads=128)["d"]


@pytest.mark.parametrize(
    ("before", "more", "expected"),
    [
        (5, "", 5 + 32 * 127**2),
        (5, "satfinite.", 5 + 32 * 127**2),
        (2**31 - 2, "satfinite.", 2**31 - 1),
        (2**31 - 2, "", 2**31 - 2 + 32 * 127**2 - 2**32),
    ],
)
def test_sums_of_integers_wrap_or_are_clamped(before, more, expected):
    assert (sums(before, more) == expected).all()


@pytest.mark.parametrize(
    ("types", "fence", "code"),
    [
        ("satfinite.f32.e4m3.e4m3", "wgmma.fence.sync.aligned;", "wgmma-satfinite"),
        ("f32.e4m3.e4m3", "", "ptx-wgmma-fence|wgmma-a-fence"),
        ("satfinite.s32.b1.b1.and.popc", "wgmma.fence.sync.aligned;", "wgmma-satfinite"),
        ("s32.b1.b1", "wgmma.fence.sync.aligned;", "wgmma-bits"),
        ("s32.s8.s8.and.popc", "wgmma.fence.sync.aligned;", "wgmma-bits"),
        ("s32.b1.s8.and.popc", "wgmma.fence.sync.aligned;", "wgmma-shapes"),
    ],
)
def test_what_a_wgmma_with_a_in_registers_needs(types, fence, code):
    k, more = 256 if ".b1." in types else 32, "" if "s32" in types else ", 1, 1"
    body = BODY.format(k=k, types=types, more=more, fence=fence)
    buffers = {"d": ("f32", 512), "a": ("i32", np.zeros(512)), "b": ("f8E4M3FN", np.zeros(256))}
    with pytest.raises(InterpreterError, match=rf"\[({code})\]"):
        run(kernel(body, "dab"), buffers, threads=128)


@pytest.mark.parametrize("where", ["registers", "shared memory"])
def test_bits_are_multiplied_and_counted(where):
    a, b = (_RNG.integers(0, 2, (rows, 256), np.uint8) for rows in (64, 8))
    bytes_a, bytes_b = (np.packbits(each, axis=1, bitorder="little") for each in (a, b))
    held = np.concatenate([np.stack(registers(bytes_a[16 * warp :][:16], 8, 4), 1) for warp in range(4)])
    body = BODY.format(k=256, types="s32.b1.b1.and.popc", more="", fence="wgmma.fence.sync.aligned;")
    if where == "shared memory":  # 8 rows of 16 bytes, then further rows, then further bytes
        held = bytes_a.reshape(64, 2, 16).swapaxes(0, 1).copy().view(np.int32)
        store = "ld.global.v4.b32 {%r30, %r31, %r32, %r33}, [%rd14];\n"
        body = body.replace("tile[256]", "tile[256];\n.shared .align 1024 .b8 left[2048]")
        body = body.replace(store, "").replace(
            "fence.proxy",
            f"""add.s64 %rd14, %rd2, %rd12; {store}
            mov.u32 %r40, left; add.s32 %r41, %r40, %r6; st.shared.v4.b32 [%r41], {{%r30, %r31, %r32, %r33}};
            shr.u32 %r42, %r40, 4; cvt.u64.u32 %rd22, %r42; or.b64 %rd23, %rd22, 0x0000000800400000;
            fence.proxy""",
            1,
        )
        body = body.replace("{%r30, %r31, %r32, %r33}, %rd21", "%rd23, %rd21")
    core = np.concatenate([bytes_b[:, :16], bytes_b[:, 16:]]).reshape(-1)
    buffers = {"d": ("i32", 512), "a": ("i32", held.reshape(-1)), "b": ("i8", core)}
    found = run(kernel(body, "dab"), buffers, threads=128)["d"].reshape(4, 8, 4, 2, 2)
    counts = a.astype(int) @ b.astype(int).T
    np.testing.assert_array_equal(found.transpose(0, 3, 1, 2, 4).reshape(64, 8), counts)


def test_columns_of_integers_are_multiples_of_sixteen():
    text = kernel("wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {%r1}, %rd1, %rd2, %p1;", "d")
    with pytest.raises(InterpreterError, match=r"\[wgmma-integer-columns\]"):
        run(text, {"d": ("i32", 512)}, threads=128)
