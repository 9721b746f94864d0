"""When one run speaks for every order of agents, and what is said where it does not."""

from dataclasses import dataclass

import numpy as np
import pytest
from compiled import aligned
from hopper_nvvm_program import edited
from mlir import ir

import lowtide as lt
from lowtide.interpreter import Loaded, Report, interpret
from lowtide.interpreter.machine.interleavings import Order
from lowtide.interpreter.numbers.domains import domain
from lowtide.interpreter.ops.table import HANDLERS
from lowtide.interpreter.ops.uses import use_of
from lowtide.interpreter.program.decoding import decode
from lowtide.interpreter.program.dependence import dependences

# Compiled kernels -----------------------------------------------------------------------------------------------------

SMALL = {
    "sm_80": "grid.tile = [32, 32], k = 32, stages = 3, atoms = [2, 1, 1]",
    "sm_90a": "grid.tile = [64, 64], k = 64, stages = 2, roles = cooperative(1), registers = [0, 0]",
}


@pytest.mark.parametrize("target", SMALL)
@pytest.mark.parametrize("level", ["nvvm", "ptx"])
def test_a_compiled_kernel_is_checked_for_every_order_of_agents(target: str, level: str) -> None:
    kernel = lt.compile_gemm(lt.GemmSpec(a="bf16", b="bf16", d="bf16"), target=target, schedule=SMALL[target])
    loaded = Loaded(kernel.levels["llvm"], kernel.levels["ptx"]) if level == "ptx" else Loaded(kernel.levels[level])
    rng = np.random.default_rng(0)
    a, b, report = aligned(rng, 72, 136), aligned(rng, 40, 136), Report()
    d = interpret(loaded, {"a": a, "b": b}, domain="exact", report=report)
    assert np.array_equal(d, a @ b.T)
    assert report.holds and report.kernels, str(report)


def test_the_report_of_a_hand_written_kernel_holds_whichever_agent_runs_first() -> None:
    rng = np.random.default_rng(0)
    for seed in range(3):
        report = Report()
        a, b = aligned(rng, 64, 320), aligned(rng, 16, 320)
        d = np.zeros((64, 16))
        interpret(edited(), {"a": a, "b": b, "d": d}, domain="exact", seed=seed, report=report)
        assert report.holds, str(report)


# The premise ----------------------------------------------------------------------------------------------------------


