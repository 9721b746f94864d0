"""Products of FX graphs and what is taken with them, on graphs made without torch. With torch: test_torch_fx_cpu.py,
test_torch_fx_gpu.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fx_graphs import Graph, Node

import lowtide as lt
from lowtide.compiler.epilogue.text import epilogue_text
from lowtide.compiler.fx.choosing import Choice, choose
from lowtide.compiler.fx.products import product_of
from lowtide.compiler.fx.report import Report, Row
from lowtide.compiler.fx.rule import Rule
from lowtide.compiler.fx.values import value_of

ALL = Rule(least_rows=1, least=0, full="any", left=())
M, N, K = 256, 512, 128


def chosen(graph: Graph, node: Node, rule: Rule = ALL, backward: tuple[Node, ...] = ()) -> Choice:
    product = product_of(node)
    assert product is not None
    return choose(product, "graph 0", graph.position, backward.__contains__, rule)


def product(graph: Graph, m: Any = M, n: Any = N, k: Any = K) -> Node:
    return graph.call("aten.mm.default", graph.input(m, k), graph.input(k, n), shape=(m, n))


def named(function: Any) -> str:
    return epilogue_text(function, "f32", "bf16")


def test_a_decomposed_gelu_by_tanh_is_computed_by_a_sigmoid() -> None:
    """½ x · (1 + tanh u) = x · sigmoid(2u): no factor is left."""
    graph = Graph()
    sums = product(graph)
    half = graph.call("aten.mul.Tensor", sums, 0.5)
    tanh = graph.call("aten.tanh.default", graph.call("aten.mul.Tensor", sums, 0.75))
    result = graph.call("aten.mul.Tensor", half, graph.call("aten.add.Tensor", tanh, 1.0), dtype="torch.bfloat16")
    graph.output(result)
    assert chosen(graph, sums).epilogue == named(lambda acc: acc * lt.sigmoid(2.0 * (acc * 0.75)))


def test_constants_of_a_differentiated_gelu_are_one_and_a_common_factor_is_taken_out() -> None:
    """As torch differentiates ½ x (1 + tanh u) with u = c (x + d x³): both terms have the constants ½, 4 and c, and the
    second one also d and 3."""
    graph, c, d = Graph(), 0.75, 0.0625
    x, sums = graph.input(M, N), product(graph)
    half, square = graph.call("aten.mul.Tensor", x, 0.5), graph.call("aten.mul.Tensor", x, x)
    tanh = graph.call("aten.tanh.default", x)
    slope = graph.call("aten.sub.Tensor", 1, graph.call("aten.mul.Tensor", tanh, tanh))
    outer = graph.call("aten.mul.Tensor", graph.call("aten.mul.Tensor", sums, half), slope)
    first = graph.call("aten.mul.Tensor", outer, c)
    inner = graph.call(
        "aten.mul.Tensor", graph.call("aten.mul.Tensor", first, d), graph.call("aten.mul.Tensor", square, 3)
    )
    result = graph.call("aten.add.Tensor", first, inner, dtype="torch.bfloat16")
    graph.output(result)

    def derivative(acc: Any, x0: lt.Full) -> Any:
        share = lt.sigmoid(2.0 * x0)
        return acc * x0 * (share - share * share) * (2 * c + (6 * c * d) * (x0 * x0))

    assert chosen(graph, sums).epilogue == named(derivative)


def test_a_product_of_constants_that_f32_does_not_hold_stays_apart() -> None:
    graph = Graph()
    sums = product(graph)
    result = graph.call(
        "aten.mul.Tensor", graph.call("aten.mul.Tensor", sums, 2.0**-80), 2.0**-80, dtype="torch.bfloat16"
    )
    graph.output(result)
    assert chosen(graph, sums).epilogue == named(lambda acc: acc * 2.0**-80 * 2.0**-80)


def test_bias_and_a_decomposed_gelu_are_one_epilogue_as_the_tracer_writes_it() -> None:
    graph = Graph()
    bias = graph.input(N)
    sums = graph.call("aten.addmm.default", bias, graph.input(M, K), graph.input(K, N), shape=(M, N))
    wide = graph.call("prims.convert_element_type.default", sums, "f32", dtype="torch.float32")
    half = graph.call("aten.mul.Tensor", wide, 0.5)
    erf = graph.call("aten.erf.default", graph.call("aten.mul.Tensor", wide, 0.7071067811865476))
    gelu = graph.call("aten.mul.Tensor", half, graph.call("aten.add.Tensor", erf, 1))
    result = graph.call("prims.convert_element_type.default", gelu, "bf16", dtype="torch.bfloat16")
    graph.output(result)
    choice = chosen(graph, sums)
    assert choice.fusion is not None and choice.fusion.region.exit is result

    def bias_gelu(acc: Any, x0: lt.PerColumn) -> Any:
        return lt.gelu(acc + x0)

    wanted = named(bias_gelu).replace("mul 0.5, %0", "mul %0, 0.5")
    assert choice.epilogue == wanted
    cast = "convert_element_type"
    assert choice.row.taken == (cast, "mul", "mul", "erf", "add", "mul", cast)
    left = chosen(graph, sums, Rule(least_rows=1, least=0)).row
    assert left.taken == () and left.reason.endswith("aten.erf.default takes less time in a kernel of Inductor's")


def test_a_value_that_another_op_reads_ends_the_kernel_before_it() -> None:
    graph = Graph()
    sums = product(graph)
    relu = graph.call("aten.relu.default", sums)
    other = graph.call("aten.sin.default", sums)
    graph.output(relu, other)
    choice = chosen(graph, sums, replace(ALL, results=False))
    assert choice.epilogue == "" and choice.row.taken == ()
    assert choice.row.reason == "ops that follow are left, because sin_4 and output_5 read intermediate values"


def test_a_product_of_the_forward_pass_takes_no_op_of_the_backward_pass() -> None:
    graph = Graph()
    sums = product(graph)
    later = graph.call("aten.mul.Tensor", sums, graph.input(M, N))
    graph.output(later)
    assert chosen(graph, sums).row.taken == ("mul",)
    choice = chosen(graph, sums, backward=(later,))
    assert choice.row.taken == () and "backward pass" in choice.row.reason


def test_what_checkpointing_keeps_takes_no_op_that_it_computes_again() -> None:
    graph = Graph()
    sums = product(graph)
    relu = graph.call("aten.relu.default", sums)
    graph.output(relu)
    sums.meta["recompute"], relu.meta["recompute"] = "MUST_SAVE", "PREFER_RECOMPUTE"
    choice = chosen(graph, sums)
    assert choice.row.taken == () and "activation checkpointing" in choice.row.reason
    relu.meta["recompute"] = "MUST_SAVE"
    assert chosen(graph, sums).row.taken == ("relu",)


def test_views_between_are_taken_and_give_the_last_its_shape() -> None:
    graph = Graph()
    sums = product(graph, m=4 * M)
    view = graph.call("aten.view.default", sums, [4, M, N], shape=(4, M, N))
    scaled = graph.call("aten.mul.Tensor", view, graph.input(4, M, 1, dtype="torch.float32"))
    total = graph.call("aten.add.Tensor", graph.input(4, M, N), scaled)
    rows = graph.call("aten.view.default", total, [4, M, 8, N // 8], shape=(4, M, 8, N // 8))
    graph.output(rows)
    choice = chosen(graph, sums)
    assert choice.fusion is not None and choice.fusion.size == [4, M, N]
    assert [leaf.kind.value for leaf in choice.fusion.leaves] == ["per_row", "full"]
    assert choice.row.taken == ("view", "mul", "add")
    assert choice.row.reason == f"before {rows.name}: aten.view.default to rows of {N // 8} elements, from {N}"


def test_tensors_of_the_size_of_d_are_read_as_far_as_the_rule_says() -> None:
    graph = Graph()
    sums = product(graph)
    total = graph.call("aten.add.Tensor", sums, graph.input(M, N))
    graph.output(total)
    assert chosen(graph, sums).row.taken == ("add",)
    left = chosen(graph, sums, Rule(least_rows=1, least=0))
    other = total.args[1].name
    assert left.row.taken == ()
    assert left.row.reason == f"before {total.name}: it reads {other}, of D's size; the rule allows none here"


def test_alone_reads_them_where_no_other_kernel_would() -> None:
    rule = Rule(least_rows=1, least=0, full="alone")
    for target, wanted in (("aten.mm.default", ("add",)), ("aten.exp.default", ()), (None, ("add",))):
        graph = Graph()
        sums = product(graph)
        total = graph.call("aten.add.Tensor", sums, graph.input(M, N))
        view = graph.call("aten.view.default", total, [2, M // 2, N], shape=(2, M // 2, N))
        more = (view,) if target is None else (graph.call(target, view, graph.input(N, N), shape=(M, N)),)
        graph.output(*more)
        assert chosen(graph, sums, rule).row.taken == wanted
    with pytest.raises(lt.SpecError, match=r"\[rule-full\]"):
        Rule(full="all")


def test_what_only_the_kernel_reads_is_computed_in_it() -> None:
    """The derivative of tanh from its input: one tensor is read, although four ops lie between. It is 4 (s − s²) with
    the sigmoid s of twice the input."""
    graph = Graph()
    x = graph.input(M, N)
    tanh = graph.call(
        "aten.tanh.default", graph.call("prims.convert_element_type.default", x, "f32", dtype="torch.float32")
    )
    slope = graph.call("aten.sub.Tensor", 1, graph.call("aten.mul.Tensor", tanh, tanh))
    sums = product(graph)
    result = graph.call("aten.mul.Tensor", sums, slope, dtype="torch.bfloat16")
    graph.output(result)
    choice = chosen(graph, sums)
    assert choice.fusion is not None and [leaf.node for leaf in choice.fusion.leaves] == [x]

    def derivative(acc: Any, x0: lt.Full) -> Any:
        share = lt.sigmoid(2.0 * x0)
        return acc * (4.0 * (share - share * share))

    assert choice.epilogue == named(derivative)


def test_linear_reads_its_weights_by_columns_and_leading_dimensions_as_rows() -> None:
    graph = Graph()
    x, w, bias = graph.input(2, M, K), graph.input(N, K), graph.input(N)
    sums = graph.call("aten.linear.default", x, w, bias, shape=(2, M, N))
    graph.output(graph.call("aten.relu.default", sums))
    choice = chosen(graph, sums)
    assert choice.fusion is not None and choice.fusion.product.form.transposes_b
    assert choice.row.shape == f"{2 * M}×{N}×{K}" and choice.row.taken == ("relu",)
    assert [leaf.kind.value for leaf in choice.fusion.leaves] == ["per_column"]


def test_the_report_says_what_to_tune() -> None:
    graph = Graph()
    kept = graph.call("aten.t.default", graph.input(N, K), shape=(K, N))
    kept.meta["val"] = replace(kept.meta["val"], strides=(1, K))
    sums = graph.call("aten.addmm.default", graph.input(N), graph.input(M, K), kept, shape=(M, N))
    graph.output(graph.call("aten.relu.default", sums))
    choice = chosen(graph, sums)
    (spec,) = Report((choice.row, choice.row)).specs("sm_90a")
    assert (spec.m, spec.n, spec.k, spec.layout, spec.a, spec.d) == (M, N, K, "tn", "bf16", "bf16")
    assert [(operand.name, operand.kind.value) for operand in spec.operands] == [("x0", "per_column")]


def test_silu_by_a_quotient_divides_as_lt_silu_does() -> None:
    graph = Graph()
    sums = product(graph)
    one_more = graph.call("aten.add.Tensor", graph.call("aten.exp.default", graph.call("aten.neg.default", sums)), 1)
    graph.output(graph.call("aten.div.Tensor", sums, one_more))
    assert "div_approx" in str(chosen(graph, sums).epilogue)


def test_an_integer_mask_or_a_single_number_in_memory_is_left() -> None:
    for shape, dtype, reason in (
        ((M, N), "torch.int64", "kernels do not read its element type as floats"),
        ((), "torch.bfloat16", "it is a single number in memory"),
        ((M,), "torch.bfloat16", f"its shape {M} is neither {M}×{N}, nor one row or one column of it"),
        ((M, N), "torch.float64", "its elements are f64"),
    ):
        graph = Graph()
        sums = product(graph)
        graph.output(graph.call("aten.mul.Tensor", sums, graph.input(*shape, dtype=dtype), shape=(M, N)))
        choice = chosen(graph, sums)
        assert choice.row.taken == () and reason in choice.row.reason


def test_f32_is_written_only_where_it_is_a_result() -> None:
    for is_result in (True, False):
        graph = Graph()
        sums = product(graph)
        wide = graph.call("prims.convert_element_type.default", sums, "f32", dtype="torch.float32")
        graph.output(wide if is_result else graph.call("aten.sum.dim_IntList", wide, [0], shape=(N,)))
        choice = chosen(graph, sums)
        assert choice.fusion is not None and choice.fusion.d == ("f32" if is_result else "bf16")


class Symbolic:
    """An extent that is known at run time; it compares with nothing."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __mul__(self, other: Any) -> Symbolic:
        return Symbolic(f"{self}*{other}")

    __rmul__ = __mul__

    def __eq__(self, other: object) -> Any:
        raise AssertionError("a guard would be added")

    __hash__ = None  # type: ignore[assignment]


