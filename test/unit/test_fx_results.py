"""Which values of a graph one kernel stores, on graphs written down without torch."""

from __future__ import annotations

from typing import Any

import pytest
from fx_graphs import Graph, Node

from lowtide.compiler.fx.choosing import Choice, choose
from lowtide.compiler.fx.products import product_of
from lowtide.compiler.fx.rule import Rule

ALL = Rule(least_rows=1, least=0, full="any", left=())
M, N, K = 256, 512, 128


def chosen(graph: Graph, node: Node, rule: Rule = ALL) -> Choice:
    product = product_of(node)
    assert product is not None
    return choose(product, "graph 0", graph.position, {}.__contains__, rule)


def product(graph: Graph, n: int = N, by_columns: bool = False) -> Node:
    strides = (1, K) if by_columns else None
    weight = graph.input(K, n, strides=strides)
    return graph.call("aten.mm.default", graph.input(M, K), weight, shape=(M, n))


def read(graph: Graph, node: Node) -> Node:
    """A product that reads a value."""
    width = node.meta["val"].shape[-1]
    return graph.call("aten.mm.default", node, graph.input(width, 64), shape=(M, 64))


def test_the_argument_of_an_activation_is_stored_beside_it() -> None:
    graph = Graph()
    sums = product(graph)
    relu = graph.call("aten.relu.default", sums)
    graph.output(read(graph, relu), graph.call("aten.sin.default", sums))
    choice = chosen(graph, sums)
    assert choice.epilogue == "(acc: f32) -> (y0: bf16, y1: bf16) { %0 = max acc, 0.0; acc, %0 }"
    assert choice.row.results == f"{sums.name}, {relu.name}" and choice.row.taken == ("relu",)


def test_products_of_f32_give_one_value() -> None:
    """Kernels with results have no choice of precisions."""
    graph = Graph()
    a, b = (graph.input(*shape, dtype="torch.float32") for shape in ((M, K), (K, N)))
    sums = graph.call("aten.mm.default", a, b, shape=(M, N))
    graph.output(read(graph, graph.call("aten.relu.default", sums)), graph.call("aten.sin.default", sums))
    row = chosen(graph, sums, Rule(("f32",), least_rows=1, least=0)).row
    assert row.is_taken and not row.results


def test_what_others_can_compute_again_is_not_stored() -> None:
    """The sine reads the relu, which it computes again from the product."""
    graph = Graph()
    sums = product(graph)
    relu = graph.call("aten.relu.default", sums)
    square = graph.call("aten.mul.Tensor", relu, relu)
    graph.output(read(graph, square), graph.call("aten.sin.default", relu), graph.call("aten.cos.default", sums))
    assert chosen(graph, sums).row.results == f"{sums.name}, {square.name}"


def test_more_results_than_a_kernel_has_are_left() -> None:
    graph = Graph()
    sums = product(graph)
    several = [graph.call("aten.mul.Tensor", sums, float(i)) for i in range(2, 6)]
    graph.output(*(read(graph, each) for each in several))
    assert chosen(graph, sums).row.results == ""


