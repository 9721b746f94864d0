"""f64 through tensor cores: every level, both targets' shapes, and faults that must show."""

import re

import numpy as np
import pytest
from compiled import spec
from planting import WRONG_NUMBERS, Fault

import lowtide as lt
from lowtide.dialects.tile import OperandsKind
from lowtide.interpreter import interpret

LEVELS = ("problem", "pipelined", "atoms", "epilogue", "nvvm")
SMALL = "grid.tile = [64, 32], atoms = [2, 2, 1], stages = 3"


def alpha_beta(acc, c: lt.Full, alpha: lt.Scalar, beta: lt.Scalar):
    return lt.maximum(alpha * acc + lt.sqrt(abs(beta)) * c, -1e300)


SPEC = spec("tt", dtype="f64", d="f64", acc="f64", epilogue=alpha_beta)


@pytest.fixture(scope="module", params=["sm_80", "sm_90a"])
def kernel(request):
    return lt.compile_gemm(SPEC, target=request.param, schedule=SMALL)


def outcome(kernel, level):
    inputs = lt.random_inputs(SPEC, 70, 45, 52, np.random.default_rng(1), row_padding=2)
    return lt.compare(SPEC, kernel.interpret(**inputs, level=level), *lt.reference_with_bound(SPEC, **inputs))


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_is_within_the_bound_of_f64(kernel, level):
    found = outcome(kernel, level)
    assert found.ok, found.message


def test_sums_in_f32_are_out_of_that_bound():
    """The bound is one for f64: the same product with f32's precision does not pass."""
    inputs = lt.random_inputs(SPEC, 70, 45, 52, np.random.default_rng(1))
    reference, bound = lt.reference_with_bound(SPEC, **inputs)
    rounded = reference.astype(np.float32).astype(np.float64)
    assert not lt.compare(SPEC, rounded, reference, bound).ok
    assert lt.compare(SPEC, reference, reference, bound).ok


FAULTS = (
    Fault(
        "a k-slice that is loaded twice",
        "atoms",
        r'(sm\.load_shared %\S+ at \[0, )[48](\] by "ld\.shared\.(?:8|16)")',
        r"\g<1>0\g<2>",
        WRONG_NUMBERS,
    ),
    Fault(
        "two registers of A exchanged",
        "nvvm",
        r"(llvm\.call_intrinsic \S+\()(%\S+), (%\S+), (%\S+),",
        r"\g<1>\g<4>, \g<3>, \g<2>,",
        WRONG_NUMBERS,
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_planted_fault_gives_a_wrong_number(kernel, fault):
    inputs = lt.random_inputs(SPEC, 70, 45, 52, np.random.default_rng(1))
    d = interpret(fault.plant(kernel.levels[fault.level]), as_arguments(inputs))
    assert not lt.compare(SPEC, d, *lt.reference_with_bound(SPEC, **inputs)).ok


def as_arguments(inputs: dict) -> dict:
    """In the order of the host function's arguments."""
    a, b, *operands = inputs
    return {name: inputs[name] for name in (a, b, *operands)}


def test_the_larger_shapes_are_chosen_where_the_target_has_them(kernel):
    expected = "mma.m8n8k4" if kernel.manifest["target"] == "sm_80" else "mma.m16n8k4"
    assert kernel.schedule.multiply.atom == expected
    assert f"mma.sync.aligned.{expected[4:]}.row.col.f64.f64.f64.f64" in kernel.ptx


@pytest.mark.parametrize(("given", "depth"), [(f"{SMALL}, atom = mma.m16n8k4", 4), (SMALL, 8)])
def test_fragments_along_k_are_loaded_ahead_in_the_order_of_k(given: str, depth: int) -> None:
    """A tile of 64×64 takes the atom with a K of 8 by default, if A and B have K contiguous."""
    problem = spec(dtype="f64", d="f64", acc="f64")
    kernel = lt.compile_gemm(problem, target="sm_90a", schedule=given)
    assert kernel.schedule.multiply.atom == f"mma.m16n8k{depth}"
    assert kernel.schedule.multiply.permutation[2] == depth
    assert kernel.levels["llvm"].count('llvm.inline_asm has_side_effects "", "~{memory}"') == 1
    inputs = lt.random_inputs(problem, 70, 45, 52, np.random.default_rng(1))
    d = kernel.interpret(*inputs.values(), level="llvm")
    assert lt.compare(problem, d, *lt.reference_with_bound(problem, **inputs)).ok


@pytest.mark.parametrize(
    ("atom", "widths"), [("mma.m16n8k4", {"ld.shared.16"}), ("mma.m16n8k8", {"ld.shared.16", "ld.shared.8"})]
)
def test_where_rows_are_contiguous_a_thread_loads_two_neighbours(atom: str, widths: set[str]) -> None:
    """A pair of rows of A is in one atom. A pair of columns of B is in two: with K = 8, each is loaded alone."""
    schedule = SMALL if atom == "mma.m16n8k8" else f"{SMALL}, atom = {atom}"
    kernel = lt.compile_gemm(spec("nt", dtype="f64", d="f64", acc="f64"), target="sm_90a", schedule=schedule)
    assert kernel.schedule.multiply.atom == atom
    assert set(re.findall(r'sm\.load_shared .* by "([\w.]+)"', kernel.levels["atoms"])) == widths


@pytest.mark.parametrize(("n", "is_swapped"), [(46, True), (45, False)])
def test_a_product_of_tt_is_swapped_so_that_pairs_of_rows_are_in_one_atom(n: int, is_swapped: bool) -> None:
    problem = lt.GemmSpec(m=70, n=n, k=52, a="f64", b="f64", d="f64", layout="tt")
    kernel = lt.compile_gemm(problem, target="sm_90a")
    assert (kernel.schedule.grid.operands is OperandsKind.swapped) is is_swapped
    assert kernel.schedule.multiply.atom == ("mma.m16n8k8" if is_swapped else "mma.m16n8k4")
    inputs = lt.random_inputs(problem, 70, n, 52, np.random.default_rng(1))
    found = lt.compare(problem, kernel.interpret(**inputs, level="ptx"), *lt.reference_with_bound(problem, **inputs))
    assert found.ok, found.message


@pytest.mark.parametrize("level", ["llvm", "ptx"])
def test_halves_of_numbers_that_assembly_stores_are_put_together(level):
    """Stores with a hint are assembly with 32-bit registers."""
    problem = spec(dtype="f64", d="f64", acc="f64")
    kernel = lt.compile_gemm(
        problem, target="sm_80", schedule="grid.tile = [32, 32], k = 16, epilogue.cache = write_through"
    )
    a, b = (np.random.default_rng(seed).integers(1 << 20, size=shape) for seed, shape in ((0, (34, 20)), (1, (39, 20))))
    d = kernel.interpret(a, b, level=level, domain="field")
    assert (d == kernel.interpret(a, b, level="problem", domain="field")).all()
