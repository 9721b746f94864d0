"""s8 and u8 operands, summed in s32: exact at every level, with integer and scaled epilogues, in every type of D."""

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.errors import SpecError
from lowtide.runtime.epilogue import evaluate
from lowtide.verification.checking.comparison import compare
from lowtide.verification.checking.random_inputs import random_inputs
from lowtide.verification.checking.reference import reference_with_bound

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx")
ROLES = lt.Schedule().with_(grid_tile=(64, 64), k=64, roles="cooperative(1)", stages=3)
WARPS = lt.Schedule().with_(grid_tile=(64, 64), k=64, roles="single")
DIRECT = ROLES.with_(epilogue_path="direct")
# No wgmma of integers has 40 columns, as the shares and the parts of D have here.
SHARES = DIRECT.with_(grid_tile=(64, 80), grid_k_division="scatter(2)", epilogue_tile=(64, 40))
SHAPE = (100, 80, 208)  # ragged; with one SM some CTA computes more than three tiles


def zero_points(acc, of_b: lt.PerColumn["s32"], of_a: lt.PerRow["s32"]):  # noqa: F821
    """Zero points 3 of A and −5 of B, whose rows and columns sum to `of_a` and `of_b`."""
    return acc - 3 * of_b + 5 * of_a - 15 * 208


def scaled(acc, zero: lt.PerColumn["s32"], rows: lt.PerRow["f32"], columns: lt.PerColumn["f32"]):  # noqa: F821
    return lt.relu(acc - zero) * (rows * 2.0**-16) * columns + 0.5


def with_bytes(acc, c: lt.Full["u8"]):  # noqa: F821
    return lt.where(abs(acc) > 4096, lt.clamp(acc, -1000, 1000), -acc) + c


CASES = {
    "mma.sync": ("s8", "u8", "s32", zero_points, WARPS),
    "s32": ("s8", "s8", "s32", None, ROLES),
    "zero points": ("u8", "u8", "s32", zero_points, ROLES),
    "s32 by threads": ("s8", "s8", "s32", with_bytes, DIRECT),
    "s8": ("s8", "s8", "s8", scaled, ROLES),
    "u8": ("u8", "u8", "u8", with_bytes, DIRECT),
    "bytes that stream": ("s8", "s8", "s8", scaled, WARPS.with_(epilogue_path="direct", epilogue_cache="streaming")),
    "bf16": ("s8", "s8", "bf16", scaled, ROLES),
    "f32": ("s8", "s8", "f32", None, DIRECT),
    "shares of 40 columns": ("s8", "s8", "s32", None, SHARES),
    "promoted": ("s8", "s8", "s32", None, ROLES.with_(promote="per_step")),
    "promoted by mma.sync": ("s8", "s8", "s32", None, WARPS.with_(promote="per_step")),
}


def spec_for(a, b, d, epilogue):
    return lt.GemmSpec(a=a, b=b, d=d, acc="s32", layout="tn", epilogue=epilogue)


@pytest.mark.parametrize("case", CASES)
def test_every_level_computes_what_integers_do(case):
    a, b, d, epilogue, schedule = CASES[case]
    spec = spec_for(a, b, d, epilogue)
    kernel = compile_gemm(spec, target="sm_90a", schedule=schedule)
    inputs = random_inputs(spec, *SHAPE, np.random.default_rng(0), row_padding=16)
    reference, bound = reference_with_bound(spec, **inputs)
    results = [kernel.interpret(level=level, sms=2 - (level == "nvvm"), seed=1, **inputs) for level in LEVELS]
    for result in results:
        assert np.array_equal(result, results[0])
    judged = compare(spec, results[0], reference, bound)
    assert judged.ok and judged.judged == results[0].size, judged.message
    if d == "s32":
        assert np.array_equal(results[0], reference)


@pytest.mark.parametrize("case", ["zero points", "s32 by threads", "s8"])
def test_sums_wrap_around_and_say_so_in_the_reference(case):
    a, b, d, epilogue, schedule = CASES[case]
    spec = spec_for(a, b, d, epilogue)
    kernel = compile_gemm(spec, target="sm_90a", schedule=schedule)
    inputs = random_inputs(spec, 16, 16, 32, np.random.default_rng(0))
    for value in inputs.values():
        if value.dtype == np.int32:
            value[...] = np.iinfo(np.int32).max - np.arange(value.size)
    reference, bound = reference_with_bound(spec, **inputs)
    for level in ("problem", "epilogue", "ptx"):
        assert compare(spec, kernel.interpret(level=level, **inputs), reference, bound).ok


@pytest.mark.parametrize("case", CASES)
def test_the_problem_is_read_back_from_ir(case):
    a, b, d, epilogue, schedule = CASES[case]
    spec = spec_for(a, b, d, epilogue)
    kernel = compile_gemm(spec, target="sm_90a", schedule=schedule)
    inputs = random_inputs(spec, 20, 24, 32, np.random.default_rng(0))
    for level in ("problem", "atoms"):
        with make_context() as context:
            found = spec_of(parse_text(kernel.levels[level], context, level)).spec
        assert (found.a, found.b, found.d, found.acc) == (a, b, d, "s32")
        for mine, other in zip(
            reference_with_bound(spec, **inputs), reference_with_bound(found, **inputs), strict=True
        ):
            assert np.array_equal(mine, other)


@pytest.mark.parametrize("case", CASES)
def test_the_saved_program_says_what_the_reference_does(case):
    a, b, d, epilogue, schedule = CASES[case]
    spec = spec_for(a, b, d, epilogue)
    program = compile_gemm(spec, target="sm_90a", schedule=schedule).manifest["epilogue_program"]
    inputs = random_inputs(spec, 20, 24, 32, np.random.default_rng(0))
    acc = inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64).T
    kinds = {operand.name: operand.kind.value for operand in spec.operands}
    others = {name: inputs[name][:, None] if kind == "per_row" else inputs[name] for name, kind in kinds.items()}
    (_, low, high), _ = evaluate(program, (acc, acc, acc), others, d, "s32")
    reference, bound = reference_with_bound(spec, **inputs)
    assert np.all(low <= reference + bound) and np.all(reference - bound <= high)


def test_an_integer_d_of_32_bits_takes_integers_alone():
    with pytest.raises(
        SpecError,
        match=r"returned a float: the value is f32, which does not hold every s32.*d='f32'.*\[integers-of-d\]",
    ):
        spec_for("s8", "s8", "s32", lambda acc: acc * 0.5)


def test_accumulators_of_integers_are_s32():
    with pytest.raises(SpecError, match=r"acc='f32' with s8 inputs.*use acc='s32'.*\[sums-of-type\]"):
        lt.GemmSpec(a="s8", b="s8", d="f32", acc="f32")
    assert lt.GemmSpec(a="s8", b="s8", d="f32").sums == "s32"
    with pytest.raises(SpecError, match=r"d='s32' with f32 accumulators.*\[d-of-sums\]"):
        lt.GemmSpec(a="bf16", b="bf16", d="s32")