def halved(graph: Graph, sums: Node) -> tuple[Node, Node]:
    split = graph.call("aten.split.Tensor", sums, N // 2, -1)
    first, second = (graph.call("getitem.x", split, i, shape=(M, N // 2)) for i in (0, 1))
    return first, second


def test_the_halves_of_a_product_are_pairs_of_columns() -> None:
    graph = Graph()
    sums = product(graph, by_columns=True)
    gate, up = halved(graph, sums)
    hidden = graph.call("aten.mul.Tensor", graph.call("aten.silu.default", gate), up)
    graph.output(read(graph, hidden))
    choice = chosen(graph, sums)
    assert choice.row.results == hidden.name and (choice.epilogue or "").startswith(
        "(acc: f32, acc2: f32) -> (y0: bf16)"
    )
    graph.output(graph.call("aten.sin.default", gate))
    assert chosen(graph, sums).row.results == f"{hidden.name}, halves of {sums.name}"


def two_products(by_columns: bool = True, wide: int = N, k: int = K) -> tuple[Graph, Node, Node]:
    """Products of two reshapes of one matrix, with weights of two widths."""
    graph = Graph()
    x = graph.input(2, M // 2, k)
    views = [graph.call("aten.view.default", x, [M, k], shape=(M, k)) for _ in range(2)]
    weights = [graph.input(k, n, strides=(1, k) if by_columns else None) for n in (N, wide)]
    gate, up = (graph.call("aten.mm.default", *each, shape=(M, N)) for each in zip(views, weights, strict=True))
    return graph, gate, up


@pytest.mark.parametrize("is_saved", [True, False])
def test_two_products_of_one_matrix_are_pairs_of_columns(is_saved: bool) -> None:
    graph, gate, up = two_products()
    hidden = graph.call("aten.mul.Tensor", graph.call("aten.silu.default", gate), up)
    graph.output(read(graph, hidden), *([graph.call("aten.sin.default", gate)] if is_saved else []))
    for first, second in ((gate, up), (up, gate)):
        choice = chosen(graph, first)
        saved = f", {first.name}, {second.name}" if is_saved else ""
        assert choice.row.results == hidden.name + saved and choice.fusion is not None and choice.beside is not None
        assert (choice.epilogue or "").startswith("(acc: f32, acc2: f32) -> (y0: bf16")
        assert choice.fusion.region.other.node is second and choice.beside.product == second.name
        assert choice.beside.taken == () and not choice.fusion.leaves


@pytest.mark.parametrize("given", [{"by_columns": False}, {"wide": 2 * N}, {"k": 2048}])
def test_products_whose_weights_lie_otherwise_or_are_long_are_no_pairs(given: dict[str, Any]) -> None:
    graph, gate, up = two_products(**given)
    graph.output(read(graph, graph.call("aten.mul.Tensor", gate, up)))
    assert chosen(graph, gate).beside is None


def test_products_that_are_not_combined_are_no_pairs() -> None:
    graph, gate, up = two_products()
    graph.output(*(read(graph, graph.call("aten.relu.default", each)) for each in (gate, up)))
    choice = chosen(graph, gate)
    assert choice.beside is None and choice.row.taken == ("relu",)


def test_halves_of_weights_by_rows_are_no_pairs() -> None:
    graph = Graph()
    sums = product(graph)
    gate, up = halved(graph, sums)
    graph.output(read(graph, graph.call("aten.mul.Tensor", gate, up)))
    assert chosen(graph, sums).row.results == ""


def test_two_values_that_are_joined_are_halves_of_one_matrix() -> None:
    graph = Graph()
    sums = product(graph)
    gate, up = graph.input(M, N), graph.input(M, N)
    parts = [graph.call("aten.mul.Tensor", sums, each) for each in (up, gate)]
    joined = graph.call("aten.cat.default", parts, 1, shape=(M, 2 * N))
    graph.output(read(graph, joined))
    choice = chosen(graph, sums)
    assert choice.row.results == f"halves of {joined.name}" and choice.fusion is not None
    assert choice.fusion.region.results is not None and choice.fusion.region.results.full == tuple(parts)


@pytest.mark.parametrize(
    ("op", "dims", "word"), [("sum.dim_IntList", [0], "column sum"), ("mean.dim", [-1], "row sum")]
)
def test_sums_of_a_stored_value_are_results(op: str, dims: list[int], word: str) -> None:
    graph = Graph()
    sums = product(graph)
    added = graph.call("aten.add.Tensor", sums, graph.input(M, N))
    reduced = graph.call(f"aten.{op}", added, dims, True, shape=(1, N) if dims == [0] else (M, 1))
    graph.output(added, reduced)
    assert chosen(graph, sums).row.results == f"{added.name}, {word} of {added.name}"


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_sum_over_rows_beside_a_norm_that_is_stored_is_left(is_stored: bool) -> None:
    """The kernel that computes the norm reads whole rows. If another product is scaled instead, none reads them."""
    graph = Graph()
    sums = product(graph)
    added = graph.call("aten.add.Tensor", sums, graph.input(M, N))
    reduced = graph.call("aten.mean.dim", added, [-1], True, shape=(M, 1))
    scale = graph.call("aten.rsqrt.default", reduced)
    weight = graph.input(N, N)
    source = added if is_stored else graph.call("aten.mm.default", added, weight, shape=(M, N))
    scaled = graph.call("aten.mul.Tensor", source, scale)
    graph.output(added, read(graph, scaled))
    assert chosen(graph, sums).row.results == ("" if is_stored else f"{added.name}, row sum of {added.name}")


def test_a_column_sum_of_what_no_product_reads_is_left() -> None:
    """A kernel that reads the whole matrix anyway computes it beside other sums, as for LayerNorm's bias."""
    graph = Graph()
    sums = product(graph)
    reduced = graph.call("aten.sum.dim_IntList", sums, [0], True, shape=(1, N))
    graph.output(reduced, graph.call("aten.sin.default", sums))
    assert chosen(graph, sums).row.results == ""


def test_a_sum_over_rows_that_reads_another_matrix_is_left() -> None:
    """It is no statistic of what is stored: it would read the matrix in the kernel of the product."""
    graph = Graph()
    sums = product(graph)
    times = graph.call("aten.mul.Tensor", sums, graph.input(M, N))
    reduced = graph.call("aten.sum.dim_IntList", times, [1], True, shape=(M, 1))
    graph.output(reduced, graph.call("aten.sin.default", sums))
    assert chosen(graph, sums).row.results == ""


def log_softmax(graph: Graph, x: Node, **change: Any) -> Node:
    row = {"shape": (M, 1), "dtype": "torch.float32"}
    amax = graph.call("aten.amax.default", x, change.get("dims", [1]), True, **row)
    sub = graph.call("aten.sub.Tensor", x, amax)
    total = graph.call("aten.sum.dim_IntList", graph.call("aten.exp.default", sub), [1], True, **row)
    return graph.call("aten.sub.Tensor", sub, graph.call("aten.log.default", total, **row))


def test_a_cross_entropy_stores_no_logits() -> None:
    graph = Graph()
    sums = product(graph)
    logits = graph.call("prims.convert_element_type.default", sums, "f32", dtype="torch.float32")
    index = graph.input(M, 1, dtype="torch.int64")
    own = graph.call("aten.gather.default", log_softmax(graph, logits), 1, index, shape=(M, 1), dtype="torch.float32")
    graph.output(own)
    choice = chosen(graph, sums)
    assert choice.epilogue == (
        "(acc: f32, %target: per_row s32) -> (lse: row_logsumexp, t0: row_value %target) { acc, acc }"
    )


def test_a_log_softmax_that_is_read_whole_rounds_its_logits_first() -> None:
    graph = Graph()
    sums = product(graph)
    logits = graph.call("prims.convert_element_type.default", sums, "f32", dtype="torch.float32")
    graph.output(log_softmax(graph, logits))
    assert chosen(graph, sums).epilogue == (
        "(acc: f32) -> (y0: bf16, lse: row_logsumexp) { %0 = cast<bf16> acc; %0, %0 }"
    )


def test_a_softmax_of_columns_is_none_of_rows() -> None:
    graph = Graph()
    sums = product(graph)
    logits = graph.call("prims.convert_element_type.default", sums, "f32", dtype="torch.float32")
    graph.output(log_softmax(graph, logits, dims=[0]))
    assert "log-sum-exp" not in chosen(graph, sums).row.results
