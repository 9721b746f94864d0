"""Copies through registers: every level gives the same D, and faults in them show."""

import numpy as np
import pytest
from compiled import inputs_of, spec
from planting import OUT_OF_BOUNDS, RACE, WRONG_NUMBERS, Fault, assert_found

import lowtide as lt
from lowtide.interpreter import interpret

LEVELS = ("pipelined", "atoms", "epilogue", "nvvm")
FMA = "atom = fma.m1n1k1, grid.tile = [32, 32], k = 8, atoms = [8, 8, 1], "
MMA = "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], "
BOTH = "a.copy = staged.16, b.copy = staged.16"
KERNELS = {
    "transposed": (spec(dtype="f32"), f"{FMA}{BOTH}, stages = 2, fragment_buffers = 1"),
    "as loaded": (spec("nt"), f"{MMA}{BOTH}, stages = 3"),
    "beside cp.async": (spec("tt", dtype="f32"), f"{FMA}a.copy = staged.8, stages = 3"),
    "across work tiles": (
        spec(dtype="f32"),
        f"{FMA}{BOTH}, stages = 3, fragment_buffers = 1, scheduler = persistent, prologue = once, ctas_per_sm = 1",
    ),
    "f64 transposed": (
        spec("tt", dtype="f64", acc="f64"),
        f"grid.tile = [32, 32], k = 16, atoms = [2, 1, 1], {BOTH}, b.stage = transposed, stages = 2",
    ),
}


@pytest.fixture(scope="module")
def kernels():
    return {name: lt.compile_gemm(problem, "sm_80", schedule=schedule) for name, (problem, schedule) in KERNELS.items()}


def run(name: str, text: str, shape: tuple[int, int, int] = (45, 37, 52)) -> tuple[np.ndarray, np.ndarray]:
    """D, and what it should be, of one ragged problem in the domain of exact integers."""
    problem = KERNELS[name][0]
    inputs = inputs_of(problem, *shape)
    del inputs["d"]
    return interpret(text, inputs, domain="exact"), lt.reference(problem, **inputs)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_level_gives_the_same_d(kernels, name, level):
    np.testing.assert_array_equal(*run(name, kernels[name].levels[level]))


def test_a_ring_that_only_stores_of_registers_fill_has_barriers_and_no_groups(kernels):
    assert "cp.async" not in kernels["transposed"].ptx and "cp_async" not in kernels["as loaded"].levels["atoms"]
    assert "cp.async.wait_group" in kernels["beside cp.async"].ptx


def test_loads_of_whole_runs_are_16_bytes_without_a_check_of_alignment():
    whole = lt.GemmSpec(m=64, n=64, k=64, a="f32", b="f32", d="f32")
    kernel = lt.compile_gemm(whole, "sm_80", schedule=KERNELS["transposed"][1])
    assert "ptrtoint" not in kernel.levels["nvvm"].split("scf.for")[1]
    assert "ld.global.v4" in kernel.ptx or "ld.global.nc.v4" in kernel.ptx


FAULTS = (
    Fault("no barrier before a slot is read", "atoms", r"^\s*sm\.barrier\n", "", RACE),
    Fault("no barrier between threads", "nvvm", r"^\s*nvvm\.barrier0\n", "", RACE),
    Fault(
        "the K step of the round itself, stored a round later",
        "atoms",
        r"(iter_args\((?:.*\n)*?.*= arith\.addi %arg\d+, %c1 : index\n(?:.*\n)*?.*arith\.addi %\d+, )%c1",
        r"\1%c0",
        WRONG_NUMBERS,
        at=-1,
    ),
    Fault("a store to the slot that is read", "atoms", r"(sm\.store_shared %arg\d+ to )%a_\w+", r"\1%a", RACE),
    Fault(
        "a fragment that is not carried: the first one, stored in each round",
        "atoms",
        r"sm\.store_shared %arg6 ",
        "sm.store_shared %6 ",
        WRONG_NUMBERS,
    ),
    Fault("an element past the edge that is loaded", "nvvm", r"arith\.cmpi ult", "arith.cmpi uge", OUT_OF_BOUNDS),
    Fault(
        "two elements stored to one place",
        "nvvm",
        r"(llvm\.store %\w+, )(%\w+)( .*\n(?:.*\n)*?.*llvm\.store %\w+, )(%\w+)",
        r"\1\2\3\2",
        "uninitialised",
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(kernels, fault):
    faulty = fault.plant(kernels["transposed"].levels[fault.level])
    assert_found(fault, faulty, lambda text, seed: np.array_equal(*run("transposed", text)))


@pytest.mark.parametrize(
    ("problem", "target", "schedule", "message"),
    [
        (
            spec(),
            "sm_80",
            "a.copy = staged.16, a.stage = transposed",
            r"a.stage = transposed: ldmatrix.*; take that.*\[ldmatrix-transposed\]",
        ),
        (
            spec(dtype="f32"),
            "sm_80",
            "a.copy = cp.async.16, a.stage = transposed",
            r"take a.copy = staged.16 or a.copy = cp.async.4 or.*\[transposed-width\]",
        ),
        (
            spec(),
            "sm_90a",
            "a.copy = ld.global.2, roles = cooperative(2)",
            r"take a.copy = tma \[roles-copy\]",
        ),
        (
            spec(),
            "sm_90a",
            "a.copy = staged.16, roles = cooperative(2), cluster = [2, 1]",
            r"take cluster = \[1, 1\].*\[producer-cluster\]",
        ),
        (spec(), "sm_80", "a.copy = staged.32", "a.copy = staged.32 is not one of .*staged.16, staged.8"),
        (
            spec(),
            "sm_80",
            "a.copy = staged.16, b.copy = ld.global.16",
            r"take a.copy = ld.global.16, or b.copy = sta.*\[direct-both\]",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_way_out(problem, target, schedule, message):
    with pytest.raises(lt.ScheduleError, match=message):
        lt.compile_gemm(problem, target=target, schedule=schedule)
