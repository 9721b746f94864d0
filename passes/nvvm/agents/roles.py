"""Lowering of roles and mbarriers to one thread's program."""

from dataclasses import replace
from functools import partial

from mlir import ir
from mlir.dialects import llvm, nvvm, scf

from lowtide.dialects import sm
from lowtide.dialects.enums import receivers_of
from lowtide.dialects.sm import ClusterLine
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.agents.barriers import first_of
from lowtide.passes.nvvm.thread.clusters import CLUSTER_SPACE
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.control import LowerBlock
from lowtide.passes.nvvm.thread.lanes import of_first_lane
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.schedules.facts.resources import MBARRIER_BYTES
from lowtide.passes.support.agents.wgmmas import wgmmas
from lowtide.passes.support.ir.rewriting import following
from lowtide.passes.support.problem.kernels import FILLERS, PRODUCER, instances_of
from lowtide.targets.atoms import WARPGROUP_THREADS, WARPGROUP_WARPS

_WAIT_TICKS = 10_000_000  # nanoseconds that one try_wait may sleep; it is tried again


def lower_roles(context: Context, op: sm.RolesOp, lower_block: LowerBlock) -> None:
    """One branch on the thread index for each role, in order; the chain is marked with the roles' names."""
    _lower_role(context, op, 0, 0, lower_block)


def _lower_role(context: Context, op: sm.RolesOp, position: int, first: int, lower_block: LowerBlock) -> None:
    """The role at `position`, whose threads begin at `first`; the roles after it are in its else branch."""
    names = [ir.StringAttr(name).value for name in op.names]
    threads = 32 * op.warps[position] * instances_of(op, position)
    is_last = position == len(names) - 1
    if is_last:
        _lower_body(context, op, position, first, lower_block)
        return
    condition = context.build.ult(context.tid, first + threads)
    branch = scf.IfOp(condition, has_else=True)
    branch.operation.attributes["roles"] = ir.ArrayAttr.get([op.names[position], op.names[position + 1]])
    with ir.InsertionPoint(branch.then_block):
        _lower_body(context, op, position, first, lower_block)
        scf.YieldOp([])
    with ir.InsertionPoint(branch.else_block):
        _lower_role(context, op, position + 1, first + threads, lower_block)
        scf.YieldOp([])


def _lower_body(context: Context, op: sm.RolesOp, position: int, first: int, lower_block: LowerBlock) -> None:
    body = op.bodies[position].blocks[0]
    registers = op.registers[position]
    name = ir.StringAttr(op.names[position]).value
    if registers:
        action = nvvm.SetMaxRegisterAction.decrease if name in FILLERS else nvvm.SetMaxRegisterAction.increase
        nvvm.SetMaxRegisterOp(registers, action)
    own = context.build.sub(context.tid, first)
    counts = [instances_of(op, number) for number in range(len(op.warps))]
    threads = 32 * op.warps[position]
    role = replace(
        _numbered(context, own, threads, counts[position], _reads_a(body)),
        threads=threads,
        elected=name == PRODUCER,
        barrier=1 + sum(counts[:position]),
        instances=counts[position],
        registers=registers or context.registers,
        # The barriers of the roles come first, then those of the warpgroups of the roles before this one.
        warpgroup_barrier=1 + sum(counts) + first // WARPGROUP_THREADS,
    )
    if name != PRODUCER:
        lower_block(role, body)
        return
    # Thread 0 runs the whole producer. With a thread that elect.sync chooses, 85 kernels with a run-time K take 0.95 to
    # 1.10 of the time, mean 1.003 (H200).
    with ir.InsertionPoint(scf.IfOp(context.build.eq(own, 0)).then_block):
        lower_block(role, body)
        scf.YieldOp([])


def _reads_a(body: ir.Block) -> bool:
    """Whether wgmma reads A from shared memory, from the rows of a role's instance or warpgroup."""
    return any(isinstance(op.a.type, ir.MemRefType) for inner in body.operations for op in wgmmas(inner))


def _numbered(context: Context, own: ir.Value, threads: int, instances: int, in_uniform_registers: bool) -> Context:
    """A role's context, with the numbers of thread, instance and warpgroup that follow from that of the thread among
    all of its instances."""
    build = context.build
    same = partial(of_first_lane, build) if in_uniform_registers else (lambda value: value)
    instance = None if instances == 1 else same(build.udiv(own, threads))
    tid = own if instances == 1 else build.urem(own, threads)
    shared = in_uniform_registers and threads > WARPGROUP_THREADS
    warpgroup = same(build.udiv(tid, WARPGROUP_THREADS)) if shared else None
    return replace(context, tid=tid, instance=instance, warpgroup=warpgroup)


