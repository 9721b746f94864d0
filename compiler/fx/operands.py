"""The kind of epilogue operand that a tensor is, and which tensors the epilogue can compute itself."""

from typing import Any

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.fx.arguments import is_constant, is_node
from lowtide.compiler.fx.pointwise import CASTS, OPS, RESHAPES
from lowtide.compiler.fx.values import Value, is_by_rows, is_one, same_extent, same_shape, value_of
from lowtide.elements import element_type


def kind_beside(tensor: Value, shape: tuple[Any, ...]) -> OperandKind | str:
    """The kind of a tensor that is broadcast against a value of `shape`, whose rows are D's; or why it has none.

    FULL: one element per element of D. PER_COLUMN: one per column, the same in all rows. PER_ROW: one per row.
    """
    if tensor.dtype is None or not element_type(tensor.dtype).is_float:
        return "kernels do not read its element type as floats"
    if tensor.dtype == "f64":
        return "its elements are f64, but an epilogue computes in f32"
    if same_shape(tensor.shape, shape):
        return OperandKind.FULL if is_by_rows(tensor) else "its rows are not contiguous, or not evenly spaced"
    if len(tensor.shape) > len(shape):
        return "it has more dimensions than the product"
    outer = tensor.shape[:-1]
    if not tensor.shape or all(is_one(extent) for extent in tensor.shape):
        return "it is a single number in memory"
    if all(is_one(extent) for extent in outer) and same_extent(tensor.shape[-1], shape[-1]):
        return OperandKind.PER_COLUMN
    if is_one(tensor.shape[-1]) and same_shape(outer, shape[:-1]):
        return OperandKind.PER_ROW
    return f"its shape {_text(tensor.shape)} is neither {_text(shape)}, nor one row or one column of it"


def can_absorb(node: Any, shape: tuple[Any, ...]) -> bool:
    """Whether it is a pointwise op with one value per element of D, and its inputs can be operands."""
    if node.op != "call_function" or str(node.target) not in OPS or not is_full(node, shape):
        return False
    value = value_of(node)
    assert value is not None
    if value.dtype is None and (str(node.target) in CASTS or str(node.target) in RESHAPES):
        return False
    for argument in (*node.args, *node.kwargs.values()):
        if not is_node(argument) or is_constant(argument):
            continue
        other = value_of(argument)
        if other is None:
            return False
        if str(node.target) in RESHAPES:
            if not is_full(argument, shape):
                return False
        elif not isinstance(kind_beside(other, value.shape), OperandKind) and not (
            same_shape(other.shape, value.shape) and can_absorb(argument, shape)
        ):
            return False
    return True


def is_full(node: Any, shape: tuple[Any, ...]) -> bool:
    """Whether it has one element per element of D, in the order of rows."""
    value = value_of(node)
    if value is None or not value.shape or not same_extent(value.shape[-1], shape[-1]):
        return False
    return str(_count(value.shape)) == str(_count(shape))


def _count(shape: tuple[Any, ...]) -> Any:
    count: Any = 1
    for extent in shape:
        count = count * extent
    return count


def _text(shape: tuple[Any, ...]) -> str:
    return "×".join(map(str, shape)) or "()"
