"""Ops of the llvm, nvvm and gpu dialects one by one: a snippet run by one warp, and what it leaves in memory."""

import numpy as np
import pytest
from one_cta import run_kernel

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.domains import domain

INPUT = np.arange(256.0)
LANES = np.arange(32)


def run(
    body: str, dtype: str = "f32", element: str = "bf16", number_domain: str = "float", threads: int = 32
) -> np.ndarray:
    """Run a snippet of %a (256 elements 0, 1, …) and %d (256 of `dtype`); %lane is the thread's number."""
    text = f"""
    gpu.module @kernels {{
      llvm.mlir.global external @smem() {{addr_space = 3 : i32, alignment = 1024 : i64}} : !llvm.array<0 x i8>
      gpu.func @kernel(%a: !llvm.ptr<1>, %d: !llvm.ptr<1>) kernel {{
        %lane = nvvm.read.ptx.sreg.tid.x : i32
        %c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %c16 = arith.constant 16 : i32
        %s = llvm.mlir.addressof @smem : !llvm.ptr<3>
        %pd = llvm.getelementptr %d[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, {dtype}
        %pa8 = llvm.getelementptr %a[%lane, 0] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.array<8 x {element}>
        %ps8 = llvm.getelementptr %s[%lane, 0] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, !llvm.array<8 x {element}>
        {body}
        gpu.return
      }}
    }}"""
    source = domain(number_domain).from_array(INPUT)
    matrices = [("a", 1, 256, element, source), ("d", 1, 256, dtype, None)]
    payload, written = run_kernel(text, matrices, threads, number_domain).contents("d")
    return payload[0][written[0]]


def test_a_vector_goes_through_shared_memory_and_back() -> None:
    result = run(
        """
        %v = llvm.load %pa8 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
        llvm.store %v, %ps8 {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<3>
        %w = llvm.load %ps8 {alignment = 16 : i64} : !llvm.ptr<3> -> vector<8xbf16>
        %p = llvm.getelementptr %d[%lane, 0] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.array<8 x bf16>
        llvm.store %w, %p : vector<8xbf16>, !llvm.ptr<1>
        """,
        "bf16",
    )
    assert np.array_equal(result, INPUT)


def test_a_uniform_load_is_uniform_and_a_scalar_store_goes_by_lane() -> None:
    result = run(
        """
        %p = llvm.getelementptr %a[7] : (!llvm.ptr<1>) -> !llvm.ptr<1>, bf16
        %x = llvm.load %p : !llvm.ptr<1> -> bf16
        %y = arith.extf %x : bf16 to f32
        llvm.store %y, %pd : f32, !llvm.ptr<1>
        """
    )
    assert result.tolist() == [7.0] * 32


def test_masked_loads_and_stores_touch_the_active_lanes_only() -> None:
    result = run(
        """
        %far = arith.constant 100000 : i32
        %in = arith.cmpi slt, %lane, %c16 : i32
        %index = arith.select %in, %lane, %far : i32
        %p = llvm.getelementptr %a[%index] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, bf16
        %x = scf.if %in -> bf16 {
          %l = llvm.load %p : !llvm.ptr<1> -> bf16
          scf.yield %l : bf16
        } else {
          %minus = arith.constant -1.0 : bf16
          scf.yield %minus : bf16
        }
        %in2 = arith.cmpi sge, %lane, %c1 : i32
        scf.if %in2 {
          llvm.store %x, %pd : bf16, !llvm.ptr<1>
        }
        """,
        "bf16",
    )
    assert result.tolist() == [*range(1, 16), *[-1.0] * 16]


def test_structs_are_built_and_taken_apart() -> None:
    result = run(
        """
        %u = llvm.mlir.undef : !llvm.struct<(i32, struct<(i32, i32)>)>
        %v = llvm.insertvalue %lane, %u[1, 0] : !llvm.struct<(i32, struct<(i32, i32)>)>
        %w = llvm.insertvalue %c16, %v[1, 1] : !llvm.struct<(i32, struct<(i32, i32)>)>
        %x = llvm.extractvalue %w[1, 0] : !llvm.struct<(i32, struct<(i32, i32)>)>
        %y = llvm.extractvalue %w[1, 1] : !llvm.struct<(i32, struct<(i32, i32)>)>
        %z = llvm.add %x, %y : i32
        llvm.store %z, %pd : i32, !llvm.ptr<1>
        """,
        "i32",
    )
    assert result.tolist() == list(range(16, 48))


