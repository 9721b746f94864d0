"""The pass over FX graphs with torch, and without a GPU: each op against torch's, and graphs that it rewrites."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from compiled_graphs import error, layer_of_experts

import lowtide as lt
from lowtide.compiler.epilogue.operands import OperandType
from lowtide.compiler.epilogue.text import epilogue_text
from lowtide.compiler.fx.pointwise import POINTWISE

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
ltt = pytest.importorskip("lowtide.torch")
fuse = pytest.importorskip("lowtide.torch.fx.fuse").fuse
How = pytest.importorskip("lowtide.torch.calls").How
Unpadded = pytest.importorskip("lowtide.torch.fx.unpadded").Unpadded
functional = torch.nn.functional
ALL = ltt.Rule(devices=("cpu", "cuda"), least_rows=1, least=0, full="any", left=())

X, Y = "x", "y"  # a tensor of D's shape: the product, and an operand
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor"), (X, Y)),
    **dict.fromkeys(("aten.add.Scalar", "aten.sub.Scalar", "aten.mul.Scalar", "aten.div.Scalar"), (X, 1.5)),
    "aten.rsub.Tensor": (X, Y),
    "aten.rsub.Scalar": (X, 1.5),
    "aten.pow.Tensor_Scalar": (X, 3),
    "aten.leaky_relu.default": (X, 0.2),
    "aten.clamp.default": (X, -0.5, 0.25),
    "aten.hardtanh.default": (X,),
    "aten.clamp_min.default": (X, 0.25),
    "aten.clamp_max.default": (X, 0.25),
    "aten.clamp_min.Tensor": (X, Y),
    "aten.clamp_max.Tensor": (X, Y),
    "aten.maximum.default": (X, Y),
    "aten.minimum.default": (X, Y),
    "aten.threshold_backward.default": (X, Y, 0.25),
    **dict.fromkeys((f"aten.{name}_backward.default" for name in ("silu", "sigmoid", "tanh")), (X, Y)),
}
OF_POSITIVE = ("log", "sqrt", "rsqrt")
CONDITIONS = ("lt", "le", "gt", "ge", "eq", "ne")


def op_of(target: str) -> Any:
    _, name, overload = target.split(".")
    return getattr(getattr(torch.ops.aten, name), overload)


def by_lowtide(function: Callable[..., Any], x: Any, y: Any) -> Any:
    """function(x, y) as an epilogue on x · I."""

    def epilogue(acc: Any, y: Any) -> Any:
        return function(acc, y) + 0.0 * y

    full = inspect.Parameter("y", inspect.Parameter.KEYWORD_ONLY, annotation=OperandType(lt.Full.kind, "f32"))
    acc = inspect.Parameter("acc", inspect.Parameter.POSITIONAL_ONLY)
    epilogue.__signature__ = inspect.Signature([acc, full])  # type: ignore[attr-defined]
    text = epilogue_text(epilogue, "f32", "f32")
    return torch.ops.lowtide.gemm(x, torch.eye(x.shape[1]), [y], [], text, "repeatable", None, None)


def applied(function: Callable[..., Any], arguments: tuple[Any, ...], x: Any, y: Any) -> Any:
    return function(*({X: x, Y: y}.get(argument, argument) for argument in arguments))


@pytest.mark.parametrize("target", [name for name in POINTWISE if "mode" not in name])
def test_an_op_computes_what_torch_computes(target: str) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(8, 16), torch.randn(8, 16)
    name = target.split(".")[1]
    x = x.abs() if name in OF_POSITIVE else x
    if name in CONDITIONS or name == "where":
        compared = "aten.gt.Tensor" if name == "where" else target
        right = 0.25 if compared.endswith("Scalar") else Y
        ours = by_lowtide(
            lambda a, b: POINTWISE["aten.where.self"](applied(POINTWISE[compared], (X, right), a, b), a, 2.0), x, y
        )
        wanted = torch.where(applied(op_of(compared), (X, right), x, y), x, torch.tensor(2.0))
    else:
        arguments = ARGUMENTS.get(target, (X,))
        ours = by_lowtide(lambda a, b: applied(POINTWISE[target], arguments, a, b), x, y)
        wanted = applied(op_of(target), arguments, x, y)
    torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-6)


def half(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.bfloat16)


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], tuple[tuple[str, ...], ...]]] = {
    "linear and gelu": (
        lambda x, w, b: functional.gelu(functional.linear(x, w, b)),
        ((2, 16, 64), (48, 64), (48,)),
        (("view", "convert_element_type", "mul", "mul", "erf", "add", "mul", "convert_element_type"),),
    ),
    "a batch, scaled, and a mask added": (
        lambda x, y, c: torch.bmm(x, y.transpose(1, 2)) * 0.125 + c,
        ((4, 32, 64), (4, 48, 64), (4, 32, 48)),
        (("mul", "add"),),
    ),
    "baddbmm": (
        lambda x, y, c: torch.baddbmm(c, x, y, beta=0.5, alpha=2.0),
        ((4, 32, 64), (4, 64, 48), (4, 32, 48)),
        ((),),
    ),
    "silu and a product of two": (
        lambda x, w, v: functional.silu(x @ w) * (x @ v),
        ((2, 32, 64), (64, 48), (64, 48)),
        (("view", "convert_element_type", "neg", "exp", "add", "div", "convert_element_type", "mul"), ()),
    ),
    "rows scaled": (lambda x, w, s: (x @ w) * s[:, None], ((32, 64), (64, 48), (32,)), (("mul",),)),
    "in place": (lambda x, w, c: (x @ w).add_(c).relu_(), ((32, 64), (64, 48), (32, 48)), (("add", "relu"),)),
    "slices": (lambda x, w: torch.tanh(x[:, :64] @ w[:, 8:]), ((32, 128), (64, 56)), (("tanh",),)),
    "columns of the residual": (lambda x, w, c: x @ w + c.t(), ((32, 64), (64, 48), (48, 32)), ((),)),
    "a sum that broadcasts the product": (lambda x, w, c: x @ w + c, ((32, 64), (64, 48), (3, 32, 48)), ((),)),
    "a condition of an operand": (
        lambda x, w, c: torch.where(torch.relu(c) <= 0, 0.0, x @ w),
        ((32, 64), (64, 48), (32, 48)),
        (("where",),),
    ),
    "read twice": (lambda x, w: (lambda y: y.cumsum(0) + functional.relu(y))(x @ w), ((32, 64), (64, 48)), ((),)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_graph_computes_what_it_did(name: str, eager: None) -> None:
    function, shapes, taken = CASES[name]
    torch.manual_seed(0)
    inputs = [half(*shape) for shape in shapes]
    backend = ltt.Backend(ALL, explain=True)
    ours = torch.compile(function, backend=backend)(*inputs)
    exact = function(*(x.double() for x in inputs))
    assert ours.dtype == torch.bfloat16 and ours.shape == exact.shape
    assert (ours.double() - exact).norm() <= 2**-7 * exact.norm()
    assert tuple(row.taken for row in backend.report()) == taken


def test_the_backward_pass_takes_products_too(eager: None) -> None:
    """The derivative of gelu is part of the kernel of its input's gradient, and reads that input alone."""
    torch.manual_seed(0)
    x, w, v = half(32, 64).requires_grad_(), half(48, 64).requires_grad_(), half(64, 48).requires_grad_()

    def function(x: Any, w: Any, v: Any) -> Any:
        return functional.linear(functional.gelu(functional.linear(x, w), approximate="tanh"), v)

    backend = ltt.Backend(ALL, explain=True)
    ours = torch.compile(function, backend=backend)(x, w, v)
    exact = [value.detach().double().requires_grad_() for value in (x, w, v)]
    wanted = function(*exact)
    gradient = torch.randn_like(ours)
    ours.backward(gradient)
    wanted.backward(gradient.double())
    for found, right in zip((x, w, v), exact, strict=True):
        assert (found.grad.double() - right.grad).norm() <= 2**-6 * right.grad.norm()
    report = backend.report()
    assert len(report) == 6 and not report.left
    assert sum("exp" in row.epilogue and row.epilogue.count(": full") == 1 for row in report) == 1


