"""Lowering of sm.zero_rows to one thread's program."""

from mlir import ir
from mlir.dialects import arith, llvm, scf

from lowtide.dialects import sm
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.accesses.tma_stores import lower_fence_proxy_async
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.nvvm.thread.unrolling import keep_rolled
from lowtide.passes.nvvm.thread.values import Ring
from lowtide.passes.support.ir.builder import constant_of
from lowtide.passes.support.problem.kernels import role_of
from lowtide.passes.support.streams.panels import Panels

_BYTES = 16  # of a store
_WORDS = 4


def lower_zero_rows(context: Context, op: sm.ZeroRowsOp) -> None:
    """Stores of 16 bytes, and a fence. Swizzles permute only inside of rows, so the last rows are contiguous."""
    if role_of(op) is not None:
        raise Refusal(
            op, "is executed by all threads of the CTA; write it and a barrier before sm.roles [zero-rows-in-role]"
        )
    ring = context.get(op.ring)
    assert isinstance(ring, Ring)
    for number, first in enumerate((op.a, op.b)):
        panels = Panels.of(ring.type.buffers[number])
        if constant_of(first) != panels.rows:
            count = ring.copies[number] * panels.count
            _zero(context, ring.pointers[number], panels, count, context.scalar(first))
    lower_fence_proxy_async(context, op)


def _zero(context: Context, pointer: ir.Value, panels: Panels, count: int, first: ir.Value) -> None:
    """Stores zeros in the rows from `first` on of `count` panels, one after the other in memory.

    A thread stores at one offset in all panels before it goes on to the next offset. Few threads have more than two.
    """
    build, size = context.build, panels.rows * panels.row_bytes
    vector = ir.VectorType.get([_WORDS], build.i32)
    zeros = arith.ConstantOp(vector, ir.DenseElementsAttr.get_splat(vector, ir.IntegerAttr.get(build.i32, 0))).result
    begin = build.add(build.mul(first, panels.row_bytes), build.mul(context.tid, _BYTES))
    offsets = scf.ForOp(begin, build.constant(size), build.constant(context.threads * _BYTES))
    keep_rolled(offsets)  # a kernel begins with a cold instruction cache
    with ir.InsertionPoint(offsets.body):
        start = element_pointer(pointer, offsets.induction_variable, build.i8)
        for panel in range(count):
            llvm.StoreOp(zeros, element_pointer(start, panel * size, build.i8), alignment=_BYTES)
        scf.YieldOp([])
