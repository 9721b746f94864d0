"""Faults planted in a compiled kernel with roles, each by one edit of a level's text, are found and named.

`test_hopper.py` and `test_hopper_nvvm.py` do the like with programs written by hand, `test_tma_stores.py` with the
epilogue that stores by TMA. Here the text is the compiler's own: two consumer warpgroups that share a tile, four work
tiles, a ring of three stages that is gone round several times, the epilogue through shared memory.
"""

import numpy as np
import pytest
from compiled import expected, inputs_of, levels_of, spec
from planting import IN_FLIGHT, RACE, WRONG_NUMBERS, Fault, assert_found, exactly

from lowtide.interpreter import interpret

SPEC = spec()
SCHEDULE = "grid.tile = [128, 64], order = row, k = 64, stages = 3, roles = cooperative(2), epilogue.path = smem"
INPUTS = inputs_of(SPEC, 140, 72, 64 * 4 + 3)  # 2 × 2 work tiles, ragged in every direction; five K steps
SEEDS = (0, 1)

NOT_THERE_YET = rf"sm\.(wgmma|tma_load) .*(consumer warpgroup \d|producer): ({IN_FLIGHT}|race)"
OVERTAKEN = rf"sm\.tma_load .*producer: ({RACE}|{IN_FLIGHT})"

# Waits stand in this order: the producer's for an empty slot, the consumers' for a full one, before and in the loop.
MISSING_WAITS = [
    Fault("wait for an empty slot left out", "atoms", r"^ *sm\.mbarrier_wait .*\n", "", f"{OVERTAKEN}|once more", 0),
    Fault("wait for the first full slot left out", "atoms", r"^ *sm\.mbarrier_wait .*\n", "", NOT_THERE_YET, 1),
    Fault("wait for a full slot left out", "atoms", r"^ *sm\.mbarrier_wait .*\n", "", NOT_THERE_YET, 2),
    Fault(
        "wait for a full slot left out, nvvm",
        "nvvm",
        r"^ *nvvm\.mbarrier\.try_wait\.parity .*\n",
        "",
        rf"nvvm\.wgmma\.mma_async .*({IN_FLIGHT}|race|uninitialised)",
        2,
    ),
]

# The producer asks for the parity before its own, the consumers for their own.
WRONG_PARITIES = [
    Fault(
        "wrong parity of an empty slot",
        "atoms",
        r"(%\d+ = arith\.xori (%arg\d+), %c1 : index\n *sm\.mbarrier_wait %\w+\[%arg\d+, )%\d+",
        r"\1\2",
        r"(?s)deadlock.*producer waits at `sm\.mbarrier_wait.*for phase parity 0: phase 0 \(parity 0\) of %\w+\[0\] "
        r"lacks 2 of 2 arrivals.*consumer warpgroup 0 waits",
    ),
    Fault(
        "wrong parity of a full slot",
        "atoms",
        r"^( *)(sm\.mbarrier_wait %\w+\[%arg\d+, )(%arg\d+)",
        r"\1%flipped = arith.xori \3, %c1 : index\n\1\2%flipped",
        f"{NOT_THERE_YET}|deadlock",
        1,
    ),
]

WRONG_COUNTS = [
    Fault(
        "too few bytes expected",
        "epilogue",
        r"(%\S+ = arith\.addi (%\S+), %\S+ : index\n *sm\.mbarrier_arrive .* plus )%\S+",
        r"\1\2",
        r"sm\.tma_load .*producer: .*bytes|in flight",
    ),
    Fault(
        "too many bytes expected",
        "epilogue",
        "expects 0 plus",
        "expects 16 plus",
        r"(?s)deadlock, level epilogue.*CTA 0 consumer warpgroup 0 waits at `sm\.mbarrier_wait.*: for phase parity 0: "
        r"phase 0 \(parity 0\) of %\w+\[0\] lacks 16 bytes.*CTA 0 consumer warpgroup 1 waits",
    ),
    Fault(
        "an arrival too many counted",
        "epilogue",
        r"arrivals\(2\)",
        "arrivals(3)",
        r"(?s)deadlock.*producer waits at `sm\.mbarrier_wait.*phase 0 \(parity 0\) of %\w+\[0\] lacks 1 of 3 arrivals",
    ),
    Fault("an arrival too few counted", "epilogue", r"arrivals\(2\)", "arrivals(1)", f"{OVERTAKEN}|once more|deadlock"),
    Fault(
        "the producer's arrivals counted twice",
        "epilogue",
        r"arrivals\(1\)",
        "arrivals(2)",
        r"(?s)deadlock.*consumer warpgroup 0 waits .*lacks 1 of 2 arrivals",
    ),
]