def experts(x: Any, up: Any, down: Any, ends: Any) -> Any:
    gate, value = torch._grouped_mm(x, up.mT, offs=ends).chunk(2, -1)
    return functional.grouped_mm(functional.silu(gate) * value, down.mT, offs=ends)


def by_a_loop(x: Any, up: Any, down: Any, ends: Any) -> Any:
    parts = []
    for group, (first, end) in enumerate(zip([0, *ends.tolist()[:-1]], ends.tolist(), strict=True)):
        gate, value = (x[first:end] @ up[group].mT).chunk(2, -1)
        parts.append((functional.silu(gate) * value) @ down[group].mT)
    return torch.cat(parts)


def test_products_of_groups_are_taken_forward_and_backward(eager: None) -> None:
    torch.manual_seed(0)
    given = [half(*shape).requires_grad_() for shape in ((40, 16), (3, 48, 16), (3, 16, 24))]
    ends, backend = torch.tensor([10, 10, 40], dtype=torch.int32), ltt.Backend(ALL, explain=True)
    ours, exact = torch.compile(experts, backend=backend)(*given, ends), [x.detach().double() for x in given]
    wanted = by_a_loop(*[x.requires_grad_() for x in exact], ends)
    gradient = torch.randn_like(ours)
    ours.backward(gradient)
    wanted.backward(gradient.double())
    assert (ours.double() - wanted).norm() <= 2**-6 * wanted.norm()
    for found, right in zip(given, exact, strict=True):
        assert (found.grad.double() - right.grad).norm() <= 2**-6 * right.grad.norm()
    report = backend.report()
    assert len(report) == 6 and not report.left and {row.op for row in report} == {"aten._grouped_mm.default"}
    assert report.specs("sm_90a") == []
    stored = [row.results for row in report if row.results]
    assert stored == ["mul, halves of _grouped_mm", "halves of cat"]


