"""The tiled mma and the tiled copies that a schedule asks for, built from the target's atoms."""

from dataclasses import dataclass, replace

from mlir import ir
from tensor_layouts import Layout, compose, flatten, mode

from lowtide import targets
from lowtide.dialects import sm, tile
from lowtide.dialects.tile import EpilogueMath, GemmLayout, StageOrder
from lowtide.dialects.tile.layouts import layout_attr, layout_of, tv_attr
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.problem.matrix_layouts import a_is_mk, b_is_nk, k_is_last
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.buffers import is_transposed_buffer
from lowtide.targets import TiledCopy, TiledMma
from lowtide.targets.atoms import wgmma_atom, with_a_in_registers
from lowtide.targets.banks import SECTOR_BYTES
from lowtide.targets.tv import neighbours

# Loads to registers, in kernels without shared memory.
GLOBAL_LOADS = tuple(filter(targets.loads_registers, targets.COPY_ATOMS))
CP_ASYNC_COPIES = tuple(name for name, atom in targets.COPY_ATOMS.items() if atom.is_cp_async)
STAGED_COPIES = tuple(name for name, atom in targets.COPY_ATOMS.items() if atom.is_staged)
RING_COPIES = tuple(filter(targets.is_by_threads, targets.COPY_ATOMS))  # to stages of a ring

STMATRIX_BITS = 16  # of an element

# Dimensions of the tensor maps of each TMA copy.
TMA_RANKS = {name: atom.tensor_rank for name, atom in targets.COPY_ATOMS.items() if atom.tensor_rank}


def mma_atom_name(schedule: Schedule, problem: Problem) -> str:
    """The full name of the mma atom: shape, accumulator and operand types, e.g. `mma.m16n8k16.f32.bf16`."""
    return f"{schedule.multiply.atom}.{targets.types_of_atom(problem.acc, problem.a, problem.b)}"


def tiled_mma(schedule: Schedule, problem: Problem) -> TiledMma:
    """The tiled mma of a complete schedule. Raises ScheduleError or TargetError if there is none."""
    multiply = schedule.multiply
    assert multiply.atoms is not None
    atom = targets.mma_atom(mma_atom_name(schedule, problem))
    return TiledMma(atom, multiply.atoms, multiply.permutation or (None, None, None), multiply.atom_order)


def holds_a(schedule: Schedule, problem: Problem) -> bool:
    """Whether consumers load A to registers for wgmma, which transposes it: only 16-bit operands in shared memory may
    have M contiguous."""
    atom = targets.MMA_ATOMS.get(mma_atom_name(schedule, problem)) if schedule.multiply.by_warpgroups else None
    return atom is not None and atom.holds_a(k_is_last(problem.layout))


def with_held_a(tiled: TiledMma) -> TiledMma:
    """The tiled wgmma with A from registers."""
    return replace(tiled, atom=with_a_in_registers(tiled.atom))


def part_of(mma: TiledMma, shape: tuple[int, int]) -> TiledMma:
    """The tiled mma whose accumulator layout for a part of the tile, `shape`, is that of `mma` within the whole tile.

    A wgmma of any width holds its columns in runs of 8: a narrower atom holds fewer runs in the same layout. The part
    is not multiplied by it, so hardware may lack the width: for integers, N = 40.
    """
    if mma.atom.issuer != "warpgroup":
        return mma
    types = mma.atom.c_dtype, mma.atom.a_dtype, mma.atom.b_dtype
    return TiledMma(wgmma_atom(shape[1], *types), mma.atom_layout)


def stacked_tv(mma: TiledMma, shape: tuple[int, int]) -> Layout:
    """The layout of accumulators that has a copy of the tile for each warp along K, one below the other."""
    m, n, k = mma.atom_layout
    # The place along K becomes the slowest part of the one along M: warps along K then hold rows of their own tile.
    tall = TiledMma(mma.atom, mma.atom_layout, mma.permutation).tv("c", shape)
    rows, _ = shape

    def moved(layout: Layout) -> Layout:
        flat = flatten(layout)
        shapes = (flat.shape,) if isinstance(flat.shape, int) else flat.shape
        strides = (flat.stride,) if isinstance(flat.stride, int) else flat.stride
        # The index is row + column * rows, so a step along columns is now `k` times as long.
        steps = (stride if stride < rows else stride * k for stride in strides)
        return Layout(shapes, tuple(steps))

    within = moved(compose(mode(tall, 0), Layout(32 * m * n, 1)))
    thread = Layout((*_modes(within.shape), k), (*_modes(within.stride), rows))
    return Layout(thread, moved(mode(tall, 1)))


