"""8-bit floats by wgmma: every level, sums as the tensor cores leave them and promoted, and faults that must show."""

import ml_dtypes
import numpy as np
import pytest
from compiled import spec
from planting import WRONG_NUMBERS, Fault, assert_found, within_bound

import lowtide as lt

LEVELS = ("problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx")
SMALL = "grid.tile = [64, 32], k = 64, stages = 2"
SHAPE = (70, 45, 208)


def scaled(acc, row: lt.PerRow["f32"], column: lt.PerColumn["f32"], whole: lt.Scalar):  # noqa: F821
    return acc * row * column * whole


SPECS = {
    "promoted": spec(dtype="e4m3", b="e5m2", d="bf16", epilogue=scaled),
    "stored": spec(dtype="e4m3", d="e4m3", epilogue=scaled),
    "fast": spec(dtype="e5m2", b="e4m3", d="f32", acc="fast", epilogue=scaled),
}


@pytest.fixture(scope="module", params=SPECS)
def kernel(request):
    return SPECS[request.param], lt.compile_gemm(SPECS[request.param], target="sm_90a", schedule=SMALL)


def inputs_for(problem):
    return lt.random_inputs(problem, *SHAPE, np.random.default_rng(1), row_padding=16)


def test_every_level_is_within_the_bound(kernel):
    problem, compiled = kernel
    inputs = inputs_for(problem)
    expected = lt.reference_with_bound(problem, **inputs)
    for level in LEVELS:
        found = lt.compare(problem, compiled.interpret(**inputs, level=level, sms=2), *expected)
        assert found.ok, (level, found.message)


def test_two_elements_of_d_are_stored_at_once():
    """A pair is one register of 16 bits, spread to a vector of one and cast."""
    problem = spec(dtype="e4m3", d="e4m3")
    schedule = f"{SMALL}, epilogue.path = smem, epilogue.math = rows, epilogue.store = 2"
    compiled = lt.compile_gemm(problem, target="sm_90a", schedule=schedule)
    assert "vector<1xi16> to vector<2xi8>" in compiled.levels["nvvm"]
    inputs = inputs_for(problem)
    expected = lt.reference_with_bound(problem, **inputs)
    for level in ("epilogue", "nvvm", "llvm", "ptx"):
        found = lt.compare(problem, compiled.interpret(**inputs, level=level, sms=2), *expected)
        assert found.ok, (level, found.message)


def test_what_tensor_cores_cut_is_within_the_bound_of_fast_sums_and_not_of_promoted_ones():
    """One large product, and so many that are just below the last of the 14 bits kept beside it: the domain hopper."""
    promoted, fast = (spec(dtype="e4m3", d="f32", acc=acc) for acc in ("f32", "fast"))
    terms, ones = (np.array([448.0] + [rest] * 1023) for rest in (15.0, 1.0))
    inputs = {"a": terms[None], "b": ones[None]}
    inputs = {name: values.astype(ml_dtypes.float8_e4m3fn) for name, values in inputs.items()}
    lost = {}
    for problem in (promoted, fast):
        kernel = lt.compile_gemm(problem, target="sm_90a", schedule="grid.tile = [64, 8], k = 128, stages = 2")
        d = kernel.interpret(**inputs, level="nvvm", domain="hopper")
        assert lt.compare(problem, d, *lt.reference_with_bound(problem, **inputs)).ok
        lost[problem.acc] = (terms @ ones) - float(d[0, 0])
        assert problem is promoted or not lt.compare(promoted, d, *lt.reference_with_bound(promoted, **inputs)).ok
    kept = 240.0  # of the 31 small ones in the first instruction: its accumulator is zero
    assert lost == {"fast": 15.0 * 1023 - kept, "f32": 15.0 * 127 - kept}


FAULTS = (
    Fault(
        "a sum added twice",
        "pipelined",
        r"tile\.promote (%\S+) into %\S+",
        r"tile.promote \g<1> into \g<1>",
        WRONG_NUMBERS,
    ),
    Fault(
        "a sum that is not added",
        "nvvm",
        r"arith\.addf (%\S+), %\S+ : vec",
        r"arith.addf \g<1>, \g<1> : vec",
        WRONG_NUMBERS,
    ),
    Fault("e5m2 read as e4m3", "nvvm", r"<e5m2>", "<e4m3>", "another type|f8E5M2"),
)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_planted_fault_shows(fault):
    problem = SPECS["promoted"]
    compiled = lt.compile_gemm(problem, target="sm_90a", schedule=SMALL)
    inputs = inputs_for(problem)
    assert_found(fault, fault.plant(compiled.levels[fault.level]), within_bound(problem, inputs))


CLAMPED = spec(dtype="bf16", d="e4m3")


@pytest.fixture(scope="module")
def clamped():
    inputs = lt.random_inputs(CLAMPED, 33, 45, 40, np.random.default_rng(2))
    inputs = {name: (value.astype(np.float32) * 8).astype(value.dtype) for name, value in inputs.items()}
    return lt.compile_gemm(CLAMPED, target="sm_90", schedule="grid.tile = [32, 32], atoms = [1, 1, 1]"), inputs


@pytest.mark.parametrize("level", LEVELS)
def test_d_is_clamped_to_the_finite_values_of_its_type(clamped, level):
    kernel, inputs = clamped
    d = kernel.interpret(**inputs, level=level)
    found = lt.compare(CLAMPED, d, *lt.reference_with_bound(CLAMPED, **inputs))
    assert found.ok, found.message
    assert np.abs(d.astype(np.float64)).max() == 448.0


def test_the_arithmetic_of_the_tensor_cores_clamps_d_too(clamped):
    kernel, inputs = clamped
    d = kernel.interpret(**inputs, level="nvvm", domain="hopper")
    assert lt.compare(CLAMPED, d, *lt.reference_with_bound(CLAMPED, **inputs)).ok
    assert np.abs(d.astype(np.float64)).max() == 448.0


STORE_FAULTS = (
    Fault("halves of a pair exchanged", "nvvm", r"f8x2 (%\S+), (%\S+) ", r"f8x2 \g<2>, \g<1> ", WRONG_NUMBERS),
    Fault("no clamp", "epilogue", r"arith\.minimumf (%\S+), %\S+", r"arith.minimumf \g<1>, \g<1>", WRONG_NUMBERS),
)


@pytest.mark.parametrize("fault", STORE_FAULTS, ids=[fault.name for fault in STORE_FAULTS])
def test_a_fault_planted_in_what_is_stored_gives_wrong_numbers(clamped, fault):
    kernel, inputs = clamped
    assert_found(fault, fault.plant(kernel.levels[fault.level]), within_bound(CLAMPED, inputs))


def test_targets_without_the_conversion_are_named():
    with pytest.raises(lt.Error, match="D of e4m3: sm_80 has no conversions of it, sm_89 is the first"):
        lt.compile_gemm(CLAMPED, target="sm_80")
