"""Lowering of TMA loads to one thread's program."""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import llvm, nvvm, scf

from lowtide.dialects import sm
from lowtide.dialects.enums import cache_hint_of, multicast_of
from lowtide.dialects.sm import ClusterLine
from lowtide.dialects.tile import CacheHint
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.agents.barriers import first_of_warpgroup
from lowtide.passes.nvvm.agents.roles import barrier_pointer
from lowtide.passes.nvvm.thread.clusters import CLUSTER_SPACE
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.support.ir.builder import Scalar
from lowtide.passes.support.streams.panels import SWIZZLE_ROWS, Panels
from lowtide.passes.support.streams.ragged import coordinates, is_ragged
from lowtide.targets.atoms import WARPGROUP_THREADS

# L2 cache-policy operands by cache hint, as createpolicy.fractional returns them for fraction 1.0 (PTX ISA,
# "createpolicy"). The ISA does not define the encoding; these are the constants that compilers pass.
_CACHE_POLICIES = {
    CacheHint.normal: 0x1000000000000000,
    CacheHint.evict_first: 0x12F0000000000000,
    CacheHint.evict_last: 0x14F0000000000000,
}
_BATCH_RANK = 3  # of the boxes of a batch that have one panel


def lower_tma_load(context: Context, op: sm.TmaLoadOp) -> None:
    """One instruction for each box that the buffer holds; the coordinates go innermost first."""
    panels = Panels.of(op.destination.type)
    if panels.width != op.map.type.shape[-1]:
        raise Refusal(
            op,
            f"boxes have rows of {op.map.type.shape[-1]} elements, the buffer panels of {panels.width}; both must be "
            "the row of the swizzle [tma-load-rows]",
        )
    buffer, map_type = context.buffer(op.destination), op.map.type
    barrier = barrier_pointer(context, op.barriers, op.index)
    policy, line, build = cache_policy(context, op), multicast_of(op), context.build
    place, parties = _sharing(context, line)
    rows = _share_of(op, panels.rows, parties)
    mask = None if line is None else context.cluster.mask(build, line)
    pointer = element_pointer(buffer.pointer, build.mul(place, rows * panels.row_bytes), build.i8)
    row, outer = context.scalar(op.row), matrix_of(context, op)
    if is_ragged(op):
        row, outer = coordinates(build, context.scalar(op.batch), row)
    origin = build.add(row, build.mul(place, rows)), context.scalar(op.column)
    box = list(map_type.shape)[len(outer) :]
    box[-2] = _rows_of_box(op)

    def start_loads() -> None:
        for offset, corner in _boxes(context, panels, rows, box, *origin):
            start = element_pointer(pointer, offset, build.i8)
            cluster = _in_cluster(context, start)
            place = [*corner, *outer]
            nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(
                cluster, context.scalar(op.map), place, barrier, [], multicastMask=mask, l2CacheHint=policy
            )

    if context.elected:
        start_loads()
        return
    with ir.InsertionPoint(first_of_warpgroup(context).then_block):
        start_loads()
        scf.YieldOp([])


def _in_cluster(context: Context, pointer: ir.Value) -> ir.Value:
    """A pointer to the CTA's shared memory, as a pointer to the cluster's: both have the same bits. LLVM's cast goes
    through a generic address, for which ptxas reads a special register before each load."""
    number = llvm.PtrToIntOp(context.build.i64, pointer).result
    return llvm.IntToPtrOp(llvm.PointerType.get(CLUSTER_SPACE), number).result


def _sharing(context: Context, line: ClusterLine | None) -> tuple[Scalar, int]:
    """Which part of the buffer's rows is loaded here, of how many: those of a CTA of the cluster, or of a warpgroup."""
    if line is None and not context.elected and context.threads > WARPGROUP_THREADS:
        return context.build.udiv(context.tid, WARPGROUP_THREADS), context.threads // WARPGROUP_THREADS
    return context.cluster.share(line)


def matrix_of(context: Context, op: sm.TmaLoadOp | sm.TmaStoreOp) -> tuple[ir.Value, ...]:
    """The outer coordinates, innermost first: the index in a batch, or the end of the rows. A map of two batches has
    one more coordinate, which is 0 because the box has rows of both. Without a batch: ()."""
    if op.batch is None:
        return ()
    sides = op.map.type.shape
    of_pair = [context.build.constant(0)] * (len(sides) > _BATCH_RANK and sides[0] == 2)
    return (context.scalar(op.batch), *of_pair)


def _rows_of_box(op: sm.TmaLoadOp) -> int:
    """The rows of a box in shared memory: those of one matrix, or of two."""
    matrices = 1 if op.batch is None else op.map.type.shape[0]
    return int(op.map.type.shape[-2] * matrices)


def _share_of(op: sm.TmaLoadOp, rows: int, parties: int) -> int:
    """The rows of a tile that each of the CTAs that share it loads: whole boxes that begin where the swizzle does."""
    share, box_rows = rows // parties, _rows_of_box(op)
    if rows % parties or share % box_rows or (parties > 1 and share % SWIZZLE_ROWS):
        raise Refusal(
            op,
            f"shares {rows} rows among {parties} CTAs in boxes of {box_rows} rows; each must load whole boxes, and a "
            f"multiple of {SWIZZLE_ROWS} rows [tma-load-share]",
        )
    return share


def _boxes(
    context: Context, panels: Panels, rows: int, box: list[int], row: ir.Value, column: ir.Value
) -> Iterator[tuple[int, list[ir.Value]]]:
    """The boxes that fill the first `rows` of a buffer from (row, column) of the matrix: byte offset, coordinates.

    In maps of three to five dimensions the third counts panels, which start at a multiple of their width.
    """
    build = context.build
    *outer, box_rows, width = box
    together = outer[-1] if outer else 1
    for panel in range(0, panels.count, together):
        for first in range(0, rows, box_rows):
            at_row, at_column = build.add(row, first), build.add(column, panel * width)
            if outer:
                zeros = [build.constant(0)] * (len(outer) - 1)
                coordinates = [build.constant(0), at_row, build.udiv(at_column, width), *zeros]
            else:
                coordinates = [at_column, at_row]
            yield panels.offset(first, panel * width), coordinates


def cache_policy(context: Context, op: sm.TmaLoadOp | sm.TmaStoreOp) -> ir.Value | None:
    """The operand for the op's L2 eviction priority; None where it has no hint. Refuses a hint of st.global's."""
    if op.cache is None:
        return None
    hint = cache_hint_of(op)
    if hint not in _CACHE_POLICIES:
        raise Refusal(op, f"has cache({hint}), which is for st.global; TMA takes evict_first or evict_last [tma-hint]")
    return context.build.constant(_CACHE_POLICIES[hint], context.build.i64)
