"""wgmma with sums in f16, two of which share a register: every level, every way to D, planted faults.

Of random numbers levels agree to the bit in the domain `hopper`, and with float64 within the bound; of small integers
they give float64's D.
"""

import re
from functools import cache

import numpy as np
import pytest
from compiled import expected, inputs_of, spec, steps_of
from planting import WRONG_NUMBERS, Fault, assert_found, exactly

import lowtide as lt
from lowtide import targets
from lowtide.compiler.ptxas import assemble
from lowtide.dialects.levels import Level
from lowtide.interpreter import Loaded, interpret

SM_90A = targets.get("sm_90a")
LEVELS = ("atoms", "epilogue", "nvvm", "llvm", "ptx")


def biased(acc, bias: lt.PerColumn, c: lt.Full):
    return lt.relu(acc + bias) + c


def half_sums(layout="tn", epilogue=None, **changes):
    return spec(layout, "f16", epilogue, acc="f16", **changes)


TWO = "roles = cooperative(2), k = 32, stages = 3, grid.tile = [128, 64]"
KERNELS = {
    "tma": (half_sums(), f"{TWO}, epilogue.path = tma", (200, 136, 104)),
    "smem": (half_sums("tt"), f"{TWO}, epilogue.path = smem", (140, 71, 104)),
    "direct": (half_sums("nn"), f"{TWO}, epilogue.path = direct", (140, 71, 104)),
    "an epilogue": (half_sums("nt", biased), TWO, (140, 71, 77)),
    "an epilogue, by TMA": (half_sums("tn", lambda acc: 0.5 * acc + 1), f"{TWO}, epilogue.path = tma", (140, 72, 104)),
    "compared": (half_sums("tn", lambda acc: lt.where(acc < 0.5, 0.25 * acc, acc)), TWO, (140, 72, 104)),
    "D of f32": (half_sums(d="f32"), f"{TWO}, epilogue.path = tma", (140, 72, 104)),
    "in turn": (half_sums("nt"), "roles = pingpong(2), k = 32, stages = 3, grid.tile = [64, 64]", (140, 136, 104)),
    "first rows": (
        half_sums(k=104),
        "roles = cooperative(1), k = 32, stages = 3, grid.tile = [128, 64], epilogue.start = first_rows",
        (140, 72, 104),
    ),
    "K divided": (half_sums("nn"), f"{TWO}, k_division = split(2)", (140, 72, 200)),
    "a batch": (half_sums(batch=2), TWO, (70, 72, 104)),
}


@cache
def compiled(name):
    problem, schedule, shape = KERNELS[name]
    return problem, lt.compile_gemm(problem, target="sm_90a", schedule=schedule), shape


@pytest.mark.parametrize("name", KERNELS)
def test_every_level_gives_the_same_d(name):
    problem, kernel, shape = compiled(name)
    batch = {} if problem.batch is None else {"batch": problem.batch}
    inputs = lt.random_inputs(problem, *shape, np.random.default_rng(len(name)), row_padding=8, **batch)
    found = {level: kernel.interpret(**inputs, level=level, sms=2, seed=5, domain="hopper") for level in LEVELS}
    outcome = lt.compare(problem, found["ptx"], *lt.reference_with_bound(problem, **inputs))
    assert outcome.ok, outcome.message
    for level in LEVELS:
        assert found[level].tobytes() == found["ptx"].tobytes(), level


def test_comparisons_stay_in_f32_so_that_ptxas_keeps_them_after_the_wait():
    problem, kernel, shape = compiled("compared")
    assert "setp.lt.f32" in kernel.ptx and "setp.lt.f16" not in kernel.ptx
    assert not assemble(kernel.ptx, SM_90A).warnings
    step = steps_of(problem, KERNELS["compared"][1], SM_90A, "keep-comparisons-wide")[-1]
    inputs = lt.random_inputs(problem, *shape, np.random.default_rng(0), row_padding=8)
    before, after = (interpret(text, inputs, sms=2, domain="hopper") for text in (step.before, step.after))
    assert "llvm.arithmetic.fence" in step.after and before.tobytes() == after.tobytes()