TWO = "(acc: f32, acc2: f32, %x: full bf16) -> (y0: bf16, y1: bf16) { %0 = mul acc, %x; %0, acc2 }"


def test_several_results_of_groups_are_an_op_of_its_own() -> None:
    torch.manual_seed(0)
    op, ends = torch.ops.lowtide.grouped_results.default, torch.tensor([3, 3, 8], dtype=torch.int32)
    x, b, full, index = half(9, 16), half(3, 16, 24), half(11, 12), torch.randint(-1, 10, (11,), dtype=torch.int32)
    torch.library.opcheck(op, (x, b, ends, [full], TWO, [], index))
    torch.library.opcheck(op, (x, b, ends, [full[:9]], TWO, ["y0", "y1"], None))
    first, second = op(x, b, ends, [full], TWO, [], index)
    (both,) = op(x, b, ends, [full], TWO, ["y0", "y1"], index)
    assert torch.equal(both, torch.cat([first, second], 1)) and both.shape == (11, 24)
    wide = ltt.grouped_matmul(x.double(), b.double(), ends, a_rows=index)[:8]
    assert error(second[:8], wide[:, 12:]) < 2**-7 and error(first[:8], wide[:, :12] * full[:8]) < 2**-7
    counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    with counter:
        op(x, b, ends, [full], TWO, [], index)
    assert counter.get_total_flops() == 2 * 11 * 16 * 24
    for change, code in (
        ((x, b, ends, [], TWO, [], index), "grouped-results-arguments"),
        ((x, b, ends, [full], TWO.replace("y1: bf16", "y1: row_sum"), [], index), "grouped-results-arguments"),
        ((x, b, ends, [full], TWO, ["y0", "z"], index), "grouped-halves"),
    ):
        with pytest.raises(lt.LaunchError, match=rf"\[{code}\]"):
            op(*change)


def gathered_experts(x: Any, up: Any, down: Any, index: Any, weight: Any, ends: Any) -> Any:
    gate, value = functional.grouped_mm(x[index], up.mT, offs=ends).chunk(2, -1)
    return functional.grouped_mm(functional.silu(gate) * value, down.mT, offs=ends) * weight[:, None]


