"""TMA loads only the rows that exist of the last tiles: all levels give the same D, whatever else the ring holds."""

import re
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from compiled import expected, inputs_of, ready, spec, steps_of
from support import assert_same

import lowtide as lt
from lowtide import targets
from lowtide.compiler.kernel import CompiledKernel
from lowtide.interpreter import interpret

LEVELS = ("atoms", "epilogue", "nvvm", "llvm", "ptx")
TILE = "grid.tile = [64, 16], k = 64, stages = 2, order = row"
SMALL = f"{TILE}, roles = cooperative(1)"


@dataclass(frozen=True)
class Case:
    """A problem, its schedule, shapes, and how many loads at level atoms have `rows`."""

    problem: lt.GemmSpec
    schedule: str
    shapes: tuple[tuple[int, int, int], ...]
    loads: int = 2
    levels: tuple[str, ...] = ("atoms", "nvvm", "ptx")


CASES = {
    "open": Case(spec(), SMALL, ((1, 16, 72), (63, 15, 130), (64, 32, 64), (65, 17, 72)), levels=LEVELS),
    "known, less than a tile": Case(spec(m=1, n=5), SMALL, ((1, 5, 72),)),
    "known, more than a tile": Case(spec(m=65, n=33), SMALL, ((65, 33, 136),)),
    "known, of which one divides": Case(spec(m=63, n=32), SMALL, ((63, 32, 72),), 1),
    "swapped": Case(spec(), f"{SMALL}, operands = swapped", ((1, 65, 72), (17, 63, 200))),
    "fp8": Case(spec(dtype="e4m3", b="e5m2", d="bf16"), SMALL.replace("k = 64", "k = 128"), ((65, 15, 272),)),
    "panels": Case(spec(), SMALL.replace("k = 64", "k = 128"), ((65, 17, 200),)),
    "two warpgroups": Case(
        spec(), SMALL.replace("cooperative(1)", "cooperative(2)").replace("64, 16", "128, 16"), ((65, 3, 72),)
    ),
    "in turn": Case(spec(), f"{TILE}, roles = pingpong(2)", ((129, 33, 200),)),
    "A by columns": Case(spec("nn"), SMALL, ((65, 17, 72),), 1),
    "one operand by threads": Case(spec(), f"{SMALL}, a.copy = cp.async.16", ((65, 17, 72),), 1),
    "boxes of all panels": Case(spec(), f"{SMALL}, a.copy = tma.3d", ((65, 17, 64),), 1),
    "warps": Case(
        spec(),
        "roles = cooperative(1), grid.tile = [32, 32], k = 32, stages = 2, atom = mma.m16n8k16, atoms = [2, 2, 1]",
        ((33, 31, 72),),
    ),
    # Whole tiles before those that are split.
    "half tiles": Case(spec(), SMALL.replace("64, 16", "128, 16") + ", tail = halves", ((350, 17, 72), (65, 17, 72))),
    "parts": Case(spec(), f"{SMALL}, k_division = split(4)", ((65, 17, 200), (63, 17, 72), (1, 1, 256))),
    "parts of K that is known": Case(spec(k=200), f"{SMALL}, k_division = split(2)", ((65, 17, 200),)),
    "parts, each added": Case(spec(), f"{SMALL}, k_division = scatter(2)", ((65, 17, 200),)),
}


@pytest.fixture(scope="module")
def small() -> CompiledKernel:
    """All extents open."""
    return lt.compile_gemm(spec(), target="sm_90a", schedule=SMALL)


def loads_with_rows(text: str) -> int:
    return sum(" rows(%" in line for line in text.splitlines() if "sm.tma_load" in line)


@pytest.mark.parametrize("name", CASES)
def test_every_level_computes_the_gemm(name: str) -> None:
    """With two CTAs. A CTA may have another tile before its last one; rows of the other tile are still in the ring."""
    case = CASES[name]
    kernel = lt.compile_gemm(case.problem, target="sm_90a", schedule=case.schedule)
    assert loads_with_rows(kernel.levels["atoms"]) == case.loads
    for shape in case.shapes:
        given = inputs_of(case.problem, *shape)
        del given["d"]
        wanted = expected(case.problem, given)
        for level in case.levels:
            d = kernel.interpret(**given, level=level, domain="exact", sms=2, seed=1)
            np.testing.assert_array_equal(d, wanted, err_msg=f"{level}, {shape}")


@pytest.mark.parametrize("layout", ["tn", "nn"])
def test_packed_rows_are_loaded_as_far_as_they_exist(layout: str) -> None:
    kernel = lt.compile_gemm(spec(layout), target="sm_90a", schedule=f"{SMALL}, pack = rows")
    given = inputs_of(spec(layout), 65, 17, 71, anywhere=True)
    del given["d"]
    for level in ("atoms", "ptx"):
        d = kernel.interpret(**given, level=level, domain="exact", sms=2)
        np.testing.assert_array_equal(d, expected(spec(layout), given), err_msg=level)


