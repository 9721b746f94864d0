"""Workers, which take work items, and how a scheduler hands them numbered items, in one thread's program."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from mlir import ir
from mlir.dialects import nvvm

from lowtide.dialects.tile import SchedulerKind
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.support.ir.builder import Builder

Bounds: TypeAlias = tuple[ir.Value, ir.Value, ir.Value]  # first, end, step


@dataclass(frozen=True)
class Worker:
    """A CTA that takes work tiles, or a cluster if the kernel is launched in clusters. `index`: its number. `count`:
    the number of all workers."""

    index: ir.Value
    in_clusters: bool

    @classmethod
    def of(cls, context: Context) -> "Worker":
        """The worker that this CTA belongs to."""
        in_clusters, i32 = context.cluster.size > 1, context.build.i32
        return cls((nvvm.ClusterIdXOp if in_clusters else nvvm.BlockIdXOp)(i32).result, in_clusters)

    def count(self, build: Builder) -> ir.Value:
        """Reads the number of workers at the insertion point."""
        return (nvvm.ClusterDimXOp if self.in_clusters else nvvm.GridDimXOp)(build.i32).result


def _every_nth(build: Builder, worker: Worker, total: ir.Value) -> Bounds:
    """Worker i of g takes tiles i, i + g, …"""
    return worker.index, total, worker.count(build)


def _even_run(build: Builder, worker: Worker, total: ir.Value) -> Bounds:
    """Worker i takes the i-th run of neighbouring tiles; the first total mod g workers take one more.

    Uses quotient and remainder, since i · total would not fit in 32 bits.
    """
    index, count = worker.index, worker.count(build)
    each, over = build.udiv(total, count), build.urem(total, count)
    first = build.add(build.mul(index, each), build.umin(index, over))
    one_more = build.zext(build.ult(index, over), build.i32)
    return first, build.add(build.add(first, each), one_more), build.constant(1)


def in_turn(build: Builder, bounds: Bounds, instance: ir.Value, instances: int) -> Bounds:
    """The bounds of one of n instances of a role: every n-th tile of the CTA, from the instance's number on."""
    first, end, step = bounds
    return build.add(first, build.mul(instance, step)), end, build.mul(step, instances)


# Bounds of the loop over a worker's items. `one_shot` needs none.
LOOPS: dict[SchedulerKind, Callable[[Builder, Worker, ir.Value], Bounds]] = {
    SchedulerKind.persistent: _every_nth,
    SchedulerKind.even_split: _even_run,
}
