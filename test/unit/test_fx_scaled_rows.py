"""Matrices whose rows are scaled before a product, on graphs written down without torch."""

from __future__ import annotations

from typing import Any

import pytest
from fx_graphs import Graph, Node

from lowtide.compiler.fx.scaled_rows import ScaledRows, scaled_rows

M, N, K = 256, 512, 128
F32 = "torch.float32"


def normed(graph: Graph, dtype: str = "torch.bfloat16", by_columns: bool = True) -> tuple[Node, Node, Node]:
    """A matrix times scales of its rows and of its columns: the matrix, the scales of rows, and the result."""
    source, scale = graph.input(M, K, dtype=dtype), graph.input(M, 1, dtype=F32)
    wide = graph.call("prims.convert_element_type.default", source, F32, dtype=F32)
    scaled = graph.call("aten.mul.Tensor", wide, scale)
    x = graph.call("prims.convert_element_type.default", scaled, "", dtype=dtype)
    return wide, scale, graph.call("aten.mul.Tensor", graph.input(K, dtype=dtype), x) if by_columns else x


def multiplied(graph: Graph, x: Node) -> Node:
    return graph.call("aten.mm.default", x, graph.input(K, N, dtype=x.meta["val"].dtype), shape=(M, N))


def found(graph: Graph, taken: bool = True) -> list[ScaledRows]:
    return scaled_rows(graph.nodes, lambda product: taken)


@pytest.mark.parametrize("by_columns", [True, False])
def test_the_scales_of_a_matrix_that_products_read_are_found(by_columns: bool) -> None:
    graph = Graph()
    wide, scale, x = normed(graph, by_columns=by_columns)
    products = [multiplied(graph, x), multiplied(graph, graph.call("aten.view.default", x, [M, K], shape=(M, K)))]
    graph.output(*products)
    (each,) = found(graph)
    assert (each.node, each.scale, each.source, len(each.path)) == (x, scale, wide, 2 + by_columns)
    assert [product.node for product in each.products] == products
    assert not found(graph, taken=False)


def sine(graph: Graph, x: Node) -> Node:
    return graph.call("aten.sin.default", x)


def as_weights(graph: Graph, x: Node) -> Node:
    return graph.call("aten.mm.default", graph.input(N, M), x, shape=(N, K))


@pytest.mark.parametrize("reader", [sine, as_weights])
def test_a_matrix_that_others_read_is_left(reader: Any) -> None:
    graph = Graph()
    _, _, x = normed(graph)
    graph.output(multiplied(graph, x), reader(graph, x))
    assert not found(graph)


def test_rows_of_f16_are_left() -> None:
    """Without their scales they could overflow."""
    graph = Graph()
    _, _, x = normed(graph, "torch.float16")
    graph.output(multiplied(graph, x))
    assert not found(graph)


def test_scales_of_columns_alone_are_left() -> None:
    graph = Graph()
    graph.output(multiplied(graph, graph.call("aten.mul.Tensor", graph.input(M, K), graph.input(K))))
    assert not found(graph)
