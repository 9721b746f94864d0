"""tile.finish in one thread's program: one element, reduced from its partial results in their order."""

from mlir import ir
from mlir.dialects import arith, llvm, math, nvvm, scf

from lowtide.dialects import tile
from lowtide.passes.nvvm.accesses.reductions import Partial, combined, finite, kind_of
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.nvvm.thread.values import GlobalMatrix
from lowtide.passes.support.ir.arithmetic import number
from lowtide.reductions import OF_NOTHING, Reduction

# Loads that do not wait for each other. With more of them the code is longer, and fetching it takes more time than the
# loads save: the gradient of a bias, 1527×2816, takes 1.9 µs with 8, 2.1 with 24 and 4.2 with 48 (H200).
_AT_ONCE = 8


def lower_finish(context: Context, op: tile.FinishOp) -> None:
    """Element i of the target by thread i of the launch."""
    build, reduction, is_pair = context.build, kind_of(op), bool(op.pairs)
    target, source = context.get(op.target), context.get(op.source)
    assert isinstance(target, GlobalMatrix) and isinstance(source, GlobalMatrix)
    index = build.add(build.mul(nvvm.BlockIdXOp(build.i32).result, context.threads), context.tid)
    length, to, start = target.extents[-1], target.pointer, source.pointer
    exists, is_matrix = build.ult(index, length), len(source.extents) > len(target.extents)
    if target.strides:  # a batch
        part = build.udiv(index, length)
        index = build.sub(index, build.mul(part, length))
        exists = build.ult(part, target.extents[0])
        to, start = (
            element_pointer(x.pointer, build.mul(build.zext(part, build.i64), x.strides[0]), x.element)
            for x in (target, source)
        )
    branch = scf.IfOp(exists)
    with ir.InsertionPoint(branch.then_block):
        own = element_pointer(start, build.zext(index, build.i64), source.element)
        if is_matrix:
            length, rows = source.extents[1], source.extents[0]
        else:
            beyond = build.select(build.ult(index, source.extents[-1]), build.sub(source.extents[-1], index), 0)
            rows = build.ceil_udiv(beyond, length)
        found = _reduced(context, reduction, (own, length, rows), is_pair, source.element)
        llvm.StoreOp(found, element_pointer(to, build.zext(index, build.i64), target.element), alignment=4)
        scf.YieldOp([])


def _reduced(
    context: Context, reduction: Reduction, column: tuple[ir.Value, ir.Value, ir.Value], is_pair: bool, element: ir.Type
) -> ir.Value:
    """The reduction of a column: its first element, the elements from row to row, and its rows."""
    build, (_, _, rows) = context.build, column
    nothing = number(element, OF_NOTHING[reduction.operation])
    initial: Partial = (nothing, number(element, 0.0)) if reduction.is_pair else (nothing,)
    total, each = initial, 2 if is_pair else 1
    whole = build.sub(rows, build.urem(rows, each * _AT_ONCE))
    for first, end in ((build.constant(0), whole), (whole, rows)):
        loop = scf.ForOp(first, end, build.constant(each * _AT_ONCE), list(total))
        with ir.InsertionPoint(loop.body):
            total = tuple(loop.inner_iter_args)
            loaded = []
            for number_ in range(each * _AT_ONCE):
                rest = None if end is whole else initial[number_ % each]
                loaded.append(_load(context, column, build.add(loop.induction_variable, number_), element, rest))
            for at in range(0, len(loaded), each):
                total = combined(reduction, total, _partial(reduction, loaded[at : at + each]))
            scf.YieldOp(list(total))
        total = tuple(loop.results)
    if not reduction.is_pair:
        return total[0]
    most, powers = total
    return arith.addf(finite(most), math.log(powers))


def _load(
    context: Context,
    column: tuple[ir.Value, ir.Value, ir.Value],
    row: ir.Value,
    element: ir.Type,
    nothing: ir.Value | None,
) -> ir.Value:
    """The element of a row. `nothing`: the value to use past the last row; None if the row is known to exist."""
    build, (pointer, stride, rows) = context.build, column
    exists = None if nothing is None else build.ult(row, rows)
    place = row if exists is None else build.select(exists, row, 0)
    apart = build.mul(build.zext(place, build.i64), build.zext(stride, build.i64))
    value = llvm.LoadOp(element, element_pointer(pointer, apart, element), alignment=4).result
    return value if exists is None else arith.select(exists, value, nothing)


def _partial(reduction: Reduction, values: list[ir.Value]) -> tuple[ir.Value, ...]:
    """The partial result of loaded values. For a logarithm, the maximum is its value, and the sum is one
    exponential."""
    if not reduction.is_pair or len(values) == 2:
        return tuple(values)
    (value,) = values
    return value, math.exp(arith.subf(value, finite(value)))