def lower_mbarriers(context: Context, op: sm.MbarriersOp) -> None:
    """All mbarriers of the block, at the first of them: one thread initialises them and shows them to the TMA unit."""
    if op.result in context.values:
        return
    build = context.build
    together = [other for other in op.operation.block.operations if isinstance(other, sm.MbarriersOp)]
    for barriers in together:
        if barriers.at is None:
            raise Refusal(barriers, "has no place in shared memory; run assign-smem-offsets first [mbarriers-place]")
        context.values[barriers.result] = element_pointer(context.smem, int(barriers.at.value), build.i8)
    branch = scf.IfOp(build.eq(context.tid, 0))
    with ir.InsertionPoint(branch.then_block):
        for barriers in together:
            for i in range(barriers.result.type.count):
                pointer = element_pointer(context.scalar(barriers.result), MBARRIER_BYTES * i, build.i8)
                nvvm.MBarrierInitOp(pointer, build.constant(barriers.arrivals.value))
        nvvm.FenceMbarrierInitOp()
        scf.YieldOp([])
    if not _orders(following(together[-1])):
        nvvm.Barrier0Op()


def _orders(op: ir.OpView) -> bool:
    """Whether an op orders the threads of the CTA as a barrier would."""
    return isinstance(op, sm.ClusterBarrierOp)


def barrier_pointer(context: Context, barriers: ir.Value, index: ir.Value) -> ir.Value:
    """The mbarrier object of a slot."""
    offset = context.build.mul(context.scalar(index), MBARRIER_BYTES)
    return element_pointer(context.scalar(barriers), offset, context.build.i8)


def lower_role_instance(context: Context, op: sm.RoleInstanceOp) -> None:
    context.values[op.result] = context.build.constant(0) if context.instance is None else context.instance


def lower_mbarrier_wait(context: Context, op: sm.MbarrierWaitOp) -> None:
    ticks = context.build.constant(_WAIT_TICKS)
    pointer = barrier_pointer(context, op.barriers, op.index)
    nvvm.MBarrierTryWaitParityOp(pointer, context.scalar(op.phase), ticks)


def lower_mbarrier_arrive(context: Context, op: sm.MbarrierArriveOp) -> None:
    """Arrival of the producer's one thread, or of the first thread of each consumer warpgroup, or of each warp.

    An arrival at several CTAs is made by as many threads of the warpgroup, or of the warp, at once: that of number r
    arrives at CTA r.
    """
    build = context.build
    pointer = barrier_pointer(context, op.barriers, op.index)
    line = receivers_of(op)
    if line is not None:
        _arrive_in_cluster(context, op, pointer, line)
        return

    def arrive() -> None:
        if op.bytes is None:
            nvvm.MBarrierArriveOp(build.i64, pointer)
        else:
            size = build.constant(op.bytes.value)
            size = size if op.more is None else build.add(size, context.scalar(op.more))
            nvvm.MBarrierArriveExpectTxOp(None, pointer, size)

    if context.elected:
        arrive()
        return
    with ir.InsertionPoint(first_of(context, _arriving_together(op)).then_block):
        arrive()
        scf.YieldOp([])


def lower_cp_async_arrive(context: Context, op: sm.CpAsyncArriveOp) -> None:
    """Arrival of each thread, which the mbarrier counts among those that it expects."""
    nvvm.CpAsyncMBarrierArriveOp(barrier_pointer(context, op.barriers, op.index), noinc=True)


def _arriving_together(op: sm.MbarrierArriveOp) -> int:
    """The consecutive threads that arrive once."""
    return WARPGROUP_THREADS // (WARPGROUP_WARPS if op.each_warp else 1)


def _arrive_in_cluster(context: Context, op: sm.MbarrierArriveOp, pointer: ir.Value, line: ClusterLine) -> None:
    """Without a scope: an arrival that releases at cluster scope waits for all earlier accesses to memory, and what it
    releases here are reads that have ended."""
    build = context.build
    if context.elected:
        raise Refusal(
            op,
            "arrives at other CTAs from a producer, which is one thread; arrive from a consumer role"
            " [producer-arrives]",
        )
    number = build.urem(context.tid, _arriving_together(op))
    branch = scf.IfOp(context.cluster.receives(build, line, number))
    with ir.InsertionPoint(branch.then_block):
        remote = nvvm.MapaOp(llvm.PointerType.get(CLUSTER_SPACE), pointer, number).res
        nvvm.MBarrierArriveOp(None, remote)
        scf.YieldOp([])
