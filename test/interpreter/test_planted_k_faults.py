"""Faults planted in the exchange of partial sums between CTAs are found by the interpreter and named."""

import numpy as np
import pytest
from compiled import expected, inputs_of, levels_of, spec
from planting import RACE, WRONG_NUMBERS, Fault
from support import assert_same

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret

SPEC = spec()
SCHEDULE = "grid.tile = [32, 32], k = 32, stages = 2, atoms = [2, 1, 1], k_division = split(3)"
INPUTS = inputs_of(SPEC, 40, 45, 133)
SEEDS = (0, 1, 2)
UNWRITTEN = "uninitialised"

FAULTS = [
    Fault("no wait, cta", "cta", r"^ *tile\.semaphore_wait.*\n", "", f"{RACE}|{UNWRITTEN}"),
    Fault("no wait, nvvm", "nvvm", r"^ *sm\.ptx_semaphore_wait.*\n", "", f"{RACE}|{UNWRITTEN}"),
    Fault("no arrival, cta", "cta", r"^ *tile\.semaphore_arrive.*\n", "", r"cta.*\[agents-deadlock\]"),
    Fault("no arrival, nvvm", "nvvm", r"^ *sm\.ptx_semaphore_arrive.*\n", "", r"\[agents-deadlock\]"),
    Fault(
        "arrives before it stores, cta",
        "cta",
        r"^( *tile\.store_partial.*\n)( *tile\.semaphore_arrive.*\n)",
        r"\2\1",
        f"{RACE}|{UNWRITTEN}",
    ),
    Fault(
        "no reset, cta",
        "cta",
        r" reset : memref",
        r" : memref",
        r"not zero after the launches.*\[workspace-not-reset\]",
    ),
    Fault(
        "no reset, nvvm",
        "nvvm",
        r"(sm\.ptx_semaphore_wait.*\n) *llvm\.store .*\n",
        r"\1",
        r"\[workspace-not-reset\]",
    ),
    Fault(
        "no barrier before the arrival, nvvm",
        "nvvm",
        r"^ *nvvm\.barrier0\n((?: *%.*\n)*? *scf\.if .*\{\n(?: *%.*\n)*? *sm\.ptx_semaphore_arrive)",
        r"\1",
        f"{RACE}|{UNWRITTEN}",
    ),
    Fault(
        "no barrier after the wait, nvvm",
        "nvvm",
        r"(sm\.ptx_semaphore_wait.*\n(?:.*\n)*?) *nvvm\.barrier0\n",
        r"\1",
        f"{RACE}|{UNWRITTEN}",
    ),
    Fault("waits for one part too few, cta", "cta", r"until %\d+", "until %c1", f"{RACE}|{UNWRITTEN}|not zero"),
    Fault("adds one part too few, cta", "cta", r"count %\d+", "count %c1", WRONG_NUMBERS),
    Fault(
        "adds one part too few of all, nvvm",
        "nvvm",
        r"(scf\.for %\w+ = %c0_i32 to )%c2_i32( step .*vector<4xf32>, )",
        r"\1%c1_i32\2",
        WRONG_NUMBERS,
    ),
    Fault(
        "all threads arrive, nvvm",
        "nvvm",
        r"(scf\.if) %\w+ (\{\n *%.*\n *sm\.ptx_semaphore_arrive)",
        r"\1 %true \2",
        "elect",
    ),
]


# Every part waits for all others, adds a share of the columns, and leaves the semaphore.
SCATTER = "grid.tile = [32, 32], k = 32, stages = 2, atoms = [2, 1, 1], scheduler = persistent, k_division = scatter(2)"
SCATTER_FAULTS = [
    Fault("no wait, cta", "cta", r"^ *tile\.semaphore_wait.*\n", "", f"{RACE}|{UNWRITTEN}|not zero"),
    Fault("nobody leaves, cta", "cta", r"^ *tile\.semaphore_leave.*\n", "", r"\[workspace-not-reset\]"),
    Fault("nobody leaves, nvvm", "nvvm", r"^ *sm\.ptx_semaphore_leave.*\n", "", r"\[workspace-not-reset\]"),
    Fault(
        "leaves before it waits, cta",
        "cta",
        r"^( *tile\.semaphore_wait.*\n)((?: *%.*\n)*)( *tile\.semaphore_leave.*\n)",
        r"\2\3\1",
        f"{RACE}|{UNWRITTEN}|deadlock",
    ),
    Fault(
        "one too few may leave, cta", "cta", r"of %\d+ : memref<\?xi32>", "of %c1 : memref<?xi32>", "deadlock|not zero"
    ),
    Fault(
        "all threads leave, nvvm",
        "nvvm",
        r"(scf\.if) %\w+ (\{\n(?: *%.*\n)* *sm\.ptx_semaphore_leave)",
        r"\1 %true \2",
        "elect",
    ),
]


