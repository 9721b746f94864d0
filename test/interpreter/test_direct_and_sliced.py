"""Kernels without shared memory, and warps along K: every level, and faults that must show."""

import numpy as np
import pytest
from compiled import inputs_of, spec
from planting import OUT_OF_BOUNDS, RACE, WRONG_NUMBERS, Fault, assert_found

import lowtide as lt
from lowtide.interpreter import interpret

LEVELS = ("problem", "pipelined", "atoms", "epilogue", "nvvm")
SCHEDULES = {
    "direct": "grid.tile = [32, 32], k = 64, atoms = [2, 1, 1], a.copy = ld.global.16, b.copy = ld.global.16",
    "sliced": "grid.tile = [32, 32], k = 64, atoms = [1, 1, 2], stages = 2",
}
SPEC = spec()


@pytest.fixture(scope="module")
def kernels():
    return {name: lt.compile_gemm(SPEC, "sm_80", schedule=schedule) for name, schedule in SCHEDULES.items()}


def run(text: str) -> tuple[np.ndarray, np.ndarray]:
    """D, and what it should be, of one ragged problem in the domain of exact integers."""
    inputs = inputs_of(SPEC, 45, 37, 100)
    del inputs["d"]
    return interpret(text, inputs, domain="exact"), lt.reference(SPEC, **inputs)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_level_gives_the_same_d(kernels, name, level):
    np.testing.assert_array_equal(*run(kernels[name].levels[level]))


@pytest.mark.parametrize("level", ["smem", "pipelined"])
def test_without_shared_memory_two_levels_change_nothing(kernels, level):
    levels = kernels["direct"].levels
    assert levels[level].replace(f'"{level}"', '"cta"') == levels["cta"]
    assert "workgroup" not in levels["atoms"] and "bar.sync" not in kernels["direct"].ptx.split("mma.sync")[0]


FAULTS = {
    "direct": (
        Fault(
            "the second k-slice read where the first is", "atoms", r"(arith\.addi %\w+, )%c32", r"\1%c0", WRONG_NUMBERS
        ),
        Fault("an element past the edge that is loaded", "nvvm", r"arith\.cmpi ult", "arith.cmpi uge", OUT_OF_BOUNDS),
    ),
    "sliced": (
        Fault(
            "no barrier before the sums are read",
            "epilogue",
            r"(sm\.store_shared .*\n)\s*sm\.barrier\n(\s*%\w+ = sm\.load_shared)",
            r"\1\2",
            RACE,
        ),
        Fault(
            "one warp's sums added twice",
            "epilogue",
            r"(sm\.load_shared %\w+ at \[)32(, 0\])",
            r"\g<1>0\2",
            WRONG_NUMBERS,
        ),
        Fault(
            "a slice of K that both warps multiply",
            "atoms",
            r"(sm\.ldmatrix %\w+\[0, )32(\])",
            r"\g<1>0\2",
            WRONG_NUMBERS,
        ),
        Fault(
            "sums that are stored without being added",
            "epilogue",
            r"arith\.addf (%\w+), (%\w+) : f32",
            r"arith.addf \1, \1 : f32",
            WRONG_NUMBERS,
        ),
    ),
}


@pytest.mark.parametrize(
    ("name", "fault"), [pytest.param(name, fault, id=fault.name) for name in FAULTS for fault in FAULTS[name]]
)
def test_a_planted_fault_is_found(kernels, name, fault):
    faulty = fault.plant(kernels[name].levels[fault.level])
    assert_found(fault, faulty, lambda text, seed: np.array_equal(*run(text)))


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (
            "a.copy = ld.global.16, b.copy = cp.async.16",
            r"take b.copy = ld.global.16, or a.copy = cp.async.16.*\[direct-both\]",
        ),
        (
            "a.copy = ld.global.16, b.copy = ld.global.16, stages = 3",
            r"mainloop.stages .* has none; leave it out.*\[direct-ring\]",
        ),
        (
            "a.copy = ld.global.2, b.copy = ld.global.2, fragment_buffers = 2",
            r"fragment_buffers = 2 .*; take 1.*\[direct-buffers\]",
        ),
        (
            "a.copy = ld.global.16, b.copy = ld.global.16, permutation = [32, 32, 16], atoms = [2, 2, 1]",
            r"holds 4 bytes of it side by side in memory; take ld.global.4.*\[global-load-run\]",
        ),
        ("atoms = [2, 2, 2], epilogue.path = direct", r"\[warps-along-k\]"),
        ("atoms = [2, 2, 2], k = 16", r"k = 16.*of 32.*\[tile-steps\]"),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_way_out(schedule, message):
    with pytest.raises(lt.ScheduleError, match=message):
        lt.compile_gemm(SPEC, "sm_80", schedule=schedule)


def test_roles_take_no_warps_along_k():
    with pytest.raises(lt.ScheduleError, match=r"count the consumer warpgroups that share a tile; take \[2, 1, 1\]"):
        lt.compile_gemm(SPEC, target="sm_90a", schedule="roles = cooperative(2), atoms = [2, 1, 2]")
