"""Products whose columns are split in two halves, as in a gated MLP with one combined weight, and two products of the
same A, as with two weights.

    %mm = aten.mm(%x, %w); %view = aten.view(%mm, [4, 512, 2048]); %split = aten.split(%view, 1024, -1)
    %gate = getitem(%split, 0); %up = getitem(%split, 1)

    %gate = aten.mm(%x, %w); %up = aten.mm(%x, %v)

One kernel computes both halves, or both products, as pairs of columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lowtide.compiler.fx.pointwise import RESHAPES
from lowtide.compiler.fx.products import Product, product_of
from lowtide.compiler.fx.values import is_one, value_of

_SPLITS = ("aten.split.Tensor", "aten.split_with_sizes.default")
# With a longer K, a kernel of gate that reads up hides its epilogue behind its products. On an H200 two products by one
# kernel are 1.19 times as fast as the two at 1527×2816×1024, and about as fast at 4096×14336×4096.
_SHORT_K = 2048
_SLICE, _MM = "aten.slice.Tensor", "aten.mm.default"


@dataclass(frozen=True, eq=False)
class Halves:
    """`first` and `second`: the nodes of the halves, or of two products. `width`: the number of columns of a half.
    `has_others`: whether other ops read the whole matrix. `other`: the second product, None for halves of one."""

    first: Any
    second: Any
    width: int
    has_others: bool
    other: Product | None = None


def halves_of(product: Product) -> Halves | None:
    """The halves of a product; None if its columns are not split in two, or if pairs of columns cannot compute it."""
    columns, is_matrix = product.value.shape[-1], len(product.value.shape) == 2
    if not is_matrix or product.added is not None or product.alpha != 1:
        return None
    if not isinstance(columns, int) or columns % 2 or not is_one(product.b_value.strides[-2]):
        return None
    found: dict[int, list[Any]] = {0: [], columns // 2: []}
    has_others = False
    for user in _readers(product.node):
        parts = [*_parts(user, columns)]
        if not parts or any(start not in found for start, _ in parts):
            has_others = True
            continue
        for start, node in parts:
            found[start].append(node)
    first, second = found.values()
    return Halves(first[0], second[0], columns // 2, has_others) if len(first) == len(second) == 1 else None


def two_of(product: Product) -> Iterator[Halves]:
    """Each other product of the same A whose B has the type, shape and strides of this one's, as the second of two."""
    columns, b, k = product.value.shape[-1], product.b_value, product.b_value.shape[-2]
    if product.op != _MM or not isinstance(columns, int) or not is_one(b.strides[-2]):
        return
    if not isinstance(k, int) or k >= _SHORT_K:
        return
    for node in _products_of(_without_reshapes(product.a)):
        other = None if node is product.node else product_of(node)
        if other is None or other.b is product.b or other.op != _MM or other.a_value != product.a_value:
            continue
        if other.b_value == b and other.value == product.value:
            yield Halves(product.node, node, columns, False, other)


def _without_reshapes(node: Any) -> Any:
    while str(node.target) in RESHAPES:
        node = node.args[0]
    return node


def _products_of(node: Any) -> Iterator[Any]:
    """The products that read a node or a reshape of it."""
    for user in node.users:
        if str(user.target) in RESHAPES:
            yield from _products_of(user)
        elif str(user.target) == _MM:
            yield user


def _readers(node: Any) -> Iterator[Any]:
    """The ops that read a node, or a reshape of it with the same columns."""
    value = value_of(node)
    for user in node.users:
        shaped = value_of(user)
        same = value is not None and shaped is not None and str(shaped.shape[-1:]) == str(value.shape[-1:])
        if str(user.target) in RESHAPES and same:
            yield from _readers(user)
        else:
            yield user


def _parts(node: Any, columns: int) -> Iterator[tuple[int, Any]]:
    """The halves that an op gives, each with its first column; nothing for another op."""
    target = str(node.target)
    value = value_of(node.args[0]) if node.op == "call_function" and node.args else None
    if value is None:
        return
    last = len(value.shape) - 1
    if target in _SPLITS:
        sizes, dim = node.args[1], node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)
        if dim not in (-1, last) or sizes not in (columns // 2, [columns // 2] * 2):
            return
        for user in node.users:
            yield user.args[1] * (columns // 2), user
    elif target == _SLICE and len(node.args) == 4:
        _, dim, start, end = node.args
        known = dim in (-1, last) and isinstance(start, int) and isinstance(end, int)
        if known and (start, min(end, columns)) in ((0, columns // 2), (columns // 2, columns)):
            yield start, node
