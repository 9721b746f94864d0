"""Matrices in workspaces, and the views of memory that host functions make of matrices."""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import memref

from lowtide.dialects import tile
from lowtide.passes.support.builder import Builder, Scalar

ROW_BYTES = 128  # to which the rows of a workspace are aligned: a line of the L2 cache


def row_stride(columns: Scalar, element_bytes: int) -> ir.Value:
    """Elements from row to row of a matrix in a workspace."""
    build, each = Builder.index(), ROW_BYTES // element_bytes
    return build.mul(build.ceil_udiv(columns, each), each)


def workspace(like: ir.MemRefType, size: ir.Value) -> ir.Value:
    """A vector of that many elements of the type of a matrix's."""
    return tile.WorkspaceOp(ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], like.element_type), size).result


def view(memory: ir.Value, like: ir.MemRefType, extents: Sequence[ir.Value], strides: Sequence[ir.Value]) -> ir.Value:
    """Memory as matrices of the type `like`, with these strides, all but the last."""
    sizes = [value for dim, value in enumerate(extents) if like.is_dynamic_dim(dim)]
    static = [ir.ShapedType.get_dynamic_stride_or_offset()] * len(strides)
    type_ = ir.MemRefType.get(like.shape, like.element_type, ir.StridedLayoutAttr.get(0, [*static, 1]))
    return memref.ReinterpretCastOp(type_, memory, [], sizes, strides, [0], list(like.shape), [*static, 1]).result


def any_extents(type_: ir.MemRefType) -> ir.MemRefType:
    dynamic = [ir.ShapedType.get_dynamic_size()] * type_.rank
    return ir.MemRefType.get(dynamic, type_.element_type, type_.layout)