RELEASES = [
    Fault(
        "release before the products are retired",
        "atoms",
        r"^( *%\S+, %\S+ = sm\.mma_wait 1, .*\n)( *sm\.mbarrier_arrive \S+) after %\S+( .*\n)",
        r"\2\3\1",
        r"sm\.tma_load .*race \(write after read\): writes what consumer warpgroup \d (read|may still read by `)",
    ),
    Fault(
        "release of the slot that is being read",
        "atoms",
        r"(sm\.mbarrier_wait %\w+\[(%arg\d+), %arg\d+\].*\n(?:.*\n){3} *sm\.mbarrier_arrive %\w+\[)%arg\d+",
        r"\1\2",
        f"{OVERTAKEN}|deadlock|may still read",
    ),
    Fault(
        "release left out",
        "atoms",
        r"^ *sm\.mbarrier_arrive %\w+\[%arg\d+\] after .*\n",
        "",
        r"(?s)deadlock.*producer waits .*lacks 2 of 2 arrivals",
    ),
]

# A register that a wgmma may still write is copied for the second of two users; its numbers are right on SSA values.
TWO_USERS = r"accumulators that `%.*(wgmma\.mma_async|mma_wait 0|ptx_wgmma_wait 0).*\[accumulator-copied\]"

PRODUCTS = [
    Fault(
        "a group left in flight where accumulators are read",
        "nvvm",
        r"sm\.ptx_wgmma_wait 0",
        "sm.ptx_wgmma_wait 1",
        IN_FLIGHT,
    ),
    Fault(
        "two groups left in flight where a slot is released",
        "nvvm",
        r"nvvm\.wgmma\.wait\.group\.sync\.aligned 1",
        "nvvm.wgmma.wait.group.sync.aligned 2",
        r"cp\.async\.bulk\.tensor.*race \(write after read\): writes what .*(of warpgroup \d read|may still read)",
    ),
    Fault("no wgmma fence", "nvvm", r"^ *nvvm\.wgmma\.fence\.aligned\n", "", r"nvvm\.wgmma\.mma_async .*fence"),
    Fault(
        "no commit of the last group",
        "nvvm",
        r"^ *nvvm\.wgmma\.commit\.group\.sync\.aligned\n",
        "",
        rf"{IN_FLIGHT}|race|commit",
        1,
    ),
    Fault(
        "accumulators handed to a second wgmma",
        "nvvm",
        r"^( *)%\d+( = nvvm\.wgmma\.mma_async %\d+, %\d+, %\d+, .*\n)",
        r"\1%spare\2\g<0>",
        TWO_USERS,
        1,
    ),
    Fault(
        "accumulators handed to a second wait, nvvm",
        "nvvm",
        r"^( *)%\d+( = sm\.ptx_wgmma_wait 0, .*\n)",
        r"\1%spare\2\g<0>",
        TWO_USERS,
    ),
    Fault(
        "always the first slot",
        "atoms",
        r"(sm\.ring_slot %ring\[)%arg\d+(\] : !ring\n *%\d+ = sm\.wgmma tn .*, )(%arg\d+)( by)",
        r"\1%c0\2\3\4",
        rf"{NOT_THERE_YET}|{OVERTAKEN}|{RACE}",
    ),
]