def test_inference_of_experts_has_gathers_activations_and_weights_in_kernels(eager: None) -> None:
    torch.manual_seed(0)
    x, up, down = half(13, 16), half(3, 48, 16), half(3, 16, 24)
    index, weight, ends = torch.randint(-13, 13, (40,)), half(40), torch.tensor([10, 10, 40], dtype=torch.int32)
    backend = ltt.Backend(ALL, explain=True)
    with torch.no_grad():
        found = torch.compile(gathered_experts, backend=backend)(x, up, down, index, weight, ends)
    wanted = by_a_loop(x[index].double(), up.double(), down.double(), ends) * weight.double()[:, None]
    assert error(found, wanted) < 2**-7
    first, second = backend.report()
    assert first.results == "mul" and second.taken == ("mul",) and "per_row" in second.epilogue
    text = "(acc: f32) -> (x: bf16, y: bf16) { acc, acc }"
    with pytest.raises(lt.LaunchError, match=r"\[grouped-epilogue-arguments\]"):
        torch.ops.lowtide.grouped_epilogue(x, up.mT, ends, [], text, None)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe"])
def test_layers_of_experts_of_transformers_are_taken(name: str, dtype: str, eager: None) -> None:
    """bf16 is multiplied by torch._grouped_mm, and f16 by an op of transformers with a loop over experts."""
    layer, exact = layer_of_experts(name, 16, 24, 4)
    layer = layer.to(getattr(torch, dtype))
    torch.manual_seed(0)
    given = [torch.randn(10, 16), torch.rand(10, 2)]
    given = [x.to(layer.down_proj.dtype).requires_grad_() for x in given]
    chosen, backend = torch.randint(4, (10, 2)), ltt.Backend(ALL, explain=True)
    wide = [x.detach().double().requires_grad_() for x in given]
    y = torch.compile(layer, backend=backend, fullgraph=True)(given[0], chosen, given[1])
    wanted = exact(wide[0], chosen, wide[1])
    gradient = torch.randn_like(wanted)
    y.backward(gradient.to(y.dtype))
    wanted.backward(gradient)
    assert error(y, wanted) < 2**-6
    pairs = [*zip(given, wide, strict=True), *zip(layer.parameters(), exact.parameters(), strict=True)]
    assert all(error(one.grad, other.grad) < 2**-6 for one, other in pairs)
    report = backend.report()
    assert len(report) == 6 and not report.left, str(report)


def test_a_linear_that_is_not_decomposed_is_taken() -> None:
    torch.manual_seed(0)
    inputs = [half(2, 16, 64), half(48, 64), half(48)]
    with torch._subclasses.FakeTensorMode() as mode:
        fakes = [mode.from_tensor(x) for x in inputs]
    graph = torch.fx.Graph()
    nodes = [graph.placeholder(name) for name in ("x", "w", "b")]
    for node, fake in zip(nodes, fakes, strict=True):
        node.meta["val"] = fake
    for target, arguments in ((torch.ops.aten.linear.default, nodes), (torch.ops.aten.relu.default, None)):
        node = graph.call_function(target, tuple(arguments or (node,)))
        node.meta["val"] = mode.from_tensor(torch.empty(2, 16, 48, dtype=torch.bfloat16))
        node.meta["eager_input_vals"] = (arguments, {})  # Inductor would take them for the arguments of the new node
    graph.output(node)
    (row,) = fuse(graph, "graph 0", ALL, How())
    assert row.taken == ("relu",)
    assert not any("eager_input_vals" in node.meta for node in graph.nodes if "lowtide" in str(node.target))
    x, w, b = inputs
    exact = torch.relu(functional.linear(x.double(), w.double(), b.double()))
    found = torch.fx.GraphModule({}, graph)(*inputs)
    assert (found.double() - exact).norm() <= 2**-7 * exact.norm()


def test_sizes_of_run_time_need_no_second_graph(eager: None) -> None:
    backend = ltt.Backend(ALL, explain=True)
    w, bias = half(64, 48), half(48)
    compiled = torch.compile(lambda x: functional.relu(x @ w + bias) * 2, backend=backend, dynamic=True)
    for rows in (32, 8, 40):
        x = half(3, rows, 64)
        exact = functional.relu(x.double() @ w.double() + bias.double()) * 2
        assert (compiled(x).double() - exact).norm() <= 2**-7 * exact.norm()
    assert len(backend.report()) == 1


def test_by_default_nothing_on_the_cpu_is_taken(eager: None) -> None:
    backend = ltt.Backend(explain=True)
    torch.compile(lambda x, w: x @ w, backend=backend)(half(2048, 2048), half(2048, 2048))
    (row,) = backend.report()
    assert row.reason == "A is on cpu; kernels run on cuda"