@pytest.mark.parametrize(
    ("layout", "rows", "columns"), [("tn", 128, 8), ("tt", 256, 256), ("nn", 256, 256), ("nt", 128, 16)]
)
def test_the_widest_and_the_narrowest_wgmma_give_the_same_d(layout, rows, columns):
    problem = half_sums(layout)
    steps = steps_of(problem, f"roles = cooperative(2), k = 32, stages = 2, grid.tile = [{rows}, {columns}]", SM_90A)
    levels = {step.level: step.after for step in steps}
    inputs = inputs_of(problem, rows + 4, columns + 14, 70)
    for level in (Level.ATOMS, Level.EPILOGUE, Level.NVVM):
        found = interpret(levels[level], inputs, sms=1, seed=2, domain="exact")
        assert np.array_equal(found, expected(problem, inputs)), level


def test_a_sum_is_rounded_once_per_instruction():
    """Beside 1, one 2⁻¹¹ is lost; sixteen of them, which one instruction adds, are not."""
    a = np.zeros((64, 32), np.float16)
    a[:, 0], a[:, 1], a[:, 16:] = 1, 2.0**-11, 2.0**-11
    kernel = lt.compile_gemm(half_sums(), target="sm_90a", schedule="roles = cooperative(1), k = 32")
    ones = np.ones((64, 32), np.float16)
    for level in LEVELS:
        found = kernel.interpret(a, ones, level=level, sms=1, domain="hopper")
        assert np.all(found == 1 + 2.0**-7), level


def test_ptx_has_the_instruction_and_ptxas_no_spills():
    """Also of the tile whose sums in f32 would not fit in registers."""
    problem = lt.GemmSpec(m=4096, n=4096, k=4096, a="f16", b="f16", d="f16", acc="f16")
    for schedule in (None, "grid.tile = [256, 256], roles = cooperative(2)"):
        kernel = lt.compile_gemm(problem, target="sm_90a", schedule=schedule)
        found = set(re.findall(r"wgmma\.mma_async\S*", kernel.ptx))
        assert found == {"wgmma.mma_async.sync.aligned.m64n256k16.f16.f16.f16"}
        assert assemble(kernel.ptx, SM_90A).spill_stores == 0


@pytest.mark.parametrize("level", ["atoms", "epilogue", "nvvm", "llvm"])
def test_compilation_goes_on_from_a_level_to_the_same_ptx(level):
    _, kernel, _ = compiled("tma")
    assert lt.compile_ir(kernel.levels[level], target="sm_90a").ptx == kernel.ptx


# Faults ---------------------------------------------------------------------------------------------------------------

SMALL = half_sums()
SCHEDULE = f"{TWO}, epilogue.path = direct"
INPUTS = inputs_of(SMALL, 140, 72, 104)
NOT_FENCED = r"\[ptx-wgmma-fence\]"
PASSED_ON = r"\[accumulator-in-flight\]"
FAULTS = [
    Fault("no fence", "nvvm", r"nvvm\.wgmma\.fence\.aligned", "", NOT_FENCED),
    Fault("no fence", "llvm", r"nvvm\.wgmma\.fence\.aligned", "", NOT_FENCED),
    Fault("no fence", "ptx", r"wgmma\.fence\.sync\.aligned;", "", NOT_FENCED),
    Fault("the last group not waited for", "nvvm", r"(ptx_wgmma_wait) 0", r"\1 1", PASSED_ON),
    Fault("the last group not waited for", "llvm", r"(wait_group\.sync\.aligned) 0", r"\1 1", PASSED_ON),
    Fault("the last group not waited for", "ptx", r"(wait_group\.sync\.aligned) 0", r"\1 1", "before a wait covers"),
    Fault(
        "read before the wait",
        "nvvm",
        r"(extractvalue )%\w+(?=.*!registers)",
        r"\1%READ",
        r"\[accumulator-pending\]",
    ),
    Fault("halves of a register swapped", "nvvm", r"(shuffle .*) \[0, 1, 2, 3\]", r"\1 [1, 0, 2, 3]", WRONG_NUMBERS),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.name}, {fault.level}")
def test_a_planted_fault_is_found(fault):
    kernel = lt.compile_gemm(SMALL, target="sm_90a", schedule=SCHEDULE)
    faulty = fault.plant(kernel.levels[fault.level])
    if "%READ" in faulty:  # what the wait was given
        faulty = faulty.replace("%READ", re.search(r"ptx_wgmma_wait 0, (%\S+)", faulty)[1])
    program = Loaded(kernel.levels["llvm"], faulty) if fault.level == "ptx" else faulty
    assert_found(fault, program, exactly(SMALL, INPUTS, sms=1))
