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

UNWRITTEN = r"uninitialised"
TOO_FEW = rf"(?s)\[load-bytes\]|bytes land on|has all its arrivals|{IN_FLIGHT}|{RACE}|deadlock"

ZEROS = [
    Fault("no zeros", "atoms", r"^ *sm\.zero_rows .*\n", "", rf"sm\.wgmma .*{UNWRITTEN}"),
    Fault("no zeros in A", "atoms", r"from\(%\w+, ", "from(%c64, ", rf"sm\.wgmma .*{UNWRITTEN}"),
    Fault("no zeros in B", "atoms", r"(from\(%\w+, )%\w+", r"\1%c32", rf"sm\.wgmma .*{UNWRITTEN}"),
    Fault(
        "zeros from a row too late",
        "atoms",
        r"^( *)(sm\.zero_rows %ring from\()(%\w+)",
        r"\1%late = arith.addi \3, %c1 : index\n\1\2%late",
        UNWRITTEN,
    ),
    Fault("no zeros, nvvm", "nvvm", r"^ *llvm\.store %cst, .* vector<4xi32>, .*\n", "", UNWRITTEN),
    Fault(
        "no zeros in the last slot",
        "nvvm",
        r"(%\w+ = llvm\.getelementptr %\w+\[16384\] .*\n) *llvm\.store %cst, .*\n",
        r"\1",
        UNWRITTEN,
    ),
    Fault("zeros by half of the threads", "nvvm", r"(%c8192_i32 step )%c4096_i32", r"\1%c8192_i32", UNWRITTEN),
    Fault("no proxy fence", "nvvm", r"^ *nvvm\.fence\.proxy .*\n", "", "not visible to the async proxy"),
    Fault("no barrier", "atoms", r"^ *sm\.barrier\n", "", RACE),
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
    Fault(
        "zeros in a role",
        "atoms",
        r"(^ *sm\.zero_rows .*\n)((?:.*\n)*?)(^ *consumer warps\(4\) \{\n)",
        r"\2\3\1",
        r"sm\.zero_rows .*\[zero-rows-place\]",
    ),
    Fault("no rows in a box", "atoms", r"(tensor_map %arg0 rows\()%\w+", r"\1%c0", r"sm\.tensor_map .*\[map-rows\]"),
    Fault("too many rows in a box", "atoms", r"(tensor_map %arg1 rows\()%\w+", r"\1%c64", r"\[map-rows\]"),
]

OF_ONE_TILE = {fault.name for fault in ZEROS}
FAULTS = [*ZEROS, *ROWS, *BYTES, *RULES]


@pytest.fixture(scope="module")
def levels() -> dict[str, str]:
    return levels_of(SPEC, SCHEDULE, "sm_90a")


@pytest.mark.parametrize("level", sorted({fault.level for fault in FAULTS}))
def test_the_kernel_without_a_fault_is_right(levels: dict[str, str], level: str) -> None:
    for given in (TILES, ONE_TILE):
        for seed in (0, 1):
            assert exactly(SPEC, given, sms=1)(levels[level], seed)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(levels: dict[str, str], fault: Fault) -> None:
    given = ONE_TILE if fault.name in OF_ONE_TILE else TILES
    assert_found(fault, fault.plant(levels[fault.level]), exactly(SPEC, given, sms=1), (0, 1))