def test_symbolic_extents_are_compared_as_they_are_written() -> None:
    graph, m = Graph(), Symbolic("s0")
    sums = product(graph, m=m)
    total = graph.call("aten.add.Tensor", sums, graph.input(m, N))
    graph.output(graph.call("aten.mul.Tensor", total, graph.input(Symbolic("s1"), N)))
    choice = chosen(graph, sums)
    assert choice.row.taken == ("add",) and choice.row.shape == f"s0×{N}×{K}"


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ({"shape": (M, K), "device": "cpu"}, {}, "A is on cpu; kernels run on cuda"),
        ({"shape": (M, K), "dtype": "torch.float32"}, {"dtype": "torch.float32"}, "f32 × f32: products of bf16, f16"),
        ({"shape": (M, K), "strides": (2 * K, 2)}, {}, "neither rows nor columns are contiguous"),
        (
            {"shape": (M, K), "strides": (K + 1, 1)},
            {},
            "rows of A and B are not multiples of 16 bytes, and copies would",
        ),
        ({"shape": (4, K)}, {}, "M and N of at least 16 are taken"),
        ({"shape": (16, K)}, {}, "fewer than 2000000 multiplications"),
        ({"shape": (M, K)}, {"shape": (K, 77)}, "rows of D are not multiples of 16 bytes"),
        ({"shape": (M, 0)}, {"shape": (0, N)}, "it has no elements or no products"),
    ],
)
def test_products_are_left_with_a_reason(a: dict[str, Any], b: dict[str, Any], reason: str) -> None:
    graph = Graph()
    left = graph.input(*a.pop("shape"), **a)
    right = graph.input(*b.pop("shape", (K, N)), **{"strides": None if b else (N, 1), **b})
    shape = (left.meta["val"].shape[0], right.meta["val"].shape[1])
    sums = graph.call("aten.mm.default", left, right, shape=shape)
    choice = chosen(graph, sums, Rule(least_rows=16, least=2_000_000))
    assert choice.fusion is None and not choice.row.is_taken and reason in choice.row.reason