def test_llvm_arithmetic_is_that_of_arith() -> None:
    result = run(
        """
        %c3 = llvm.mlir.constant(3 : i32) : i32
        %m = llvm.mul %lane, %c3 : i32
        %r = llvm.urem %m, %c16 : i32
        %c = llvm.icmp "ult" %r, %c3 : i32
        %x = llvm.select %c, %r, %c0 : i1, i32
        %h = llvm.shl %x, %c1 : i32
        llvm.store %h, %pd : i32, !llvm.ptr<1>
        """,
        "i32",
    )
    assert result.tolist() == [2 * (3 * i % 16) if 3 * i % 16 < 3 else 0 for i in range(32)]


def test_floats_are_cast_to_their_bits_and_back() -> None:
    result = run(
        """
        %x = arith.sitofp %lane : i32 to f32
        %i = llvm.bitcast %x : f32 to i32
        %sign = arith.constant 0x80000000 : i32
        %j = arith.xori %i, %sign : i32
        %y = llvm.bitcast %j : i32 to f32
        llvm.store %y, %pd : f32, !llvm.ptr<1>
        """
    )
    assert np.array_equal(result, -LANES)


def test_pairs_of_halves_load_and_store_as_registers_of_32_bits() -> None:
    result = run(
        """
        %p = llvm.getelementptr %a[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        %x = llvm.load %p : !llvm.ptr<1> -> i32
        %v = llvm.bitcast %x : i32 to vector<2xbf16>
        %s2 = arith.addf %v, %v : vector<2xbf16>
        %y = vector.bitcast %s2 : vector<2xbf16> to vector<1xi32>
        %q = llvm.getelementptr %d[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, vector<2xbf16>
        llvm.store %y, %q : vector<1xi32>, !llvm.ptr<1>
        """,
        "bf16",
    )
    assert np.array_equal(result, 2 * INPUT[:64])


@pytest.mark.parametrize("number_domain", ["float", "exact"])
def test_a_zero_register_is_zero_in_every_domain(number_domain: str) -> None:
    result = run(
        """
        %v = llvm.bitcast %c0 : i32 to vector<2xbf16>
        %q = llvm.getelementptr %d[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, vector<2xbf16>
        llvm.store %v, %q : vector<2xbf16>, !llvm.ptr<1>
        """,
        "bf16",
        number_domain=number_domain,
    )
    assert result.tolist() == [0] * 64


def test_pointers_are_numbers() -> None:
    result = run(
        """
        %i = llvm.ptrtoint %a : !llvm.ptr<1> to i64
        %c8 = arith.constant 8 : i64
        %j = arith.addi %i, %c8 : i64
        %p = llvm.inttoptr %j : i64 to !llvm.ptr
        %x = llvm.load %p : !llvm.ptr -> bf16
        %s0 = llvm.inttoptr %c0 : i32 to !llvm.ptr<3>
        %ps = llvm.getelementptr %s0[%lane] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, bf16
        llvm.store %x, %ps : bf16, !llvm.ptr<3>
        %generic = llvm.addrspacecast %ps : !llvm.ptr<3> to !llvm.ptr
        %y = llvm.load %generic : !llvm.ptr -> bf16
        llvm.store %y, %pd : bf16, !llvm.ptr<1>
        """,
        "bf16",
    )
    assert result.tolist() == [4.0] * 32


def test_intrinsics_compute_what_their_instruction_does() -> None:
    result = run(
        """
        %x = arith.sitofp %lane : i32 to f32
        %y = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"(%x) : (f32) -> f32
        %z = llvm.call_intrinsic "llvm.fma.f32"(%y, %x, %x) : (f32, f32, f32) -> f32
        llvm.store %z, %pd : f32, !llvm.ptr<1>
        """
    )
    assert np.array_equal(result, np.float32(2.0**LANES * LANES + LANES).astype(np.float64))