def _modes(entry: int | tuple[int, ...]) -> tuple[int, ...]:
    return (entry,) if isinstance(entry, int) else entry


def tiled_mma_attr(mma: TiledMma) -> sm.TiledMmaAttr:
    permutation = None
    if any(entry is not None for entry in mma.permutation):
        extents = mma.tile_mnk
        entries = (extent if entry is None else entry for entry, extent in zip(mma.permutation, extents, strict=True))
        permutation = [layout_attr(entry) if isinstance(entry, Layout) else entry for entry in entries]
    order = None if mma.order is None else layout_attr(mma.order)
    return sm.TiledMmaAttr.get(mma.atom.name, mma.atom_layout, permutation, order)


def tiled_mma_of(attribute: sm.TiledMmaAttr) -> TiledMma:
    """The tiled mma of an attribute. Raises TargetError for an unknown atom, ScheduleError for a bad permutation."""
    m, n, k = attribute.atoms
    entries: list[int | Layout | None] = [None, None, None]
    if attribute.permutation is not None:
        entries = [entry if isinstance(entry, int) else layout_of(entry)[0] for entry in attribute.permutation]
    order = None if attribute.order is None else layout_of(attribute.order)[0]
    return TiledMma(targets.mma_atom(attribute.atom), (m, n, k), (entries[0], entries[1], entries[2]), order)


def fragment_type(tv: Layout, shape: tuple[int, int], element: ir.Type | str) -> sm.FragmentType:
    """`!sm.fragment` of a shape, an element (a type, or the name of its row), and a thread-value layout."""
    element = ir.Type.parse(element_type(element).ir) if isinstance(element, str) else element
    return sm.FragmentType.get(shape, element, tv_attr(tv))


def is_transposed(operand: str, layout: GemmLayout) -> bool:
    """Whether the rows of a stage are indexed by K, so that ldmatrix must transpose."""
    return not (a_is_mk(layout) if operand == "a" else b_is_nk(layout))


def keeps_transposed(operand: str, schedule: Schedule) -> bool:
    """Whether a stage is contiguous along its rows, so that copies into it transpose."""
    return schedule.mainloop.operand(operand).stage is StageOrder.transposed


def stage_layout(shape: tuple[int, int], transposed: bool, padding: int = 0) -> Layout:
    """The plain layout of a stage of `shape`: contiguous along its columns or, `transposed`, along its rows.

    `padding` elements lie between one such line and the next.
    """
    return Layout(shape, (1, shape[0] + padding) if transposed else (shape[1] + padding, 1))


def planned_stage(operand: str, schedule: Schedule, problem: Problem) -> Layout:
    """The plain layout of a stage of A or B without roles, as the schedule says."""
    padding = schedule.mainloop.operand(operand).padding or 0
    return stage_layout(problem.stream(operand).box(schedule.tile_mnk), keeps_transposed(operand, schedule), padding)