def odd(m: int, n: int, k: int, rule: Rule | None = None) -> Choice:
    """The choice for a product that a bias, a relu and a sum with a tensor of D's size follow."""
    graph = Graph()
    weight = graph.input(k, n, strides=(1, k))
    sums = graph.call("aten.addmm.default", graph.input(n), graph.input(m, k), weight, shape=(m, n))
    relu = graph.call("aten.relu.default", sums)
    graph.output(relu, graph.call("aten.add.Tensor", relu, graph.input(m, n)))
    return chosen(graph, sums, Rule(full="any") if rule is None else rule)


@pytest.mark.parametrize(
    ("extents", "is_taken"),
    [
        ((4095, 4097, 4103), True),
        ((1527, 4080, 1020), True),
        ((1527, 1020, 4080), True),  # only D is copied
        ((1527, 1020, 1020), True),  # torch's kernel takes longer than the product and the copies
        ((509, 1020, 1020), False),
        ((4095, 4097, 30), False),
    ],
)
def test_products_with_odd_rows_are_taken_if_copies_take_less_time_than_they_save(
    extents: tuple[int, int, int], is_taken: bool
) -> None:
    choice = odd(*extents)
    assert choice.row.is_taken == is_taken and ("copies would take longer" in choice.row.reason) != is_taken


