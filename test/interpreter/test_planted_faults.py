"""Faults planted in a compiled kernel, each by one edit of a level's text, are found by the interpreter and named.

`test_violations.py` does the like with a kernel written by hand. Here the text is the compiler's own, and the faults
are those that a wrong pass would make. What breaks no rule of the hardware must show as wrong numbers.
"""

import numpy as np
import pytest
from compiled import expected, inputs_of, levels_of, spec
from planting import IN_FLIGHT, OUT_OF_BOUNDS, RACE, WRONG_NUMBERS, Fault, assert_found, exactly
from support import assert_same

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret


def add_bias_then_relu(acc, bias: lt.PerColumn):
    return lt.relu(acc + bias)


SPEC = spec(epilogue=add_bias_then_relu)
SCHEDULE = "grid.tile = [32, 32], k = 32, stages = 3, atoms = [2, 1, 1]"
INPUTS = inputs_of(SPEC, 40, 45, 133)  # ragged in every direction; five K steps
SEEDS = (0, 1)

# Waits and barriers stand, in this order: before the loop, in it, after it (where the ring is drained), and between
# the epilogue's stores to shared memory and its loads.
PLACES = ("before the loop", "in the loop", "at the drain", "in the epilogue")

DROPPED_WAITS = [
    Fault(f"dropped wait {PLACES[at]}, {level}", level, rf"^ *{op} \d+\n", "", IN_FLIGHT, at)
    for level, op in (("epilogue", r"sm\.cp_async_wait"), ("nvvm", r"nvvm\.cp\.async\.wait\.group"))
    for at in range(3)
]

EARLY_WAITS = [
    Fault(f"early group wait {PLACES[at]}, {level}", level, rf"{op} 1$", rf"{new} 2", IN_FLIGHT, at)
    for level, op, new in (
        ("atoms", r"sm\.cp_async_wait", "sm.cp_async_wait"),
        ("nvvm", r"nvvm\.cp\.async\.wait\.group", "nvvm.cp.async.wait.group"),
    )
    for at in range(2)
]

DROPPED_BARRIERS = [
    Fault(f"dropped barrier {PLACES[at]}, {level}", level, rf"^ *{op}\n", "", rf"{RACE}|{IN_FLIGHT}", at)
    for level, op in (("epilogue", r"sm\.barrier"), ("nvvm", r"nvvm\.barrier0"))
    for at in range(4)
]
DROPPED_BARRIERS.append(
    Fault("dropped barrier after the copies, smem", "smem", r"^ *sm\.barrier\n", "", r"race \(read after write\)")
)
DROPPED_BARRIERS.append(
    Fault("dropped barrier after the mma, smem", "smem", r"^ *sm\.barrier\n", "", r"race \(write after read\)", 1)
)

WRONG_STAGES = [
    # The cursors of the main loop: %index and %phase of the slot to read, then of the slot to fill.
    Fault(
        "wrong stage index of a wait, pipelined",
        "pipelined",
        r"(sm\.consumer_wait %ring\[)%arg\d+",
        r"\g<1>%c1",
        r"waits for slot 1 phase 0, but the next in ring order is slot 0 phase 0",
    ),
    Fault(
        "wrong stage index of an acquire, pipelined",
        "pipelined",
        r"(sm\.producer_acquire %ring\[)%arg\d+",
        r"\g<1>%c0",
        r"acquires slot 0 phase 0|deadlock",
        1,
    ),
    Fault(
        "wrong stage index of the reads, atoms",
        "atoms",
        r"(sm\.barrier\n *%a_\d+, %b_\d+ = sm\.ring_slot %ring\[)%arg\d+",
        r"\g<1>%c1",
        rf"{IN_FLIGHT}|{RACE}",
    ),
    Fault(
        "wrong stage index of the fills, atoms",
        "atoms",
        r"(sm\.ring_slot %ring\[)%arg\d+(\](?:.*\n){3} *sm\.cp_async )",
        r"\g<1>%c0\2",
        rf"{IN_FLIGHT}|{RACE}",
        1,
    ),
    Fault(
        "wrong stage index of the reads, nvvm",
        "nvvm",
        r"(nvvm\.barrier0\n *%\d+ = arith\.shli )%arg\d+",
        r"\g<1>%c1_i32",
        rf"{IN_FLIGHT}|{RACE}",
    ),
]