@pytest.mark.parametrize("shared", ["", "b"])
def test_each_product_of_a_batch_has_its_own_last_rows(shared: str) -> None:
    problem = spec(batch=None)
    kernel = lt.compile_gemm(problem, target="sm_90a", schedule=SMALL)
    assert loads_with_rows(kernel.levels["atoms"]) == 2
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (3, 65, 72)), rng.integers(-3, 4, (17, 72) if shared else (3, 17, 72))
    for level in ("atoms", "nvvm", "ptx"):
        d = kernel.interpret(a, b, level=level, domain="exact", sms=2)
        np.testing.assert_array_equal(d, a @ np.swapaxes(b, -1, -2), err_msg=level)


@pytest.mark.parametrize("name", ["open", "parts", "half tiles", "panels"])
def test_each_pass_keeps_the_numbers(name: str) -> None:
    case = CASES[name]
    steps = {step.name: step for step in steps_of(case.problem, case.schedule, targets.get("sm_90a"))}
    given = inputs_of(case.problem, *case.shapes[-1])
    for step in (steps["bind-ring"], steps["convert-sm-to-nvvm"]):
        np.testing.assert_array_equal(assert_same(step.before, step.after, given), expected(case.problem, given))


def test_only_kernels_whose_threads_read_the_ring_store_zeros(small: CompiledKernel) -> None:
    of_warps = lt.compile_gemm(CASES["warps"].problem, target="sm_90a", schedule=CASES["warps"].schedule)
    assert "sm.zero_rows" in of_warps.levels["atoms"] and "sm.zero_rows" not in small.levels["atoms"]


@pytest.mark.parametrize("domain", ["float", "exact", "field"])
@pytest.mark.parametrize(
    ("level", "load"), [("atoms", r"^ *sm\.tma_load .*\n"), ("nvvm", r"^ *nvvm\.cp\.async\.bulk\.tensor.*\n")]
)
def test_d_shows_that_wgmma_reads_what_was_never_written(level: str, load: str, domain: str) -> None:
    """The load of A is left out, and so are its bytes."""
    problem = spec(m=64, n=16)
    kernel = lt.compile_gemm(problem, target="sm_90a", schedule=SMALL)
    text, count = re.subn(load, "", kernel.levels[level], count=1, flags=re.MULTILINE)
    text, further = re.subn("(expects |%c|constant )10240", r"\g<1>2048", text)
    assert count == 1 and further
    given = {name: array.astype(ml_dtypes.bfloat16) for name, array in inputs_of(problem, 64, 16, 64).items()}
    d = interpret(ready(text), given, domain=domain)
    assert (d.astype(np.float32) != expected(problem, given)).all()


@pytest.mark.parametrize("level", ["epilogue", "ptx"])
def test_rows_that_stay_in_the_ring_spoil_no_other_row(small: CompiledKernel, level: str) -> None:
    """With one CTA, and NaN in rows of the tile before the last one, along M and along N."""
    a, b = np.ones((65, 200), ml_dtypes.bfloat16), np.ones((17, 200), ml_dtypes.bfloat16)
    a[3], b[5] = np.nan, np.nan
    d = small.interpret(a, b, level=level, sms=1)
    wanted = np.full((65, 17), 200.0)
    wanted[3], wanted[:, 5] = np.nan, np.nan
    np.testing.assert_array_equal(d.astype(np.float32), wanted)


@pytest.mark.parametrize("level", ["epilogue", "ptx"])
def test_rows_that_stay_in_the_ring_do_not_count_for_the_largest_element(level: str) -> None:
    """Five K steps in two slots: old rows of a slot meet rows of another K step, which the GEMM never does."""
    problem = spec(d="f32", amax=True)
    kernel = lt.compile_gemm(problem, target="sm_90a", schedule=SMALL)
    a, b = np.zeros((65, 320), np.int64), np.zeros((17, 320), np.int64)
    a[:64, 256:], b[:, :64], a[64], b[16] = 100, 100, 1, 1
    amax = np.zeros(1, np.float32)
    d = kernel.interpret(a, b, amax=amax, level=level, domain="exact", sms=1)
    np.testing.assert_array_equal(d, a @ b.T)
    assert amax[0] == (a @ b.T).max()


def test_boxes_are_full_if_they_must_be() -> None:
    for fields in ("cluster = [2, 1]", "a.copy = tma.3d, b.copy = tma.3d"):
        kernel = lt.compile_gemm(spec(), target="sm_90a", schedule=f"{SMALL}, {fields}")
        assert "rows(%" not in kernel.levels["atoms"] and "sm.zero_rows" not in kernel.levels["atoms"]
    multiples = lt.compile_gemm(spec(m=128, n=48), target="sm_90a", schedule=SMALL)
    assert "rows(%" not in multiples.levels["atoms"] and "sm.zero_rows" not in multiples.levels["atoms"]


@pytest.mark.parametrize("shape", [(0, 17, 72), (65, 0, 72), (65, 17, 0)], ids=str)
def test_an_extent_of_zero(small: CompiledKernel, shape: tuple[int, int, int]) -> None:
    given = inputs_of(spec(), *shape)
    del given["d"]
    for level in ("atoms", "ptx"):
        d = small.interpret(**given, level=level, domain="exact", sms=2)
        np.testing.assert_array_equal(d, expected(spec(), given))


def test_a_text_goes_on_from_level_atoms(small: CompiledKernel) -> None:
    assert lt.compile_ir(small.levels["atoms"]).ptx == small.ptx
