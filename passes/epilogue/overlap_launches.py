"""overlap-launches: let a kernel start before the kernels before it in the stream have ended.

Before   host    tile.launch @k grid(%ctas) threads(384) args(…)
         device  %full = sm.mbarriers …
                 sm.roles { … }
After    host    tile.launch @k grid(%ctas) threads(384) programmatic args(…)
         device  %full = sm.mbarriers …
                 tile.grid_dependency_wait
                 tile.launch_dependents
                 sm.roles { … }
         The ops before the roles (without roles: before the work tiles) do not access global memory, and run while the
         kernel before this one ends. Every thread waits, even in a CTA without work: a kernel that waits
         ends after the one before it, so a chain of such kernels keeps its order. The next kernel may start once all
         CTAs have waited: if they allowed it before, kernels further down the stream would start too and fill the SMs
         with CTAs that wait (mma.sync, 1024³ on an H200: 17 µs in place of 10). Kernels that copy matrices for such a
         kernel wait in the same way, before they copy.
Needs    level epilogue, the schedule's grid.launch; other kernels are left alone.
Refuses  a kernel without tile.work_tiles.
Test     test/lit/passes/epilogue/overlap-launches.mlir, overlap-launches-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import LaunchKind
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.rewriting import before
from lowtide.passes.support.problem.kernels import gemm_kernels, launches_of, schedule_if_any
from lowtide.targets import Target


@dataclass(frozen=True)
class OverlapLaunches(Pass):
    """Makes the launches of kernels whose schedule asks for it programmatic."""

    name: ClassVar[str] = "overlap-launches"
    needs: ClassVar[Level] = Level.EPILOGUE
    gives: ClassVar[Level] = Level.EPILOGUE

    def run(self, module: ir.Module, target: Target) -> None:
        asking = [schedule_if_any(kernel).grid.launch is LaunchKind.programmatic for kernel in gemm_kernels(module)]
        for kernel in walk(module, tile.KernelOp) if any(asking) else ():
            prepares = bool(walk(kernel, tile.PrepareOp))
            if not prepares and schedule_if_any(kernel).grid.launch is not LaunchKind.programmatic:
                continue
            with before(_first_work(kernel)), kernel.operation.location:
                tile.GridDependencyWaitOp()
                tile.LaunchDependentsOp()
            for launch in launches_of(module, kernel):
                launch.attributes["programmatic"] = ir.UnitAttr.get()


def _first_work(kernel: tile.KernelOp) -> ir.OpView:
    """The first op of the kernel that holds accesses to global memory."""
    for op in kernel.body.blocks[0].operations:
        if isinstance(op, (sm.RolesOp, tile.WorkTilesOp, tile.PrepareOp)):
            return op
    raise Refusal(
        kernel, "has no tile.work_tiles, before which it would wait for the kernels before it [no-work-tiles]"
    )
