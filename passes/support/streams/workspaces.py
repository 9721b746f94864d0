"""Matrices in workspaces, and the views of memory that host functions make of matrices."""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import memref

from lowtide.decompositions import Decomposition
from lowtide.dialects import tile
from lowtide.dialects.tile import Precision, Side
from lowtide.elements import element_type
from lowtide.passes.support.ir.builder import Builder, Scalar

ROW_BYTES = 128  # the alignment of the rows of a workspace: a line of the L2 cache


def pack(
    matrix: ir.Value,
    align: int,
    *,
    transposed: bool = False,
    pieces: tuple[Side, Decomposition] | None = None,
    whole_rows: bool = False,
    uninitialized: bool = False,
) -> ir.Value:
    """The replacement of a matrix: its copy with aligned rows, its transpose, or pieces as a factor of a product."""
    type_ = ir.MemRefType(matrix.type)
    *outer, rows, columns = type_.shape
    rows, columns = (columns, rows) if transposed else (rows, columns)
    element, how = type_.element_type, {}
    if pieces is not None:
        side, row = pieces
        columns = columns if columns == ir.ShapedType.get_dynamic_size() else row.depth(columns)
        element, how = ir.Type.parse(element_type(row.piece).ir), {"side": side, "precision": Precision[row.name]}
    made = ir.MemRefType.get([*outer, rows, columns], element, type_.layout)
    flags = {"transposed": transposed, "whole_rows": whole_rows, "uninitialized": uninitialized}
    return tile.PackOp(made, matrix, align, **how, **{name: True for name, given in flags.items() if given}).result


def row_stride(columns: Scalar, element_bytes: int, align: int) -> ir.Value:
    """Elements from row to row of a matrix in a workspace, whose rows begin at multiples of `align` bytes."""
    build, each = Builder.index(), max(ROW_BYTES, align) // element_bytes
    return build.mul(build.ceil_udiv(columns, each), each)


def workspace(like: ir.MemRefType, size: ir.Value) -> ir.Value:
    """A vector of `size` elements, of the element type of a matrix."""
    return tile.WorkspaceOp(ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], like.element_type), size).result


def view(memory: ir.Value, like: ir.MemRefType, extents: Sequence[ir.Value], strides: Sequence[ir.Value]) -> ir.Value:
    """A view of memory as matrices of the type `like`. `strides`: all except the last."""
    sizes = [value for dim, value in enumerate(extents) if like.is_dynamic_dim(dim)]
    static = [ir.ShapedType.get_dynamic_stride_or_offset()] * len(strides)
    type_ = ir.MemRefType.get(like.shape, like.element_type, ir.StridedLayoutAttr.get(0, [*static, 1]))
    return memref.ReinterpretCastOp(type_, memory, [], sizes, strides, [0], list(like.shape), [*static, 1]).result


def any_extents(type_: ir.MemRefType) -> ir.MemRefType:
    dynamic = [ir.ShapedType.get_dynamic_size()] * type_.rank
    return ir.MemRefType.get(dynamic, type_.element_type, type_.layout)
