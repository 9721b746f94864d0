"""8-bit floats by mma.sync: every level and layout, promoted sums, the rule of an H200, and faults that must show."""

from functools import cache

import numpy as np
import pytest
from compiled import spec, steps_of
from support import assert_same

import lowtide as lt
from lowtide import targets
from lowtide.interpreter import interpret

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx")
SMALL = "grid.tile = [32, 32], k = 64, atoms = [1, 2, 1], stages = 2"


@cache
def kernel(layout="tn", a="e4m3", b="e5m2", d="f32", acc="f32", target="sm_89"):
    problem = spec(layout, a, b=b, d=d, acc=acc)
    return problem, lt.compile_gemm(problem, target=target, schedule=SMALL)


def inputs_for(problem, shape=(45, 37, 152)):
    return lt.random_inputs(problem, *shape, np.random.default_rng(1), row_padding=16)


@pytest.mark.parametrize(
    ("layout", "a", "b", "acc"),
    [("tn", "e4m3", "e5m2", "f32"), ("nt", "e5m2", "e5m2", "fast"), ("nn", "e5m2", "e4m3", "f32")],
)
def test_every_level_is_within_the_bound(layout, a, b, acc):
    problem, compiled = kernel(layout, a, b, acc=acc)
    inputs = inputs_for(problem)
    expected = lt.reference_with_bound(problem, **inputs)
    for level in LEVELS:
        found = lt.compare(problem, compiled.interpret(**inputs, level=level, sms=2), *expected)
        assert found.ok, (level, found.message)


def test_the_levels_agree_to_the_bit_as_an_h200_adds():
    """ptxas makes two mma of f16 of each on sm_90a."""
    problem, compiled = kernel(acc="fast", target="sm_90a")
    inputs = inputs_for(problem)
    found = [compiled.interpret(**inputs, level=level, domain="hopper") for level in ("atoms", "nvvm", "ptx")]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].view(np.uint32), other.view(np.uint32))


def test_sums_are_promoted_unless_they_may_be_fast():
    promoted, fast = (kernel(acc=acc)[1].levels["atoms"] for acc in ("f32", "fast"))
    assert "sm.map" in promoted
    assert "sm.map" not in fast
    sums = [str(kernel(acc=acc)[1].summation) for acc in ("f32", "fast")]
    assert sums == [f"mma k32 e4m3 x e5m2 in f32{end}" for end in (", each 64 of K added in f32", "")]


def test_an_edit_of_the_schedule_alone_is_refused_below_the_level_that_promotes():
    text = kernel(acc="fast")[1].levels["atoms"]
    edited = text.replace("fragment_buffers = 2", "fragment_buffers = 2, promote = per_step")
    assert edited != text
    with pytest.raises(lt.Error, match=r"goes on with the sum of the K step before.*\[not-as-scheduled\]"):
        lt.compile_ir(edited, target="sm_89")


def test_the_ptx_version_is_the_first_that_knows_the_instruction():
    assert ".version 8.4" in kernel()[1].ptx
    assert "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32" in kernel()[1].ptx


@pytest.mark.parametrize("name", ["bind-mma-atoms", "split-k-slices", "double-buffer-fragments", "convert-sm-to-nvvm"])
def test_a_pass_keeps_the_numbers(name):
    problem = spec("tt", "e4m3", d="f32")
    step = next(s for s in steps_of(problem, SMALL, targets.get("sm_89")) if s.name == name)
    inputs = {key: x.astype(np.int64) for key, x in _integers((45, 32, 208)).items()}
    np.testing.assert_array_equal(
        assert_same(step.before, step.after, inputs, orders=(0, 1)), inputs["a"] @ inputs["b"]
    )


def _integers(shape):
    m, n, k = shape
    rng = np.random.default_rng(0)
    return {"a": rng.integers(-3, 4, (m, k)), "b": rng.integers(-3, 4, (k, n))}


def test_a_step_that_goes_on_with_the_sum_before_is_counted_twice():
    problem, compiled = kernel()
    text = compiled.levels["pipelined"]
    carried = text[text.index("iter_args(") :].split("(", 1)[1].split(" ", 1)[0]
    planted = text.replace(_partial(text), _partial(text).replace(_start(text), carried))
    assert planted != text
    inputs = inputs_for(problem)
    expected = lt.reference_with_bound(problem, **inputs)
    given = {"a": inputs["a"], "b": inputs["b"]}
    assert not lt.compare(problem, interpret(planted, given), *expected).ok


def _partial(text):
    """The line of the product of a step."""
    return next(line for line in text.splitlines() if "tile.mma" in line)


def _start(text):
    """What that product begins with."""
    return _partial(text).split(":")[0].split(", ")[-1].strip()
