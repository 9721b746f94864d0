"""Which collectives stand beside a product, on graphs written down without torch."""

from __future__ import annotations

from typing import Any

import pytest
from fx_graphs import Graph, Node

from lowtide.compiler.fx.collectives import gather_before, readers_of, sum_after
from lowtide.compiler.fx.products import product_of

RANKS, S, K, N = 4, 32, 64, 48
C10D = "_c10d_functional"


def gathered(graph: Graph, *shard: int) -> Node:
    whole = (RANKS * shard[0], *shard[1:])
    gather = graph.call(f"{C10D}.all_gather_into_tensor.default", graph.input(*shard), RANKS, "0", shape=whole)
    return graph.call(f"{C10D}.wait_tensor.default", gather)


def joined(graph: Graph, whole: Node, part: tuple[int, ...], divided: int, along: int, order: Any = None) -> Node:
    split = graph.call("aten.split.Tensor", whole, part[divided], divided)
    parts = [graph.call("getitem.x", split, number, shape=part) for number in order or range(RANKS)]
    shape = [extent * (RANKS if dim == along else 1) for dim, extent in enumerate(part)]
    return graph.call("aten.cat.default", parts, along, shape=shape)


def product(graph: Graph, a: Node) -> Node:
    rows, k = a.meta["val"].shape
    return graph.call("aten.mm.default", a, graph.input(k, N), shape=(rows, N))


def flat(graph: Graph, node: Node) -> Node:
    *outer, last = node.meta["val"].shape
    rows = 1
    for extent in outer:
        rows *= extent
    return graph.call("aten.view.default", node, [rows, last], shape=(rows, last))


def before(graph: Graph, a: Node) -> Any:
    found = product_of(product(graph, a))
    assert found is not None
    return gather_before(found)


def summed(graph: Graph, node: Node, *more: Any, shape: tuple[int, ...] | None = None) -> Node:
    of = "reduce_scatter_tensor" if len(more) == 3 else "all_reduce"
    return graph.call(
        f"{C10D}.wait_tensor.default", graph.call(f"{C10D}.{of}.default", node, *more, shape=shape), shape=shape
    )


def test_rows_gathered_along_the_first_dimension() -> None:
    graph = Graph()
    wait = gathered(graph, S, 2, K)
    found = before(graph, flat(graph, wait))
    assert (found.wait, found.ranks, found.group, found.outer) == (wait, RANKS, "0", 1)
    assert found.name == "all_gather_into_tensor" and [str(x.target) for x in found.chain] == ["aten.view.default"]


@pytest.mark.parametrize("batch", [1, 3])
def test_rows_gathered_along_the_second_dimension_count_the_indices_before_it(batch: int) -> None:
    graph = Graph()
    wait = gathered(graph, batch, S, K)
    found = before(graph, flat(graph, joined(graph, wait, (batch, S, K), 0, 1)))
    assert (found.wait, found.outer, len(found.chain)) == (wait, batch, RANKS + 3)


def test_parts_in_another_order_and_parts_that_others_read_are_no_gathered_rows() -> None:
    graph = Graph()
    assert before(graph, flat(graph, joined(graph, gathered(graph, 3, S, K), (3, S, K), 0, 1, (1, 0, 2, 3)))) is None
    assert before(graph, flat(graph, joined(graph, gathered(graph, 3, S, K), (3, S, K), 0, 1, (0, 1)))) is None
    cat = joined(graph, gathered(graph, 3, S, K), (3, S, K), 0, 1)
    graph.call("aten.relu.default", cat.args[0][0])
    assert before(graph, flat(graph, cat)) is None


def test_gathered_columns_and_parts_of_rows_are_no_gathered_rows() -> None:
    graph = Graph()
    wait = gathered(graph, S, K)
    assert before(graph, graph.call("aten.view.default", wait, shape=(2 * RANKS * S, K // 2))) is None
    assert before(graph, graph.call("aten.permute.default", wait, [1, 0], shape=(K, RANKS * S))) is None
    assert before(graph, graph.input(S, K)) is None
    columns = joined(graph, gathered(graph, S, K), (S, K), 0, 1)
    assert before(graph, columns) is None


def test_readers_of_rows_are_found_behind_views_and_parts() -> None:
    graph = Graph()
    wait = gathered(graph, 2, S, K)
    rows = flat(graph, joined(graph, wait, (2, S, K), 0, 1))
    one = product(graph, rows)
    other = product(graph, graph.call("aten.permute.default", rows, [1, 0], shape=(K, 2 * RANKS * S)))
    assert [*readers_of(wait)] == [one, other]


def test_a_reduce_scatter_and_an_all_reduce_that_alone_read_a_product() -> None:
    graph = Graph()
    sums = product(graph, graph.input(RANKS * S, K))
    wait = summed(graph, flat(graph, sums), "sum", RANKS, "7", shape=(S, N))
    found = sum_after(sums)
    assert found is not None
    assert (found.wait, found.ranks, found.group, found.outer) == (wait, RANKS, "7", 1)
    sums = product(graph, graph.input(S, K))
    wait = summed(graph, sums, "sum", "7")
    found = sum_after(sums)
    assert found is not None
    assert (found.wait, found.ranks, found.name, found.chain) == (wait, 0, "all_reduce", ())


@pytest.mark.parametrize("batch", [1, 3])
def test_rows_scattered_along_the_second_dimension_count_the_indices_before_it(batch: int) -> None:
    graph = Graph()
    sums = product(graph, graph.input(batch * RANKS * S, K))
    view = graph.call("aten.view.default", sums, shape=(batch, RANKS * S, N))
    wait = summed(graph, joined(graph, view, (batch, S, N), 1, 0), "sum", RANKS, "0", shape=(batch, S, N))
    found = sum_after(sums)
    assert found is not None
    assert (found.wait, found.outer, len(found.chain)) == (wait, batch, RANKS + 3)


def test_means_and_sums_of_what_others_read_are_left() -> None:
    graph = Graph()
    mean = product(graph, graph.input(RANKS * S, K))
    summed(graph, mean, "avg", RANKS, "0", shape=(S, N))
    read = product(graph, graph.input(RANKS * S, K))
    summed(graph, read, "sum", RANKS, "0", shape=(S, N))
    graph.call("aten.relu.default", read)
    alone = product(graph, graph.input(S, K))
    graph.call("aten.relu.default", alone)
    columns = product(graph, graph.input(S, K))
    summed(graph, joined(graph, columns, (S, N // RANKS), 1, 0), "sum", RANKS, "0", shape=(S, N // RANKS))
    assert [sum_after(node) for node in (mean, read, alone, columns)] == [None] * 4
