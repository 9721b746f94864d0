"""tf32: arrays of f32 whose last 13 bits tensor cores do not look at, at every level, by wgmma and by mma.sync.

wgmma takes an A that is contiguous along M from registers."""

import re

import numpy as np
import pytest
from compiled import steps_of

import lowtide as lt
from lowtide import targets
from lowtide.compiler.compile import compile_gemm
from lowtide.errors import SpecError
from lowtide.runtime.dtypes import multiplied
from lowtide.verification.checking.comparison import compare
from lowtide.verification.checking.random_inputs import random_inputs
from lowtide.verification.checking.reference import reference_with_bound

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx")
ROLES = lt.Schedule().with_(grid_tile=(64, 64), k=32, roles="cooperative(1)", stages=3)
WARPS = lt.Schedule().with_(grid_tile=(64, 64), k=32, roles="single")
# Blocks of rows share a consumer; the last wave may be halves, and clusters share A.
HELD = lt.Schedule().with_(grid_tile=(256, 16), k=32, roles="cooperative(2)", stages=3, a_pack="none")
HALVES = HELD.with_(tail="halves", scheduler="persistent")
SWAPPED = HELD.with_(grid_tile=(64, 32), roles="pingpong(2)", operands="swapped", cluster=(1, 2), k=16)
CASES = {
    "wgmma": ("sm_90a", "tn", ROLES),
    "wgmma, A held": ("sm_90a", "nn", HALVES),
    "wgmma, B held": ("sm_90a", "tt", SWAPPED),
    "mma.sync": ("sm_80", "tn", WARPS),
    "mma.sync, rows in pairs": ("sm_80", "nt", WARPS),
}


def spec_for(layout="tn"):
    return lt.GemmSpec(a="tf32", b="tf32", d="f32", layout=layout)


def by_k(layout, inputs):
    """A (M, K) and B (N, K)."""
    return (x if letter == own else x.T for x, letter, own in zip(inputs.values(), layout, "tn", strict=True))


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
    left, right = by_k(layout, inputs)
    assert not compare(spec, (left @ right.T).astype(np.float32), reference, bound).ok


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("level", ["cta", "nvvm", "llvm", "ptx"])
def test_small_integers_are_exact(case, level):
    target, layout, schedule = CASES[case]
    spec = spec_for(layout)
    kernel = compile_gemm(spec, target=target, schedule=schedule)
    inputs = {name: np.rint(2 * x) for name, x in random_inputs(spec, 20, 24, 36, np.random.default_rng(0)).items()}
    left, right = by_k(layout, inputs)
    assert np.array_equal(kernel.interpret(level=level, domain="exact", **inputs), left @ right.T)
    integers = {name: array.astype(np.int64) for name, array in inputs.items()}
    assert np.array_equal(kernel.interpret(level=level, domain="exact", **integers), left @ right.T)


HELD_PASSES = ("bind-wgmma", "bind-ring", "convert-sm-to-nvvm", "convert-ptx-ops-to-asm")


@pytest.mark.parametrize("steps_of_k", [1, 2, 3, 7])  # the ring has three stages
def test_each_pass_that_sees_a_held_a_keeps_the_numbers(steps_of_k):
    spec, schedule = spec_for("nn"), str(HELD.with_(grid_tile=(128, 16)))
    steps = {step.name: step for step in steps_of(spec, schedule, target=targets.get("sm_90a"))}
    random = np.random.default_rng(0)
    # Three work tiles for each CTA, if there are two; tiles and the last step of K are not whole.
    m, k = (700, 32) if steps_of_k == 1 else (100, 32 * steps_of_k - 12)
    a, b = random.integers(-3, 4, (k, m)).astype(np.float32), random.integers(-3, 4, (16, k)).astype(np.float32)
    given = {"a": a, "b": b, "d": np.zeros((m, 16), np.float32)}
    for name in HELD_PASSES:
        assert steps[name].before != steps[name].after
        for text, seed in ((steps[name].before, 0), (steps[name].after, 0), (steps[name].after, 1)):
            d = lt.interpreter.interpret(text, given, sms=2, seed=seed, domain="exact")
            np.testing.assert_array_equal(d, a.T @ b.T, name)


@pytest.mark.parametrize(
    ("level", "old", "new", "code"),
    [
        ("nvvm", r"nvvm\.wgmma\.fence\.aligned", "", "ptx-wgmma-fence"),
        ("nvvm", r"nvvm\.fence\.proxy .*", "", "async-proxy-reads"),
        ("ptx", r"wgmma\.wait_group\.sync\.aligned 0;", "", "race-with-open-read"),
    ],
)
def test_a_planted_fault_in_a_held_a_shows(level, old, new, code):
    kernel = compile_gemm(spec_for("nn"), target="sm_90a", schedule=HELD.with_(grid_tile=(128, 16)))
    text = kernel.levels[level]
    edited = re.sub(old, new, text)
    assert edited != text
    given = {"a": np.ones((160, 128), np.float32), "b": np.ones((16, 160), np.float32)}
    given["d"] = np.zeros((128, 16), np.float32)
    loaded = lt.interpreter.Loaded(kernel.levels["llvm"], edited) if level == "ptx" else edited
    with pytest.raises(lt.Error, match=rf"\[{code}\]"):
        lt.interpreter.interpret(loaded, given, domain="exact")


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
