"""Barriers of the CTA, of a role and of warpgroups, and waits for copies and kernels."""

from mlir import ir
from mlir.dialects import nvvm, scf

from lowtide.dialects import sm, tile
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.context import Context
from lowtide.targets.atoms import WARPGROUP_THREADS

_LAST_BARRIER = 15


def lower_barrier(context: Context, op: ir.OpView) -> None:
    """bar.sync: of the whole CTA, of the role's threads, or of a warpgroup's, each with its own barrier.

    `op` is a barrier, or one that all threads execute together.
    """
    build = context.build
    if context.elected:
        raise Refusal(
            op,
            "is run by a producer's one thread, which would wait for the others forever; leave it out"
            " [barrier-of-producer]",
        )
    if isinstance(op, sm.BarrierOp) and op.warpgroup:
        _check_warpgroups(context, op)
        first = _first_barrier(context, context.warpgroup_barrier, context.threads // WARPGROUP_THREADS)
        number = build.add(build.udiv(context.tid, WARPGROUP_THREADS), first)
        _named_barrier(number, build.constant(WARPGROUP_THREADS))
    elif context.barrier == 0:
        nvvm.Barrier0Op()
    else:
        _named_barrier(_first_barrier(context, context.barrier, 1), build.constant(context.threads))


def _first_barrier(context: Context, number: int, each: int) -> ir.Value:
    """The first of the barriers of this instance of the role, which has `each` of those from `number` on."""
    build = context.build
    if context.instance is None:
        return build.constant(number)
    return build.add(build.mul(context.instance, each), number)


def first_of_warpgroup(context: Context) -> scf.IfOp:
    """An empty branch that the first thread of each warpgroup takes."""
    return first_of(context, WARPGROUP_THREADS)


def first_of(context: Context, threads: int) -> scf.IfOp:
    """An empty branch that the first of so many consecutive threads takes."""
    build = context.build
    return scf.IfOp(build.eq(build.urem(context.tid, threads), 0))


def _check_warpgroups(context: Context, op: sm.BarrierOp) -> None:
    """Checks that the barriers are within 1 to 15 (PTX ISA, "bar, barrier")."""
    if context.threads % WARPGROUP_THREADS:
        raise Refusal(op, f"is run by {context.threads} threads, not by whole warpgroups [barrier-warpgroups]")
    last = context.warpgroup_barrier + context.instances * context.threads // WARPGROUP_THREADS - 1
    if last > _LAST_BARRIER:
        raise Refusal(
            op, f"needs barriers up to {last}, but a CTA has {_LAST_BARRIER}; take fewer warpgroups [barrier-count]"
        )


def _named_barrier(number: ir.Value, threads: ir.Value) -> None:
    nvvm.BarrierOp(None, barrierId=number, numberOfThreads=threads)


def lower_grid_dependency_wait(context: Context, op: tile.GridDependencyWaitOp) -> None:
    _grid_control(context, nvvm.GridDepActionKind.wait)


def lower_launch_dependents(context: Context, op: tile.LaunchDependentsOp) -> None:
    _grid_control(context, nvvm.GridDepActionKind.launch_dependents)


def _grid_control(context: Context, action: nvvm.GridDepActionKind) -> None:
    """In a loop over work tiles, at the first one: later ones would find that nothing is left to do."""
    if context.is_first_tile is None:
        nvvm.GriddepcontrolOp(action)
        return
    with ir.InsertionPoint(scf.IfOp(context.is_first_tile).then_block):
        nvvm.GriddepcontrolOp(action)
        scf.YieldOp([])


def lower_cp_async_commit(context: Context, op: sm.CpAsyncCommitOp) -> None:
    nvvm.CpAsyncCommitGroupOp()


def lower_cp_async_wait(context: Context, op: sm.CpAsyncWaitOp) -> None:
    nvvm.CpAsyncWaitGroupOp(op.pending.value)
