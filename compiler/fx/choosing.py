"""Decides for each product of a graph: taken, with the largest region for one kernel, or left, with the reason."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lowtide.compiler.fx.calls import call_of, spec_of
from lowtide.compiler.fx.fusion import Fusion, fusion_of
from lowtide.compiler.fx.halves import halves_of
from lowtide.compiler.fx.products import Product
from lowtide.compiler.fx.regions import Growth, Region, grow
from lowtide.compiler.fx.replay import text_of
from lowtide.compiler.fx.report import Row
from lowtide.compiler.fx.results import with_results
from lowtide.compiler.fx.rule import MOST_FULL, Rule
from lowtide.errors import Error

_ONE_VALUE = "kernels of groups take other ops only for groups of rows of torch._grouped_mm, and give one value"
# Rows that belong to no group may have any values there.
_EPILOGUES_OF_GROUPS, _OF_MATRICES = "aten._grouped_mm.default", 3


@dataclass(frozen=True, eq=False)
class Choice:
    """`fusion` and `epilogue` are None if the product is left, or is one of groups without an epilogue."""

    row: Row
    fusion: Fusion | None = None
    epilogue: str | None = None


def choose(
    product: Product, graph: str, position: Mapping[Any, int], is_backward: Callable[[Any], bool], rule: Rule
) -> Choice:
    """Decide about a product. `position`: the order of the graph's nodes. `is_backward`: whether a node is part of the
    backward pass."""
    node = product.node
    about = (graph, node.name, product.op, _shape(product))
    refusal = rule.refusal(product)
    if refusal is not None:
        return Choice(Row(*about, None, refusal))
    growth = grow(node, position, is_backward)
    if product.form.grouped:
        return _of_groups(product, growth, about, (position, is_backward, rule))
    refusals: list[str] = []
    for region in _with_results(product, growth, position, is_backward, rule):
        found = _taken(product, region, about, position, rule)
        if isinstance(found, Choice):
            return found
        refusals.append(f"with several results: {found}")
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


def _with_results(
    product: Product,
    growth: Growth,
    position: Mapping[Any, int],
    is_backward: Callable[[Any], bool],
    rule: Rule,
) -> Iterator[Region]:
    """Regions that store several values, pairs of columns or reductions."""
    is_matrix = len(product.a_value.shape) == len(product.b_value.shape) == 2 and not product.form.transposes_b
    if not rule.results or not is_matrix:
        return
    halves = halves_of(product)
    found = [with_results(product.node, growth, position, None)]
    if halves is not None:
        of_halves = grow(product.node, position, is_backward, (halves.first, halves.second))
        found.insert(0, with_results(product.node, of_halves, position, halves))
    yield from (region for region in found if region is not None)


def _taken(
    product: Product, region: Region, about: tuple[str, str, str, str], position: Mapping[Any, int], rule: Rule
) -> Choice | str:
    """The choice of a region with results, or why no kernel computes it."""
    fusion = rule.refusal_of_ops(region) or fusion_of(product, region, position, MOST_FULL)
    if not isinstance(fusion, Fusion):
        return fusion
    assert region.results is not None
    try:
        text = text_of(fusion)
        spec_of(product, text)
    except Error as error:
        return str(error)
    names = (str(other.target).split(".")[1] for other in region.nodes if other not in region.roots)
    row = Row(*about, tuple(names), "", text, results=region.results.about)
    return Choice(row, fusion, text)


def _of_groups(product: Product, growth: Growth, about: tuple[str, str, str, str], at: Any) -> Choice:
    """The choice of a product of groups. If its rows are grouped, ops that follow may be in its epilogue, which gives
    one value. `at`: the order of the nodes, whether one is part of the backward pass, and the rule."""
    position, is_backward, rule = at
    alone = Choice(Row(*about, (), _ONE_VALUE))
    if not rule.results or product.op != _EPILOGUES_OF_GROUPS or len(product.b_value.shape) != _OF_MATRICES:
        return alone
    regions, halves = [region for region in growth.regions if len(region.nodes) > 1], halves_of(product)
    if halves is not None:
        of_halves = grow(product.node, position, is_backward, (halves.first, halves.second))
        paired = with_results(product.node, of_halves, position, halves)
        is_one = paired is not None and paired.results is not None and len(paired.results.full) == 1
        regions = [paired, *regions] if paired is not None and is_one else regions
    for region in regions:
        fusion = rule.refusal_of_ops(region) or fusion_of(product, region, position, rule.most_full(region))
        if isinstance(fusion, Fusion):
            try:
                text = text_of(fusion)
            except Error:
                continue
            names = (str(other.target).split(".")[1] for other in region.nodes if other not in region.roots)
            stored, reason = ("", growth.reason(region)) if region.results is None else (region.results.about, "")
            return Choice(Row(*about, tuple(names), reason, text, results=stored), fusion, text)
    return alone


def _shape(product: Product) -> str:
    count, m, n, k = product.extents
    one = f"{m}×{n}×{k}"
    return one if isinstance(count, int) and count == 1 else f"{count} of {one}"