@pytest.mark.parametrize(
    "op",
    [
        "%y = math.exp2 %x fastmath<afn> : f32",
        '%y = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"(%x) : (f32) -> f32',
        "%y = arith.divf %half, %divisor fastmath<afn> : f32",
        '%y = llvm.call_intrinsic "llvm.nvvm.div.approx.ftz.f"(%half, %divisor) : (f32, f32) -> f32',
    ],
)
def test_approximate_powers_and_quotients_are_never_subnormal(op: str) -> None:
    """At each level as by their instructions, which have .ftz: here 2 to the power of -142 to -111."""
    result = run(
        f"""
        %least = arith.constant -142.0 : f32
        %middle = arith.constant 71.0 : f32
        %divisor = arith.constant {2.0**71} : f32
        %l = arith.sitofp %lane : i32 to f32
        %x = arith.addf %l, %least : f32
        %more = arith.addf %x, %middle : f32
        %half = math.exp2 %more : f32
        {op}
        llvm.store %y, %pd : f32, !llvm.ptr<1>
        """
    )
    exact = 2.0 ** (LANES - 142.0)
    assert result.tolist() == np.where(exact < 2.0**-126, 0.0, exact).tolist()


def test_threads_know_who_they_are() -> None:
    result = run(
        """
        %id = gpu.thread_id x
        %y = gpu.thread_id y
        %dim = gpu.block_dim x
        %i = arith.index_cast %id : index to i32
        %j = arith.index_cast %y : index to i32
        %n = arith.index_cast %dim : index to i32
        %m = nvvm.read.ptx.sreg.ntid.x : i32
        %g = nvvm.read.ptx.sreg.nctaid.x : i32
        %k = arith.muli %i, %n : i32
        %l = arith.addi %k, %j : i32
        %o = arith.addi %l, %m : i32
        %p = arith.addi %o, %g : i32
        llvm.store %p, %pd : i32, !llvm.ptr<1>
        """,
        "i32",
        threads=64,
    )
    assert result.tolist() == [i * 64 + 64 + 1 for i in range(64)]


EXCHANGE = """
    %x = arith.sitofp %lane : i32 to f32
    %ps = llvm.getelementptr %s[%lane] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    llvm.store %x, %ps : f32, !llvm.ptr<3>
    SYNC
    %c31 = arith.constant 31 : i32
    %other = arith.xori %lane, %c31 : i32
    %po = llvm.getelementptr %s[%other] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
    %y = llvm.load %po : !llvm.ptr<3> -> f32
    llvm.store %y, %pd : f32, !llvm.ptr<1>
"""
FULL = "%mask = arith.constant -1 : i32\n nvvm.bar.warp.sync %mask : i32"
NAMED = "%c64 = arith.constant 64 : i32\n nvvm.barrier id = %c1 number_of_threads = %c64"


@pytest.mark.parametrize("sync", [FULL, NAMED, "nvvm.barrier0", "gpu.barrier"])
def test_lanes_exchange_values_through_shared_memory_after_a_sync(sync: str) -> None:
    result = run(EXCHANGE.replace("SYNC", sync), threads=64)
    assert np.array_equal(result, np.arange(64) ^ 31)


def test_lanes_that_exchange_values_without_a_sync_race() -> None:
    with pytest.raises(
        InterpreterError, match=r"llvm.load.*warp 0 lane 0: race \(read after write\).*lane 31 wrote.*\[shared-race\]"
    ):
        run(EXCHANGE.replace("SYNC", ""))


@pytest.mark.parametrize(
    ("kind", "clamp", "expected"),
    [("bfly", 31, LANES ^ 16), ("idx", 31, LANES * 0 + 16), ("down", 31, np.where(LANES < 16, LANES + 16, LANES))],
)
def test_a_shfl_of_each_kind_reads_the_lane_that_ptx_says(kind: str, clamp: int, expected: np.ndarray) -> None:
    result = run(
        f"""
        %mask = arith.constant -1 : i32
        %clamp = arith.constant {clamp} : i32
        %r = nvvm.shfl.sync {kind} %mask, %lane, %c16, %clamp : i32 -> i32
        llvm.store %r, %pd : i32, !llvm.ptr<1>
        """,
        "i32",
    )
    assert np.array_equal(result, expected)


def test_an_arrival_may_have_a_predicate() -> None:
    result = run(
        """
        %bytes = arith.constant 0 : i32
        %first = arith.cmpi eq, %lane, %c0 : i32
        scf.if %first { nvvm.mbarrier.init %s, %c1 : !llvm.ptr<3>, i32 }
        nvvm.mbarrier.arrive.expect_tx %s, %bytes, predicate = %first : !llvm.ptr<3>, i32, i1
        nvvm.mbarrier.try_wait.parity %s, %c0, %c1 : !llvm.ptr<3>, i32, i32
        llvm.store %lane, %pd : i32, !llvm.ptr<1>
        """,
        "i32",
    )
    assert np.array_equal(result, LANES)