# Descriptors (PTX ISA, "Matrix descriptor format"): bits 62 and 63 say the swizzle, bits 32 to 45 the stride between
# groups of eight rows, in units of 16 bytes: 64 of them. Maps of A and B say the swizzle on their side.
_DESCRIPTOR = 1 << 62 | 64 << 32 | 1 << 16
_OTHER_SWIZZLE = 2 << 62 | 64 << 32 | 1 << 16
LAYOUTS = [
    Fault(
        "another swizzle in the descriptors",
        "nvvm",
        rf"(arith\.constant ){_DESCRIPTOR}\b",
        rf"\g<1>{_OTHER_SWIZZLE - (1 << 64)}",
        r"nvvm\.wgmma\.mma_async.*inside a swizzle's pattern, with base offset 0",
    ),
    Fault(
        "another stride in the descriptors",
        "nvvm",
        rf"(arith\.constant ){_DESCRIPTOR}\b",
        rf"\g<1>{_DESCRIPTOR - (32 << 32)}",
        WRONG_NUMBERS,
    ),
    Fault(
        "no swizzle in the map of A",
        "nvvm",
        r"!sm\.tensor_map<128x64xbf16, swizzle<3,3,3>>",
        "!sm.tensor_map<128x64xbf16>",
        WRONG_NUMBERS,
        None,
    ),
    Fault("coordinates of a box swapped", "nvvm", r"box\[(%\d+), ?(%\d+)\]", r"box[\2, \1]", WRONG_NUMBERS),
    Fault("a box of B from the tile before", "atoms", r"(sm\.tma_load %\d+\[)%n", r"\1%c0", WRONG_NUMBERS),
]

# Loops over K steps stand in the order of the roles; the consumers' first step stands before theirs.
TRIPS = [
    Fault(
        "a K step too few of the producer",
        "epilogue",
        r"(scf\.for %arg\d+ = )%c0( to %\d+ step)",
        r"\1%c1\2",
        r"(?s)deadlock.*consumer warpgroup \d waits .*lacks 1 of 1 arrivals",
    ),
    Fault(
        "a K step too many of the consumers",
        "epilogue",
        r"(scf\.for %arg\d+ = )%c1( to %\d+ step)",
        r"\1%c0\2",
        r"(?s)deadlock.*consumer warpgroup \d waits .*lacks 1 of 1 arrivals|never|in flight",
    ),
    Fault("another order of the consumers' tiles", "epilogue", r"order\(<row>\)", "order(<column>)", WRONG_NUMBERS, 1),
    Fault(
        "one work tile of the producer",
        "epilogue",
        r"\) persistent iter_args",
        ") one_shot iter_args",
        r"(?s)deadlock.*consumer warpgroup \d waits .*lacks 1 of 1 arrivals",
    ),
]

# The first stands between stores to the scratch and its rows, the second before the next tile's stores.
BARRIERS = [
    Fault("no barrier between stores to the scratch and its rows", "epilogue", r"^ *sm\.barrier\n", "", RACE),
    Fault(
        "no barrier between stores to the scratch and its rows, nvvm",
        "nvvm",
        r"^ *nvvm\.barrier id = .*\n",
        "",
        f"{RACE}|uninitialised",
    ),
    Fault(
        "named barriers of half of the threads",
        "nvvm",
        r"(nvvm\.barrier id = %c\d+_i32 number_of_threads = )%c256_i32",
        r"\g<1>%c128_i32",
        f"{RACE}|uninitialised",
        None,
    ),
    Fault("a barrier of the whole CTA in one role", "nvvm", r"nvvm\.barrier id = .*", "nvvm.barrier0", "deadlock"),
]

