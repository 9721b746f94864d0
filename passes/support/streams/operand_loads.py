"""Loads of the fragments of mma operands: the op and the atom for a tiled mma."""

from collections.abc import Callable
from typing import TypeAlias, TypeGuard

from mlir import ir
from tensor_layouts import Layout

from lowtide import targets
from lowtide.dialects import sm, tile
from lowtide.dialects.tile import GemmLayout
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.base import Refusal
from lowtide.passes.support.agents.atoms import fragment_type, is_transposed
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import defining_op, erase_if_unused
from lowtide.passes.support.problem.element_types import element_name
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.buffers import is_transposed_buffer
from lowtide.passes.support.streams.weight_loads import is_weight_load, load_zero_points, weight_load, weight_slices
from lowtide.passes.support.streams.weights import weight_access
from lowtide.targets import FragmentLoads, TiledMma, WarpAccess
from lowtide.targets.atoms import Operand

LDMATRIX_BITS = 16  # bits of the elements that ldmatrix moves, and may transpose

OperandLoad: TypeAlias = sm.LdmatrixOp | sm.LoadSharedOp


def load_operand(mma: tile.MmaOp, operand: Operand, tiled: TiledMma, layout: GemmLayout, atom: str) -> ir.Value:
    """The whole fragment of A or B for a tiled mma. It is loaded from a window of global memory by a load atom, or from
    a stage, and converted if the stage holds packed weights. Raises ScheduleError as the loads do."""
    source, trans = mma.a if operand == "a" else mma.b, is_transposed(operand, layout)
    is_window = isinstance(source.type, tile.ViewType)
    stored = source.type.shape if is_window else ir.MemRefType(source.type).shape
    shape = (stored[1], stored[0]) if trans else (stored[0], stored[1])
    if is_window:
        return global_operand_load(source, atom, tiled, operand, shape, trans)
    if operand == "b" and mma.weights:
        zeros = load_zero_points(mma.zeros, tiled, operand)
        return weight_load(source, mma.weights.value, zeros, tiled, operand).result
    return operand_load(source, [0, 0], tiled, operand, shape, trans)


def operand_slices(whole: ir.Value, operand: Operand, tiled: TiledMma) -> Callable[[int, int], ir.Value] | None:
    """A function that makes the fragment of K columns [k, k + step) from one of `load_operand`; None for any other."""
    load = defining_op(whole)
    if is_weight_load(load):
        return weight_slices(load, tiled)
    if not is_operand_load(load) and not isinstance(load, sm.LoadGlobalOp):
        return None
    rows, trans = whole.type.shape[0], bool(load.trans)

    def at(k: int, step: int) -> ir.Value:
        if isinstance(load, sm.LoadGlobalOp):
            window = _narrowed(load, k, step)
            return global_operand_load(window, load.atom.value, tiled, operand, (rows, step), trans)
        row, column = load.offsets
        offsets = [row + k, column] if trans else [row, column + k]
        return operand_load(load.source, offsets, tiled, operand, (rows, step), trans)

    return at


def erase_load(whole: ir.Value) -> None:
    """Erases the ops that made a fragment that no op reads any more."""
    load = defining_op(whole)
    read = [operand for operand in load.operands if isinstance(operand.type, sm.FragmentType)] if load else []
    if load is not None:
        erase_if_unused(load)
    for fragment in read:
        erase_load(fragment)


def _narrowed(load: sm.LoadGlobalOp, k: int, step: int) -> ir.Value:
    """The part of a load's window with K from `k` to `k + step`."""
    view = defining_op(load.source)
    if not isinstance(view, tile.ViewOp):
        raise Refusal(load, "must read a window of tile.view [sliced-window]")
    dim = -2 if load.trans else -1  # behind the number of the matrix in a batch
    offsets, shape = list(view.offsets), list(view.result.type.shape)
    offsets[dim], shape[dim] = Builder.index().add(offsets[dim], k), step
    window = tile.ViewType.get(shape, view.result.type.element_type)
    return tile.ViewOp(window, view.source, offsets, halves=view.halves).result