# A swizzle is an xor of an offset with some of its own bits; left out, it is the offset's or with itself.
_SWIZZLE = r"(= arith\.andi %\d+, %c24_i32 : i32\n *%\d+ = arith\.)xori (%\d+), %\d+"
SWIZZLED = (
    "the prologue's fills",
    "ldmatrix of A",
    "ldmatrix of B",
    "the loop's fills",
    "stores to the scratch",
    "loads",
)
_SCRATCH = r"memref<32x32xbf16, #layout, (#gpu\S+)>"
_PLAIN = r"memref<32x32xbf16, #tile.layout<(32,32):(32,1)>, \4>"
WRONG_SWIZZLES = [
    Fault(f"no swizzle in {where}", "nvvm", _SWIZZLE, r"\1ori \2, \2", WRONG_NUMBERS, at)
    for at, where in enumerate(SWIZZLED)
]
WRONG_SWIZZLES.append(
    Fault(
        "no swizzle where the scratch is loaded, epilogue",
        "epilogue",
        rf"^( *)(%\d+ = sm\.load_shared )%\d+( by \S+ : ){_SCRATCH}",
        rf"\1%plain = sm.ring_reuse %ring : !ring to {_PLAIN}\n\1\2%plain\3{_PLAIN}",
        WRONG_NUMBERS,
    )
)

# Of the kernel's arguments %arg2 and %arg3 are A's extents, %arg6 and %arg7 B's, %arg10 and %arg11 D's.
WRONG_PREDICATES = [
    Fault(
        "copies of A limited to N instead of M",
        "nvvm",
        r"(cmpi ult, %\d+, )%arg2\b",
        r"\g<1>%arg6",
        OUT_OF_BOUNDS,
        None,
    ),
    Fault(
        "copies of B limited to M instead of N",
        "nvvm",
        r"(cmpi ult, %\d+, )%arg6\b",
        r"\g<1>%arg2",
        WRONG_NUMBERS,
        None,
    ),
    Fault("copies of A limited to M along K", "nvvm", r"(cmpi ult, %\d+, )%arg3\b", r"\g<1>%arg2", WRONG_NUMBERS, None),
    Fault("bias limited to M instead of N", "nvvm", r"(cmpi ult, %\d+, )%arg13\b", r"\g<1>%arg10", WRONG_NUMBERS, None),
    Fault(
        "rows of D limited to N instead of M",
        "nvvm",
        r"(cmpi ult, %\d+, )%arg10\b",
        r"\g<1>%arg11",
        OUT_OF_BOUNDS,
        None,
    ),
    Fault(
        "columns of D limited to M instead of N",
        "nvvm",
        r"(cmpi ult, %\d+, )%arg11\b",
        r"\g<1>%arg10",
        "never written",
        None,
    ),
]

STORES_PAST_THE_EDGE = [
    Fault(
        "columns of D one too many",
        "nvvm",
        r"cmpi ult(, %\d+, %arg11\b)",
        r"cmpi ule\1",
        rf"store.*{OUT_OF_BOUNDS}",
        None,
    ),
    Fault(
        "rows of D one too many", "nvvm", r"cmpi ult(, %\d+, %arg10\b)", r"cmpi ule\1", rf"store.*{OUT_OF_BOUNDS}", None
    ),
    Fault(
        "16 bytes where fewer are left of a row",
        "nvvm",
        r"(addi %\d+, )%c7_i32( : i32\n *%\d+ = arith\.cmpi ult, %\d+, %arg11\b)",
        r"\g<1>%c0_i32\2",
        rf"llvm\.store.*{OUT_OF_BOUNDS}",
    ),
]

_CP_ASYNC = r"(nvvm\.cp\.async\.shared\.global %\d+, %\d+, 16, cache = +cg), (%\d+) : (.*), i32$"
MISSING_ZERO_FILLS = [
    Fault("copies without a source size", "nvvm", _CP_ASYNC, r"\1 : \3", rf"cp\.async.*{OUT_OF_BOUNDS}", None),
    Fault(
        "whole vectors where K ends within one",
        "nvvm",
        r"arith\.minui (%\d+), %c16_i32",
        r"arith.ori %c16_i32, %c16_i32",
        rf"cp\.async.*{OUT_OF_BOUNDS}",
        None,
    ),
    Fault(
        "no copy at all past the edge",
        "nvvm",
        rf"^( *)%\d+ = arith\.select (%\d+), (%\d+), %c0_i32 : i32\n *{_CP_ASYNC}",
        r"\1scf.if \2 {\n\1  \4, \3 : \6, i32\n\1}",
        r"ldmatrix.*uninitialised",
        None,
    ),
]

WRONG_TV_LAYOUTS = [
    Fault(f"{what}, {level}", level, pattern, replacement, WRONG_NUMBERS)
    for level in ("atoms", "epilogue")
    for what, pattern, replacement in (
        ("accumulator: values of a row and of a column swapped", r"\(\(32,8\),32,256\)", "((8,32),32,256)"),
        ("accumulator: rows of warps and of values swapped", r"16(\), values \(\(2,2\),1,4\):\(\(32,)8", r"8\g<1>16"),
        ("A: two registers swapped", r"\(\(32,8,256\),32,512\)", "((32,256,8),32,512)"),
        ("A: both warps on the same rows", r"\(64,1,16\)(, values \(\(2,2,2\))", r"(64,1,0)\1"),
        (
            "B: atoms along N out of order",
            r"\(\(2,2\),4,1\):\(\(32,256\),8,512\)",
            "((2,2),(2,2),1):((32,256),(16,8),512)",
        ),
    )
]

