"""What passes read off a kernel: its schedule, and the problem it came from."""

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import tile
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Refusal, walk
from lowtide.passes.problem import Problem, kinds_of, layout_letters


def schedule_of(kernel: tile.KernelOp) -> Schedule:
    """The kernel's schedule. Refuses a kernel without one."""
    if "schedule" not in kernel.attributes:
        raise Refusal(kernel, "has no schedule; give it one: attributes {schedule = #tile.schedule<…>}")
    return Schedule.of(kernel.attributes["schedule"])


def problem_of(kernel: tile.KernelOp, mma: tile.MmaOp) -> Problem:
    """Element types and layout of the GEMM that a kernel's mma belongs to; sizes are not asked for any more."""
    stores = walk(kernel, tile.StoreOp)
    if len(stores) != 1:
        raise Refusal(kernel, f"has {len(stores)} tile.store; expected one")
    element = (
        mma.a.type.element_type if isinstance(mma.a.type, tile.ViewType) else ir.MemRefType(mma.a.type).element_type
    )
    return Problem(
        m=None,
        n=None,
        k=None,
        ab=str(element),
        acc=str(mma.acc.type.element_type),
        d=str(ir.MemRefType(stores[0].d.type).element_type),
        layout=layout_letters(mma),
        kinds=tuple(kinds_of(stores[0])),
    )


def main_loop(op: ir.OpView) -> scf.ForOp:
    """The loop whose body holds the op. Refuses an op outside a loop."""
    parent = op.operation.parent.opview
    if not isinstance(parent, scf.ForOp):
        raise Refusal(op, f"must stand in the K loop, an scf.for; it stands in {parent.operation.name}")
    return parent
