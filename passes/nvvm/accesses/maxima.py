"""The amax in one thread's program: the largest of its elements inside the matrix, then of its warp, by one red.max."""

from mlir import ir
from mlir.dialects import arith, math, vector

from lowtide.dialects import sm
from lowtide.dialects.tile.layouts import tv_of
from lowtide.passes.nvvm.accesses.runs import thread_origin
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import both, is_before_edge
from lowtide.passes.nvvm.thread.values import Fragment, GlobalMatrix, element_of, vector_type
from lowtide.passes.support.ir.arithmetic import number
from lowtide.targets import split_coordinates

_CHAINS = 4  # of maxima that do not wait for each other


def lower_max_abs(context: Context, op: sm.MaxAbsOp) -> None:
    """One maximum for each element; a condition where it may lie outside. NaN stays: arith.maximumf gives NaN."""
    window, fragment = context.window(op.window), context.fragment(op.value)
    split = split_coordinates(tv_of(fragment.type.tv), fragment.type.shape)
    split = split.turned if window.turned else split
    row0, column0 = thread_origin(context, window, split)
    (start,) = context.fragment(op.most).registers
    first = element_of(start, 0)
    chains = [first, *[number(first.type, 0.0)] * (_CHAINS - 1)]
    places = zip(split.row_values, split.col_values, strict=True)
    values = (element_of(register, i) for register in fragment.registers for i in range(fragment.width))
    for index, (value, (row, column)) in enumerate(zip(values, places, strict=True)):
        exists = both(
            context,
            is_before_edge(context, window, 0, context.build.add(row0, row)),
            is_before_edge(context, window, 1, context.build.add(column0, column)),
        )
        before = chains[index % _CHAINS]
        larger = arith.maximumf(before, math.absf(value))
        chains[index % _CHAINS] = larger if exists is None else arith.select(exists, larger, before)
    most = chains[0]
    for other in chains[1:]:
        most = arith.maximumf(most, other)
    register = vector.FromElementsOp(vector_type(1, most.type), [most]).result
    context.values[op.result] = Fragment((register,), 1, op.result.type)


def lower_raise_max(context: Context, op: sm.RaiseMaxOp) -> None:
    (register,) = context.fragment(op.most).registers
    sm.PtxRaiseMaxOp(element_of(register, 0), _pointer(context, op.target))


def _pointer(context: Context, vector: ir.Value) -> ir.Value:
    lowered = context.get(vector)
    assert isinstance(lowered, GlobalMatrix)
    return lowered.pointer