# relu(acc + bias) becomes relu(acc) + bias.
_EPILOGUE = (
    r"^( *)(%\d+) = arith\.addf (%\w+), (%\d+) : f32\n( *)(%cst) = (.*)\n *(%\d+) = arith\.maximumf \2, \6 : f32\n"
)
_REORDERED = r"\5\6 = \7\n\1\2 = arith.maximumf \3, \6 : f32\n\1\8 = arith.addf \2, \4 : f32\n"
WRONG_ORDERS = [
    Fault(f"epilogue order, {level}", level, _EPILOGUE, _REORDERED, WRONG_NUMBERS)
    for level in ("problem", "cta", "smem", "pipelined", "atoms", "epilogue")
]

WRONG_TRIPS = [
    Fault(
        f"a K step too few, {level}", level, r"(scf\.for %arg\d+ = )%c0( to %dim\S* step )", r"\1%c32\2", WRONG_NUMBERS
    )
    for level in ("cta", "smem")
]
WRONG_TRIPS += [
    Fault(f"a K step too few, {level}", level, r"(scf\.for %arg\d+ = )%c0( to %\d+ step )", r"\1%c1\2", WRONG_NUMBERS)
    for level in ("pipelined", "atoms", "epilogue")
]
WRONG_TRIPS += [
    Fault("the last, partial K step left out", "nvvm", r"(addi %arg3, )%c31_i32", r"\g<1>%c0_i32", WRONG_NUMBERS),
    Fault("a slot too few filled ahead, pipelined", "pipelined", r"(= %c0 to )%c2\b", r"\g<1>%c1", WRONG_NUMBERS),
    Fault("a slot too few filled ahead, atoms", "atoms", r"(= %c0 to )%c2\b", r"\g<1>%c1", IN_FLIGHT),
    Fault("a slot too few filled ahead, nvvm", "nvvm", r"(= %c0_i32 to )%c2_i32\b", r"\g<1>%c1_i32", IN_FLIGHT),
]

FAULTS = [
    *DROPPED_WAITS,
    *EARLY_WAITS,
    *DROPPED_BARRIERS,
    *WRONG_STAGES,
    *WRONG_SWIZZLES,
    *WRONG_PREDICATES,
    *STORES_PAST_THE_EDGE,
    *MISSING_ZERO_FILLS,
    *WRONG_TV_LAYOUTS,
    *WRONG_ORDERS,
    *WRONG_TRIPS,
]


@pytest.fixture(scope="module")
def levels() -> dict[str, str]:
    return levels_of(SPEC, SCHEDULE)


@pytest.mark.parametrize("level", ["problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm"])
def test_the_kernel_without_a_fault_is_right(levels: dict[str, str], level: str) -> None:
    for seed in SEEDS:
        d = interpret(levels[level], INPUTS, seed=seed, domain="exact")
        np.testing.assert_array_equal(d, expected(SPEC, INPUTS))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(levels: dict[str, str], fault: Fault) -> None:
    assert_found(fault, fault.plant(levels[fault.level]), exactly(SPEC, INPUTS), SEEDS)


def test_a_refill_that_overtakes_the_reads_of_the_scratch_is_found() -> None:
    """Sixteen work tiles on nine CTAs: the next tile's copies land where the last one's rows are still being read.

    With copies of 16 bytes a warp would refill just what it has read itself.
    """
    kernel = spec(d="f32")
    schedule = f"{SCHEDULE}, a.copy = cp.async.8, b.copy = cp.async.8, scheduler = persistent"
    text = levels_of(kernel, schedule)["epilogue"]
    inputs = inputs_of(kernel, 100, 100, 40)
    np.testing.assert_array_equal(interpret(text, inputs, sms=1, domain="exact"), expected(kernel, inputs))
    found = rf"sm\.cp_async .*({RACE}|{IN_FLIGHT})|load_shared.*{IN_FLIGHT}"
    fault = Fault("", "epilogue", r"^ *sm\.barrier\n(?= *\}\n *tile\.return)", "", found)
    assert_found(fault, fault.plant(text), exactly(kernel, inputs, sms=1), SEEDS)


def test_the_comparison_of_two_levels_names_the_first_wrong_element(levels: dict[str, str]) -> None:
    """So that `assert_same`, on which every test of a pass stands, is seen to fail."""
    for fault in (*WRONG_TRIPS[:3], WRONG_ORDERS[1]):
        with pytest.raises(
            AssertionError, match=r"order 0: D differs in \d+ of 1800 elements, first at \(\d+, \d+\): "
        ):
            assert_same(levels["problem"], fault.plant(levels[fault.level]), INPUTS)
    for fault in (DROPPED_BARRIERS[0], EARLY_WAITS[0]):
        with pytest.raises(InterpreterError, match=fault.found):
            assert_same(levels["problem"], fault.plant(levels[fault.level]), INPUTS)
