"""Epilogues that ignore the sums or return a constant run in PTX; faults in such kernels are still found.

LLVM then shares registers, stores the bits of constants, and converts pairs of which it uses one half.
"""

import functools
import re

import numpy as np
import pytest

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import Loaded, interpret


def doubled(acc, c: lt.Full):
    return c * 2


def lowest(acc):
    return lt.where(acc == acc, float("-inf"), float("-inf"))


def first(gate, up):
    return gate


@functools.cache
def compiled(epilogue, n, **fields):
    spec = lt.GemmSpec(
        **{"m": None, "n": n, "k": 16, "a": "bf16", "b": "bf16", "d": "bf16", "epilogue": epilogue} | fields
    )
    inputs = lt.random_inputs(spec, m=9, n=n, k=16, rng=np.random.default_rng(0))
    return lt.compile_gemm(spec, target="sm_90a"), inputs


def run(kernel, inputs, edit=lambda text: text):
    text = edit(kernel.ptx)
    return interpret(Loaded(kernel.levels["llvm"], text), inputs, sms=1, domain="float").astype(np.float32)


@pytest.mark.parametrize("epilogue", [doubled, lowest])
@pytest.mark.parametrize("n", [7, 8])
def test_all_lanes_wait_for_sums_that_nobody_reads(epilogue, n):
    """LLVM copied the wait, which was inline assembly, into both sides of a branch."""
    kernel, inputs = compiled(epilogue, n)
    expected = kernel.interpret(**inputs, level="problem").astype(np.float32)
    np.testing.assert_array_equal(run(kernel, inputs), expected)


def test_some_lanes_that_wait_for_the_sums_are_found():
    kernel, inputs = compiled(lowest, 8)

    def planted(text):
        one, wait = (
            "{\n.reg .pred q;\n.reg .b32 t;\nmov.u32 t, %laneid;\nsetp.eq.u32 q, t, 0;\n@q ",
            "wgmma.wait_group.sync.aligned \t0;",
        )
        assert wait in text
        return text.replace(wait, one + wait + "\n}")

    with pytest.raises(InterpreterError, match=r"\[warp-aligned\]"):
        run(kernel, inputs, planted)


def test_tma_stores_the_bits_of_a_constant():
    """No register says that they are of bf16; f16 was taken."""
    kernel, inputs = compiled(lowest, 64)
    assert "stmatrix" in kernel.ptx and "-8323200" in kernel.ptx
    assert np.isneginf(run(kernel, inputs)).all()


def test_other_bits_and_numbers_of_another_type_are_found():
    kernel, inputs = compiled(lowest, 64)
    as_f16 = run(kernel, inputs, lambda text: text.replace("-8323200", str(np.int32(-0x03FF0400))))
    assert not np.isneginf(as_f16).any()
    plain, inputs = compiled(None, 64)
    with pytest.raises(InterpreterError, match=r"bf16 read where f16 was written.*\[wrong-type\]"):
        run(plain, inputs, lambda text: text.replace("cvt.rn.bf16x2.f32", "cvt.rn.f16x2.f32"))


def test_half_of_a_converted_pair_may_be_unwritten():
    kernel, inputs = compiled(first, 1, pairs="stacked")
    expected = kernel.interpret(**inputs, level="problem").astype(np.float32)
    np.testing.assert_allclose(run(kernel, inputs), expected, rtol=2**-7)


def test_the_unwritten_half_is_found_in_d():
    kernel, inputs = compiled(first, 1, pairs="stacked")
    text, count = re.subn(r"mov\.b32 \t\{(%rs\d+), _\}", r"mov.b32 \t{_, \1}", kernel.ptx)
    assert count
    assert np.isnan(run(kernel, inputs, lambda _: text)).any()
