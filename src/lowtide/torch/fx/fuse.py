"""The pass: each product that is taken becomes one `lowtide::gemm`, with the ops that follow in its epilogue.

    %mm = aten.mm(%x, %w); %view = aten.view(%mm, [4, 512, 1024]); %add = aten.add(%residual, %view)
    %gemm = lowtide.gemm(%x, %w, [%reshape], [], "(acc: f32, %x0: full bf16) -> bf16 { … }", "repeatable", None, None)

A product of groups becomes one `lowtide::grouped_gemm`. The pass runs on graphs of aten ops that hold forward and
backward together, before they are partitioned, so that a kernel writes the tensors kept for the backward pass. Views
before operands stay: kernels read any strides.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from lowtide.compiler.fx.choosing import choose
from lowtide.compiler.fx.fusion import Fusion
from lowtide.compiler.fx.products import product_of
from lowtide.compiler.fx.report import Row
from lowtide.compiler.fx.rule import Rule
from lowtide.torch.calls import OF_PRECISIONS, How
from lowtide.torch.fx.collecting import Collecting
from lowtide.torch.fx.grouping import replace_groups
from lowtide.torch.fx.nodes import PERMUTE, RESHAPE, call, operand_of
from lowtide.torch.fx.scaling import scale_after_products
from lowtide.torch.fx.storing import replace_by_results


def fuse(graph: torch.fx.Graph, name: str, rule: Rule, how: How) -> list[Row]:
    """Rewrite a graph; one row for each product. `how`: its numerics, and the precision of products of f32."""
    rows, collecting = [], Collecting(graph, name, rule, how)
    scale_after_products(graph, rule)
    is_backward = _is_backward(graph)
    collecting.merge(is_backward)
    for node in list(graph.nodes):
        product = product_of(node)
        if product is None:
            continue
        position = {other: number for number, other in enumerate(graph.nodes)}
        if node not in position:  # erased, because nothing reads it any more
            continue
        row, left = collecting.take(product, is_backward)
        if row is not None:
            rows.append(row)
            continue
        choice = choose(product, name, position, is_backward, rule)
        reasons = (choice.row.reason, left)
        rows.append(replace(choice.row, reason="; ".join(filter(None, reasons))))
        rows += [] if choice.beside is None else [choice.beside]
        if choice.fusion is not None and choice.epilogue is not None:
            results = choice.fusion.region.results
            if product.form.grouped and (results is None or len(results.full) == 1):
                replace_groups(graph, choice.fusion, choice.epilogue)
            elif results is not None:
                replace_by_results(graph, choice.fusion, choice.epilogue)
            else:
                _replace(graph, choice.fusion, how._replace(epilogue=choice.epilogue))
        elif choice.row.is_taken:
            replace_groups(graph, product)
    if any(row.is_taken for row in rows):  # otherwise Inductor gets the graph as it was
        graph.eliminate_dead_code()
    return rows


def _is_backward(graph: torch.fx.Graph) -> Callable[[Any], bool]:
    """A function that says whether a node belongs to the backward pass, also for nodes that are added later. Such a
    node depends on a tangent, which is known by the name that AOTAutograd gives it."""
    found: dict[Any, bool] = {}

    def is_backward(node: Any) -> bool:
        if node not in found:
            is_tangent = node.op == "placeholder" and node.name.startswith("tangents")
            found[node] = is_tangent or any(is_backward(other) for other in node.all_input_nodes)
        return found[node]

    for node in graph.nodes:  # inputs before their readers
        is_backward(node)
    return is_backward


def _replace(graph: torch.fx.Graph, fusion: Fusion, how: How) -> None:
    exit, product = fusion.region.exit, fusion.product
    how = how if product.a_value.dtype == OF_PRECISIONS else how._replace(precision=None)
    with graph.inserting_before(exit):
        b = product.b
        if product.form.transposes_b:
            b = call(graph, PERMUTE, (b, [1, 0]), exit)
        operands = [operand_of(graph, leaf, fusion) for leaf in fusion.leaves]
        arguments: tuple[Any, ...] = (product.a, b, operands, [*how.scalars], *how[1:])
        made = call(graph, torch.ops.lowtide.gemm.default, arguments, exit)
        if fusion.size is not None:
            made = call(graph, RESHAPE, (made, fusion.size), exit)
    exit.replace_all_uses_with(made)
    for node in reversed(fusion.region.nodes):
        graph.erase_node(node)
