"""Mistakes that hardware answers with a hang, wrong numbers or half the speed are errors: one bad kernel for each.

Each is one edit of a compiled level, from which compilation continues as a user would do it. That TMA's strides and
element strides are refused at launch is tested beside the runtime (`runtime/test_refused_tensor_maps.py`).
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.compiler import ptxas
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import CompileError, IRError, PassError, ScheduleError

pytestmark = pytest.mark.code_at_once

SPEC = lt.GemmSpec(a="bf16", b="bf16", d="bf16")
SCHEDULE = "grid.tile = [128, 64], k = 64, stages = 3, roles = cooperative(2), epilogue.path = direct"

Edit = Callable[[str], str]


@pytest.fixture(scope="module")
def kernel() -> CompiledKernel:
    return lt.compile_gemm(SPEC, target="sm_90a", schedule=SCHEDULE)


def replaced(old: str, new: str) -> Edit:
    """The edit that replaces a text wherever it stands."""

    def edit(text: str) -> str:
        assert old in text, f"{old!r} is nowhere"
        return text.replace(old, new)

    return edit


def gone_on_from(kernel: CompiledKernel, level: str, edit: Edit) -> CompiledKernel:
    return lt.compile_ir(edit(kernel.levels[level]))


def without_the_wait(text: str) -> str:
    """Level nvvm: the accumulators are read without the last wait for them."""
    wait = re.search(r"^ *(%\d+) = sm\.ptx_wgmma_wait 0, (%\d+(?:#\d+)?) : .*\n", text, re.MULTILINE)
    assert wait is not None
    return re.sub(rf"{wait[1]}(?=\[)", wait[2], text[: wait.start()] + text[wait.end() :])


def still_pending(text: str) -> str:
    """Level epilogue: the last wait leaves its group in flight, and its accumulators are read all the same."""
    (wait,) = re.findall(r"(%\w+), %\w+ = sm\.mma_wait 0, \S+ : (\S+) -> (.*)\n", text)
    result, pending, fragment = wait
    text = re.sub(r"(sm\.mma_wait )0(, .* -> ).*", rf"\g<1>1\g<2>{pending}", text)
    return text.replace(f"sm.map {result} : {fragment}", f"sm.map {result} : {pending}")


REFUSED_BY_A_PASS = {
    "registers beyond those at entry, in the schedule": (
        "epilogue",
        replaced("232", "240"),
        ScheduleError,
        r"verify-schedule:.*\[40, 240.*520.*504.*\[registers-sum\]",
    ),
    "a slot released without the proof that wgmma has read it": (
        "atoms",
        lambda text: re.sub(r" after %\w+", "", text, count=1),
        PassError,
        r"verify-mbarriers: releases a slot that wgmma may still read; write `after`",
    ),
    "registers beyond those at entry, in code": (
        "nvvm",
        replaced("increase 232", "increase 240"),
        PassError,
        r"verify-registers: asks for 66560 registers .* enters with 64512 \(384 × 168\).*take at most 232",
    ),
    "fewer registers at entry than roles ask for": (
        "nvvm",
        replaced("nvvm.maxnreg = 168", "nvvm.maxnreg = 160"),
        PassError,
        r"verify-registers: asks for 64512 registers .* enters with 61440 \(384 × 160\)",
    ),
    "no number of threads beside setmaxregister": (
        "nvvm",
        replaced("known_block_size = array<i32: 384, 1, 1>, ", ""),
        PassError,
        r"verify-registers: .*C7508.*give it known_block_size = array<i32: 384, 1, 1>",
    ),
    "bytes that the copies do not bring": (
        "epilogue",
        replaced("expects 0 plus", "expects 16 plus"),
        PassError,
        r"verify-mbarriers: expects 16 bytes, .* bring 0; write expects 0",
    ),
    "bytes that the copies do not bring, before they are laid out": (
        "atoms",
        lambda text: re.sub("plus %[0-9]+", "", text),
        PassError,
        r"verify-mbarriers: must expect `plus` bytes if and only if .*\[expected-rows\]",
    ),
    "zeros stored by one role": (
        "epilogue",
        lambda text: re.sub(
            r"(consumer .*\{\n)",
            r"\1%first = arith.constant 8 : index\nsm.zero_rows %ring from(%first, %first) : !ring\n",
            text,
        ),
        PassError,
        r"convert-sm-to-nvvm: is executed by all threads of the CTA.*\[zero-rows-in-role\]",
    ),
    "arrivals that the roles do not make": (
        "atoms",
        replaced("arrivals(2)", "arrivals(256)"),
        PassError,
        r"verify-mbarriers: completes a phase after 256 arrivals, .* make 2: 2 by the consumer; write arrivals\(2\)",
    ),
    "a buffer off the swizzle's period": (
        "epilogue",
        replaced("at [0, 49152]", "at [0, 49280]"),
        PassError,
        r"verify-smem-offsets: buffer 1 lies at 49280; swizzle<3,3,3>.* multiple of 1024: take 49152",
    ),
    "shared memory off the swizzle's period": (
        "nvvm",
        replaced("alignment = 1024", "alignment = 128"),
        PassError,
        r"verify-smem-offsets: shared memory begins at a multiple of 128; .* one of 1024: write alignment = 1024",
    ),
    "accumulators read while pending": (
        "epilogue",
        still_pending,
        IRError,
        r"'sm\.mma_wait' op is pending in sm\.map; only sm\.wgmma, sm\.mma_wait and loops",
    ),
    "a box wider than its swizzle": (
        "epilogue",
        replaced("!sm.tensor_map<128x64xbf16, swizzle<3,3,3>>", "!sm.tensor_map<128x64xbf16, swizzle<2,3,3>>"),
        IRError,
        r"a row of a box is 128 bytes, more than the 64 that this swizzle permutes",
    ),
    "a box side beyond 256": (
        "epilogue",
        replaced("!sm.tensor_map<128x64xbf16,", "!sm.tensor_map<512x64xbf16,"),
        IRError,
        r"1 to 256 elements",
    ),
}


@pytest.mark.parametrize("name", REFUSED_BY_A_PASS)
def test_a_bad_kernel_is_refused_where_compilation_goes_on_from_it(kernel: CompiledKernel, name: str) -> None:
    level, edit, error, message = REFUSED_BY_A_PASS[name]
    text = edit(kernel.levels[level])
    assert text != kernel.levels[level]
    with pytest.raises(error, match=message):
        lt.compile_ir(text)


def test_a_variable_of_ones_own_in_shared_memory_is_as_aligned_as_one_likes(kernel: CompiledKernel) -> None:
    """The rings lie in the dynamic part alone."""
    own = "    llvm.mlir.global internal @own() {addr_space = 3 : i32, alignment = 8 : i64} : i64\n"
    edited = gone_on_from(kernel, "nvvm", replaced("    llvm.mlir.global", f"{own}    llvm.mlir.global"))
    assert ".shared .align 1024 .b8 " in edited.ptx


def test_the_compiler_sets_the_registers_at_entry_and_ptxas_confirms_them(kernel: CompiledKernel) -> None:
    assert ".maxntid 384, 1, 1\n" in kernel.ptx and ".maxnreg 168\n" in kernel.ptx
    assembly = kernel.assembly
    assert assembly is not None and assembly.registers == 168 == 65536 // 384 // 8 * 8
    assert kernel.schedule.agents.registers == (40, 232) and 3 * assembly.registers >= 40 + 2 * 232


def test_a_kernel_whose_roles_keep_their_registers_has_no_bound_on_them() -> None:
    kernel = lt.compile_gemm(SPEC, target="sm_90a", schedule=f"{SCHEDULE}, registers = [0, 0]")
    assert ".maxnreg" not in kernel.ptx and kernel.cubin is not None
    # LLVM leaves out the consumers' branch, which no thread below 128 takes.
    text = replaced("known_block_size = array<i32: 384,", "known_block_size = array<i32: 128,")(kernel.levels["nvvm"])
    with pytest.raises(PassError, match=r"verify-registers:.*384.*128.*\[known-block-size\]"):
        lt.compile_ir(text)


@pytest.mark.parametrize(
    ("registers", "message"),
    [
        (
            176,
            r"ptxas gives each of 384 threads 176 registers, 67584 in all; an SM of sm_90a has 65536"
            r".*\[ptxas-registers\]",
        ),
        (
            160,
            r"registers = \[40, 232\] need 504 per lane .* enter with 480 \(3 × 160\).*take consumer ≤ 216"
            r".*\[ptxas-registers-sum\]",
        ),
    ],
)
def test_what_ptxas_gives_is_held_against_the_schedule(
    kernel: CompiledKernel, registers: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ptxas"
    program.write_text(f"#!/bin/sh\necho 'Used {registers} registers'\nfor last; do :; done\necho cubin > $last\n")
    program.chmod(0o755)
    monkeypatch.setenv(ptxas.ENVIRONMENT_VARIABLE, str(program))
    with pytest.raises(CompileError, match=message):
        _ = gone_on_from(kernel, "llvm", lambda text: text).cubin


def test_setmaxnreg_that_ptxas_ignores_fails_the_build(kernel: CompiledKernel) -> None:
    """At level llvm, past the passes' own check: neither the threads nor the registers at entry are said."""
    kept = re.compile(r"nvvm\.max(nreg = \d+ : i32|ntid = array<i32: [\d, ]+>), ")
    bad = gone_on_from(kernel, "llvm", lambda text: kept.sub("", text))
    with pytest.raises(CompileError, match=r"C7508.*known_block_size and nvvm\.maxnreg.*\[ptxas-advisory\]"):
        _ = bad.cubin


def test_accumulators_touched_before_the_wait_fail_the_build(kernel: CompiledKernel) -> None:
    bad = gone_on_from(kernel, "nvvm", without_the_wait)
    with pytest.raises(CompileError, match=r"\(C75\d\d\).*\[ptxas-advisory\]"):
        _ = bad.cubin


def test_spills_fail_the_build_wherever_machine_code_is_asked_for(tmp_path: Path) -> None:
    schedule = "grid.tile = [128, 192], k = 32, stages = 2, atoms = [2, 2, 1], permutation = [32, 32, 16]"
    dropped = lt.compile_gemm(SPEC, target="sm_80", schedule=schedule).passed_over[0].schedule
    bad = lt.compile_gemm(SPEC, target="sm_80", schedule=dropped)  # in full: nothing else can be chosen
    with pytest.raises(CompileError, match=r"spills \d+ bytes per thread.*\[kernel-spills\]"):
        _ = bad.cubin
    with pytest.raises(CompileError, match=r"spills \d+ bytes per thread.*\[kernel-spills\]"):
        bad.save(tmp_path / "kernel")
