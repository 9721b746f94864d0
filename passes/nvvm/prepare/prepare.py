"""tile.prepare in one thread's program: a copy, a transpose, pieces, or zero."""

from mlir import ir
from mlir.dialects import llvm, scf

from lowtide.dialects import tile
from lowtide.dialects.tile import Side
from lowtide.passes.nvvm.prepare.matrix_copies import copy_matrix
from lowtide.passes.nvvm.prepare.matrix_splits import split_matrix
from lowtide.passes.nvvm.prepare.matrix_transposes import transpose_matrix
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.values import GlobalMatrix
from lowtide.passes.support.ir.arithmetic import number
from lowtide.passes.support.problem.problem import decomposition_of


def lower_prepare(context: Context, op: tile.PrepareOp) -> None:
    """Each thread writes its part of the target."""
    target = context.get(op.target)
    assert isinstance(target, GlobalMatrix)
    if op.source is None:
        _clear(context, target)
        return
    source = context.get(op.source)
    assert isinstance(source, GlobalMatrix)
    if op.precision is not None:
        side = Side(ir.IntegerAttr(op.side).value)
        split_matrix(context, source, target, decomposition_of(op.precision), side, k_first=bool(op.transposed))
    elif op.transposed:
        transpose_matrix(context, source, target)
    else:
        copy_matrix(context, source, target)


def _clear(context: Context, target: GlobalMatrix) -> None:
    """By the first thread of the launch's one CTA."""
    first = scf.IfOp(context.build.eq(context.tid, 0))
    with ir.InsertionPoint(first.then_block):
        llvm.StoreOp(number(target.element, 0.0), target.pointer, alignment=4)
        scf.YieldOp([])
