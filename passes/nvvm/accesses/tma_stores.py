"""Lowering of TMA stores: the first thread of each warpgroup starts them, commits and waits."""

from mlir import ir
from mlir.dialects import nvvm, scf

from lowtide.dialects import sm
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.accesses.tma import cache_policy, matrix_of
from lowtide.passes.nvvm.agents.barriers import first_of_warpgroup
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.support.streams.panels import SWIZZLE_ROWS, Panels
from lowtide.targets.atoms import WARPGROUP_THREADS

_ALIGNMENT = 128  # bytes, of a box in shared memory


def lower_tma_store(context: Context, op: sm.TmaStoreOp) -> None:
    """One store per box of the warpgroup's rows, then one commit. Coordinates are innermost first."""
    build, buffer = context.build, context.buffer(op.source)
    panels = Panels.of(buffer.type)
    own_rows = panels.rows // _warpgroups(context, op)
    box_rows, box_columns = _box(op, own_rows, panels)
    group = build.udiv(context.tid, WARPGROUP_THREADS)
    start = element_pointer(buffer.pointer, build.mul(group, own_rows * panels.row_bytes), build.i8)
    first_row = build.add(context.scalar(op.row), build.mul(group, own_rows))
    with ir.InsertionPoint(first_of_warpgroup(context).then_block):
        for row in range(0, own_rows, box_rows):
            for column in range(0, panels.columns, box_columns):
                source = element_pointer(start, panels.offset(row, column), build.i8)
                _store(context, op, source, (build.add(context.scalar(op.column), column), build.add(first_row, row)))
        nvvm.CpAsyncBulkCommitGroupOp()
        scf.YieldOp([])


def _warpgroups(context: Context, op: sm.TmaStoreOp) -> int:
    threads, rows = context.threads, op.source.type.shape[0]
    if context.elected or threads % WARPGROUP_THREADS or rows % (threads // WARPGROUP_THREADS):
        raise Refusal(
            op,
            f"splits {rows} rows among the warpgroups of {1 if context.elected else threads} threads [tma-store-split]",
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
