"""Checks the launches of kernels against the schedules of the kernels.

Launches keep their form to the last level, so they are checked at every level.
"""

from collections.abc import Iterator

from mlir import ir

from lowtide.dialects import tile
from lowtide.dialects.tile import LaunchKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Refusal, walk
from lowtide.passes.schedules.built.kernel import AGAIN, refusal
from lowtide.passes.schedules.facts.resources import threads_of
from lowtide.passes.support.problem.kernels import cluster_shape, scheduled_kernels


def launch_mismatches(module: ir.Module) -> Iterator[Refusal]:
    """A refusal for each launch that differs from its kernel's schedule, at any level."""
    kernels = scheduled_kernels(module)
    for launch in walk(module, tile.LaunchOp):
        kernel = kernels.get(ir.FlatSymbolRefAttr(launch.kernel).value)
        schedule = None if kernel is None else Schedule.of(kernel.attributes["schedule"])
        threads = ir.IntegerAttr(launch.threads).value
        if schedule is not None and schedule.multiply.atoms is not None and threads != threads_of(schedule):
            scheduled = f"atoms = {list(schedule.multiply.atoms)}, which are {threads_of(schedule)}"
            yield refusal(launch, f"launches {threads} threads per CTA", scheduled, AGAIN)
        if kernel is not None and schedule is not None:
            yield from _programmatic(launch, kernel, schedule)
        if schedule is not None and cluster_shape(launch.cluster) != schedule.cluster:
            built = f"launches clusters of {list(cluster_shape(launch.cluster))}"
            yield refusal(launch, built, f"grid.cluster = {list(schedule.cluster)}", AGAIN)


def _programmatic(launch: tile.LaunchOp, kernel: ir.Operation, schedule: Schedule) -> Iterator[Refusal]:
    """overlap-launches makes a launch programmatic, before assign-smem-offsets gives it its shared memory."""
    wanted = schedule.grid.launch is LaunchKind.programmatic
    if bool(launch.programmatic) != wanted and (launch.programmatic or launch.shared_memory is not None):
        built = "is programmatic" if launch.programmatic else "is not programmatic"
        yield refusal(launch, built, f"grid.launch = {schedule.grid.launch or LaunchKind.serialized}", AGAIN)
    if launch.programmatic and not _waits_for_earlier_kernels(kernel):
        yield Refusal(
            launch,
            "may start before the kernels before it have ended, and its kernel never waits for them; write "
            f"tile.grid_dependency_wait before its first access to global memory, or {AGAIN} [programmatic-wait]",
        )


def _waits_for_earlier_kernels(kernel: ir.Operation) -> bool:
    """Whether the kernel has a wait, at any level."""
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        at_nvvm = op.name == "nvvm.griddepcontrol" and "wait" in str(op.attributes["kind"])
        found = op.name == "tile.grid_dependency_wait" or at_nvvm
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    kernel.walk(visit)
    return found
