"""Operands of the epilogue that are 8-bit floats: widened by f16, which holds each, at every level."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lowtide as lt
from lowtide.interpreter import Loaded, interpret
from lowtide.verification.checking.comparison import compare
from lowtide.verification.checking.random_inputs import random_inputs
from lowtide.verification.checking.reference import reference_with_bound

EXTENTS = (37, 27, 40)


def added(acc, c: lt.Full["e4m3"]):  # noqa: F821
    return acc + c


def every_kind(acc, c: lt.Full["e5m2"], row: lt.PerRow["e4m3"], column: lt.PerColumn["e5m2"]):  # noqa: F821
    return lt.relu(acc + c) * row + column


def own_type(acc, c: lt.Full):
    return acc - c


F32 = lt.GemmSpec(a="f32", b="f32", d="f32", d_order="column", epilogue=every_kind)
SMALL = "grid.tile = [64, 32]"
CASES: dict[str, tuple[str, str, lt.GemmSpec]] = {
    "by mma.sync": ("sm_89", SMALL, lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=added)),
    "by wgmma, D of 8 bits too": ("sm_90a", SMALL, lt.GemmSpec(a="bf16", b="bf16", d="e4m3", epilogue=every_kind)),
    "of D's type": ("sm_90a", SMALL, lt.GemmSpec(a="e5m2", b="e4m3", d="e5m2", epilogue=own_type)),
    "stored from fragments": ("sm_89", "epilogue.path = direct", F32),
}


@pytest.mark.parametrize("domain", ["float", "exact"])
@pytest.mark.parametrize("name", CASES)
def test_every_level_is_right(name: str, domain: str) -> None:
    target, schedule, spec = CASES[name]
    kernel, rng = lt.compile_gemm(spec, target=target, schedule=schedule), np.random.default_rng(1)
    inputs = random_inputs(spec, *EXTENTS, rng)
    if domain == "exact":
        inputs = {operand: rng.integers(-2, 3, value.shape) for operand, value in inputs.items()}
        wanted = kernel.interpret(**inputs, level="problem", domain=domain)
        for level in kernel.levels:
            np.testing.assert_array_equal(kernel.interpret(**inputs, level=level, domain=domain), wanted, level)
        return
    expected = reference_with_bound(spec, **inputs)
    for level in kernel.levels:
        found = compare(spec, kernel.interpret(**inputs, level=level), *expected)
        assert found.ok, f"{level}: {found.message}"


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_every_value_is_widened_exactly(dtype: Any) -> None:
    name = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}[np.dtype(dtype).name]

    def alone(acc, c):
        return c

    alone.__annotations__["c"] = lt.Full[name]
    spec = lt.GemmSpec(m=16, n=16, k=16, a="bf16", b="bf16", d="f32", epilogue=alone)
    values = np.arange(256, dtype=np.uint8).view(dtype).reshape(16, 16)
    zeros = np.zeros((16, 16), ml_dtypes.bfloat16)
    kernel = lt.compile_gemm(spec, target="sm_89")
    for level in ("atoms", "nvvm", "llvm", "ptx"):
        d = kernel.interpret(zeros, zeros, c=values, level=level)
        np.testing.assert_array_equal(d, values.astype(np.float32), level)


def test_a_target_without_the_conversion_is_refused() -> None:
    with pytest.raises(
        lt.ScheduleError,
        match=r"an operand of e4m3: sm_80 has no conversions of it, sm_89 is the first.*\[elements-conversion\]",
    ):
        lt.compile_gemm(lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=added), target="sm_80")


def test_a_conversion_of_the_other_type_is_found() -> None:
    """What is planted reads e4m3 as e5m2. Registers have no types, so D is wrong."""
    target, _, spec = CASES["by mma.sync"]
    kernel, inputs = lt.compile_gemm(spec, target=target), random_inputs(spec, *EXTENTS, np.random.default_rng(1))
    text, ptx = kernel.levels["nvvm"].replace("(f8E4M3FN)", "(f8E5M2)"), kernel.ptx.replace("e4m3x2", "e5m2x2")
    assert text != kernel.levels["nvvm"] and ptx != kernel.ptx
    expected = reference_with_bound(spec, **inputs)
    for planted in (text, Loaded(kernel.levels["llvm"], ptx)):
        assert not compare(spec, interpret(planted, inputs), *expected).ok
