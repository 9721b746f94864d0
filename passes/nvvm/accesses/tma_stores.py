"""Lowering of TMA stores: the first thread of each warpgroup starts them, commits and waits."""

from mlir import ir
from mlir.dialects import nvvm, scf

from lowtide.dialects import sm
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.accesses.tma import cache_policy, matrix_of
from lowtide.passes.nvvm.agents.barriers import first_of_warpgroup
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.support.streams.buffers import is_transposed_buffer
from lowtide.passes.support.streams.panels import SWIZZLE_ROWS, Panels
from lowtide.targets.atoms import WARPGROUP_THREADS

_ALIGNMENT = 128  # bytes, of a box in shared memory


def lower_tma_store(context: Context, op: sm.TmaStoreOp) -> None:
    """One store for each box of the warpgroup's rows, then one commit. Coordinates are innermost first.

    If the columns of the buffer are contiguous, its transpose is divided into boxes, and the warpgroup stores columns
    of the transpose.
    """
    build, buffer = context.build, context.buffer(op.source)
    by_columns = is_transposed_buffer(buffer.type)
    panels = Panels.of(buffer.type, by_columns=by_columns)
    own = op.source.type.shape[0] // _warpgroups(context, op, panels.width if by_columns else 1)
    own_rows, own_columns = (panels.rows, own) if by_columns else (own, panels.columns)
    box_rows, box_columns = _box(op, own_rows, panels)
    group = build.udiv(context.tid, WARPGROUP_THREADS)
    apart = panels.offset(0, own) if by_columns else panels.offset(own, 0)
    start = element_pointer(buffer.pointer, build.mul(group, apart), build.i8)
    origin = build.add(context.scalar(op.row), build.mul(group, own)), context.scalar(op.column)
    outer, inner = origin[::-1] if by_columns else origin
    with ir.InsertionPoint(first_of_warpgroup(context).then_block):
        for row in range(0, own_rows, box_rows):
            for column in range(0, own_columns, box_columns):
                source = element_pointer(start, panels.offset(row, column), build.i8)
                _store(context, op, source, (build.add(inner, column), build.add(outer, row)))
        nvvm.CpAsyncBulkCommitGroupOp()
        scf.YieldOp([])


def _warpgroups(context: Context, op: sm.TmaStoreOp, unit: int) -> int:
    """The number of warpgroups, each of which has a multiple of `unit` rows of the buffer."""
    threads, rows = context.threads, op.source.type.shape[0]
    if context.elected or threads % WARPGROUP_THREADS or rows % (threads // WARPGROUP_THREADS * unit):
        of_panels = f", in panels of {unit}" if unit > 1 else ""
        raise Refusal(
            op,
            f"splits {rows} rows{of_panels} among the warpgroups of {1 if context.elected else threads} threads"
            " [tma-store-split]",
        )
    return threads // WARPGROUP_THREADS


def _box(op: sm.TmaStoreOp, own_rows: int, panels: Panels) -> tuple[int, int]:
    """Rows and columns of a box, which is a part of a panel: TMA reads it row after row, without gaps."""
    shape = tuple(op.map.type.shape)[0 if op.batch is None else 1 :]
    if len(shape) != 2:
        raise Refusal(op, f"stores boxes of rows and columns; the map has boxes of {len(shape)} sides [tma-store-rank]")
    rows, columns = shape
    if own_rows % rows:
        raise Refusal(
            op, f"stores boxes of {rows} rows, but a warpgroup has {own_rows} rows of the buffer [tma-box-rows]"
        )
    if columns != panels.width:
        raise Refusal(
            op, f"stores boxes of {columns} columns out of panels of {panels.width}; make them alike [tma-box-columns]"
        )
    if rows * panels.row_bytes % max(_ALIGNMENT, SWIZZLE_ROWS * panels.span):
        raise Refusal(
            op, f"stores boxes of {rows} rows, which do not begin where the swizzle's pattern does [tma-box-pattern]"
        )
    return rows, columns


def _store(context: Context, op: sm.TmaStoreOp, source: ir.Value, place: tuple[ir.Value, ir.Value]) -> None:
    policy, coordinates = cache_policy(context, op), [*place, *matrix_of(context, op)]
    nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp(context.scalar(op.map), source, coordinates, l2CacheHint=policy)


def lower_tma_store_wait(context: Context, op: sm.TmaStoreWaitOp) -> None:
    """Every thread waits for its own groups: all but one thread per warpgroup have none, and do not wait."""
    nvvm.CpAsyncBulkWaitGroupOp(op.pending.value, read=bool(op.read))


def lower_fence_proxy_async(context: Context, op: sm.FenceProxyAsyncOp) -> None:
    nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
