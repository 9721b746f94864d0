"""Replaces products of groups by calls of `lowtide::grouped_gemm`, or of `lowtide::grouped_epilogue` with the ops that
follow in the epilogue.

    %rows = aten.index(%x, [%tokens]); %mm = aten._grouped_mm(%rows, %w, %offs); %relu = aten.relu(%mm)
    %d = lowtide.grouped_epilogue(%x, %w, %offs, [], "(acc: f32) -> bf16 { … }", %tokens)

If nothing else reads the rows that an index takes, the kernel takes them.
"""

from typing import Any

import torch
from torch._inductor.pattern_matcher import stable_topological_sort

from lowtide.compiler.fx.fusion import Fusion, sizes_in
from lowtide.compiler.fx.products import Product
from lowtide.torch.fx.nodes import PERMUTE, call, erase_unread, operand_of, shaped
from lowtide.torch.grouped import grouped_gemm
from lowtide.torch.grouped_epilogues import grouped_epilogue

_add, _lt, _where = torch.ops.aten.add.Tensor, torch.ops.aten.lt.Scalar, torch.ops.aten.where.self
_convert, _INDEX = torch.ops.prims.convert_element_type.default, "aten.index.Tensor"


def replace_groups(graph: torch.fx.Graph, taken: Product | Fusion, epilogue: str = "") -> None:
    """Replace a product of groups, or a fusion with an epilogue."""
    product = taken if isinstance(taken, Product) else taken.product
    node, given = product.node, product.of_groups
    with graph.inserting_before(node):
        a, b = product.a, product.b
        if product.form.transposes_a:
            a = call(graph, PERMUTE, (a, [1, 0]), node)
        if product.form.transposes_b:
            b = call(graph, PERMUTE, (b, [0, 2, 1]), node)
        if isinstance(taken, Product):
            made, exit = call(graph, grouped_gemm, (a, b, given["offs"], given["out_dtype"]), node), node
        else:
            made, exit = _with_epilogue(graph, taken, epilogue), _exit(taken)
    exit.replace_all_uses_with(made)
    if isinstance(taken, Fusion):  # its operands may come after the product in the graph
        stable_topological_sort(graph)
    erase_unread(graph, [node, *(taken.region.nodes if isinstance(taken, Fusion) else ()), a, b])


def factors_of_groups(graph: torch.fx.Graph, product: Product) -> tuple[Any, Any, Any, Any]:
    """A, B and the ends of a product of groups of rows, and the index of the rows of A that are taken, or None."""
    source, index = _rows(product.a)
    if index is not None:
        from_end = call(graph, _add, (index, source.meta["val"].shape[0]), product.a)  # as torch counts negative ones
        index = call(graph, _where, (call(graph, _lt, (index, 0), product.a), from_end, index), product.a)
        index = call(graph, _convert, (index, torch.int32), product.a)
    return source, product.b, product.of_groups["offs"], index


def _exit(fusion: Fusion) -> Any:
    results = fusion.region.results
    return fusion.region.exit if results is None else results.full[0]


def _with_epilogue(graph: torch.fx.Graph, fusion: Fusion, epilogue: str) -> Any:
    exit, operands = _exit(fusion), [operand_of(graph, leaf, fusion) for leaf in fusion.leaves]
    source, b, ends, index = factors_of_groups(graph, fusion.product)
    made = call(graph, grouped_epilogue, (source, b, ends, operands, epilogue, index), exit)
    shape = tuple(exit.meta["val"].shape)
    return shaped(graph, made, shape, exit, sizes_in(fusion.product, fusion.region, shape))


def _rows(a: Any) -> tuple[Any, Any]:
    """A, and the index of its rows that are taken: if nothing else reads these rows, those of the indexed matrix."""
    if str(a.target) != _INDEX or len(a.users) != 1 or len(a.args[1]) != 1:
        return a, None
    source, (index,) = a.args
    indices = index.meta["val"]
    is_matrix = source.meta["val"].dim() == 2 and indices.dim() == 1
    by_rows = is_matrix and source.meta["val"].stride(1) == 1 and isinstance(source.meta["val"].shape[0], int)
    return (source, index) if by_rows and indices.dtype in (torch.int32, torch.int64) else (a, None)
