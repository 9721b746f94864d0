"""The range of K of a group, and the rows of A and B up to its end, as index code of level cta."""

from typing import NamedTuple

from mlir import ir
from mlir.dialects import arith, memref

from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import extent


class GroupOfK(NamedTuple):
    """The range of K of a group, from `begin` to `end`. `last`: the end of the loop over K. The loop has at least one
    step; for an empty group, it is a step of zeros."""

    begin: ir.Value
    end: ir.Value
    last: ir.Value


def group_of_k(ends: ir.Value, group: ir.Value, k: ir.Value, block: int = 1) -> GroupOfK:
    """The range of group number `group`. The end before is clamped to [0, K], and the end to [the end before, K]: two
    loads, for any number of groups. Ends other than K are then rounded down to a multiple of `block`. If `block` is
    more than 1, the one step of an empty group lies past K."""
    build = Builder.index()
    is_first = build.eq(group, 0)
    before = build.smin(build.smax(_end(ends, build.sub(group, build.select(is_first, 0, 1))), 0), k)
    begin = build.select(is_first, 0, before)
    end = build.smin(build.smax(_end(ends, group), begin), k)
    if block > 1:
        begin, end = (build.select(build.eq(x, k), k, build.mul(build.udiv(x, block), block)) for x in (begin, end))
        past = build.mul(build.ceil_udiv(k, block), block)
        begin = build.select(build.eq(begin, end), past, begin)
    return GroupOfK(begin, end, build.smax(end, build.add(begin, 1)))


def _end(ends: ir.Value, number: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IndexType.get(), memref.load(ends, [number]))


def up_to(matrix: ir.Value, end: ir.Value) -> ir.Value:
    """The rows of a matrix up to `end`. Windows that reach past it read zeros there."""
    type_ = ir.MemRefType(matrix.type)
    shape = [ir.ShapedType.get_dynamic_size(), type_.get_dim_size(1)]
    sizes = [end, *([extent(matrix, 1)] if type_.is_dynamic_dim(1) else [])]
    part = ir.MemRefType.get(shape, type_.element_type, type_.layout)
    return memref.SubViewOp(part, matrix, [], sizes, [], [0, 0], shape, [1, 1]).result


def whole_of(matrix: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """A matrix and the end of a group of K, if a memref is a view of the matrix's rows up to this end; otherwise, the
    memref and None."""
    owner = matrix.owner
    if isinstance(owner, ir.Block) or not isinstance(owner.opview, memref.SubViewOp):
        return matrix, None
    return owner.opview.source, owner.opview.sizes[0]