def test_a_graph_without_tensors_that_could_be_taken_is_compiled_without_the_pass(
    eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(self: Any, graph: Any) -> None:
        raise AssertionError("the pass ran")

    monkeypatch.setattr(ltt.GemmPass, "__call__", run)
    x, w = torch.randn(64, 64), torch.randn(64, 64)
    d = torch.compile(lambda x, w: (x @ w).relu(), backend=ltt.Backend(ltt.Rule(devices=("cpu",))))(x, w)
    assert torch.allclose(d, (x @ w).relu(), atol=1e-4)


def test_inductor_caches_what_the_pass_does_by_its_rule_and_sources() -> None:
    uuid = ltt.GemmPass().uuid()
    assert uuid == ltt.GemmPass().uuid() and "Rule" in uuid
    assert uuid != ltt.GemmPass(ALL).uuid() and uuid != ltt.GemmPass(numerics="any").uuid()
    assert ltt.GemmPass(explain=True).uuid() is None and ltt.GemmPass(before=print).uuid() is None
    assert ltt.GemmPass(before=ltt.GemmPass()).uuid() not in (None, uuid)
    assert Unpadded(ALL).uuid() not in (None, Unpadded(ltt.Rule()).uuid()) and Unpadded(ALL, print).uuid() is None


def test_numerics_and_precisions_that_are_none_are_refused() -> None:
    with pytest.raises(lt.SpecError, match="numerics="):
        ltt.Backend(numerics="fast")
    with pytest.raises(lt.SpecError, match="unknown precision 'bf16x9'"):
        ltt.Backend(precision="bf16x9")


def test_with_a_precision_products_of_f32_are_taken_too(eager: None) -> None:
    x, w, rule = torch.randn(32, 64), torch.randn(64, 48), ltt.Rule(("bf16",), ("cpu",), 1, 0)
    backends = [ltt.Backend(rule, explain=True, precision=precision) for precision in (None, "tf32")]
    for backend in backends:
        d, narrow = torch.compile(lambda x, w: (x @ w, x.bfloat16() @ w.bfloat16()), backend=backend)(x, w)
        torch._dynamo.reset()
        assert torch.equal(narrow, x.bfloat16() @ w.bfloat16())
    assert [[row.taken is None for row in backend.report()] for backend in backends] == [[True, False], [False, False]]
    assert not torch.equal(d, x @ w)  # of tf32: the lower bits are cut off


def test_the_pass_of_the_configuration_runs_first(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        torch._inductor.config, "joint_custom_post_pass", lambda graph: seen.extend(str(x.target) for x in graph.nodes)
    )
    torch.compile(lambda x, w: x @ w, backend=ltt.Backend(ALL, explain=True))(half(32, 64), half(64, 48))
    assert "aten.mm.default" in seen and "lowtide.gemm.default" not in seen


def test_inductor_pads_products_only_if_one_that_is_left_may_gain(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    config, seen = torch._inductor.config, []
    monkeypatch.setattr(config, "joint_custom_pre_pass", lambda graph: seen.append("first"))
    monkeypatch.setattr(config, "joint_custom_post_pass", lambda graph: seen.append(config.shape_padding))
    x, w, odd = half(32, 64), half(64, 48), torch.zeros(1023, 1023)
    torch.compile(lambda x, w: x @ w, backend=ltt.Backend(ALL))(x, w)
    torch._dynamo.reset()
    torch.compile(lambda x, w, y: (x @ w, y @ y), backend=ltt.Backend(ALL))(x, w, odd)
    assert seen == ["first", False, "first", True] and config.shape_padding
    torch._dynamo.reset()
    passes = [config.joint_custom_pre_pass, lambda graph: seen.append("second")]
    are_lists_known = hasattr(torch._inductor.custom_graph_pass, "get_custom_graph_passes")  # since torch 2.13
    options = {"shape_padding": True, **({"joint_custom_pre_pass": passes} if are_lists_known else {})}
    torch.compile(lambda x, w: x @ w, backend=ltt.Backend(ALL), options=options)(x, w)
    assert seen[4:] == ["first", *["second"] * are_lists_known, False]
