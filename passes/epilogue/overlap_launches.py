"""overlap-launches: let a kernel start before the kernels before it in the stream have ended.

Before   host    tile.launch @k grid(%ctas) threads(384) args(…)
         device  sm.roles { producer … { tile.work_tiles … {
                   %rows = arith.subi %dim, %m
                   sm.mbarrier_wait …; sm.tma_load … } } … }
After    host    tile.launch @k grid(%ctas) threads(384) programmatic args(…)
         device  sm.roles { producer … { tile.work_tiles … {
                   %rows = arith.subi %dim, %m
                   tile.grid_dependency_wait
                   tile.launch_dependents
                   sm.mbarrier_wait …; sm.tma_load … } } … }
         A producer waits in its first work tile, once it has computed where to load from. Consumers wait for its loads.
         Without a producer, and if consumers themselves read global memory before they wait for a load, all threads
         wait before the roles or work tiles. What comes before the wait does not access global memory, and runs while
         the kernel before this one ends. A grid has at least one work tile, so a kernel
         that waits ends after the one before it, and a chain of such kernels keeps its order. The next kernel may start
         once all CTAs have waited or ended: if they allowed it before, kernels further down the stream would start too
         and fill the SMs with CTAs that wait (mma.sync, 1024³ on an H200: 17 µs in place of 10). Kernels that copy
         matrices for such a kernel, or finish its reductions, wait in the same way, before they read.
Needs    level epilogue, the schedule's grid.launch; other kernels are left alone.
Refuses  a kernel without tile.work_tiles.
Test     test/lit/passes/epilogue/overlap-launches.mlir, overlap-launches-invalid.mlir
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import memref

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import LaunchKind
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.rewriting import before
from lowtide.passes.support.problem.kernels import PRODUCER, gemm_kernels, launches_of, schedule_if_any
from lowtide.passes.support.streams.buffers import is_shared
from lowtide.targets import Target

_PREPARES = (tile.PrepareOp, sm.MakeMapsOp)
_WITHOUT_SCHEDULE = (*_PREPARES, tile.FinishOp)  # ops of the kernels beside the product's, which have no schedule
_LOADS = (sm.TmaLoadOp, sm.CpAsyncOp, sm.LoadGlobalOp, tile.FinishOp, *_PREPARES)


@dataclass(frozen=True)
class OverlapLaunches(Pass):
    """Makes the launches of kernels whose schedule asks for it programmatic."""

    name: ClassVar[str] = "overlap-launches"
    needs: ClassVar[Level] = Level.EPILOGUE
    gives: ClassVar[Level] = Level.EPILOGUE

    def run(self, module: ir.Module, target: Target) -> None:
        asking = [schedule_if_any(kernel).grid.launch is LaunchKind.programmatic for kernel in gemm_kernels(module)]
        for kernel in walk(module, tile.KernelOp) if any(asking) else ():
            is_beside = any(walk(kernel, each) for each in _WITHOUT_SCHEDULE)
            if not is_beside and schedule_if_any(kernel).grid.launch is not LaunchKind.programmatic:
                continue
            for work in _works(kernel):
                with before(work), _served(kernel, work).operation.location:
                    tile.GridDependencyWaitOp()
                    tile.LaunchDependentsOp()
            for launch in launches_of(module, kernel):
                launch.attributes["programmatic"] = ir.UnitAttr.get()


def _served(kernel: tile.KernelOp, work: ir.OpView) -> ir.OpView:
    """What the wait is for: the kernel's first load of global memory; `work` if there is none."""
    return next((op for op in _ops(kernel.body.blocks[0]) if isinstance(op, _LOADS)), work)


def _works(kernel: tile.KernelOp) -> list[ir.OpView]:
    """The ops before which the kernel waits. A kernel that finishes reductions may begin by reading the ends of groups,
    so it waits before its first op."""
    if walk(kernel, tile.FinishOp):
        return [next(iter(kernel.body.blocks[0].operations)).opview]
    for op in kernel.body.blocks[0].operations:
        if isinstance(op, sm.RolesOp) and _only_producer_is_first(op):
            body = op.bodies[0].blocks[0].operations
            return [_first_access(tiles) for tiles in body if isinstance(tiles, tile.WorkTilesOp)]
        if isinstance(op, (sm.RolesOp, tile.WorkTilesOp, *_PREPARES)):
            return [op]
    raise Refusal(
        kernel, "has no tile.work_tiles, before which it would wait for the kernels before it [no-work-tiles]"
    )


def _only_producer_is_first(roles: sm.RolesOp) -> bool:
    """Whether the other roles wait for loads of a producer before they access global memory."""
    if ir.StringAttr(roles.names[0]).value != PRODUCER:
        return False
    others = [_ops(body.blocks[0]) for body in list(roles.bodies)[1:]]
    return all(isinstance(next(filter(_waits_or_accesses, ops), None), sm.MbarrierWaitOp) for ops in others)


def _waits_or_accesses(op: ir.OpView) -> bool:
    """Whether the op waits for an mbarrier, loads by TMA, or has an operand in global memory and is no question of its
    extents."""
    if isinstance(op, (sm.MbarrierWaitOp, sm.TmaLoadOp, memref.DimOp)):
        return not isinstance(op, memref.DimOp)
    return any(isinstance(each.type, ir.MemRefType) and not is_shared(each.type) for each in op.operation.operands)


def _ops(block: ir.Block) -> Iterator[ir.OpView]:
    """The ops of a block, outer before inner."""
    for op in block.operations:
        yield op
        for region in op.operation.regions:
            for inner in region:
                yield from _ops(inner)


def _first_access(tiles: tile.WorkTilesOp) -> ir.OpView:
    """The first op of the body that is not arithmetic."""
    return next(op for op in tiles.body.blocks[0].operations if not op.operation.name.startswith("arith."))
