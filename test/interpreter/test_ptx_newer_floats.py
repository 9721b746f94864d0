"""Floats that instructions take from sm_100 on: mixed types, pairs of f32, three operands, reductions over lanes."""

import ml_dtypes
import numpy as np
import pytest
from ptx_kernels import kernel, run

from lowtide.errors import InterpreterError

_RNG = np.random.default_rng(2)
X, Y, Z = (_RNG.standard_normal(32).astype(np.float32) for _ in range(3))
X[0], Y[1] = np.nan, np.nan
START = """add.s64 %rd11, %rd1, %rd9;
add.s64 %rd12, %rd2, %rd9;
ld.global.f32 %r2, [%rd12];
ld.global.f32 %r3, [%rd12+128];
ld.global.f32 %r4, [%rd12+256];
"""


def result(body):
    text = kernel(START + body + "st.global.f32 [%rd11], %r5;", "zx")
    return run(text, {"z": ("f32", np.zeros(32)), "x": ("f32", np.concatenate([X, Y, Z]))})["z"]


@pytest.mark.parametrize(("type", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_numbers_of_16_bits_are_added_to_f32_without_another_rounding(type, dtype):
    x, y = (each.astype(dtype).astype(np.float32) for each in (X, Y))
    narrow = f"cvt.rn.{type}.f32 %rs1, %r2; cvt.rn.{type}.f32 %rs2, %r3;"
    np.testing.assert_array_equal(result(f"{narrow} add.f32.{type} %r5, %rs1, %r4;"), x + Z)
    np.testing.assert_array_equal(result(f"{narrow} sub.rn.f32.{type} %r5, %rs1, %r4;"), x - Z)
    exact = x.astype(np.float64) * y + Z
    np.testing.assert_array_equal(result(f"{narrow} fma.rn.f32.{type} %r5, %rs1, %rs2, %r4;"), exact.astype(np.float32))
    with pytest.raises(InterpreterError, match=r"\[form-in-isa\]"):
        result(f"{narrow} mul.f32.{type} %r5, %rs1, %r4;")


@pytest.mark.parametrize(("half", "of"), [("%r5, %r6", 0), ("%r6, %r5", 1)])
def test_both_halves_of_a_pair_of_f32_are_computed(half, of):
    pairs = "mov.b64 %rd20, {%r2, %r3}; mov.b64 %rd21, {%r4, %r2}; mov.b64 %rd22, {%r3, %r4};"
    first, second, third = ((X, Y)[of], (Z, X)[of], (Y, Z)[of])
    product = f"{pairs} mul.rn.f32x2 %rd23, %rd20, %rd21; mov.b64 {{{half}}}, %rd23;"
    np.testing.assert_array_equal(result(product), first * second)
    sums = f"{pairs} fma.rn.f32x2 %rd23, %rd20, %rd21, %rd22; mov.b64 {{{half}}}, %rd23;"
    exact = first.astype(np.float64) * second + third
    np.testing.assert_array_equal(result(sums), exact.astype(np.float32))


def test_the_least_and_the_greatest_of_three_numbers():
    least, greatest = np.fmin(np.fmin(X, Y), Z), np.fmax(np.fmax(abs(X), abs(Y)), abs(Z))
    np.testing.assert_array_equal(result("min.f32 %r5, %r2, %r3, %r4;"), least)
    np.testing.assert_array_equal(result("max.abs.f32 %r5, %r2, %r3, %r4;"), greatest)
    with_nan = np.where(np.isnan(X) | np.isnan(Y), np.nan, least)
    np.testing.assert_array_equal(result("min.NaN.f32 %r5, %r2, %r3, %r4;"), with_nan)
    with pytest.raises(InterpreterError, match=r"\[three-operands\]"):
        result("min.xorsign.abs.f32 %r5, %r2, %r3, %r4;")
    with pytest.raises(InterpreterError, match=r"\[abs-of-two\]"):
        result("min.abs.f32 %r5, %r2, %r3;")


def test_lanes_reduce_f32():
    assert (result("redux.sync.min.f32 %r5, %r2, -1;") == np.nanmin(X)).all()
    assert (result("redux.sync.max.abs.f32 %r5, %r2, -1;") == np.nanmax(abs(X))).all()
    assert np.isnan(result("redux.sync.max.NaN.f32 %r5, %r2, -1;")).all()
    with pytest.raises(InterpreterError, match=r"\[form-in-isa\]"):
        result("redux.sync.add.f32 %r5, %r2, -1;")
