"""ldmatrix, stmatrix and movmatrix of elements that are not of 16 bits: integers, fp8, f32, f64."""

import ml_dtypes
import numpy as np
import pytest
from ptx_kernels import kernel, run

PLACE = ".shared .align 128 .b8 place[512];"
START = """add.s64 %rd11, %rd1, %rd9;
mov.u32 %r5, place;
shl.b32 %r6, %r1, {log};
add.s32 %r7, %r5, %r6;
cvt.u64.u32 %rd20, %r6;
add.s64 %rd12, %rd2, %rd20;
and.b32 %r8, %r1, 7;
shl.b32 %r8, %r8, 4;
add.s32 %r8, %r8, %r5;
"""
END = "\nst.global.b32 [%rd11], %r3;"
READ = "ld.global.b32 %r2, [%rd12];\n"
LOAD = "ldmatrix.sync.aligned.m8n8.x1{trans}.shared.b16 {{%r3}}, [%r8];"
STORE = "stmatrix.sync.aligned.m8n8.x1{trans}.shared.b16 [%r8], {{%r2}}; bar.warp.sync -1; ld.shared.b32 %r3, [%r7];"
MOVE = "movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2;"
_RNG = np.random.default_rng(5)
WORDS = {
    "i32": _RNG.integers(-(2**31), 2**31, 32).astype(np.int32),
    "f32": _RNG.standard_normal(32).astype(np.float32),
    "f8E4M3FN": _RNG.standard_normal(128).astype(ml_dtypes.float8_e4m3fn),
}


def bits(dtype, trans):
    """The words in memory, or those of the transposed matrix of 16-bit elements."""
    words = WORDS[dtype].view(np.int16).reshape(8, 8)
    return np.ascontiguousarray(words.T if trans else words).reshape(-1).view(np.int32)


def result(body, dtype, log=2, x=None):
    text = kernel(START.format(log=log) + body + END, "zx", PLACE)
    found = run(text, {"z": ("i32", np.zeros(32)), "x": (dtype, WORDS[dtype] if x is None else x)})["z"]
    return found.astype(np.int64).astype(np.int32)


@pytest.mark.parametrize("dtype", WORDS)
@pytest.mark.parametrize("trans", [False, True])
def test_a_matrix_is_loaded_stored_and_moved_by_its_bits(dtype, trans):
    how, expected = ".trans" if trans else "", bits(dtype, trans)
    loaded = READ + "st.shared.b32 [%r7], %r2; bar.warp.sync -1;" + LOAD.format(trans=how)
    np.testing.assert_array_equal(result(loaded, dtype), expected)
    np.testing.assert_array_equal(result(READ + STORE.format(trans=how), dtype), expected)
    if trans:
        np.testing.assert_array_equal(result(READ + MOVE, dtype), expected)


def test_numbers_of_64_bits_are_loaded_by_parts():
    numbers = _RNG.standard_normal(32)
    body = "ld.global.f64 %rd21, [%rd12]; st.shared.b64 [%r7], %rd21; bar.warp.sync -1;" + LOAD.format(trans="")
    np.testing.assert_array_equal(result(body, "f64", log=3, x=numbers), numbers.view(np.int32)[:32])