# Of five tiles on three CTAs three are stored whole, by two boxes. Two CTAs then share the two others, one after the
# other: each stores half of the columns by one box.
SCATTER_TAIL = (
    "roles = cooperative(1), grid.tile = [64, 32], k = 32, stages = 2, scheduler = persistent, "
    "k_division = scatter_tail(2), epilogue.path = tma, epilogue.tile = [64, 16], epilogue.buffers = 2"
)
TAIL_INPUTS = inputs_of(SPEC, 280, 24, 70)
SCATTER_TAIL_FAULTS = [
    Fault("no wait, cta", "cta", r"^ *tile\.semaphore_wait.*\n", "", f"{RACE}|{UNWRITTEN}|not zero"),
    Fault("nobody leaves, cta", "cta", r"^ *tile\.semaphore_leave.*\n", "", r"\[workspace-not-reset\]"),
    Fault(
        "both store the first half, cta",
        "cta",
        r"(tile\.store %\d+ into %\w+\[%m, )%\d+",
        r"\1%n",
        RACE,
    ),
    Fault(
        "the box of a share is written too early, epilogue",
        "epilogue",
        r"(tile\.sum_shares.*\n(?:.*\n)*? *sm\.tma_store_wait) read 0",
        r"\1 read 1",
        RACE,
    ),
]


@pytest.fixture(scope="module")
def levels() -> dict[str, str]:
    return levels_of(SPEC, SCHEDULE)


@pytest.fixture(scope="module")
def scattered() -> dict[str, str]:
    return levels_of(SPEC, SCATTER)


@pytest.fixture(scope="module")
def scattered_tail() -> dict[str, str]:
    return lt.compile_gemm(SPEC, target="sm_90a", schedule=SCATTER_TAIL).levels


@pytest.mark.parametrize("fault", SCATTER_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_a_scatter_is_found(scattered: dict[str, str], fault: Fault) -> None:
    check_is_found(scattered, fault)


@pytest.mark.parametrize("fault", SCATTER_TAIL_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_a_scattered_tail_is_found(scattered_tail: dict[str, str], fault: Fault) -> None:
    text = fault.plant(scattered_tail[fault.level])
    with pytest.raises(InterpreterError, match=fault.found):
        for seed in SEEDS:
            interpret(text, TAIL_INPUTS, sms=3, seed=seed, domain="exact")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_found(levels: dict[str, str], fault: Fault) -> None:
    check_is_found(levels, fault)


def check_is_found(levels: dict[str, str], fault: Fault) -> None:
    text = fault.plant(levels[fault.level])
    if fault.replacement.endswith("%true \\2"):
        text = text.replace(
            "%0 = llvm.mlir.addressof", "%true = arith.constant true\n      %0 = llvm.mlir.addressof", 1
        )
    if "%c1" in fault.replacement:
        text = text.replace("tile.work_tiles", "%c1_planted = arith.constant 1 : index\n    tile.work_tiles", 1)
        text = text.replace(fault.replacement, fault.replacement.replace("%c1", "%c1_planted"))
    if fault.found == WRONG_NUMBERS:
        with pytest.raises(AssertionError, match="D differs"):
            assert_same(levels["problem"], text, INPUTS, orders=(0,))
        return
    with pytest.raises(InterpreterError, match=fault.found):
        for seed in SEEDS:
            interpret(text, INPUTS, sms=4, seed=seed, domain="exact")


def test_without_a_fault_every_order_gives_d(levels: dict[str, str]) -> None:
    for level in ("cta", "pipelined", "epilogue", "nvvm"):
        found = assert_same(levels["problem"], levels[level], INPUTS, orders=SEEDS, sms=3)
    assert (found == expected(SPEC, INPUTS)).all()


@pytest.mark.parametrize("k", [20, 50, 96, 133])
def test_a_tile_has_a_part_for_each_step_or_all_parts(levels: dict[str, str], k: int) -> None:
    """One step, two, three and five; in three parts."""
    given = inputs_of(SPEC, 40, 45, k)
    for level in ("epilogue", "nvvm"):
        for sms in (1, 4):
            d = interpret(levels[level], given, sms=sms, seed=k, domain="exact")
            np.testing.assert_array_equal(d, expected(SPEC, given), err_msg=level)


def test_the_bits_of_a_split_repeat_for_every_order_and_number_of_ctas() -> None:
    problem = lt.GemmSpec(m=40, n=45, k=133, a="bf16", b="bf16", d="f32")
    kernel = lt.compile_gemm(problem, "sm_80", schedule=f"{SCHEDULE}, scheduler = persistent")
    inputs = lt.random_inputs(problem, 40, 45, 133, np.random.default_rng(0))
    results = [interpret(kernel.levels["cta"], inputs, sms=sms, seed=seed) for sms, seed in ((1, 0), (2, 1), (7, 2))]
    assert all((result == results[0]).all() for result in results)
