"""Faults planted in the PTX of compiled kernels, each by one edit of its text, are found, and named by line."""

import functools

import numpy as np
import pytest
from compiled import expected, inputs_of, spec
from planting import IN_FLIGHT, RACE, WRONG_NUMBERS, Fault, assert_found

import lowtide as lt
from lowtide.interpreter import Loaded, interpret

SPEC = spec()
UNPACKED = "a.pack = none, b.pack = none, epilogue.pack = none"  # faults are planted in the kernel, not in copies
AMPERE = f"grid.tile = [32, 32], k = 32, stages = 3, atoms = [2, 1, 1], {UNPACKED}"
HOPPER = "grid.tile = [128, 64], k = 64, stages = 3, roles = cooperative(2), epilogue.path = tma"
TARGETS = {"sm_80": (AMPERE, inputs_of(SPEC, 40, 40, 32 * 4 + 8)), "sm_90a": (HOPPER, inputs_of(SPEC, 140, 72, 64 * 4))}
SEEDS = (0, 1)
LINE = r"at <ptx>:\d+, level ptx, CTA \d warp \d"


@functools.cache
def levels(target):
    return lt.compile_gemm(SPEC, target=target, schedule=TARGETS[target][0]).levels


def fault(name, pattern, replacement, found, at=0):
    return Fault(name, "ptx", pattern, replacement, found, at)


def line(instruction, more=""):
    """A whole line of an instruction."""
    return rf"^\t{instruction}[ \t]*{more}.*;\n"


ON_AMPERE = [
    fault("barrier left out", line(r"bar\.sync"), "", RACE, 0),
    fault("barrier of the epilogue left out", line(r"bar\.sync"), "", RACE, -1),
    fault("wait for copies left out", line(r"cp\.async\.wait_group"), "", IN_FLIGHT, 0),
    fault("wait for copies too short", r"cp\.async\.wait_group \t1;", "cp.async.wait_group 2;", IN_FLIGHT, 0),
    fault("commit left out", line(r"cp\.async\.commit_group"), "", IN_FLIGHT, 0),
    fault(
        "registers of A swapped",
        r"(mma\.sync\.\S+\s+\{[^}]*\},\s+\{%\w+, )(%\w+), (%\w+)",
        r"\1\3, \2",
        WRONG_NUMBERS,
    ),
    fault("registers of A and B swapped", r"(ldmatrix\S+ )\{(%\w+), (%\w+)", r"\1{\3, \2", WRONG_NUMBERS),
    fault("an offset too large", r"(ldmatrix\S+ .*\[%rd\d+)\]", r"\1+16]", WRONG_NUMBERS, 1),
    fault("a branch that is not taken", r"@(%p\d+) bra", r"@!\1 bra", rf"{LINE} lane \d+: out of bounds", -1),
    fault("a transposed load", r"(ldmatrix\S+\.x4)\.shared", r"\1.trans.shared", WRONG_NUMBERS),
    fault("an unwritten register", line(r"mov\.b32", r"\t%r\d+, 0f"), "", rf"{LINE}: reads a register", 0),
]  # fmt: skip

STUCK = r"(?s)deadlock, level ptx.*CTA 0 warp \d+ (waits|is) at `mbarrier\.try_wait.*for phase parity"
# The last wgmma of a group, its first accumulator, and the commit.
LAST_OF_A_GROUP = r"(wgmma\.mma_async\S+ \{(%r\d+),[^\n]*\n\}\n\n\t// end inline asm\n\twgmma\.commit\S+\n)"
ON_HOPPER = [
    fault("barrier after initialisation left out", line(r"bar\.sync", "0"), "",
          r"no mbarrier has been initialised|\[mbarrier-race\]", 0),
    fault("fence of mbarriers left out", line(r"fence\.mbarrier_init"), "", r"the TMA unit may not see"),
    fault("a parity too early", r"(try_wait\S+ P1, \[%\w+\]), %r\d+", r"\1, 1", STUCK, -1),
    fault("a parity too late", r"(try_wait\S+ P1, \[%\w+\]), %r\d+", r"\1, 0", STUCK, 0),
    fault("a proxy fence left out", line(r"fence\.proxy\.async"), "", r"not visible to the async proxy"),
    fault("a barrier after a proxy fence left out", r"(fence\.proxy\.async\S*;\n)\tbar\.sync[^\n]*\n", r"\1",
          RACE, -1),
    fault("wait for wgmma left out", line(r"wgmma\.wait_group\.sync\.aligned", "0"), "", "touched before a wait"),
    fault("wait for wgmma too short", r"wait_group\.sync\.aligned \t?0", "wait_group.sync.aligned 1",
          "touched before a wait covers"),
    fault("wait before a slot is given back left out", line(r"wgmma\.wait_group\.sync\.aligned", r"\t?1"), "", RACE),
    fault("fence of wgmma left out", line(r"wgmma\.fence"), "", r"put wgmma\.fence before it"),
    fault("an accumulator copied in flight", LAST_OF_A_GROUP,
          r"\1\tmov.b32 %r1, \2;\n", r"`mov\.b32 %r1, %r\d+;` .* is touched before a wait covers"),
    fault("an accumulator written in flight", LAST_OF_A_GROUP,
          r"\1\tmov.b32 \2, 0;\n", "touched before a wait covers"),
    fault("a descriptor past the slice", r"(or\.b64 \t%rd\d+, %rd\d+, 46116862933053603)86", r"\g<1>88", WRONG_NUMBERS),
    fault("another swizzle", r"or\.b64 (\t%rd\d+, %rd\d+), 4611686293305360384",
          r"or.b64 \1, 9223372311732682752", WRONG_NUMBERS),
    fault("a sum that begins again", r"setp\.ne\.b32 p, 1, 0", "setp.ne.b32 p, 0, 0", WRONG_NUMBERS),
    fault("too few bytes expected", r"(\tmbarrier\.arrive\.expect_tx\S* .*, )(%r\d+);",
          r"\tsub.s32 %r1, \2, 16;\n\1%r1;", "16 bytes more than were expected"),
    fault("an arrival left out", line(r"mbarrier\.arrive\.shared", ""), "", STUCK),
    fault("an arrival too many", line(r"mbarrier\.arrive\.shared", ""), r"\g<0>\g<0>", f"{STUCK}|{RACE}"),
    fault("every lane starts the store",
          r"\t@%p\d+ bra [^\n]*\n((?:\t(?!@)[^\n]*\n)*\tcp\.async\.bulk\.tensor\.2d\.global)", r"\1",
          "32 lanes start a store by TMA"),
    fault("wait for the store left out", line(r"cp\.async\.bulk\.wait_group\.read"), "", RACE, None),
]  # fmt: skip


def outcome(target, text, seed):
    inputs = TARGETS[target][1]
    d = interpret(Loaded(levels(target)["llvm"], text), inputs, sms=1, seed=seed, domain="exact")
    return bool(np.array_equal(d, expected(SPEC, inputs)))


@pytest.mark.parametrize("target", TARGETS)
def test_without_a_fault_the_numbers_are_right(target):
    assert all(outcome(target, levels(target)["ptx"], seed) for seed in SEEDS)


@pytest.mark.parametrize(
    ("target", "planted"),
    [("sm_80", each) for each in ON_AMPERE] + [("sm_90a", each) for each in ON_HOPPER],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_planted_fault_is_found(target, planted):
    assert_found(planted, planted.plant(levels(target)["ptx"]), functools.partial(outcome, target), SEEDS[:1])
