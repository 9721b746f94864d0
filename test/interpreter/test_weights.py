"""Packed weights at every level: converted, scaled and summed as their numbers say, on ragged shapes."""

import numpy as np
import pytest
from compiled import steps_of
from support import assert_as, run_of

import lowtide as lt
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.interpreter.host import LEVELS
from lowtide.verification.checking.comparison import compare
from lowtide.verification.checking.random_inputs import random_inputs
from lowtide.verification.checking.reference import reference, reference_with_bound

SMALL = "grid.tile = [16, 64], k = 64, atoms = [1, 4, 1], stages = 3"
TALL = "grid.tile = [32, 64], k = 64, atoms = [2, 2, 1], stages = 2, k_division = split(2)"


def biased(acc, bias: lt.PerColumn["f32"], c: lt.Full["f32"]):  # noqa: F821
    return lt.relu(acc + bias) + c


# Types of A and B, the group, the schedule, the epilogue, and whether there are zero points.
CASES = {
    "s4": ("bf16", "s4", 64, SMALL, None, False),
    "u4": ("f16", "u4", 128, TALL, biased, True),
    "s8": ("bf16", "s8", 128, SMALL, biased, True),
    "u8": ("f16", "u8", 64, TALL, None, False),
    "no groups": ("bf16", "u8", None, SMALL, biased, False),
    "e4m3": ("bf16", "e4m3", 64, SMALL, biased, False),
    "e4m3 as f16": ("f16", "e4m3", None, TALL, None, False),
}


def spec_for(a, b, group, epilogue, **more):
    return lt.GemmSpec(a=a, b=b, d="f32", group=group, scales="f32" if group else None, epilogue=epilogue, **more)


def small_integers(spec, m, n, k, seed=0):
    """Inputs of which no sum is rounded; weights of floats are integers too, which their bits are not."""
    inputs = random_inputs(spec, m, n, k, np.random.default_rng(seed), row_padding=16)
    if spec.b == "e4m3":
        inputs["b"][...] = lt.pack_weights(np.random.default_rng(seed).integers(-9, 9, (n, k)).astype(np.float32), spec)
    for value in inputs.values():
        if value.dtype.kind not in "iu":
            value[...] = np.clip(np.rint(value.astype(np.float32) * 2), -3, 3).astype(value.dtype)
    return inputs


def domain_of(weights):
    """Bits of floats, as weights have them, are numbers in the domain of floats alone."""
    return "float" if weights == "e4m3" else "exact"


@pytest.mark.parametrize("case", CASES)
def test_every_level_computes_what_the_weights_say(case):
    a, b, group, schedule, epilogue, zero_points = CASES[case]
    spec = spec_for(a, b, group, epilogue, zero_points=zero_points)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule=schedule)
    # Two K steps, then more than there are stages, and several work tiles, the last ones ragged.
    for k, seed in ((128, 0), (256 if schedule == SMALL else 384, 1)):
        inputs = small_integers(spec, 20 if schedule == SMALL else 37, 80, k, seed)
        expected = reference(spec, **inputs)
        for level in LEVELS:
            d = kernel.interpret(**inputs, level=level, domain=domain_of(b), sms=2, seed=seed)
            np.testing.assert_array_equal(d, expected, level)


PASSES = ("tile-to-ctas", "pipeline-mainloop", "bind-mma-atoms", "split-k-slices", "convert-sm-to-nvvm")


def test_each_pass_that_sees_weights_keeps_the_numbers():
    """At every trip count of the ring, each in an order of its own, and with several work tiles."""
    spec = spec_for("bf16", "s4", 64, None, zero_points=True)
    steps = {step.name: step for step in steps_of(spec, SMALL)}
    for steps_of_k in (1, 2, 3, 7):
        n = 192 if steps_of_k == 2 else 64
        inputs = small_integers(spec, 20, n, 64 * steps_of_k)
        given = {"a": inputs["a"], "b": inputs["b"], "d": np.zeros((20, n), np.float32)}
        given |= {name: inputs[name] for name in ("scales", "zeros")}
        d, tiles = run_of(steps["tile-to-ctas"].after, given)  # stands for the kernel before each pass
        np.testing.assert_array_equal(d, reference(spec, **inputs))
        for name in PASSES:
            assert steps[name].before != steps[name].after
            assert_as((d, tiles), steps[name].after, given, orders=(steps_of_k,))


