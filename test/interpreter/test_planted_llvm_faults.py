"""Faults planted at level llvm, in branches and in inline assembly too, are found and named."""

import re

import numpy as np
import pytest
from compiled import expected, inputs_of, spec
from planting import RACE, WRONG_NUMBERS, Fault, assert_found, exactly

import lowtide as lt
from lowtide.interpreter import interpret

SPEC = spec()
HOPPER = "grid.tile = [128, 64], order = row, k = 64, stages = 3, roles = cooperative(2), epilogue.path = smem"
DIVIDED = "grid.tile = [32, 32], k = 32, stages = 2, atoms = [2, 1, 1], k_division = split(3)"
HOPPER_INPUTS = inputs_of(SPEC, 140, 72, 64 * 4 + 3)
DIVIDED_INPUTS = inputs_of(SPEC, 40, 45, 133)


def planted(name: str, pattern: str, replacement: str, found: str, at: int = 0) -> Fault:
    return Fault(name, "llvm", pattern, replacement, found, at)


def guarded(op: str, bound: int) -> str:
    """An op for the threads of the CTA below a bound alone."""
    return (
        f"%bound = llvm.mlir.constant({bound} : i32) : i32\n%thread = nvvm.read.ptx.sreg.tid.x : i32\n"
        f'%few = llvm.icmp "ult" %thread, %bound : i32\nllvm.cond_br %few, ^planted, ^behind\n'
        f"^planted:\n{op}\nllvm.br ^behind\n^behind:\n"
    )


UNORDERED = rf"{RACE}|uninitialised"
NOT_THERE_YET = r"wgmma\.mma_async.*(in flight|race|uninitialised)"
OVERTAKEN = rf"bulk\.tensor.*({RACE}|in flight|may still)|arrives once more"
NEVER = r"(?s)deadlock, level llvm.* waits at .*for a semaphore, which is "
OTHERS = r"warp \d+(, warp \d+)* of its warpgroup executed `.*` at .* here; the four warps of a warpgroup"

# Threads of the first consumer warpgroup begin at 128. Waits for mbarriers: the producer's, then the consumers' two.
WAIT = r'^ *llvm\.inline_asm .*try_wait.*"r,r,n" .*\n'
FLIPPED = "%one = llvm.mlir.constant(1 : i32) : i32\n%flipped = llvm.xor {}, %one : i32\n"
COMMIT = "nvvm.wgmma.commit.group.sync.aligned\n"
BY_VALUE = r"llvm\.byval = [^,]*, nvvm\.grid_constant"

ON_HOPPER = [
    planted("no wait for an empty slot", WAIT, "", OVERTAKEN),
    planted("no wait for a full slot", WAIT, "", NOT_THERE_YET, 1),
    planted(
        "a parity flipped",
        r'^( *llvm\.inline_asm .*try_wait.*"r,r,n" %\d+, )(%\d+)',
        FLIPPED.format(r"\2") + r"\1%flipped",
        NOT_THERE_YET,
        1,
    ),
    planted(
        "no barrier behind the mbarriers' start",
        r"^ *nvvm\.barrier0\n",
        "",
        "no mbarrier has been initialised|race: uses the mbarrier at",
        0,
    ),
    planted("no barrier before the scratch is read", r"^ *nvvm\.barrier id = .*\n", "", UNORDERED),
    planted("no fence before wgmma", r"^ *nvvm\.wgmma\.fence\.aligned\n", "", r"put wgmma\.fence before it"),
    planted("no fence for the TMA unit", r"^ *nvvm\.fence\.mbarrier\.init\n", "", "the TMA unit may not see"),
    planted("a wait for a group too few", r"(wgmma\.wait_group\.sync\.aligned )0;", r"\1 1;", "may still write"),
    planted("no wait for a slot's readers", r"(wait\.group\.sync\.aligned) 1", r"\1 3", rf"{RACE}|may still"),
    planted("no commit", rf"^ *{re.escape(COMMIT)}", "", r"in flight|may still|race"),
    planted("scale-d inverted", r"setp\.ne\.b32 p, \$66, 0", "setp.eq.b32 p, $66, 0", WRONG_NUMBERS, 1),
    planted("B by columns", r"(p, \$67,  \$68, \$69,  )\$70", r"\1 1", WRONG_NUMBERS),
    planted(
        "two accumulators exchanged",
        r"(wgmma\.mma_async[\w.]* \{)\$0, \$1,",
        r"\1$1, $0,",
        "its accumulators are not those of one wgmma, in their order",
        1,
    ),
    planted("another instruction", r"wgmma\.wait_group\.sync", "wgmma.await.sync", "is not interpreted; known are"),
    planted("a commit by some lanes", COMMIT, guarded(COMMIT, 133), r"all 32 lanes must .* lanes \[5, 6"),
    planted("a commit by two warps", COMMIT, guarded(COMMIT, 192), OTHERS),
    planted(
        "a tensor map by reference", BY_VALUE, "llvm.noalias", r"passes tensor maps as the arguments \[5, 6, 7, 8\]"
    ),
]

