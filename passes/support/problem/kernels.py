"""Properties of a kernel that passes read: its schedule, problem, main loop and launches."""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.tile.schedule import Schedule
from lowtide.dialects.tile.schedule_parts import Grid
from lowtide.errors import ScheduleError
from lowtide.passes.base import Refusal, walk
from lowtide.passes.support.problem.element_types import buffer_bytes
from lowtide.passes.support.problem.problem import Problem


def gemm_kernels(module: ir.Module) -> list[tile.KernelOp]:
    """The kernels that multiply. They have a schedule; kernels that prepare a matrix or finish reductions have none."""
    others = (tile.PrepareOp, tile.FinishOp, sm.MakeMapsOp)
    return [kernel for kernel in walk(module, tile.KernelOp) if not any(walk(kernel, op) for op in others)]


# Roles that fill the ring: by one thread, which starts TMA loads, or by all threads of a warpgroup.
FILLERS = PRODUCER, COPIERS = "producer", "copiers"


def kernels_by_issuer(module: ir.Module, *, warpgroups: bool) -> list[tile.KernelOp]:
    """The kernels whose products warpgroups issue, or those whose products warps or threads issue."""
    return [kernel for kernel in gemm_kernels(module) if schedule_if_any(kernel).multiply.by_warpgroups == warpgroups]


def scheduled_kernels(module: ir.Module) -> dict[str, ir.Operation]:
    """By name, the kernels that carry a schedule, at any level."""
    found: dict[str, ir.Operation] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if "schedule" in op.attributes and "sym_name" in op.attributes:
            attribute = op.attributes["schedule"]
            if isinstance(attribute, tile.ScheduleAttr):
                found[ir.StringAttr(op.attributes["sym_name"]).value] = op
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def launches_of(module: ir.Module, kernel: ir.OpView) -> list[tile.LaunchOp]:
    """The launches of a tile.kernel or gpu.func, in program order."""
    name = ir.StringAttr(kernel.operation.attributes["sym_name"]).value
    return [op for op in walk(module, tile.LaunchOp) if ir.FlatSymbolRefAttr(op.kernel).value == name]


def relaunch(launch: tile.LaunchOp, arguments: Sequence[ir.Value], **attributes: ir.Attribute) -> None:
    """Replaces a launch by one with other arguments and, if given, other `attributes`. All else stays the same.

    An op cannot get more operands, so a new one is made. It gets all attributes of the old one: its fields, and any
    others that it has.
    """
    before_arguments = list(launch.operands)[: len(launch.operands) - len(launch.args)]
    kept = {name: launch.attributes[name] for name in launch.attributes}
    with ir.InsertionPoint(launch), launch.operation.location:
        ir.Operation.create("tile.launch", operands=[*before_arguments, *arguments], attributes={**kept, **attributes})
    launch.operation.erase()


def is_direct(kernel: tile.KernelOp) -> bool:
    """Whether the kernel's schedule loads fragments from global memory, without shared memory in between."""
    return schedule_if_any(kernel).is_direct


def schedule_if_any(kernel: tile.KernelOp) -> Schedule:
    """The schedule on a kernel; an empty one if it has none."""
    return Schedule.of(kernel.attributes["schedule"]) if "schedule" in kernel.attributes else Schedule()


def schedule_of(op: tile.KernelOp | tile.GemmOp, *needed: str) -> Schedule:
    """The schedule on a kernel or gemm. Refuses an op without one, or with a needed field undecided.

    `needed` are paths of fields: `mainloop.stages`.
    """
    if "schedule" not in op.attributes:
        raise Refusal(op, "has no schedule; run choose-schedule first, or write one [no-schedule]")
    schedule = Schedule.of(op.attributes["schedule"])
    for path in needed:
        if schedule.get(path) is None:
            raise Refusal(op, f"schedule leaves {path} open; run choose-schedule first, or write it [schedule-open]")
    return schedule


def cluster_clause(grid: Grid) -> ir.Attribute | None:
    """The `cluster` clause of an op; None for clusters of one CTA, which are not written."""
    return ir.DenseI64ArrayAttr.get(grid.cluster) if grid.cluster not in (None, (1, 1)) else None


def cluster_shape(attribute: ir.Attribute | None) -> tuple[int, int]:
    """The shape of a `cluster` clause; one CTA if it is left out."""
    if attribute is None:
        return 1, 1
    rows, columns = ir.DenseI64ArrayAttr(attribute)
    return rows, columns


def problem_of(kernel: tile.KernelOp) -> Problem:
    """The problem that a kernel carries, with the size of its matrices. Refuses a kernel without one."""
    if "problem" not in kernel.attributes:
        raise Refusal(
            kernel,
            "has no problem; write #tile.problem beside its schedule, or lower again from level problem [no-problem]",
        )
    types = [argument.type for argument in kernel.body.blocks[0].arguments]
    return Problem.of_attribute(kernel.attributes["problem"], types).of_size(types)


def copies_of(ring: sm.RingOp) -> list[int]:
    """For each buffer of a slot, its number in the ring: one for each stage, or fewer if stages share it."""
    stages, kept = ring.result.type.stages, tuple(ring.kept or ())
    shared = stages if ring.kept_stages is None else ring.kept_stages.value
    return [shared if number in kept else stages for number in range(len(ring.result.type.buffers))]


def bytes_of(op: ir.OpView, buffer: ir.Type) -> int:
    """Bytes of a buffer of the op. Refuses unsupported element types."""
    try:
        return buffer_bytes(buffer)
    except ScheduleError as error:
        raise Refusal(op, str(error)) from error


def role_of(op: ir.OpView) -> tuple[sm.RolesOp, int] | None:
    """The sm.roles around the op, and the position of its role there; None outside of roles."""
    inner = op.operation
    while (outer := inner.parent) is not None:
        if isinstance(outer.opview, sm.RolesOp):
            block = inner.block
            return outer.opview, next(i for i, body in enumerate(outer.opview.bodies) if body.blocks[0] == block)
        inner = outer
    return None


def work_tiles_around(op: ir.OpView) -> tile.WorkTilesOp | None:
    """The tile.work_tiles that contains the op; None outside of one."""
    at = op.operation.parent
    while at is not None and not isinstance(at.opview, tile.WorkTilesOp):
        at = at.parent
    return None if at is None else at.opview


def role_instances(op: ir.OpView) -> int:
    """The number of instances of the op's role; 1 outside of roles."""
    role = role_of(op)
    return 1 if role is None else instances_of(*role)


def instances_of(roles: sm.RolesOp, position: int) -> int:
    """The number of instances of a role."""
    return 1 if roles.instances is None else int(roles.instances[position])


def main_loop(op: ir.OpView) -> scf.ForOp:
    """The loop whose body holds the op. Refuses an op outside a loop."""
    parent = op.operation.parent.opview
    if not isinstance(parent, scf.ForOp):
        raise Refusal(op, f"must stand in the K loop, an scf.for; it stands in {parent.operation.name} [main-loop]")
    return parent
