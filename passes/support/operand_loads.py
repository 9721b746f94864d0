"""Loads of the fragments of mma operands: the op, and the atom, that follow a tiled mma."""

from typing import TypeAlias, TypeGuard

from mlir import ir
from tensor_layouts import Layout

from lowtide import targets
from lowtide.dialects import sm, tile
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.support.atoms import fragment_type
from lowtide.passes.support.buffers import is_transposed_buffer
from lowtide.passes.support.problem import Problem
from lowtide.passes.support.weights import weight_access
from lowtide.targets import FragmentLoads, TiledMma, WarpAccess
from lowtide.targets.atoms import Operand

LDMATRIX_BITS = 16  # of the elements that ldmatrix moves, and may transpose

OperandLoad: TypeAlias = sm.LdmatrixOp | sm.LoadSharedOp


def operand_load(
    source: ir.Value,
    offsets: list[int],
    tiled: TiledMma,
    operand: Operand,
    shape: tuple[int, int],
    trans: bool,
) -> ir.Value:
    """The load of an mma operand's fragment, `shape`, from shared memory: ldmatrix for what it takes, else ld.shared.

    Raises ScheduleError where neither can follow the tiled mma.
    """
    element = ir.MemRefType(source.type).element_type
    result = fragment_type(tiled.tv(operand, shape), shape, element)
    atom = load_atom(tiled, operand, shape, trans != is_transposed_buffer(source.type))
    if targets.family_of(atom) == "ldmatrix":
        atom = atom.removesuffix(".trans")
        return sm.LdmatrixOp(result, source, offsets, atom, trans=trans or None).result
    return sm.LoadSharedOp(result, source, atom, offsets=offsets, trans=trans or None).result


def global_operand_load(
    window: ir.Value, atom: str, tiled: TiledMma, operand: Operand, shape: tuple[int, int], trans: bool
) -> ir.Value:
    """The load of an mma operand's fragment, `shape`, from a window of global memory by a load atom.

    Raises ScheduleError where threads do not hold runs as wide as the atom.
    """
    tv, element = tiled.tv(operand, shape), tile.ViewType(window.type).element_type
    global_loads(tv, shape, trans, atom, tiled.atom.dtype(operand))
    return sm.LoadGlobalOp(fragment_type(tv, shape, element), window, atom, trans=trans or None).result


def global_loads(tv: Layout, shape: tuple[int, int], trans: bool, atom: str, element: str) -> FragmentLoads:
    """The loads of a fragment by a load atom. Raises ScheduleError that names the widest one that can."""
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


def load_atom(tiled: TiledMma, operand: Operand, shape: tuple[int, int], along_rows: bool) -> str:
    """The copy atom by which an operand's fragment comes from shared memory. Raises ScheduleError if none can."""
    return operand_access(tiled, operand, shape, along_rows).name


def stage_access(
    tiled: TiledMma, operand: Operand, shape: tuple[int, int], along_rows: bool, problem: Problem
) -> WarpAccess:
    """As `operand_access`; of packed weights the loads of their bytes."""
    if operand == problem.packed:
        return weight_access(tiled, operand, shape[0], problem.rows_per_byte(operand), shape[1])
    return operand_access(tiled, operand, shape, along_rows)


def operand_access(tiled: TiledMma, operand: Operand, shape: tuple[int, int], along_rows: bool) -> WarpAccess:
    """The accesses to shared memory that load an operand's fragment, named by their atom.

    `along_rows`: memory is contiguous along the fragment's rows, not along its columns. Raises ScheduleError where no
    load can follow the tiled mma.
    """
    bits = element_type(tiled.atom.dtype(operand)).bits
    if bits == LDMATRIX_BITS or (bits < LDMATRIX_BITS and not along_rows):
        plan = targets.ldmatrix_source(tiled, operand, shape, along_rows)
        return targets.ldmatrix_access(plan, plan.atom_name)
    loads = targets.widest_loads(tiled.tv(operand, shape), shape, along_rows, bits)
    return targets.loads_access(loads, f"ld.shared.{loads.vector * bits // 8}")
