"""Which collectives stand beside a product, on graphs written down without torch."""

from __future__ import annotations

from typing import Any

import pytest
from fx_graphs import Graph, Node

from lowtide.compiler.fx.collectives import gather_before, readers_of, sum_after
from lowtide.compiler.fx.padding import without_padding
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


def padded(graph: Graph, node: Node, dim: int, count: int) -> Node:
    shape = [*node.meta["val"].shape]
    shape[dim] += count
    widths = [0] * 2 * (len(shape) - dim)
    widths[-1] = count
    return graph.call("aten.constant_pad_nd.default", node, widths, 0.0, shape=shape)


def cut(graph: Graph, node: Node, dim: int, end: int, *start: int) -> Node:
    shape = [*node.meta["val"].shape]
    shape[dim] = end - sum(start)
    return graph.call("aten.slice.Tensor", node, dim, sum(start), end, shape=shape)


@pytest.mark.parametrize(("total", "rows"), [(13, (4, 4, 4, 1)), (6, (4, 2, 0, 0)), (16, (4, 4, 4, 4))])
def test_a_slice_of_gathered_rows_says_how_many_rows_each_rank_has(total: int, rows: tuple[int, ...]) -> None:
    graph = Graph()
    wait = gathered(graph, 4, 2, K)
    whole = cut(graph, wait, 0, total)
    found = before(graph, flat(graph, whole))
    assert (found.wait, found.whole, found.outer) == (wait, whole, 1)
    assert found.rows == tuple(2 * each for each in rows)
    assert before(graph, flat(graph, cut(graph, wait, 0, total))) is None  # two slices read the rows
    whole = cut(graph, graph.call("aten.view.default", gathered(graph, 4, K), shape=(1, 16, K)), 1, total)
    assert before(graph, flat(graph, whole)).rows == rows


def test_other_slices_are_no_gathered_rows_and_other_dimensions_are_named() -> None:
    graph = Graph()
    assert before(graph, cut(graph, gathered(graph, 4, K), 0, 13, 1)) is None
    assert before(graph, cut(graph, gathered(graph, 4, 2 * K), 1, K)) is None
    whole = cut(graph, joined(graph, gathered(graph, 3, 4, K), (3, 4, K), 0, 1), 1, 13)
    assert before(graph, flat(graph, whole)).outer == 3


def test_rows_cut_or_padded_along_another_dimension_than_that_of_the_ranks_are_left() -> None:
    graph = Graph()
    whole = joined(graph, gathered(graph, 3, 4, K), (3, 4, K), 0, 1)  # (3, 16, K)
    assert before(graph, flat(graph, cut(graph, whole, 0, 2))) is None
    whole = flat(graph, joined(graph, gathered(graph, 3, 4, K), (3, 4, K), 0, 1))
    assert before(graph, cut(graph, whole, 0, 13)) is None
    sums = product(graph, graph.input(15 * 8, K))
    split = graph.call("aten.split.Tensor", graph.call("aten.view.default", sums, shape=(15, 8, N)), 4, 0)
    parts = [graph.call("getitem.x", split, number, shape=(4 if number < 3 else 3, 8, N)) for number in range(4)]
    cat = graph.call("aten.cat.default", [*parts[:3], padded(graph, parts[3], 0, 1)], 0, shape=(16, 8, N))
    summed(graph, joined(graph, cat, (16, 2, N), 1, 0), "sum", RANKS, "0", shape=(16, 2, N))
    assert sum_after(sums) is None


def test_a_shard_is_found_behind_its_padding() -> None:
    graph = Graph()
    shard, deep = graph.input(3, 2, K), graph.input(1, 3, K)
    assert without_padding(padded(graph, shard, 0, 1)) is shard
    assert without_padding(padded(graph, deep, 1, 1)) is deep
    for other in (shard, padded(graph, shard, 1, 1), padded(graph, shard, 2, 1)):
        assert without_padding(other) is other
    ones = graph.call("aten.constant_pad_nd.default", shard, [0, 0, 0, 0, 0, 1], 1.0, shape=(4, 2, K))
    assert without_padding(ones) is ones


def scattered(graph: Graph, dim: int, rows: tuple[int, ...], *, batch: int = 1, most: int = 4) -> tuple[Node, Node]:
    """A product whose rows are divided along `dim`, padded and summed: the product and the result."""
    outer, at = ((), 0) if dim == 0 else ((batch,), 1)
    sums = product(graph, graph.input(batch * sum(rows), K))
    split = graph.call(
        "aten.split.Tensor", graph.call("aten.view.default", sums, shape=(*outer, sum(rows), N)), most, dim
    )
    parts = []
    for number, count in enumerate(rows):
        part = graph.input(*outer, 0, N)
        if count:
            part = graph.call("getitem.x", split, number, shape=(*outer, count, N))
            part = graph.call("aten.clone.default", part) if batch > 1 else part
        parts.append(part if count == most else padded(graph, part, at, most - count))
    node = graph.call("aten.cat.default", parts, dim, shape=(*outer, most * len(rows), N))
    if dim:
        node = joined(graph, node, (*outer, most, N), 1, 0)
    return sums, summed(graph, node, "sum", len(rows), "0", shape=(*outer, most, N))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("rows", [(4, 4, 4, 1), (4, 2, 0, 0)])
def test_padded_parts_of_a_sum_say_how_many_rows_each_rank_has(dim: int, rows: tuple[int, ...]) -> None:
    graph = Graph()
    sums, wait = scattered(graph, dim, rows)
    found = sum_after(sums)
    assert found is not None
    assert (found.wait, found.rows, found.outer) == (wait, rows, 1)
    position = {node: number for number, node in enumerate(found.chain)}  # each node before its readers
    assert all(position.get(other, -1) < at for node, at in position.items() for other in node.all_input_nodes)
    many, _ = scattered(graph, 1, rows, batch=3)
    found = sum_after(many)
    assert found is not None and found.outer == 3


def test_parts_with_more_padding_and_parts_that_others_read_are_left() -> None:
    graph = Graph()
    sums, _ = scattered(graph, 0, (3, 3, 3, 1))  # one row of padding on all ranks
    assert sum_after(sums) is None
    sums, wait = scattered(graph, 0, (4, 4, 4, 1))
    (cat,) = wait.args[0].all_input_nodes
    graph.call("aten.relu.default", cat.args[0][0])
    assert sum_after(sums) is None