def test_the_shortest_odd_rows_of_a_graph_say_which_of_its_tensors_are_padded() -> None:
    graph = Graph()
    names = ("x", "scores", "narrow", "even", "weight")
    shapes = ((3, 509, 1020), (3, 509, 509), (1020, 68), (1020, 1024), (4088, 1020))
    values = dict(zip(names, (value_of(graph.input(*shape)) for shape in shapes), strict=True))
    assert Rule().padded_rows(values.values()) == 1020
    assert Rule(unaligned=False).padded_rows(values.values()) is None
    assert Rule(dtypes=("f16",)).padded_rows(values.values()) is None
    del values["weight"]
    assert Rule().padded_rows(values.values()) is None


def test_kernels_with_odd_rows_have_one_result_and_read_no_tensor_of_ds_size() -> None:
    choice = odd(4095, 4097, 4103)
    assert choice.row.taken == ("relu",) and choice.row.results == ""
    # With aligned rows, the relu and the sum are two results.
    assert odd(4096, 4096, 4096).row.results != ""


def test_products_with_odd_rows_are_left_if_the_rule_says_so_or_their_size_is_not_known() -> None:
    wanted = "rows of A and B and D are not multiples of 16 bytes; only single products of known extents"
    assert odd(4095, 4097, 4103, Rule(unaligned=False)).row.reason.startswith(wanted)
    graph = Graph()
    left, right = graph.input(8, 2048, 2044), graph.input(8, 2044, 2048)
    batch = graph.call("aten.bmm.default", left, right, shape=(8, 2048, 2048))
    assert "only single products" in chosen(graph, batch, Rule()).row.reason


