"""f32 products by products of tf32 or bf16 pieces: at every level, in every layout, and what is not finite."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from compiled import expected, inputs_of, level_of, steps_of
from support import assert_same

import lowtide as lt
from lowtide import targets
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.decompositions import DECOMPOSITIONS
from lowtide.interpreter import interpret
from lowtide.verification.checking.comparison import compare
from lowtide.verification.checking.reference import reference_with_bound

LEVELS = ("problem", "cta", "atoms", "epilogue", "nvvm", "ptx")
SMALL = "grid.tile = [64, 32], stages = 3, roles = cooperative(1)"
#: Extents of which all are ragged, with K of one step of a block, less, and several; three work tiles a CTA
SHAPES = ((150, 70, 3), (70, 45, 41), (65, 33, 133))


def spec(precision: str, layout: str = "tn", **more: Any) -> lt.GemmSpec:
    return lt.GemmSpec(
        **{"m": None, "n": None, "k": None, "a": "f32", "b": "f32", "d": "f32"} | more,
        layout=layout,
        precision=precision,
    )


@cache
def kernel(precision: str, layout: str = "tn", **more: Any) -> CompiledKernel:
    return lt.compile_gemm(spec(precision, layout, **more), target="sm_90a", schedule=SMALL)


def matrices(layout: str, m: int, n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = ((m, k) if layout[0] == "t" else (k, m)), ((n, k) if layout[1] == "n" else (k, n))
    return rng.standard_normal(a).astype(np.float32), rng.standard_normal(b).astype(np.float32)


@pytest.mark.parametrize("precision", DECOMPOSITIONS)
@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_every_level_is_within_the_bound(precision: str, layout: str) -> None:
    own, compiled, shape = spec(precision, layout), kernel(precision, layout), SHAPES[1]
    a, b = matrices(layout, *shape)
    reference, bound = reference_with_bound(own, a, b)
    for level in LEVELS if layout == "tn" else ("problem", "ptx"):
        found = compare(own, compiled.interpret(a, b, level=level, sms=2), reference, bound)
        assert found.ok, f"{level}: {found.message}"
    by_tf32 = np.abs(lt.reference(spec("tf32", layout), a, b) - reference)
    assert np.abs(compiled.interpret(a, b, level="cta") - reference).max() < by_tf32.max() / 50


@pytest.mark.parametrize("precision", DECOMPOSITIONS)
def test_each_pass_keeps_the_numbers(precision: str) -> None:
    """Integers that one piece holds: other pieces are 0, and all of their products."""
    own = spec(precision, "nt")
    named = {"split-operands": None, "launch-preparations": None, "convert-sm-to-nvvm": None}
    for step in steps_of(own, SMALL, targets.get("sm_90a")):
        if step.name in named:
            named[step.name] = step
    for shape in SHAPES:
        given = inputs_of(own, *shape)
        for name, step in named.items():
            assert step is not None and step.before != step.after
            if name == "convert-sm-to-nvvm":  # stores are compared, and a split makes others
                before, after = (interpret(x, given, sms=2, domain="exact") for x in (step.before, step.after))
                np.testing.assert_array_equal(after, before)
            else:
                before = assert_same(step.before, step.after, given, orders=(0, 1))
            np.testing.assert_array_equal(before, expected(own, given))


@pytest.mark.parametrize("level", ["problem", "cta", "nvvm", "ptx"])
@pytest.mark.parametrize("precision", DECOMPOSITIONS)
def test_a_piece_too_few_is_found(precision: str, level: str) -> None:
    """Elements of 24 bits times powers of two are exact in f32, and in the sum of all pieces alone."""
    compiled = kernel(precision)
    a = np.zeros((64, 32), np.float32)
    a[:, 0] = 1 + np.arange(64) * 2.0**-10 + 2.0**-22
    b = np.eye(32, dtype=np.float32) * 2.0
    d = interpret(level_of(compiled, level), {"a": a, "b": b}, sms=2)
    # Three pieces of bf16 hold all 24 bits, two of tf32 those of these numbers.
    np.testing.assert_array_equal(d, a @ b.T)


@pytest.mark.parametrize("level", ["problem", "cta", "nvvm", "ptx"])
@pytest.mark.parametrize("precision", DECOMPOSITIONS)
def test_what_is_not_finite_is_as_in_f32(precision: str, level: str) -> None:
    """∞ · 1 is ∞ although 1 has no second piece, ∞ · 0 and NaN · x are NaN, and a large number stays finite."""
    compiled = kernel(precision)
    a, b = np.ones((8, 5), np.float32), np.ones((8, 5), np.float32)
    a[0, 1], a[1, 2], a[2, 3], a[3, 4], a[4, 0], a[5, 0] = np.inf, -np.inf, np.nan, 3.3e38, np.inf, 2.0**-130
    b[1, 1], b[2, 0] = 0.0, -np.inf
    with np.errstate(all="ignore"):
        wanted = (a[:, None, :].astype(np.float64) * b[None]).sum(axis=-1).astype(np.float32)
    d = interpret(level_of(compiled, level), {"a": a, "b": b}, sms=1)
    np.testing.assert_array_equal(np.isnan(d), np.isnan(wanted))
    np.testing.assert_allclose(np.where(np.isnan(d), 0, d), np.where(np.isnan(wanted), 0, wanted), rtol=1e-6)


@pytest.mark.parametrize("precision", DECOMPOSITIONS)
def test_of_a_batch_what_is_shared_is_split_once(precision: str) -> None:
    compiled = kernel(precision, "tt", batch=None)
    rng = np.random.default_rng(3)
    a = rng.integers(-3, 4, (3, 70, 33))
    b = np.broadcast_to(rng.integers(-3, 4, (33, 40)), (3, 33, 40))
    for level in ("problem", "cta", "nvvm", "ptx"):
        d = interpret(level_of(compiled, level), {"a": a, "b": b}, sms=2, domain="exact")
        np.testing.assert_array_equal(d, a @ b)
    assert compiled.levels["cta"].count("tile.launch @gemm_split") == 2


@pytest.mark.parametrize("precision", DECOMPOSITIONS)
def test_d_by_columns(precision: str) -> None:
    own = spec(precision, "tt", d_order="column")
    compiled = lt.compile_gemm(own, target="sm_90a", schedule=SMALL)
    given = inputs_of(own, 70, 45, 41)
    for level in ("problem", "epilogue", "ptx"):
        d = interpret(level_of(compiled, level), given, sms=2, domain="exact")
        np.testing.assert_array_equal(d, expected(own, given))


@pytest.mark.parametrize(("precision", "layout"), [("tf32x3", "nt"), ("bf16x6", "tn")])
def test_mma_sync_promotes_sums_of_pieces(precision: str, layout: str) -> None:
    own = spec(precision, layout)
    fields = "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 3"
    compiled = lt.compile_gemm(own, target="sm_80", schedule=fields)
    assert "promote = per_step" in str(compiled.schedule)
    for k in (5, 77):  # pieces of less than a step, and of many
        a, b = matrices(layout, 45, 37, k)
        reference, bound = reference_with_bound(own, a, b)
        for level in ("atoms", "ptx"):
            d = compiled.interpret(a, b, level=level, sms=2, domain="hopper")
            assert compare(own, d, reference, bound).ok
    fast = lt.compile_gemm(spec(precision, layout, acc="fast"), target="sm_80", schedule=fields)
    given = inputs_of(own, 70, 45, 41)
    np.testing.assert_array_equal(interpret(fast.levels["epilogue"], given, domain="exact"), expected(own, given))


def test_the_problem_is_read_back_from_every_level() -> None:
    compiled = kernel("tf32x3", "nt")
    for level in ("problem", "cta", "nvvm", "llvm"):
        context = make_context()
        found = spec_of(parse_text(compiled.levels[level], context, level)).spec
        assert (found.precision, found.layout, found.a, found.b) == ("tf32x3", "nt", "f32", "f32")
    assert lt.compile_ir(compiled.levels["cta"], target="sm_90a").ptx == compiled.ptx
    assert compiled.manifest["spec"]["precision"] == "tf32x3"
