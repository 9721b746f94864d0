"""What passes read off a kernel: its schedule, the problem it came from, its main loop."""

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.base import Refusal, walk
from lowtide.passes.schedules.facts import consumer_warpgroups
from lowtide.passes.support.problem import Problem, buffer_bytes, element_name, kinds_of, layout_letters


def kernels_of(module: ir.Module, *, roles: bool) -> list[tile.KernelOp]:
    """The kernels whose schedule has roles (a producer and consumers), or those whose warps all do the same."""
    return [kernel for kernel in walk(module, tile.KernelOp) if is_specialized(_schedule_if_any(kernel)) == roles]


def launches_of(module: ir.Module, kernel: ir.OpView) -> list[tile.LaunchOp]:
    """The launches of a tile.kernel or gpu.func, in program order."""
    name = ir.StringAttr(kernel.operation.attributes["sym_name"]).value
    return [op for op in walk(module, tile.LaunchOp) if ir.FlatSymbolRefAttr(op.kernel).value == name]


def is_specialized(schedule: Schedule) -> bool:
    """Whether a schedule asks for roles."""
    return consumer_warpgroups(schedule) > 0


def _schedule_if_any(kernel: tile.KernelOp) -> Schedule:
    return Schedule.of(kernel.attributes["schedule"]) if "schedule" in kernel.attributes else Schedule()


def schedule_of(op: tile.KernelOp | tile.GemmOp, *needed: str) -> Schedule:
    """The schedule on a kernel or gemm. Refuses an op without one, or with one that leaves a needed field open."""
    if "schedule" not in op.attributes:
        raise Refusal(op, "has no schedule; run choose-schedule first, or write one")
    schedule = Schedule.of(op.attributes["schedule"])
    for name in needed:
        if getattr(schedule, name) is None:
            raise Refusal(op, f"schedule leaves {name} open; run choose-schedule first, or write it")
    return schedule


def problem_of(kernel: tile.KernelOp) -> Problem:
    """Element types and layout of the GEMM that a kernel computes, at any of its levels; sizes are left open.

    Refuses a kernel without an mma and a store to read them off.
    """
    for mma in walk(kernel, tile.MmaOp):
        ab, letters = _element(mma.a.type), layout_letters(mma)
        return _problem(kernel, ab, mma.acc.type.element_type, letters)
    for mma_sync in walk(kernel, sm.MmaSyncOp):
        letters = ("n" if _loaded_transposed(kernel, mma_sync.a) else "t") + (
            "t" if _loaded_transposed(kernel, mma_sync.b) else "n"
        )
        return _problem(kernel, _element(mma_sync.a.type), mma_sync.acc.type.element_type, letters)
    for wgmma in walk(kernel, sm.WgmmaOp):
        acc = wgmma.result.type.fragment.element_type
        return _problem(kernel, _element(wgmma.a.type), acc, layout_letters(wgmma))
    raise Refusal(kernel, "has no tile.mma, sm.mma_sync or sm.wgmma that says what it multiplies")


def _problem(kernel: tile.KernelOp, ab: ir.Type, acc: ir.Type, letters: str) -> Problem:
    stores = [(store.d.type, tuple(kinds_of(store))) for store in walk(kernel, tile.StoreOp)]
    stores += [(part.destination.type, ()) for part in walk(kernel, sm.StoreGlobalOp)]
    stores += [(part.source.type, ()) for part in walk(kernel, sm.TmaStoreOp)]
    if not stores:
        raise Refusal(kernel, "has no tile.store or sm.store_global that says what it writes")
    d, kinds = stores[0]
    return Problem(None, None, None, element_name(ab), element_name(acc), element_name(_element(d)), letters, kinds)


def _element(type_: ir.Type) -> ir.Type:
    """The element type of a window, a fragment or a memref."""
    if isinstance(type_, (tile.ViewType, sm.FragmentType)):
        return type_.element_type
    return ir.MemRefType(type_).element_type


def _loaded_transposed(kernel: tile.KernelOp, operand: ir.Value) -> bool:
    """Whether fragments of this type come by ldmatrix.trans; A's and B's types differ in their thread-value layouts."""
    return any(bool(load.trans) for load in walk(kernel, sm.LdmatrixOp) if load.result.type == operand.type)


def bytes_of(op: ir.OpView, buffer: ir.Type) -> int:
    """Bytes of a buffer of the op's. Refuses elements that nothing here computes with."""
    try:
        return buffer_bytes(buffer)
    except ScheduleError as error:
        raise Refusal(op, str(error)) from error


def main_loop(op: ir.OpView) -> scf.ForOp:
    """The loop whose body holds the op. Refuses an op outside a loop."""
    parent = op.operation.parent.opview
    if not isinstance(parent, scf.ForOp):
        raise Refusal(op, f"must stand in the K loop, an scf.for; it stands in {parent.operation.name}")
    return parent