def fill_copy(
    atom_name: str, shape: tuple[int, int], threads: int, element_bits: int, transposed: bool = False
) -> TiledCopy:
    """The tiled copy that fills a stage of `shape`: vectors of the atom's bytes along the contiguous dimension.

    If the stage is `transposed`, as many threads as fill a sector share a row, or more if rows are too few. The others
    take other rows, which lie side by side in the stage. Raises ScheduleError if the threads cannot share the stage.
    """
    vector = targets.copy_atom(atom_name).bytes_per_thread * 8 // element_bits
    if not vector:
        wide = f"{atom_name.rpartition('.')[0]}.{element_bits // 8}"
        raise ScheduleError(
            f"{atom_name} moves less than one element of {element_bits // 8} bytes; take {wide} [copy-element]"
        )
    most = SECTOR_BYTES * 8 // element_bits // vector if transposed else threads
    if transposed:
        most = max(most, -(-threads // shape[0]))
    threads_layout = targets.default_copy_threads(threads, *shape, vector, most)
    return targets.make_tiled_copy(targets.copy_atom(atom_name), threads_layout, Layout((1, vector)), shape)


def copy_through_registers(window: ir.Value, buffer: ir.Value, copy: TiledCopy) -> None:
    """A load of the window to a fragment, in vectors of the copy's atom, and its store to the buffer.

    Stores are as wide as the loads if the buffer is contiguous along the same dimension; otherwise they store one
    element. The loads of a copy that realigns may begin anywhere.
    """
    element, size = tile.ViewType(window.type).element_type, copy.atom.bytes_per_thread
    held = fragment_type(copy.tv, copy.shape, element)
    realigned = copy.atom.realigns or None
    fragment = sm.LoadGlobalOp(held, window, f"ld.global.{size}", aligned=not realigned, realigned=realigned).result
    stored = element_bits(element) // 8 if is_transposed_buffer(buffer.type) else size
    sm.StoreSharedOp(fragment, buffer, f"st.shared.{stored}")


def tiled_copy_attr(copy: TiledCopy) -> sm.TiledCopyAttr:
    return sm.TiledCopyAttr.get(copy.atom.name, tv_attr(copy.tv))


@dataclass(frozen=True)
class EpilogueAccess:
    """The epilogue's pass through shared memory: the scratch's element, the copy of its rows, by stores of the widest
    result, and the most elements that an access of 16 bytes moves, both in the scratch and in this result."""

    scratch_element: str
    rows: TiledCopy
    widest: int

    def store(self, element: str) -> str:
        """The atom that stores as many elements of a result's type."""
        return f"st.global.{self.rows.vector * element_type(element).bits // 8}"


def epilogue_rows(schedule: Schedule, problem: Problem, threads: int) -> EpilogueAccess:
    """The scratch and the row accesses of a schedule's epilogue tile, of 16 bytes or of `epilogue.store`.

    Raises ScheduleError if the threads cannot share the epilogue tile in such vectors.
    """
    assert schedule.epilogue.tile is not None
    element = problem.d if schedule.epilogue.math is EpilogueMath.registers else problem.acc
    by_columns, most = problem.d_is_column_major, schedule.epilogue.store
    return rows_of_part(schedule.epilogue.tile, element, problem.widest, threads, most, by_columns)


def matrices_of_stmatrix(columns: int) -> int:
    """The 8×8 matrices that one stmatrix stores of a fragment with `columns` columns: two rows of matrices, with one or
    two matrices each."""
    return 4 if columns % 16 == 0 else 2


def fragment_run(tv: Layout, shape: tuple[int, int], element_bits: int, by_columns: bool = False) -> int:
    """Neighbouring elements of a row or column that each thread holds and stores at once, at most 16 bytes."""
    return min(neighbours(tv, shape, by_columns), 128 // element_bits)


def stored_at_once(held: int, widest: int, most: int | None) -> int:
    """The number of elements that a thread stores at once. `held`: the neighbouring elements that it holds. `most`: the
    most bytes at once of the widest result, whose elements have `widest` bytes; None for no limit."""
    return held if most is None else min(held, max(1, most // widest))


def rows_of_part(
    shape: tuple[int, int], element: str, d: str, threads: int, most: int | None = None, by_columns: bool = False
) -> EpilogueAccess:
    """As `epilogue_rows`, for a part of any shape. `element` is the element type of the scratch, `d` the widest one of
    the full results.

    A thread stores `most` bytes of D at once; by default, as many elements as 16 bytes of the wider type hold. With
    `by_columns`, these are neighbours in a column.
    """
    widest = 128 // max(element_type(element).bits, element_type(d).bits)
    vector = min(widest, max(1, (most or 16) * 8 // element_type(d).bits))
    bytes_per_thread = vector * element_type(d).bits // 8
    as_it_lies = shape[::-1] if by_columns else shape
    threads_layout, values = targets.default_copy_threads(threads, *as_it_lies, vector), Layout((1, vector))
    if by_columns:
        threads_layout, values = (Layout(mode(each, 1), mode(each, 0)) for each in (threads_layout, values))
    atom = targets.copy_atom(f"st.global.{bytes_per_thread}")
    rows = targets.make_tiled_copy(atom, threads_layout, values, shape)
    return EpilogueAccess(element, rows, widest)