def test_random_weights_are_within_the_bound():
    spec = spec_for("bf16", "s4", 32, None)
    kernel = lt.compile_gemm(spec, target="sm_90a")
    inputs = random_inputs(spec, 5, 48, 160, np.random.default_rng(0))
    expected, bound = reference_with_bound(spec, **inputs)
    for level in ("problem", "cta", "atoms", "nvvm", "ptx"):
        found = compare(spec, kernel.interpret(**inputs, level=level), expected, bound)
        assert found.ok, (level, found.message)


def test_every_level_says_what_is_packed():
    spec = spec_for("f16", "u4", 32, biased, n=64, k=128, zero_points=True)
    kernel = lt.compile_gemm(spec, target="sm_80")
    for level in LEVELS[:-1]:
        with make_context() as context:
            found = spec_of(parse_text(kernel.levels[level], context, level)).spec
            assert (found.b, found.group, found.scales, found.n, found.k) == ("u4", 32, "f32", 64, 128)
            assert found.zero_points
            assert [operand.name for operand in found.operands] == ["bias", "c", "scales", "zeros"]
    assert lt.compile_ir(kernel.levels["pipelined"]).ptx == kernel.ptx


@pytest.mark.parametrize(
    ("level", "old", "new"),
    [
        ("cta", "weights(si4)", "weights(ui4)"),
        ("atoms", "at 16 of si4", "at 0 of si4"),
        ("nvvm", "983055", "983054"),
    ],
)
def test_a_planted_fault_shows(level, old, new):
    """Another type, the other half of a block, and a mask with a bit less."""
    spec = spec_for("bf16", "s4", 64, None)
    text = lt.compile_gemm(spec, target="sm_80", schedule=SMALL).levels[level]
    assert old in text
    inputs = small_integers(spec, 16, 64, 64)
    given = {"a": inputs["a"], "b": inputs["b"], "scales": inputs["scales"]}
    d = lt.interpreter.interpret(text.replace(old, new), given, domain="exact")
    assert not np.array_equal(d, reference(spec, **inputs))


@pytest.mark.parametrize(
    ("a", "old", "new"), [("bf16", "1.329230e+36", "6.646140e+35"), ("f16", "2.560000e+02", "1.280000e+02")]
)
def test_floats_of_every_byte_become_the_same_numbers_and_a_planted_fault_shows(a, old, new):
    """A row of weights for each byte, subnormal numbers too; the fault is a bias that is less by one."""
    spec = spec_for(a, "e4m3", None, None)
    kernel = lt.compile_gemm(
        spec, target="sm_80", schedule="grid.tile = [16, 32], k = 32, atoms = [1, 2, 1], stages = 2"
    )
    packed = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 32, axis=1)
    rows = np.eye(2, 32).astype(numpy_dtype(a))
    expected = np.eye(2, 32) @ lt.unpack_weights(packed, spec).T
    for level in ("problem", "atoms", "nvvm", "ptx"):
        np.testing.assert_array_equal(kernel.interpret(rows, packed, level=level), expected, level)
    text = kernel.levels["nvvm"]
    assert old in text
    d = lt.interpreter.interpret(text.replace(old, new), {"a": rows, "b": packed})
    assert not np.array_equal(d, expected)


def test_k_of_zero_and_scales_of_another_shape_are_refused():
    spec = spec_for("bf16", "s4", 64, None)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule=SMALL)
    inputs = small_integers(spec, 16, 64, 128)
    with pytest.raises(lt.InterpreterError, match=r"scales must have a row for each 64 of K.*\[assertion-failed\]"):
        kernel.interpret(**{**inputs, "scales": inputs["scales"][:1]}, level="cta")
    with pytest.raises(lt.InterpreterError, match=r"K of packed weights is 0.*\[weights-of-no-k\]"):
        empty = {"a": inputs["a"][:, :0], "b": inputs["b"][:, :0], "scales": inputs["scales"][:0]}
        kernel.interpret(**empty, level="cta")