def test_padding_is_timed_for_large_products_of_odd_rows_that_are_left() -> None:
    graph = Graph()
    taken, odd_and_taken, even = product(graph, 4096, 4096, 4096), product(graph, 4096, 4095, 4096), product(graph)
    f32 = graph.input(2048, 2044, dtype="torch.float32"), graph.input(2044, 2047, dtype="torch.float32")
    large = graph.call("aten.mm.default", *f32, shape=(2048, 2047))
    of_heads = graph.call("aten.bmm.default", graph.input(48, 509, 64), graph.input(48, 64, 509), shape=(48, 509, 509))
    symbolic = graph.call("aten.bmm.default", graph.input("b", 64, 509), graph.input("b", 509, 64), shape=("b", 64, 64))
    of_each = [product_of(node) for node in (taken, odd_and_taken, even, large, of_heads, symbolic)]
    assert [each is not None and Rule().gains_by_padding(each) for each in of_each] == [False] * 3 + [True, False, True]


def test_a_graph_without_tensors_of_a_type_that_is_taken_takes_nothing() -> None:
    graph = Graph()
    f32, bf16 = graph.input(M, K, dtype="torch.float32"), graph.input(M, K)
    on_cpu, other = graph.input(M, K, device="cpu"), graph.input(M, dtype="torch.int64")
    values = {node: value_of(node) for node in (f32, bf16, on_cpu, other)}
    assert Rule().may_take(values.values()) and not Rule().may_take([values[f32], values[on_cpu], values[other], None])
    assert Rule(("f32",)).may_take([values[f32]]) and not Rule().may_take([])
    bf16.meta["example_value"] = bf16.meta.pop("val")  # as graphs of Dynamo have it
    assert value_of(bf16) == values[bf16]


def test_the_report_is_a_table() -> None:
    rows = (
        Row("graph 0", "mm", "aten.mm.default", "4096×4096×4096", ("view", "relu"), "before sum: no", "text"),
        Row("graph 0", "bmm_1", "aten.bmm.default", "2 of 8×8×8", None, "it is small"),
    )
    report = Report(rows)
    assert str(report).splitlines() == [
        "graph 0: 1 of 2 products taken",
        "product  shape           taken with, or why it is left",
        "mm       4096×4096×4096  taken with view, relu; before sum: no",
        "bmm_1    2 of 8×8×8      left: it is small",
    ]
    assert report.taken == rows[:1] and report.left == rows[1:]
    assert str(Report()) == "no graph with products was compiled"


def of_groups(graph: Graph, *, k_is_grouped: bool = False, ends: str = "torch.int32", **given: Any) -> Choice:
    """The choice for a product of 8 groups. `given`: other arguments, or the strides of A."""
    about = {"strides": given.pop("strides")} if "strides" in given else {}
    if k_is_grouped:
        shapes, d = ((M, K), (K, N)), (8, M, N)
        about.setdefault("strides", (1, M))
    else:
        shapes, d = ((M, K), (8, K, N)), (M, N)
    a, b = graph.input(*shapes[0], **about), graph.input(*shapes[1])
    node = graph.call("aten._grouped_mm.default", a, b, graph.input(8, dtype=ends), shape=d, **given)
    return chosen(graph, node)


def test_products_of_groups_of_rows_and_of_k_are_taken_alone() -> None:
    rows, of_k = of_groups(Graph()), of_groups(Graph(), k_is_grouped=True)
    assert (rows.row.taken, rows.row.shape, rows.fusion) == ((), "256×512×128", None)
    assert (of_k.row.taken, of_k.row.shape) == ((), "256×512×128")
    graph = Graph()
    node = graph.call("aten._grouped_mm.default", graph.input(64, K), graph.input(8, K, N), shape=(64, N))
    node.kwargs["offs"] = graph.input(8, dtype="torch.int32")
    assert chosen(graph, node, Rule(least=0)).row.taken == ()  # groups may have few rows
    assert chosen(graph, node, Rule(least=2**30)).row.reason == "64×512×128: fewer than 1073741824 multiplications"


