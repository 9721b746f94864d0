"""tf32: arrays of f32 whose last 13 bits tensor cores do not look at, at every level, by wgmma and by mma.sync."""

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.compile import compile_gemm
from lowtide.errors import SpecError
from lowtide.runtime.dtypes import multiplied
from lowtide.verification.checking.comparison import compare
from lowtide.verification.checking.random_inputs import random_inputs
from lowtide.verification.checking.reference import reference_with_bound

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx")
ROLES = lt.Schedule().with_(grid_tile=(64, 64), k=32, roles="cooperative(1)", stages=3)
WARPS = lt.Schedule().with_(grid_tile=(64, 64), k=32, roles="single")
CASES = {
    "wgmma": ("sm_90a", "tn", ROLES),
    "mma.sync": ("sm_80", "tn", WARPS),
    "mma.sync, rows in pairs": ("sm_80", "nt", WARPS),
}


def spec_for(layout="tn"):
    return lt.GemmSpec(a="tf32", b="tf32", d="f32", layout=layout)


def cut(array):
    return (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.parametrize("case", CASES)
def test_every_level_multiplies_what_is_left_of_the_operands(case):
    target, layout, schedule = CASES[case]
    spec = spec_for(layout)
    kernel = compile_gemm(spec, target=target, schedule=schedule)
    inputs = random_inputs(spec, 100, 80, 104, np.random.default_rng(0))
    reference, bound = reference_with_bound(spec, **inputs)
    for level in LEVELS:
        judged = compare(spec, kernel.interpret(level=level, seed=1, **inputs), reference, bound)
        assert judged.ok and judged.judged == reference.size, (level, judged.message)
    # The bound tells cut operands from whole ones.
    left, right = (inputs[name] if layout == "tn" else inputs[name].T for name in "ab")
    assert not compare(spec, (left @ right.T).astype(np.float32), reference, bound).ok


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("level", ["cta", "nvvm", "llvm", "ptx"])
def test_small_integers_are_exact(case, level):
    target, layout, schedule = CASES[case]
    spec = spec_for(layout)
    kernel = compile_gemm(spec, target=target, schedule=schedule)
    inputs = {name: np.rint(2 * x) for name, x in random_inputs(spec, 20, 24, 36, np.random.default_rng(0)).items()}
    left, right = (inputs[name] if layout == "tn" else inputs[name].T for name in "ab")
    assert np.array_equal(kernel.interpret(level=level, domain="exact", **inputs), left @ right.T)
    integers = {name: array.astype(np.int64) for name, array in inputs.items()}
    assert np.array_equal(kernel.interpret(level=level, domain="exact", **integers), left @ right.T)


def test_the_bits_that_are_cut_are_the_last_13_of_an_f32():
    values = (np.random.default_rng(0).standard_normal(100) * 2.0 ** np.arange(-140, -40)).astype(np.float32)
    values[:3] = np.inf, -np.inf, 0
    assert np.array_equal(multiplied(values.astype(np.float64), "tf32"), cut(values).astype(np.float64))
    assert np.array_equal(multiplied(values.astype(np.float64), "f32"), values.astype(np.float64))


def test_tf32_is_what_is_multiplied_and_no_type_of_d():
    with pytest.raises(SpecError, match=r"dtype 'tf32' for d.*\[unknown-word\]"):
        lt.GemmSpec(a="tf32", b="tf32", d="tf32")
    with pytest.raises(
        SpecError, match=r"a is tf32 but b is f32: mma instructions multiply tf32 by tf32.*\[types-differ\]"
    ):
        lt.GemmSpec(a="tf32", b="f32", d="f32")
