"""Kernels are named after what they are: in the PTX, the manifest and `kernel.entry`. The words are tested by
test/lit/passes/llvm/name-kernels.mlir."""

import re

import pytest

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import IRError

NAME = "lowtide_gemm_f16_f16_f32_f16_tn_32x32x32_s2_cp_async_16_mma"


@pytest.fixture(scope="module")
def kernel() -> CompiledKernel:
    """The product of packed matrices: three launches around it copy A, B and D."""
    spec = lt.GemmSpec(m=40, n=24, k=40, a="f16", b="f16", d="f16")
    pack = "a.pack = rows, b.pack = rows, epilogue.pack = rows"
    return lt.compile_gemm(spec, "sm_80", f"grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 2, {pack}")


def test_the_name_is_that_of_the_launch_and_of_the_ptx(kernel: CompiledKernel) -> None:
    assert kernel.entry == NAME
    copy = "lowtide_gemm_copy_f16"
    launched = [entry["attributes"]["kernel"] for entry in kernel.manifest["host"] if entry["op"] == "tile.launch"]
    assert launched == [copy, copy, kernel.entry, copy]
    assert set(re.findall(r"\.entry (\w+)\(", kernel.ptx)) == set(launched)


def test_levels_above_llvm_keep_the_short_name(kernel: CompiledKernel) -> None:
    short = {level for level, text in kernel.levels.items() if "@gemm_kernel" in text}
    assert short == {"cta", "smem", "pipelined", "atoms", "epilogue", "nvvm"}


def test_a_kernel_without_a_schedule_is_not_known_as_the_product(kernel: CompiledKernel) -> None:
    text, count = re.subn(r", schedule = #schedule\b", "", kernel.levels["llvm"])
    assert count == 1
    with pytest.raises(IRError, match=r"has 0 kernels with a schedule; give one kernel the schedule.*\[one-entry\]"):
        _ = lt.compile_ir(text).entry