def test_ops_after_groups_of_rows_are_in_the_epilogue() -> None:
    graph = Graph()
    w, ends = graph.input(8, K, N, strides=(K * N, 1, K)), graph.input(8, dtype="torch.int32")
    sums = graph.call("aten._grouped_mm.default", graph.input(M, K), w, ends, shape=(M, N))
    split = graph.call("aten.split.Tensor", sums, N // 2, -1)
    gate, up = (graph.call("getitem.x", split, i, shape=(M, N // 2)) for i in (0, 1))
    hidden = graph.call("aten.mul.Tensor", graph.call("aten.relu.default", gate), up)
    down = graph.call("aten._grouped_mm.default", hidden, graph.input(8, N // 2, N), ends, shape=(M, N))
    weighted = graph.call("aten.mul.Tensor", down, graph.input(M, 1))
    graph.output(weighted)
    first, second = chosen(graph, sums, Rule(least=0)), chosen(graph, down, Rule(least=0))
    assert first.row.results == hidden.name and first.row.taken == ("relu", "mul")
    assert second.epilogue == "(acc: f32, %x0: per_row bf16) -> bf16 { %0 = mul acc, %x0; %0 }"
    graph.output(graph.call("aten.sin.default", gate))  # reads a second value
    several = chosen(graph, sums, Rule(least=0))
    assert several.row.results == f"{hidden.name}, halves of {sums.name}"
    assert several.fusion is not None and several.fusion.region.results.joined is sums


def test_reductions_beside_groups_of_rows_are_left_to_other_kernels() -> None:
    graph = Graph()
    ends = graph.input(8, dtype="torch.int32")
    sums = graph.call("aten._grouped_mm.default", graph.input(M, K), graph.input(8, K, N), ends, shape=(M, N))
    hidden = graph.call("aten.relu.default", sums)
    graph.call("aten._grouped_mm.default", hidden, graph.input(8, N, K), ends, shape=(M, K))
    graph.output(graph.call("aten.sum.dim_IntList", hidden, [0], True, shape=(1, N)))
    found = chosen(graph, sums, Rule(least=0))
    assert found.row.taken == ("relu",) and not found.row.results


def test_both_results_of_the_backward_op_of_transformers_are_products() -> None:
    """dA is a product of rows with the transposed weights, dB one of groups of K."""
    graph, f16 = Graph(), "torch.float16"
    x, w = graph.input(M, K, dtype=f16), graph.input(8, K, N, dtype=f16)
    ends, dd = graph.input(8, dtype="torch.int32"), graph.input(M, N, dtype=f16)
    forward = graph.call("transformers.grouped_mm_fallback.default", x, w, ends, shape=(M, N))
    both = graph.call("transformers.grouped_mm_fallback_backward.default", x, w, ends, dd, shape=(0,))
    da, db = (graph.call("getitem.x", both, i, shape=s, dtype=f16) for i, s in enumerate(((M, K), (8, K, N))))
    rows = [chosen(graph, node).row for node in (forward, da, db)]
    assert [row.shape for row in rows] == ["256×512×128", "256×128×512", "128×512×256"]
    assert all(row.taken == () and row.op.startswith("transformers.grouped_mm_fallback") for row in rows)
    of_b = product_of(db)
    assert of_b is not None and of_b.a_value.strides == (1, K) and of_b.b_value.shape == (M, N)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"ends": "torch.int64"}, "with ends of s32, are taken"),
        ({"bias": 1}, "with a bias are not taken"),
        ({"strides": (1, M)}, "A has strides (1, 256); K must be contiguous"),
        ({"k_is_grouped": True, "strides": (K, 1)}, "A has strides (128, 1); M must be contiguous"),
    ],
)
def test_other_products_of_groups_are_left(given: dict[str, Any], reason: str) -> None:
    row = of_groups(Graph(), **given).row
    assert row.taken is None and reason in row.reason
    graph = Graph()
    batch = graph.call("aten._grouped_mm.default", graph.input(8, M, K), graph.input(8, K, N), shape=(8, M, N))
    assert "groups of rows of A" in chosen(graph, batch).row.reason
