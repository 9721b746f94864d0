"""Replaces a region with results by one `lowtide::gemm_results`, or, of groups of rows, by one
`lowtide::grouped_results`, and each stored node by its result.

    %results = lowtide.gemm_results(%x, %w, [%pre], "(acc: f32, …) -> (y0: bf16, s0: column_sum) { … }", [])
    %dz = getitem(%results, 0); %sum = getitem(%results, 1)

Other ops that read values of the region remain, and read the stored values.
"""

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch._inductor.pattern_matcher import stable_topological_sort

from lowtide.compiler.fx.fusion import Fusion, sizes_in
from lowtide.compiler.fx.reductions import LogSoftmax, Reduced
from lowtide.compiler.fx.values import value_of
from lowtide.torch.fx.grouping import factors_of_groups
from lowtide.torch.fx.nodes import call, erase_unread, operand_of, shaped
from lowtide.torch.grouped_several import grouped_results
from lowtide.torch.several import gemm_results

_convert = torch.ops.prims.convert_element_type.default
_div, _sub = torch.ops.aten.div.Tensor, torch.ops.aten.sub.Tensor


def replace_by_results(graph: torch.fx.Graph, fusion: Fusion, epilogue: str) -> None:
    """Rewrite the graph. Nodes that nothing reads any more are erased."""
    region, product = fusion.region, fusion.product
    results = region.results
    assert results is not None
    is_joined = results.joined is not None
    halves = [*results.names[len(results.full) - 2 : len(results.full)]] if is_joined else []
    with graph.inserting_before(region.nodes[-1]):
        operands = [operand_of(graph, leaf, fusion) for leaf in fusion.leaves]
        operands += _targets(graph, results.softmax)
        if product.form.grouped:
            *matrices, index = factors_of_groups(graph, product)
            made = call(graph, grouped_results, (*matrices, operands, epilogue, halves, index), product.node)
        else:
            second = () if region.other is None else (region.other.b,)
            made = call(graph, gemm_results, (product.a, product.b, operands, epilogue, halves, *second), product.node)
        names = [name for name in results.names if name not in halves[1:]]
        found = {name: call(graph, operator.getitem, (made, i), product.node) for i, name in enumerate(names)}
        full = results.full[:-2] if is_joined else results.full
        replaced = list(zip(full, (found[name] for name in results.names), strict=False))
        replaced += [(results.joined, found[halves[0]])] if is_joined else []
        new = [(node, _like(graph, fusion, value, node)) for node, value in replaced]
        for i, each in enumerate(results.reduced):
            new.append((each.node, _sum(graph, fusion, each, found[f"s{i}"])))
        if results.softmax is not None:
            new += _of_softmax(graph, fusion, results.softmax, found)
    for node, value in new:
        node.replace_all_uses_with(value)
    stable_topological_sort(graph)
    erase_unread(graph, [product.node, *region.nodes, *found.values(), *(node for node, _ in new)])


def _targets(graph: torch.fx.Graph, softmax: LogSoftmax | None) -> Iterator[Any]:
    for _, index in () if softmax is None else softmax.gathers:
        flat = shaped(graph, index, tuple(index.meta["val"].shape[:1]), index)
        yield call(graph, _convert, (flat, torch.int32), index)


def _like(graph: torch.fx.Graph, fusion: Fusion, value: Any, node: Any) -> Any:
    """A result in the shape and type of the node that it replaces."""
    wanted = node.meta["val"]
    shape = tuple(wanted.shape)
    value = shaped(graph, value, shape, node, sizes_in(fusion.product, fusion.region, shape))
    return value if value.meta["val"].dtype == wanted.dtype else call(graph, _convert, (value, wanted.dtype), node)


def _sum(graph: torch.fx.Graph, fusion: Fusion, reduced: Reduced, value: Any) -> Any:
    if reduced.divisor != 1:
        value = call(graph, _div, (value, reduced.divisor), reduced.node)
    return _like(graph, fusion, value, reduced.node)


def _of_softmax(
    graph: torch.fx.Graph, fusion: Fusion, softmax: LogSoftmax, found: dict[str, Any]
) -> Iterator[tuple[Any, Any]]:
    """The nodes that the log-sum-exps and the targets' values replace, with what replaces them."""
    for i, (node, _) in enumerate(softmax.gathers):
        yield node, _like(graph, fusion, call(graph, _sub, (found[f"t{i}"], found["lse"]), node), node)
    if softmax.is_read_whole:
        rows = value_of(softmax.source)
        assert rows is not None
        lse = shaped(graph, found["lse"], (rows.shape[0], 1), softmax.node)
        yield softmax.node, call(graph, _sub, (softmax.source, lse), softmax.node)
