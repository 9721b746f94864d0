"""Level nvvm: a kernel of two warps with cp.async, ldmatrix and mma.sync, and the faults that are caught in it."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from one_cta import run_kernel
from support import cast

from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret

# D (32x8) = A (32x16) · B (8x16)ᵀ. Thread t copies 16 bytes of A to 16 t; those of warp 0 fill B's 256 bytes from 1024,
# and 256 bytes of zeros after them. Each warp multiplies 16 rows.
KERNEL = """
gpu.module @kernels {
  llvm.mlir.global external @smem() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
  gpu.func @kernel(%a: !llvm.ptr<1>, %b: !llvm.ptr<1>, %d: !llvm.ptr<1>) kernel {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c3 = arith.constant 3 : i32
    %c4 = arith.constant 4 : i32
    %c5 = arith.constant 5 : i32
    %c8 = arith.constant 8 : i32
    %c15 = arith.constant 15 : i32
    %c16 = arith.constant 16 : i32
    %c32 = arith.constant 32 : i32
    %t = nvvm.read.ptx.sreg.tid.x : i32
    %lane = arith.remui %t, %c32 : i32
    %warp = arith.shrui %t, %c5 : i32
    %smem = llvm.mlir.addressof @smem : !llvm.ptr<3>
    // Copies.
    %as = llvm.getelementptr %smem[%t] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<8 x ELEMENT>
    %ag = llvm.getelementptr %a[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.array<8 x ELEMENT>
    nvvm.cp.async.shared.global %as, %ag, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    %first = arith.cmpi ult, %t, %c32 : i32
    scf.if %first {
      %row = arith.minui %t, %c15 : i32
      %inside = arith.cmpi ult, %t, %c16 : i32
      %bytes = arith.select %inside, %c16, %c0 : i32
      %bs = llvm.getelementptr %as[1024] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
      %bg = llvm.getelementptr %b[%row] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.array<8 x ELEMENT>
      nvvm.cp.async.shared.global %bs, %bg, 16, cache = cg, %bytes : !llvm.ptr<3>, !llvm.ptr<1>, i32
    }
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 0
    nvvm.barrier
    // A's fragment: row warp * 16 + lane % 16, half lane / 16.
    %r16 = arith.remui %lane, %c16 : i32
    %w16 = arith.muli %warp, %c16 : i32
    %row_a = arith.addi %w16, %r16 : i32
    %half_a = arith.divui %lane, %c16 : i32
    %pa = llvm.getelementptr %smem[%row_a, %half_a, 0]
        : (!llvm.ptr<3>, i32, i32) -> !llvm.ptr<3>, !llvm.array<2 x array<8 x ELEMENT>>
    %fa = nvvm.ldmatrix %pa {num = 4 : i32, layout = #nvvm.mma_layout<row>,
        shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>}
        : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32, i32)>
    %r8 = arith.remui %lane, %c8 : i32
    %half = arith.shrui %lane, %c3 : i32
    %half_b = arith.andi %half, %c1 : i32
    %b_base = llvm.getelementptr %smem[1024] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %pb = llvm.getelementptr %b_base[%r8, %half_b, 0]
        : (!llvm.ptr<3>, i32, i32) -> !llvm.ptr<3>, !llvm.array<2 x array<8 x ELEMENT>>
    %fb = nvvm.ldmatrix %pb {num = 2 : i32, layout = #nvvm.mma_layout<row>,
        shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>}
        : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32)>
    %a0 = llvm.extractvalue %fa[0] : !llvm.struct<(i32, i32, i32, i32)>
    %a1 = llvm.extractvalue %fa[1] : !llvm.struct<(i32, i32, i32, i32)>
    %a2 = llvm.extractvalue %fa[2] : !llvm.struct<(i32, i32, i32, i32)>
    %a3 = llvm.extractvalue %fa[3] : !llvm.struct<(i32, i32, i32, i32)>
    %b0 = llvm.extractvalue %fb[0] : !llvm.struct<(i32, i32)>
    %b1 = llvm.extractvalue %fb[1] : !llvm.struct<(i32, i32)>
    MMA
    // Lane's row lane / 4, columns 2 * (lane % 4) and the next, and 8 rows below.
    %group = arith.shrui %lane, %c2 : i32
    %in_group = arith.remui %lane, %c4 : i32
    %row_d = arith.addi %w16, %group : i32
    %row_d8 = arith.addi %row_d, %c8 : i32
    %p0 = llvm.getelementptr %d[%row_d, %in_group, 0]
        : (!llvm.ptr<1>, i32, i32) -> !llvm.ptr<1>, !llvm.array<4 x array<2 x OUT>>
    %p1 = llvm.getelementptr %d[%row_d8, %in_group, 0]
        : (!llvm.ptr<1>, i32, i32) -> !llvm.ptr<1>, !llvm.array<4 x array<2 x OUT>>
    llvm.store %d0, %p0 : vector<2xOUT>, !llvm.ptr<1>
    llvm.store %d1, %p1 : vector<2xOUT>, !llvm.ptr<1>
    gpu.return
  }
}
"""

MMA_F32 = """
    %z = arith.constant 0.0 : f32
    %m = nvvm.mma.sync A[%a0, %a1, %a2, %a3] B[%b0, %b1] C[%z, %z, %z, %z] {layoutA = #nvvm.mma_layout<row>,
        layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<bf16>,
        multiplicandBPtxType = #nvvm.mma_type<bf16>, shape = #nvvm.shape<m = 16, n = 8, k = 16>}
        : (i32, i32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    %m0 = llvm.extractvalue %m[0] : !llvm.struct<(f32, f32, f32, f32)>
    %m1 = llvm.extractvalue %m[1] : !llvm.struct<(f32, f32, f32, f32)>
    %m2 = llvm.extractvalue %m[2] : !llvm.struct<(f32, f32, f32, f32)>
    %m3 = llvm.extractvalue %m[3] : !llvm.struct<(f32, f32, f32, f32)>
    %d0 = vector.from_elements %m0, %m1 : vector<2xf32>
    %d1 = vector.from_elements %m2, %m3 : vector<2xf32>
"""

MMA_F16 = """
    %h0 = llvm.bitcast %a0 : i32 to vector<2xf16>
    %h1 = llvm.bitcast %a1 : i32 to vector<2xf16>
    %h2 = llvm.bitcast %a2 : i32 to vector<2xf16>
    %h3 = llvm.bitcast %a3 : i32 to vector<2xf16>
    %g0 = llvm.bitcast %b0 : i32 to vector<2xf16>
    %g1 = llvm.bitcast %b1 : i32 to vector<2xf16>
    %z = arith.constant dense<0.0> : vector<2xf16>
    %m = nvvm.mma.sync A[%h0, %h1, %h2, %h3] B[%g0, %g1] C[%z, %z] {layoutA = #nvvm.mma_layout<row>,
        layoutB = #nvvm.mma_layout<col>, shape = #nvvm.shape<m = 16, n = 8, k = 16>}
        : (vector<2xf16>, vector<2xf16>, vector<2xf16>) -> !llvm.struct<(vector<2xf16>, vector<2xf16>)>
    %d0 = llvm.extractvalue %m[0] : !llvm.struct<(vector<2xf16>, vector<2xf16>)>
    %d1 = llvm.extractvalue %m[1] : !llvm.struct<(vector<2xf16>, vector<2xf16>)>
"""


HOST = """
module attributes {tile.level = "nvvm", tile.target = "sm_80"} {
func.func @gemm(%a: memref<32x16xbf16, strided<[?, 1]>>, %b: memref<8x16xbf16, strided<[?, 1]>>,
    %d: memref<32x8xf32, strided<[?, 1]>>)
    attributes {tile.problem = #tile.problem<tn, a = bf16, b = bf16, acc = f32, results = [full f32]>} {
  %c1 = arith.constant 1 : index
  %ia = memref.extract_aligned_pointer_as_index %a : memref<32x16xbf16, strided<[?, 1]>> -> index
  %ja = arith.index_cast %ia : index to i64
  %pa = llvm.inttoptr %ja : i64 to !llvm.ptr<1>
  %ib = memref.extract_aligned_pointer_as_index %b : memref<8x16xbf16, strided<[?, 1]>> -> index
  %jb = arith.index_cast %ib : index to i64
  %pb = llvm.inttoptr %jb : i64 to !llvm.ptr<1>
  %id = memref.extract_aligned_pointer_as_index %d : memref<32x8xf32, strided<[?, 1]>> -> index
  %jd = arith.index_cast %id : index to i64
  %pd = llvm.inttoptr %jd : i64 to !llvm.ptr<1>
  tile.launch @kernel grid(%c1) threads(64) shared_memory(2048) args(%pa, %pb, %pd)
      : !llvm.ptr<1>, !llvm.ptr<1>, !llvm.ptr<1>
  return
}
KERNEL
}
"""


def run(text: str, a: Any, b: Any, out: str = "f32", element: str = "bf16", seed: int = 0) -> np.ndarray:
    """Run @kernel by two warps on matrices a and b; D, NaN where it was not written."""
    matrices = [("a", *a.shape, element, a), ("b", *b.shape, element, b), ("d", 32, 8, out, None)]
    payload, written = run_kernel(text, matrices, threads=64, seed=seed).contents("d")
    return np.where(written, payload, np.nan)


def kernel(mma: str = MMA_F32, element: str = "bf16", out: str = "f32") -> str:
    return KERNEL.replace("MMA", mma).replace("ELEMENT", element).replace("OUT", out)


@pytest.fixture
def operands() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return tuple(generator.integers(-8, 9, (rows, 16)).astype(np.float64) for rows in (32, 8))  # type: ignore[return-value]


def test_the_kernel_multiplies_with_f32_accumulators(operands: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = operands
    assert np.array_equal(run(kernel(), a, b), a @ b.T)


def test_the_kernel_multiplies_with_f16_accumulators(operands: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = operands
    assert np.array_equal(run(kernel(MMA_F16, "f16", "f16"), a, b, "f16", "f16"), a @ b.T)


@pytest.mark.parametrize("number_domain", ["float", "exact", "field"])
def test_a_module_of_level_nvvm_is_interpreted(operands: tuple[np.ndarray, np.ndarray], number_domain: str) -> None:
    a, b = operands
    text = HOST.replace("KERNEL", kernel())
    found = interpret(text, cast({"a": a, "b": b}, ml_dtypes.bfloat16), domain=number_domain)
    expected = a @ b.T
    assert np.array_equal(found, expected % (2**31 - 1) if number_domain == "field" else expected)


def replaced(*edits: str) -> Callable[[], str]:
    """The kernel with the first text replaced by the second, the third by the fourth, …"""

    def edit() -> str:
        text = kernel()
        for old, new in zip(edits[::2], edits[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        return text

    return edit


WAIT = "nvvm.cp.async.wait.group 0\n"
COPY_B = "nvvm.cp.async.shared.global %bs, %bg, 16, cache = cg, %bytes : !llvm.ptr<3>, !llvm.ptr<1>, i32"

FAULTS: dict[str, tuple[Callable[[], str], str]] = {
    "no wait": (
        replaced(WAIT, ""),
        r"`.*nvvm.ldmatrix.*level nvvm, CTA 0 warp \d: in flight: reads.*\[copy-in-flight\]",
    ),
    "no commit": (replaced("nvvm.cp.async.commit.group\n", ""), r"reads.*\[copy-in-flight\]"),
    "a wait that leaves one group": (replaced(WAIT, "nvvm.cp.async.wait.group 1\n"), r"reads.*\[copy-in-flight\]"),
    "a wait after the barrier": (replaced(WAIT + "    nvvm.barrier\n", "nvvm.barrier\n    " + WAIT), "race|in flight"),
    "no barrier": (replaced("nvvm.barrier\n", ""), r"race \(read after write\)|in flight"),
    "a barrier in divergent code": (
        replaced("%bs = llvm", "scf.if %inside {\n nvvm.barrier\n }\n %bs = llvm"),
        r"\[barrier-divergent\]",
    ),
    "B not copied": (replaced(COPY_B, ""), r"\[uninitialised-read\]"),
    "no zero fill past the edge": (
        replaced("%b[%row]", "%b[%t]", ", %bytes : !llvm.ptr<3>, !llvm.ptr<1>, i32", " : !llvm.ptr<3>, !llvm.ptr<1>"),
        r"cp.async.*warp 0 lane 16: out of bounds",
    ),
    "src-size beyond the copy": (
        replaced("arith.select %inside, %c16", "arith.select %inside, %c32"),
        r"src-size must be 0 … 16, not 32.*\[cp-async-source\]",
    ),
    "a row address that is not aligned": (
        replaced("%smem[1024]", "%smem[1032]"),
        r"misaligned: 16.*\[misaligned-access\]",
    ),
    "an address past shared memory": (
        replaced("%smem[1024]", "%smem[4096]"),
        r"bounds: 16.*shared memory.*\[out-of-bounds\]",
    ),
    "both warps store the same rows": (
        replaced("%row_d = arith.addi %w16, %group", "%row_d = arith.addi %c0, %group"),
        r"race \(write after write\): writes what CTA 0 warp \d lane 0 wrote",
    ),
    "a store past the edge": (replaced("arith.addi %row_d, %c8", "arith.addi %row_d, %c32"), r"\[outside-matrices\]"),
    "f16 where bf16 lies": (
        lambda: kernel(MMA_F16, "bf16", "f32").replace("vector<2xf32>, !llvm", "vector<2xf16>, !llvm"),
        r"a register that holds two bf16 is read as two f16.*\[pair-read\]",
    ),
    "arithmetic on packed registers": (
        replaced("%z = arith", "%sum = arith.addi %a0, %a1 : i32\n    %z = arith"),
        r"integer arithmetic on a register that holds two bf16.*\[pair-arithmetic\]",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named(fault: str, operands: tuple[np.ndarray, np.ndarray]) -> None:
    edit, message = FAULTS[fault]
    with pytest.raises(InterpreterError, match=message):
        run(edit(), *operands)