ON_DIVIDED = [
    planted("no arrival", r"^ *llvm\.inline_asm .*red\.release.*\n", "", f"{NEVER}0"),
    planted("an arrival that does not release", r"red\.release", "red.relaxed", UNORDERED),
    planted("a poll that does not acquire", r"ld\.acquire", "ld.relaxed", UNORDERED),
    planted("one arrival too many waited for", r"setp\.lt\.s32 again", "setp.le.s32 again", f"{NEVER}2"),
    planted("no barrier before the arrival", r"^ *nvvm\.barrier0\n", "", UNORDERED, -1),
    planted("no wait for copies", r"^ *nvvm\.cp\.async\.wait\.group 0\n", "", "in flight"),
    planted("no barrier after the copies", r"^ *nvvm\.barrier0\n", "", RACE),
    planted(
        "a loop without end",
        r"(llvm\.br \^bb5\()%\d+(, .* vector)",
        r"%stays = llvm.mlir.constant(0 : i32) : i32\n\1%stays\2",
        r"(?s)warp \d has run 5000 ops and has not ended: a loop may have no end; .*\n  CTA \d warp \d (is|waits) at",
        1,
    ),
]


@pytest.fixture(scope="module")
def hopper() -> str:
    return lt.compile_gemm(SPEC, target="sm_90a", schedule=HOPPER).levels["llvm"]


@pytest.fixture(scope="module")
def divided() -> str:
    return lt.compile_gemm(SPEC, "sm_80", schedule=DIVIDED).levels["llvm"]


@pytest.mark.parametrize("fault", ON_HOPPER, ids=lambda fault: fault.name)
def test_a_fault_is_found_on_hopper(hopper, fault):
    assert_found(fault, fault.plant(hopper), exactly(SPEC, HOPPER_INPUTS, sms=1, max_steps=5000))


@pytest.mark.parametrize("fault", ON_DIVIDED, ids=lambda fault: fault.name)
def test_a_fault_is_found_where_k_is_divided(divided, fault):
    assert_found(fault, fault.plant(divided), exactly(SPEC, DIVIDED_INPUTS, sms=2, max_steps=5000), (0, 1))


def test_the_kernels_without_a_fault_are_right(hopper, divided):
    d = interpret(hopper, HOPPER_INPUTS, sms=1, domain="exact", max_steps=5000)
    np.testing.assert_array_equal(d, expected(SPEC, HOPPER_INPUTS))
    for seed in (0, 1):
        d = interpret(divided, DIVIDED_INPUTS, sms=2, seed=seed, domain="exact", max_steps=5000)
        np.testing.assert_array_equal(d, expected(SPEC, DIVIDED_INPUTS))