def test_a_product_with_too_few_registers_is_refused() -> None:
    with pytest.raises(
        InterpreterError, match=r"takes \[1, 1, 2\] registers, .* of A, B, C, not \[1, 1, 1\].*\[mma-registers\]"
    ):
        run(
            """
            %x = arith.constant 1.0 : f64
            %y = llvm.call_intrinsic "llvm.nvvm.mma.m8n8k4.row.col.f64"(%x, %x, %x)
                : (f64, f64, f64) -> !llvm.struct<(f64, f64)>
            """
        )


def test_stmatrix_stores_the_bits_of_plain_integers_as_every_level_does() -> None:
    result = run(
        """
        nvvm.stmatrix %ps8, %c16 {layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>,
            eltType = #nvvm.ld_st_matrix_elt_type<b16>} : !llvm.ptr<3>, i32
        %mask = arith.constant -1 : i32
        nvvm.bar.warp.sync %mask : i32
        %ps = llvm.getelementptr %s[%lane] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, vector<2xf16>
        %v = llvm.load %ps : !llvm.ptr<3> -> vector<2xf16>
        %q = llvm.getelementptr %d[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, vector<2xf16>
        llvm.store %v, %q : vector<2xf16>, !llvm.ptr<1>
        """,
        "f16",
    )
    assert result.tolist() == [float(np.array(16, np.int16).view(np.float16)), 0.0] * 32


LDMATRIX = """nvvm.ldmatrix %ps8 {num = 1 : i32, layout = #nvvm.mma_layout<row>,
    shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>}
    : (!llvm.ptr<3>) -> i32"""

REFUSALS = {
    "ldmatrix in divergent code": (
        f"%in = arith.cmpi slt, %lane, %c16 : i32\n scf.if %in {{\n %r = {LDMATRIX} \n }}",
        r"\[16, 17.*\[warp-aligned\]",
    ),
    "a warp sync of a part": (
        "%mask = arith.constant 65535 : i32\n nvvm.bar.warp.sync %mask : i32",
        r"member mask 0xffff: .*\[member-mask\]",
    ),
    "a shuffle from lanes that are no members": (
        """%members = arith.constant 65535 : i32
        %c31 = arith.constant 31 : i32
        %in = arith.cmpi slt, %lane, %c16 : i32
        scf.if %in { %r = nvvm.shfl.sync down %members, %lane, %c1, %c31 : i32 -> i32 }""",
        r"lanes \[15\] read lanes outside of their member masks \[shuffle-outside\]",
    ),
    "a barrier of part of a warp": (
        "nvvm.barrier id = %c1 number_of_threads = %c16",
        r"a barrier of 16 threads.*\[barrier-threads\]",
    ),
    "a barrier beyond the sixteenth": (
        "%c32 = arith.constant 32 : i32\n nvvm.barrier id = %c16 number_of_threads = %c32",
        r"0 … 15.*\[barrier-number\]",
    ),
    "a barrier whose name differs by lane": (
        "%c32 = arith.constant 32 : i32\n nvvm.barrier id = %lane number_of_threads = %c32",
        r"the lanes of the warp give different values.*\[uniform-values\]",
    ),
    "ldmatrix of what nobody wrote": (f"%r = {LDMATRIX}", "uninitialised"),
    "a store of undef": (
        "%u = llvm.mlir.undef : f32\n llvm.store %u, %pd : f32, !llvm.ptr<1>",
        r"a value that was never given.*\[store-undef\]",
    ),
    "all lanes store to one address": (
        "llvm.store %c1, %d : i32, !llvm.ptr<1>",
        r"two lanes write the same bytes.*\[global-lanes-race\]",
    ),
    "a vector load of less alignment than it says": (
        "%p = llvm.getelementptr %a[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, bf16\n"
        "%v = llvm.load %p {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>",
        r"lane 1: misaligned: 4.*\[misaligned-access\]",
    ),
    "an unknown intrinsic": (
        '%x = arith.constant 1.0 : f32\n %y = llvm.call_intrinsic "llvm.nvvm.sin.approx.f"(%x) : (f32) -> f32',
        r"intrinsic llvm.nvvm.sin.approx.f is not interpreted.*\[no-intrinsic-meaning\]",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_breaks_a_rule_is_refused(case: str) -> None:
    body, message = REFUSALS[case]
    with pytest.raises(InterpreterError, match=message):
        run(body, "i32" if "%d :" in body else "f32")
