"""Faults planted in a kernel that loads only the rows of last tiles that exist, and broken rules of its ops."""

import pytest
from compiled import inputs_of, levels_of, spec
from planting import IN_FLIGHT, RACE, Fault, assert_found, exactly

SPEC = spec()
SCHEDULE = (
    "grid.tile = [64, 32], k = 64, stages = 3, order = row, roles = cooperative(1), epilogue.path = direct, pack = none"
)
# One CTA. Four work tiles, the last of them with 6 rows of A and 5 of B; or one work tile, which is the last. Five K
# steps, so slots are filled again.
TILES = inputs_of(SPEC, 70, 37, 264)
ONE_TILE = inputs_of(SPEC, 6, 5, 264)

# Warps load fragments of the ring by ldmatrix, so its other rows are zeros. wgmma may read any number there.
OF_WARPS = (
    "grid.tile = [64, 32], k = 64, stages = 3, order = row, roles = cooperative(1), atom = mma.m16n8k16, "
    "atoms = [2, 2, 1], epilogue.path = direct, pack = none"
)

UNWRITTEN = r"uninitialised"
TOO_FEW = rf"(?s)\[load-bytes\]|bytes land on|has all its arrivals|{IN_FLIGHT}|{RACE}|deadlock"

ZEROS = [
    Fault("no zeros", "atoms", r"^ *sm\.zero_rows .*\n", "", rf"sm\.ldmatrix .*{UNWRITTEN}"),
    Fault("no zeros in A", "atoms", r"from\(%\w+, ", "from(%c64, ", rf"sm\.ldmatrix .*{UNWRITTEN}"),
    Fault("no zeros in B", "atoms", r"(from\(%\w+, )%\w+", r"\1%c32", rf"sm\.ldmatrix .*{UNWRITTEN}"),
    Fault(
        "zeros from a row too late",
        "atoms",
        r"^( *)(sm\.zero_rows %ring from\()(%\w+)",
        r"\1%late = arith.addi \3, %c1 : index\n\1\2%late",
        UNWRITTEN,
    ),
    Fault("no zeros, nvvm", "nvvm", r"^ *llvm\.store %cst\w*, .* vector<4xi32>, .*\n", "", UNWRITTEN),
    Fault(
        "no zeros in the last slot",
        "nvvm",
        r"(%\w+ = llvm\.getelementptr %\w+\[16384\] .*\n) *llvm\.store %cst\w*, .*\n",
        r"\1",
        UNWRITTEN,
    ),
    Fault("zeros by half of the threads", "nvvm", r"(%c8192_i32 step )%c4096_i32", r"\1%c8192_i32", UNWRITTEN),
    Fault("no barrier", "atoms", r"^ *sm\.barrier\n", "", RACE),
    Fault(
        "zeros in a role",
        "atoms",
        r"(^ *sm\.zero_rows .*\n)((?:.*\n)*?)(^ *consumer warps\(4\) \{\n)",
        r"\2\3\1",
        r"sm\.zero_rows .*\[zero-rows-place\]",
    ),
]

ROWS = [
    Fault("rows of a full box", "atoms", r"(sm\.tma_load .* rows\()%\w+", r"\1%c64", r"\[load-rows\]"),
    Fault(
        "the map of the other boxes", "atoms", r"select (%\w+), (%\w+), (%\w+)", r"select \1, \3, \2", r"\[load-rows\]"
    ),
    Fault("the map of full boxes", "atoms", r"select (%\w+), %\w+, (%\w+)", r"select \1, \2, \2", r"\[load-rows\]", 1),
    Fault("the map of last boxes", "atoms", r"select (%\w+), (%\w+), %\w+", r"select \1, \2, \2", r"\[load-rows\]"),
    Fault("a last box of a row more", "atoms", r"(arith\.addi %\w+, )%c63", r"\1%c64", r"\[load-rows\]"),
    Fault(
        "the map of the other boxes, nvvm", "nvvm", r"select (%\w+), (%arg5), (%arg6)", r"select \1, \3, \2", TOO_FEW
    ),
    Fault("the map of full boxes, nvvm", "nvvm", r"select (%\w+), %arg5, (%arg6)", r"select \1, \2, \2", TOO_FEW),
    Fault("no load of A", "atoms", r"^ *sm\.tma_load .*\n", "", r"(?s)deadlock.*lacks 8192 bytes"),
]

BYTES = [
    Fault("no bytes of loads with rows", "atoms", r" plus %\w+", "", TOO_FEW),
    Fault("as many bytes as rows of A", "atoms", r"(plus )%\w+", r"\1%13", TOO_FEW),
    Fault("bytes of full boxes", "atoms", r"expects 0 plus %\w+", "expects 12288", r"(?s)deadlock.*lacks \d+ bytes"),
    Fault("bytes too many", "epilogue", "expects 0 plus", "expects 16 plus", r"(?s)deadlock.*lacks 16 bytes"),
    Fault(
        "bytes of one operand alone",
        "nvvm",
        r"(%\w+ = arith\.addi %\w+, )%\w+( : i32\n.*\n *nvvm\.mbarrier\.arrive\.expect_tx)",
        r"\1%c0_i32\2",
        TOO_FEW,
    ),
]

RULES = [
    Fault("no rows in a box", "atoms", r"(tensor_map %arg0 rows\()%\w+", r"\1%c0", r"sm\.tensor_map .*\[map-rows\]"),
    Fault("too many rows in a box", "atoms", r"(tensor_map %arg1 rows\()%\w+", r"\1%c64", r"\[map-rows\]"),
]

FAULTS = [*ROWS, *BYTES, *RULES]


@pytest.fixture(scope="module")
def levels() -> dict[str, str]:
    return levels_of(SPEC, SCHEDULE, "sm_90a")


@pytest.fixture(scope="module")
def levels_of_warps() -> dict[str, str]:
    return levels_of(SPEC, OF_WARPS, "sm_90a")


@pytest.mark.parametrize("level", sorted({fault.level for fault in FAULTS}))
def test_the_kernel_without_a_fault_is_right(levels: dict[str, str], level: str) -> None:
    for given in (TILES, ONE_TILE):
        for seed in (0, 1):
            assert exactly(SPEC, given, sms=1)(levels[level], seed)


@pytest.mark.parametrize("level", sorted({fault.level for fault in ZEROS}))
def test_the_kernel_with_zeros_is_right_without_a_fault(levels_of_warps: dict[str, str], level: str) -> None:
    assert exactly(SPEC, ONE_TILE, sms=1)(levels_of_warps[level], 0)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(levels: dict[str, str], fault: Fault) -> None:
    assert_found(fault, fault.plant(levels[fault.level]), exactly(SPEC, TILES, sms=1), (0, 1))


@pytest.mark.parametrize("fault", ZEROS, ids=lambda fault: fault.name)
def test_a_fault_of_the_zeros_is_found(levels_of_warps: dict[str, str], fault: Fault) -> None:
    assert_found(fault, fault.plant(levels_of_warps[fault.level]), exactly(SPEC, ONE_TILE, sms=1), (0, 1))