def depends(body: str) -> list[str]:
    """Where the control flow of a kernel depends on data or timing. %s is in shared memory, %g in global memory."""
    text = f"""
    gpu.module @kernels {{
      llvm.mlir.global external @smem() {{addr_space = 3 : i32, alignment = 1024 : i64}} : !llvm.array<0 x i8>
      gpu.func @kernel(%g: !llvm.ptr<1>, %n: i32) kernel {{
        %lane = nvvm.read.ptx.sreg.tid.x : i32
        %c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %s = llvm.mlir.addressof @smem : !llvm.ptr<3>
        %p = llvm.getelementptr %g[%lane] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
        {body}
        gpu.return
      }}
    }}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        body_of = module.body.operations[0].regions[0].blocks[0].operations
        function = next(op.operation for op in body_of if op.operation.name == "gpu.func")
        program = decode(function, "nvvm", domain("float"), HANDLERS)
        return [str(each) for each in dependences(program, use_of)]


LOAD = "%x = llvm.load %p : !llvm.ptr<1> -> i32"


def test_data_that_is_only_computed_with_and_stored_is_no_dependence() -> None:
    assert not depends(f"{LOAD}\n%y = arith.addi %x, %c1 : i32\nllvm.store %y, %p : i32, !llvm.ptr<1>")


def test_branches_on_parameters_and_positions_are_no_dependence() -> None:
    body = "%w = arith.cmpi ult, %lane, %n : i32\nscf.if %w { llvm.store %n, %p : i32, !llvm.ptr<1> }"
    assert not depends(body)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("%w = arith.cmpi ult, %x, %n : i32\nscf.if %w { nvvm.barrier0 }", "the branch of `scf.if"),
        ("scf.for %i = %c0 to %x step %c1 : i32 { nvvm.barrier0 }", "the branch of `scf.for"),
        ("%q = llvm.getelementptr %g[%x] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32\n"
         "llvm.store %c0, %q : i32, !llvm.ptr<1>", "the operand of `llvm.store"),
        ("%q = llvm.getelementptr %s[%x] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32\n"
         "%y = llvm.load %q : !llvm.ptr<3> -> i32", "the operand of `%"),
        ("nvvm.barrier id = %c1 number_of_threads = %x", "the operand of `nvvm.barrier"),
        ("%t = scf.for %i = %c0 to %n step %c1 iter_args(%v = %c0) -> (i32) : i32 { scf.yield %x : i32 }\n"
         "nvvm.mbarrier.init %s, %t : !llvm.ptr<3>, i32", "the operand of `nvvm.mbarrier.init"),
        ("%w = arith.cmpi ult, %lane, %n : i32\n"
         "%t = scf.if %w -> (i32) { scf.yield %x : i32 } else { scf.yield %c0 : i32 }\n"
         "nvvm.mbarrier.init %s, %t : !llvm.ptr<3>, i32", "the operand of `nvvm.mbarrier.init"),
    ],
)  # fmt: skip
def test_control_flow_addresses_and_barriers_that_depend_on_data_are_named(body: str, what: str) -> None:
    (found,) = depends(f"{LOAD}\n{body}")
    assert found.startswith(what) and "depends on `%" in found and "llvm.load" in found


# Synchronisation ------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class FakeBarrier:
    name: str = "the mbarrier"
    completed: int = 0


class FakeOp:
    def describe(self) -> str:
        return "`op` at line 1"


OP = FakeOp()
WRITER, FIRST, SECOND = (0, 0), (0, 1), (0, 2)


def complete(order: Order, barrier: FakeBarrier) -> None:
    barrier.completed += 1
    order.complete(barrier)


def ring(order: Order, told: bool) -> None:
    """A writer fills a slot three times; two readers wait, the first alone says that it is free again. `told`: it has
    met the second before."""
    full, empty = FakeBarrier("full"), FakeBarrier("empty")
    for turn in range(3):
        order.learn(WRITER, OP, empty, (turn + 1) & 1)
        order.signal(WRITER, OP, full)
        complete(order, full)
        for reader in (FIRST, SECOND):
            order.learn(reader, OP, full, turn & 1)
        if told:
            order.meet([FIRST, SECOND])
        order.signal(FIRST, OP, empty)
        complete(order, empty)


def test_a_ring_whose_readers_meet_holds_for_every_order() -> None:
    report = Report()
    ring(Order(report), told=True)
    assert report.holds


def test_a_phase_that_a_late_reader_may_miss_is_named() -> None:
    report = Report()
    ring(Order(report), told=False)
    assert not report.holds
    assert "phase 1 of full may end before agent 2 of CTA 0 has seen phase 0 end" in str(report)


def test_an_arrival_that_may_count_for_an_earlier_phase_is_named() -> None:
    report, barrier = Report(), FakeBarrier()
    order = Order(report)
    order.signal(FIRST, OP, barrier)
    complete(order, barrier)
    order.signal(SECOND, OP, barrier)
    assert "counts for phase 1 of the mbarrier, but nothing orders it after phase 0" in str(report)


def test_a_wait_that_comes_two_phases_late_is_named() -> None:
    report, barrier = Report(), FakeBarrier()
    order = Order(report)
    complete(order, barrier)
    complete(order, barrier)
    order.learn(FIRST, OP, barrier, 0)
    assert "waits for phase 0 of the mbarrier when phase 1 is over" in str(report)


def test_a_barrier_that_more_warps_use_than_it_counts_is_named() -> None:
    report = Report()
    order = Order(report)
    for agent in range(3):
        order.enter(0, "1", agent, 2, OP)
    assert "barrier 1 of 2 warps is used by 3" in str(report)


def test_a_wait_for_some_of_a_semaphores_arrivals_is_named() -> None:
    report = Report()
    order = Order(report)
    order.count(OP, 64, arrivals=1)
    order.count(OP, 64, awaited=1)
    assert report.holds
    order.count(OP, 64, arrivals=1)
    assert "a wait is for 1 arrivals at a semaphore that gets more" in str(report)
