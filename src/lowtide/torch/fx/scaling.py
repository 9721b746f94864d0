"""Moves scales of rows behind the products that read the scaled matrix (`compiler/fx/scaled_rows.py`).

    %mul = aten.mul(%h32, %rsqrt); %x = aten.mul(%weight, convert(%mul)); %mm = aten.mm(%x, %w)
    %x = aten.mul(%weight, %h); %mm = aten.mm(%x, %w); %y = convert(aten.mul(convert(%mm), %rsqrt))

The products are then taken with these ops in their epilogues.
"""

from typing import Any

import torch
from torch._inductor.pattern_matcher import stable_topological_sort

from lowtide.compiler.fx.halves import Halves, halves_of
from lowtide.compiler.fx.pointwise import CASTS
from lowtide.compiler.fx.products import Product
from lowtide.compiler.fx.rule import Rule, copied_by
from lowtide.compiler.fx.scaled_rows import ScaledRows, scaled_rows
from lowtide.compiler.fx.values import same_shape, sizes_for_reshape
from lowtide.torch.fx.nodes import call, shaped

_convert = torch.ops.prims.convert_element_type.default
_add, _mm, _mul = torch.ops.aten.add.Tensor, torch.ops.aten.mm.default, torch.ops.aten.mul.Tensor


def scale_after_products(graph: torch.fx.Graph, rule: Rule) -> None:
    """Rewrite the graph, if the rule takes kernels with results."""
    is_taken = lambda product: rule.refusal(product) is None and not copied_by(product)  # noqa: E731
    found = scaled_rows(graph.nodes, is_taken) if rule.results else []
    for each in found:
        with graph.inserting_before(each.node):
            x = _unscaled(graph, each)
        for product in each.products:
            with graph.inserting_before(product.node):
                _replace(graph, product, x, each.scale)
    if found:
        stable_topological_sort(graph)
        graph.eliminate_dead_code()


def _unscaled(graph: torch.fx.Graph, scaled: ScaledRows) -> Any:
    """The matrix without the scales, in the shape and type of the scaled one."""
    before, value = scaled.path[0], scaled.source
    while str(value.target) in CASTS and value.args[0].meta["val"].dtype == scaled.node.meta["val"].dtype:
        value = value.args[0]  # it would be converted back
    for node in scaled.path[1:]:
        arguments = tuple(value if other is before else other for other in node.args)
        is_same = str(node.target) in CASTS and value.meta["val"].dtype == node.meta["val"].dtype
        value, before = value if is_same else call(graph, node.target, arguments, node), node
    wanted = scaled.node.meta["val"].dtype
    return value if value.meta["val"].dtype == wanted else call(graph, _convert, (value, wanted), scaled.node)


def _replace(graph: torch.fx.Graph, product: Product, x: Any, scale: Any) -> None:
    """Replace a product by that of the matrix without scales, and scale it, or its halves if a kernel computes pairs of
    columns."""
    node, halves = product.node, _halves(product, scale)
    found = call(graph, _mm, (shaped(graph, x, product.a_value.shape, node), product.b), node)
    if halves is None:
        node.replace_all_uses_with(_scaled(graph, found, scale, product.added))
        return
    node.replace_all_uses_with(found)
    for half in (halves.first, halves.second):
        users = [*half.users]
        with graph.inserting_before(half.next):
            scaled = _scaled(graph, half, scale, None)
        for user in users:
            user.replace_input_with(half, scaled)


def _halves(product: Product, scale: Any) -> Halves | None:
    """The halves of a product that are scaled each by itself, with scales of their shape."""
    halves = halves_of(product)
    if halves is None or halves.has_others:
        return None
    rows = (*halves.first.meta["val"].shape[:-1], 1)
    is_known = same_shape(tuple(scale.meta["val"].shape), rows) or sizes_for_reshape(rows) is not None
    return halves if is_known else None


def _scaled(graph: torch.fx.Graph, found: Any, scale: Any, added: Any) -> Any:
    """The rows of a matrix, scaled, plus the bias of an addmm."""
    value = found.meta["val"]
    wide = call(graph, _convert, (found, torch.float32), found)
    wide = call(graph, _mul, (wide, shaped(graph, scale, (*value.shape[:-1], 1), found)), found)
    wide = wide if added is None else call(graph, _add, (wide, added), found)
    return call(graph, _convert, (wide, value.dtype), found)