START = [
    Fault(
        "mbarriers not shown to the TMA unit",
        "nvvm",
        r"^ *nvvm\.fence\.mbarrier\.init\n",
        "",
        r"the TMA unit may not see the mbarrier at 0x[0-9a-f]+ initialised; put nvvm\.fence\.mbarrier\.init",
        None,
    ),
    Fault(
        "no barrier after mbarriers are initialised",
        "nvvm",
        r"^ *nvvm\.barrier0\n",
        "",
        r"race: uses the mbarrier at 0x[0-9a-f]+, which warp 0 initialised|no mbarrier has been initialised at",
        None,
    ),
    Fault(
        "more registers asked for than the CTA has",
        "nvvm",
        r"setmaxregister( +)increase 232",
        r"setmaxregister\1increase 240",
        r"(?s)deadlock.*waits at `nvvm\.setmaxregister.*for \d+ registers of the CTA, which has \d+ free",
    ),
    Fault("mbarriers over the end of the ring", "epilogue", r"at 90112", "at 73720", r"overlap"),
    Fault(
        "fewer registers at entry than roles ask for",
        "nvvm",
        r"nvvm\.maxnreg = 168",
        "nvvm.maxnreg = 160",
        r"(?s)deadlock.*waits at `nvvm\.setmaxregister.*for \d+ registers of the CTA, which has \d+ free",
    ),
    Fault(
        "more registers at entry than an SM has",
        "nvvm",
        r"nvvm\.maxnreg = 168",
        "nvvm.maxnreg = 176",
        r"tile\.launch.*enters with 176 registers per thread .*384 threads can have 168 each",
    ),
    Fault(
        "another number of threads than the launch has",
        "nvvm",
        r"known_block_size = array<i32: 384",
        "known_block_size = array<i32: 256",
        r"tile\.launch.*384 threads per CTA, known_block_size of @gemm_kernel has 256",
    ),
    Fault(
        "a tensor map that is not passed by value",
        "nvvm",
        r"(tensor_maps = array<i64: \d+, \d+, \d+), \d+>",
        r"\1>",
        r"tile\.launch.*tensor maps as the arguments \[5, 6, 7, 8\], @gemm_kernel has tensor_maps = \[5, 6, 7\]",
    ),
    Fault(
        "shared memory at less than the swizzle's period",
        "nvvm",
        "alignment = 1024",
        "alignment = 512",
        r"nvvm\.wgmma\.mma_async.*inside a swizzle's pattern, with base offset 0; .* a multiple of 1024",
    ),
    Fault(
        "shared memory at less than TMA's alignment",
        "nvvm",
        "alignment = 1024",
        "alignment = 64",
        r"cp\.async\.bulk\.tensor.*TMA needs a multiple of 128",
    ),
]

FAULTS = [
    *MISSING_WAITS,
    *WRONG_PARITIES,
    *WRONG_COUNTS,
    *RELEASES,
    *PRODUCTS,
    *LAYOUTS,
    *TRIPS,
    *BARRIERS,
    *START,
]


@pytest.fixture(scope="module")
def levels() -> dict[str, str]:
    return levels_of(SPEC, SCHEDULE, "sm_90a")


@pytest.mark.parametrize("level", sorted({fault.level for fault in FAULTS}))
def test_the_kernel_without_a_fault_is_right(levels: dict[str, str], level: str) -> None:
    for seed in SEEDS:
        d = interpret(levels[level], INPUTS, sms=1, seed=seed, domain="exact")
        np.testing.assert_array_equal(d, expected(SPEC, INPUTS))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(levels: dict[str, str], fault: Fault) -> None:
    assert_found(fault, fault.plant(levels[fault.level]), exactly(SPEC, INPUTS, sms=1), SEEDS)


def test_no_barrier_before_the_next_tile_fills_the_scratch(levels: dict[str, str]) -> None:
    """With one K step a tile. With more than the ring has stages, a slot's release by one warpgroup and its next fill
    order what the other does after it: the barrier could not be missed."""
    fault = Fault("", "epilogue", r"^ *sm\.barrier\n", "", RACE, 1)
    inputs = inputs_of(SPEC, 140, 72, 40)
    d = interpret(levels["epilogue"], inputs, sms=1, domain="exact")
    np.testing.assert_array_equal(d, expected(SPEC, inputs))
    assert_found(fault, fault.plant(levels["epilogue"]), exactly(SPEC, inputs, sms=1), SEEDS)