def operand_load(
    source: ir.Value,
    offsets: list[int],
    tiled: TiledMma,
    operand: Operand,
    shape: tuple[int, int],
    trans: bool,
) -> ir.Value:
    """The load of an mma operand's fragment, `shape`, from shared memory: ldmatrix for what it takes, else ld.shared.

    Raises ScheduleError if neither fits the tiled mma.
    """
    element = ir.MemRefType(source.type).element_type
    result = fragment_type(tiled.tv(operand, shape), shape, element)
    along_rows = trans != is_transposed_buffer(source.type)
    atom = operand_access(tiled, operand, shape, along_rows, element_name(element)).name
    if targets.family_of(atom) == "ldmatrix":
        atom = atom.removesuffix(".trans")
        return sm.LdmatrixOp(result, source, offsets, atom, trans=trans or None).result
    return sm.LoadSharedOp(result, source, atom, offsets=offsets, trans=trans or None).result


def global_operand_load(
    window: ir.Value, atom: str, tiled: TiledMma, operand: Operand, shape: tuple[int, int], trans: bool
) -> ir.Value:
    """The load of an mma operand's fragment, `shape`, from a window of global memory by a load atom.

    Raises ScheduleError if threads do not hold runs as wide as the atom.
    """
    tv, element = tiled.tv(operand, shape), tile.ViewType(window.type).element_type
    global_loads(tv, shape, trans, atom, tiled.atom.dtype(operand))
    return sm.LoadGlobalOp(fragment_type(tv, shape, element), window, atom, trans=trans or None).result


def global_loads(tv: Layout, shape: tuple[int, int], trans: bool, atom: str, element: str) -> FragmentLoads:
    """The loads of a fragment by a load atom. If it is too wide, raises ScheduleError with the widest that fits."""
    bits, size = element_type(element).bits, targets.copy_atom(atom).bytes_per_thread
    widest = targets.widest_loads(tv, shape, trans, bits)
    vector = size * 8 // bits
    if not 1 <= vector <= widest.vector:
        family = atom.rpartition(".")[0]
        held = f"holds {widest.vector * bits // 8} bytes of it side by side in memory"
        raise ScheduleError(
            f"{atom}: a thread {held}; take {family}.{widest.vector * bits // 8}, or another permutation"
            " [global-load-run]"
        )
    return targets.fragment_loads(tv, shape, trans, vector)


def is_operand_load(op: object) -> TypeGuard[OperandLoad]:
    """Whether an op loads a part of a buffer as `operand_load` does."""
    return isinstance(op, sm.LdmatrixOp) or (isinstance(op, sm.LoadSharedOp) and op.offsets is not None)


def same_load(load: OperandLoad, source: ir.Value) -> ir.Value:
    """The same load from another buffer."""
    clone = load.operation.clone()
    clone.operands[0] = source
    return clone.results[0]


def stage_access(
    tiled: TiledMma, operand: Operand, shape: tuple[int, int], along_rows: bool, problem: Problem
) -> WarpAccess:
    """As `operand_access`; for packed weights, the loads of their bytes."""
    if operand == problem.packed:
        return weight_access(tiled, operand, shape[0], problem.stream(operand).rows, shape[1])
    return operand_access(tiled, operand, shape, along_rows, problem.stream(operand).element)


def operand_access(
    tiled: TiledMma, operand: Operand, shape: tuple[int, int], along_rows: bool, element: str
) -> WarpAccess:
    """The accesses to shared memory that load an operand's fragment, named by their atom.

    `along_rows`: memory is contiguous along the fragment's rows, not along its columns. `element`: the type in memory.
    ldmatrix moves only elements that the mma takes unchanged. Raises ScheduleError if no load fits the tiled mma.
    """
    bits, taken = element_type(element).bits, element_type(tiled.atom.dtype(operand)).bits
    if bits == taken and (bits == LDMATRIX_BITS or (bits < LDMATRIX_BITS and not along_rows)):
        plan = targets.ldmatrix_source(tiled, operand, shape, along_rows)
        return targets.ldmatrix_access(plan, plan.atom_name)
    loads = targets.widest_loads(tiled.tv(operand, shape), shape, along_rows, bits)
    return targets.loads_access(loads, f"ld.shared.{loads.vector * bits // 8}")
