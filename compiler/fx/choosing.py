"""Decides for each product of a graph: taken, with the largest region for one kernel, or left, with the reason."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lowtide.compiler.fx.calls import call_of
from lowtide.compiler.fx.fusion import Fusion, fusion_of
from lowtide.compiler.fx.products import Product
from lowtide.compiler.fx.regions import grow
from lowtide.compiler.fx.replay import text_of
from lowtide.compiler.fx.report import Row
from lowtide.compiler.fx.rule import Rule
from lowtide.errors import Error


@dataclass(frozen=True, eq=False)
class Choice:
    """`fusion` and `epilogue` are None if the product is left, or is one of groups, which has no epilogue."""

    row: Row
    fusion: Fusion | None = None
    epilogue: str | None = None


def choose(
    product: Product, graph: str, position: Mapping[Any, int], is_backward: Callable[[Any], bool], rule: Rule
) -> Choice:
    """Decide about a product. `position`: the order of the graph's nodes. `is_backward`: whether a node is part of the
    backward pass."""
    node = product.node
    about = (graph, node.name, str(node.target), _shape(product))
    refusal = rule.refusal(product)
    if refusal is not None:
        return Choice(Row(*about, None, refusal))
    if product.form.grouped:
        return Choice(Row(*about, (), "kernels of groups take no other ops"))
    growth = grow(node, position, is_backward)
    refusals = []
    for region in growth.regions:
        fusion = rule.refusal_of_ops(region) or fusion_of(product, region, position, rule.most_full(region))
        if not isinstance(fusion, Fusion):
            refusals.append(f"before {region.exit.name}: {fusion}")
            continue
        try:
            text = text_of(fusion)
        except Error as error:  # not allowed in an epilogue
            refusals.append(f"before {region.exit.name}: {error}")
            continue
        names = tuple(str(other.target).split(".")[1] for other in region.nodes[1:])
        reason = refusals[0] if refusals else growth.reason(region)
        return Choice(Row(*about, names, reason, text, call_of(fusion, text)), fusion, text)
    return Choice(Row(*about, None, refusals[-1]))


def _shape(product: Product) -> str:
    count, m, n, k = product.extents
    one = f"{m}×{n}×{k}"
    return one if isinstance(count, int) and count == 1 else f"{count} of {one}"
