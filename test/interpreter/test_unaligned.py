"""Operands that lie anywhere: copies and stores as wide as the schedule says, in every layout and at every level."""

import numpy as np
import pytest
from compiled import spec
from planting import Fault

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import Loaded
from lowtide.passes.schedules.facts.alignment import alignments_in
from lowtide.verification.checking.interpretation import Placement, inputs_for, run

LEVELS = ("pipelined", "atoms", "epilogue", "nvvm")
MMA = "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 3"
FMA = "atom = fma.m1n1k1, grid.tile = [32, 32], k = 8, atoms = [8, 8, 1], stages = 2, ctas_per_sm = 1"
ROLES = "grid.tile = [64, 32], k = 32, roles = cooperative(1), stages = 2, epilogue.store = 2"
ALONE = "a.copy = realigned.16, b.copy = realigned.16, epilogue.store = 2"
KERNELS = {
    "tn": (spec("tn"), f"{MMA}, {ALONE}"),
    "tt": (spec("tt"), f"{MMA}, {ALONE}"),
    "nn": (spec("nn"), f"{MMA}, {ALONE}, epilogue.math = rows"),
    "nt": (spec("nt", d="f32"), f"{MMA}, a.copy = realigned.8, b.copy = realigned.4, epilogue.store = 4"),
    "roles": (spec("tt"), f"{ROLES}, a.copy = realigned.16, b.copy = staged.2"),
    "beside TMA": (spec("nn"), f"{ROLES}, a.copy = tma, b.copy = cp.async.4"),
    "by elements": (spec("tn"), f"{MMA}, a.copy = staged.2, b.copy = cp.async.4, epilogue.store = 2"),
    "f32": (spec("tn", dtype="f32"), f"{FMA}, a.copy = realigned.16, b.copy = realigned.8, epilogue.store = 4"),
}
SHAPES = ((39, 33, 71), (1, 5, 3))


@pytest.fixture(scope="module")
def kernels():
    targets = {name: "sm_90a" if "roles" in schedule else "sm_80" for name, (_, schedule) in KERNELS.items()}
    return {
        name: lt.compile_gemm(problem, target=targets[name], schedule=schedule)
        for name, (problem, schedule) in KERNELS.items()
    }


def outcome(module: Loaded, problem: lt.GemmSpec, shape: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """D and what it should be; bases and rows at no more than what the schedule asks for."""
    aligned = alignments_in(module.module)
    placement = Placement(padding=0, alignments=aligned)
    inputs = inputs_for(problem, shape, "exact", 1, placement)
    d = run(module, problem, inputs, placement, sms=2, seed=1, domain="exact")
    return d, lt.reference(problem, **inputs)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_level_gives_the_same_d(kernels, name, level):
    for shape in SHAPES if level == "nvvm" else SHAPES[:1]:
        np.testing.assert_array_equal(*outcome(Loaded(kernels[name].levels[level]), KERNELS[name][0], shape))


def test_ptx_gives_the_same_d(kernels):
    module = Loaded(kernels["tn"].levels["llvm"], kernels["tn"].ptx)
    np.testing.assert_array_equal(*outcome(module, KERNELS["tn"][0], (33, 9, 37)))


WARPS = ("sm_80", "b.copy = realigned.16, grid.tile = [32, 32], k = 64")
WARPGROUP = ("sm_90a", "b.copy = realigned.4, roles = cooperative(1), grid.tile = [64, 32], k = 64, stages = 2")


@pytest.mark.parametrize(("dtype", "target", "schedule"), [("u8", *WARPS), ("s8", *WARPS), ("s8", *WARPGROUP)])
def test_bytes_that_are_assembled_in_registers_are_read_as_bytes(dtype, target, schedule):
    """A run of elements that reaches past its row is assembled in 32-bit registers, and stored to shared memory. From
    there ldmatrix or wgmma reads it."""
    problem = spec(dtype=dtype, d="s32", acc="s32")
    kernel = lt.compile_gemm(problem, target=target, schedule=schedule)
    module = Loaded(kernel.levels["llvm"], kernel.ptx)
    assert "bfi.b32" in kernel.ptx
    for shape in ((33, 9, 71), (3, 5, 64)):
        np.testing.assert_array_equal(*outcome(module, problem, shape))


def test_runs_are_loaded_by_vectors_and_by_elements_where_these_reach_past_a_row(kernels):
    ptx = kernels["tn"].ptx
    assert "ld.global.v4.b32" in ptx and "ld.global.b16" in ptx and "cp.async" not in ptx
    assert "st.global.b16" in ptx and "st.global.v" not in ptx


FAULTS = (
    Fault(
        "a load that takes its vectors for aligned",
        "atoms",
        r'(16" )realigned',
        r"\1aligned",
        "misaligned for loads of 16",
    ),
    Fault("a shift by one element less", "nvvm", r"(arith\.andi %\w+, )%c1_i32", r"\1%c2_i32", "wrong"),
    Fault("vectors that reach past a row", "nvvm", r"arith\.cmpi ule", "arith.cmpi uge", "bounds|wrong", at=1),
)


OF_COPIERS = (
    Fault("no fence before wgmma reads", "atoms", r"^\s*sm\.fence_proxy_async\n", "", "not visible to the async proxy"),
    Fault("no arrival of the copies", "atoms", r"^\s*sm\.cp_async_arrive .*\n", "", "deadlock"),
    Fault(
        "arrivals before the copies have landed",
        "nvvm",
        r"nvvm\.cp\.async\.mbarrier\.arrive (%\w+) \{noinc = true\} : !llvm\.ptr<3>",
        r"nvvm.mbarrier.arrive \1 : !llvm.ptr<3> -> i64",
        "in flight",
    ),
)


@pytest.mark.parametrize(
    ("kernel", "fault"),
    [("tn", fault) for fault in FAULTS] + [("beside TMA", fault) for fault in OF_COPIERS],
    ids=lambda each: getattr(each, "name", each),
)
def test_a_planted_fault_is_found(kernels, kernel, fault):
    text = fault.plant(kernels[kernel].levels[fault.level])
    try:
        d, expected = outcome(Loaded(text), KERNELS[kernel][0], SHAPES[0])
    except InterpreterError as error:
        assert any(word in str(error) for word in fault.found.split("|"))
    else:
        assert "wrong" in fault.found and not np.array_equal(d, expected)


@pytest.mark.parametrize(
    ("problem", "target", "fields", "message"),
    [
        (spec(), "sm_80", "epilogue.store = 3", r"a thread stores 16, 8, 4, 2 of D; nearest is 2.*\[store-bytes\]"),
        (spec(d="f32"), "sm_80", "epilogue.store = 2", r"a thread stores 16, 8, 4 of D; nearest is 4.*\[store-bytes\]"),
        (
            spec(),
            "sm_90a",
            "epilogue.store = 2, epilogue.path = tma",
            r"epilogue.store = 2 is of stores by threads.*\[store-path\]",
        ),
        (spec(), "sm_80", "a.copy = realigned.2", "a.copy = realigned.2 is not one of .*realigned.4"),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_way_out(problem, target, fields, message):
    with pytest.raises(lt.ScheduleError, match=message):
        lt.compile_gemm(problem, target=target, schedule=fields)


def test_a_dump_whose_stores_are_wider_than_its_schedule_says_is_refused(kernels):
    text = kernels["tn"].levels["epilogue"].replace("st.global.2", "st.global.16")
    with pytest.raises(lt.IRError, match=r"stores 16 bytes at once, but.*epilogue.store = 2.*\[not-as-scheduled\]"):
        lt.compile_ir(text)
