"""Products of a matrix whose rows are scaled, as after RMSNorm.

    %normed = convert(%h32 · %rsqrt); %x = %weight · %normed; %mm = aten.mm(%x, %w)

A scale of rows can be applied after the product, in its epilogue: diag(r) · X · W = diag(r) · (X · W). So the
product can read the unscaled X, which does not depend on the statistics of its rows. The kernel that computes h can
store this X too, and the statistics.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.fx.arguments import is_node
from lowtide.compiler.fx.operands import is_full, kind_beside
from lowtide.compiler.fx.pointwise import CASTS, RESHAPES
from lowtide.compiler.fx.products import Product, product_of
from lowtide.compiler.fx.values import value_of

_MUL = "aten.mul.Tensor"
_WIDE_RANGE = "bf16"  # rows of f16 could overflow before they are scaled
_PRODUCTS = ("aten.mm.default", "aten.addmm.default")


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """`node`: the scaled matrix X. `scale`: the scales of its rows, as they are multiplied. `source`: the matrix before
    the scaling. `path`: the ops from `source` to X; the multiplication by the scales comes first. `products`: all
    products that read X."""

    node: Any
    scale: Any
    source: Any
    path: tuple[Any, ...]
    products: tuple[Product, ...]


def scaled_rows(nodes: Iterable[Any], is_taken: Callable[[Product], bool]) -> list[ScaledRows]:
    """The matrices of a graph whose rows are scaled, and which only products read that are taken, as their A."""
    starts = dict.fromkeys(_without_reshapes(product.a) for product in map(product_of, nodes) if product is not None)
    found = []
    for node in starts:
        path = _path(node)
        products = _products(node) if path else None
        if path and products and all(map(is_taken, products)):
            scale, source = _factors(path[0]) or (None, None)
            found.append(ScaledRows(node, scale, source, tuple(path), tuple(products)))
    return found


def _without_reshapes(node: Any) -> Any:
    while str(node.target) in RESHAPES:
        node = node.args[0]
    return node


def _path(node: Any) -> list[Any] | None:
    """The ops from the multiplication by scales of rows to a node; None if there is no such path. All ops in between
    are read by the next one alone."""
    value, path = value_of(node), [node]
    if value is None or value.dtype != _WIDE_RANGE:
        return None
    while True:
        node = path[0]
        if _factors(node) is not None:
            return path
        if str(node.target) in CASTS or str(node.target) in RESHAPES:
            before = node.args[0]
        elif str(node.target) == _MUL:
            before = _beside(node, OperandKind.PER_COLUMN)
        else:
            return None
        if not is_node(before) or len(before.users) != 1 or not is_full(before, value.shape):
            return None
        path.insert(0, before)


def _factors(node: Any) -> tuple[Any, Any] | None:
    """The scales of rows and the matrix that an op multiplies; None for another op."""
    source = _beside(node, OperandKind.PER_ROW) if str(node.target) == _MUL else None
    if source is None:
        return None
    scale = next(other for other in node.args if other is not source)
    return scale, source


def _beside(node: Any, kind: OperandKind) -> Any:
    """The matrix that an op multiplies by an operand of a kind; None if it does not."""
    value = value_of(node)
    if value is None or len(node.args) != 2 or not all(map(is_node, node.args)):
        return None
    for one, other in (node.args, node.args[::-1]):
        operand = value_of(other)
        if operand is not None and is_full(one, value.shape) and kind_beside(operand, value.shape) is kind:
            return one
    return None


def _products(node: Any) -> list[Product] | None:
    """The products whose A is a node, or a reshape of it; None if something else reads it."""
    found: list[Product] = []
    for user in node.users:
        if str(user.target) in RESHAPES:
            below = _products(user)
            if below is None:
                return None
            found += below
            continue
        product = product_of(user)
        is_plain = product is not None and product.op in _PRODUCTS and product.alpha == 1 and product.beta == 1
        width = None if product is None else product.a_value.shape[-1]
        if (
            product is None
            or not is_plain
            or not isinstance(width, int)
            or product.a is not node
            or node in (product.b, product.added)
        ):
            return None
        found.append(product)
    return found
