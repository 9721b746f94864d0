"""Decides for each product of a graph: taken, with the largest region for one kernel, or left, with the reason."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lowtide.compiler.fx.calls import call_of, spec_of
from lowtide.compiler.fx.fusion import Fusion, fusion_of
from lowtide.compiler.fx.halves import halves_of, two_of
from lowtide.compiler.fx.products import Product
from lowtide.compiler.fx.regions import Growth, Region, grow
from lowtide.compiler.fx.replay import text_of
from lowtide.compiler.fx.report import Row
from lowtide.compiler.fx.results import with_results
from lowtide.compiler.fx.rule import MOST_FULL, Rule, copied_by
from lowtide.errors import Error

_ALONE = "kernels of groups take other ops only for groups of rows of torch._grouped_mm"
# Rows that belong to no group may have any values there.
_EPILOGUES_OF_GROUPS, _OF_MATRICES = "aten._grouped_mm.default", 3
_OF_PRECISIONS = "f32"  # kernels with results multiply it without tensor cores
About = tuple[str, str, str, str]  # the graph, the node, the op and the shape, as in a row


class Place(NamedTuple):
    """The order of a graph's nodes, whether a node is part of the backward pass, and the rule."""

    position: Mapping[Any, int]
    is_backward: Callable[[Any], bool]
    rule: Rule


@dataclass(frozen=True, eq=False)
class Choice:
    """`fusion` and `epilogue` are None if the product is left, or is one of groups without an epilogue. `beside`: the
    row of another product that the kernel computes, too."""

    row: Row
    fusion: Fusion | None = None
    epilogue: str | None = None
    beside: Row | None = None


def choose(
    product: Product,
    graph: str,
    position: Mapping[Any, int],
    is_backward: Callable[[Any], bool],
    rule: Rule,
    is_alone: bool = False,
) -> Choice:
    """Decide about a product. `position`: the order of the graph's nodes. `is_backward`: whether a node is part of the
    backward pass. `is_alone`: no op that follows is taken with it."""
    node = product.node
    about = (graph, node.name, product.op, _shape(product))
    refusal = rule.refusal(product)
    if refusal is not None:
        return Choice(Row(*about, None, refusal))
    growth, is_copied = grow(node, position, is_backward), bool(copied_by(product))
    if product.form.grouped:
        return _of_groups(product, growth, about, Place(position, is_backward, rule))
    refusals: list[str] = []
    # If rows of D are unaligned, so are rows of tensors of D's size; kernels with several results do not copy them.
    several = () if is_copied else _with_results(product, growth, Place(position, is_backward, rule))
    for region in several:
        found = _taken(product, region, about, Place(position, is_backward, rule))
        if isinstance(found, Choice):
            return found
        refusals.append(f"with several results: {found}")
    for region in growth.regions[-1:] if is_alone else growth.regions:
        most = 0 if is_copied else rule.most_full(region)
        fusion = rule.refusal_of_ops(region) or fusion_of(product, region, position, most)
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


def _with_results(product: Product, growth: Growth, place: Place) -> Iterator[Region]:
    """Regions that store several values, pairs of columns or reductions."""
    is_matrix = len(product.a_value.shape) == len(product.b_value.shape) == 2 and not product.form.transposes_b
    if not place.rule.results or not is_matrix or product.a_value.dtype == _OF_PRECISIONS:
        return
    yield from _of_two(product, place)
    found = _paired(product, place), with_results(product.node, growth, place.position, None)
    yield from (region for region in found if region is not None)


def _of_two(product: Product, place: Place) -> Iterator[Region]:
    """Regions of a product and another one of the same A, as pairs of columns."""
    for halves in two_of(product):
        other = halves.other
        assert other is not None
        is_alike = place.is_backward(other.node) == place.is_backward(product.node)
        if not is_alike or place.rule.refusal(other) is not None or copied_by(other):
            continue
        growth = grow(product.node, place.position, place.is_backward, (halves.first, halves.second))
        region = with_results(product.node, growth, place.position, halves)
        if region is not None:
            yield region


def _paired(product: Product, place: Place) -> Region | None:
    """The region of a product whose halves are pairs of columns; None if there is none."""
    halves = halves_of(product)
    if halves is None:
        return None
    growth = grow(product.node, place.position, place.is_backward, (halves.first, halves.second))
    return with_results(product.node, growth, place.position, halves)


def _taken(product: Product, region: Region, about: About, place: Place) -> Choice | str:
    """The choice of a region with results, or why no kernel computes it."""
    fusion = place.rule.refusal_of_ops(region) or fusion_of(product, region, place.position, MOST_FULL)
    if not isinstance(fusion, Fusion):
        return fusion
    assert region.results is not None
    try:
        text = text_of(fusion)
        spec_of(product, text, region.other is not None)
    except Error as error:
        return str(error)
    names = (str(other.target).split(".")[1] for other in region.nodes if other not in region.roots)
    row, other = Row(*about, tuple(names), "", text, results=region.results.about), region.other
    if other is None:
        return Choice(row, fusion, text)
    beside = Row(about[0], other.node.name, other.op, _shape(other), (), f"by the kernel of {about[1]}")
    return Choice(row, fusion, text, beside)


def _of_groups(product: Product, growth: Growth, about: About, place: Place) -> Choice:
    """The choice of a product of groups. If its rows are grouped, ops that follow may be in its epilogue, which gives
    one or several values of D's size."""
    alone, rule = Choice(Row(*about, (), _ALONE)), place.rule
    if not rule.results or product.op != _EPILOGUES_OF_GROUPS or len(product.b_value.shape) != _OF_MATRICES:
        return alone
    found = _paired(product, place), with_results(product.node, growth, place.position, None)
    regions = [region for region in found if region is not None and _is_of_groups(region)]
    regions += [region for region in growth.regions if len(region.nodes) > 1]
    for region in regions:
        most = rule.most_full(region) if region.results is None else MOST_FULL
        fusion = rule.refusal_of_ops(region) or fusion_of(product, region, place.position, most)
        if isinstance(fusion, Fusion):
            try:
                text = text_of(fusion)
                if region.results is not None:
                    spec_of(product, text)
            except Error:
                continue
            names = (str(other.target).split(".")[1] for other in region.nodes if other not in region.roots)
            stored, reason = ("", growth.reason(region)) if region.results is None else (region.results.about, "")
            return Choice(Row(*about, tuple(names), reason, text, results=stored), fusion, text)
    return alone


def _is_of_groups(region: Region) -> bool:
    """Whether a kernel of groups stores the results of a region: values of D's size alone."""
    assert region.results is not None
    return not region.results.reduced and region.results.softmax is None


def _shape(product: Product) -> str:
    count, m, n, k = product.extents
    one = f"{m}×{n}×{k}"
    return one if isinstance(count, int) and count == 1 else f"{count} of {one}"
