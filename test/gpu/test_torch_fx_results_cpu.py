"""The pass on the CPU where a kernel gives several results: gated MLPs, saved arguments of activations, statistics of
norms, gradients of biases, and cross entropies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from compiled_graphs import (
    cross_entropy,
    error,
    errors,
    gated,
    gated_by_slices,
    gated_of_two,
    residual,
    with_biases,
)

import lowtide as lt
from lowtide.errors import MisalignedError
from lowtide.runtime.call_keys import Recent

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
ltt = pytest.importorskip("lowtide.torch")
several = pytest.importorskip("lowtide.torch.several")
functional = torch.nn.functional
ALL = ltt.Rule(devices=("cpu", "cuda"), least_rows=1, least=0, full="any", left=())


def half(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.bfloat16)


def targets(*wanted: int) -> Any:
    return torch.tensor(wanted)


SHAPES = {
    "gated": (gated, ((2, 8, 16), (64, 16), (24, 32))),
    "gated by slices": (gated_by_slices, ((2, 8, 16), (64, 16), (24, 32))),
    "gated of two": (gated_of_two, ((2, 8, 16), (32, 16), (32, 16), (24, 32))),
    "biases": (with_biases, ((2, 8, 16), (32, 16), (32,), (24, 32), (24,))),
    "residual": (residual, ((2, 8, 16), (32, 16), (2, 8, 32), (32,), (32, 32))),
}
TRAINED: dict[str, list[str]] = {  # the results of the kernels that store more than one value
    "gated": ["mul, halves of mm", "halves of cat"],
    "gated by slices": ["mul, halves of mm"],
    "gated of two": ["mul, mm, mm_1", "mul_1, convert_element_type_18", "add_2"],
    "biases": ["addmm, convert_element_type_4", "convert_element_type_14, column sum of view_7"],
    "residual": [],
}
INFERRED = {
    "gated": ["mul"],
    "gated by slices": ["mul"],
    "gated of two": ["mul"],
    "biases": [],
    "residual": ["add, mul_tensor, row sum of pow_1"],
}


@pytest.mark.parametrize("name", SHAPES)
def test_forward_and_backward_are_as_near_to_float64_as_without(name: str, eager: None) -> None:
    function, shapes = SHAPES[name]
    torch.manual_seed(0)
    inputs, backend = [half(*shape) for shape in shapes], ltt.Backend(ALL, explain=True)
    found = errors(torch.compile(function, backend=backend), function, inputs)
    torch.manual_seed(0)
    without = errors(function, function, [half(*shape) for shape in shapes])
    assert all(found[each] <= 1.5 * without[each] for each in found), (found, without)
    report = backend.report()
    assert [row.results for row in report if row.results] == TRAINED[name] and not report.left


@pytest.mark.parametrize("name", ["gated", "gated of two", "biases"])
def test_no_more_is_kept_for_the_backward_pass_than_by_inductor(name: str, eager: None) -> None:
    """It keeps an activation that products of both passes read, and what it is computed from."""
    function, shapes = SHAPES[name]
    counts = []
    for results in (True, False):
        inputs, kept = [half(*shape).requires_grad_() for shape in shapes], []
        backend = ltt.Backend(replace(ALL, results=results), explain=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda x, kept=kept: (kept.append(x.numel()), x)[1], lambda x: x):
            torch.compile(function, backend=backend)(*inputs)
        counts.append(sum(kept))
        torch._dynamo.reset()
    assert counts[0] <= counts[1], counts


@pytest.mark.parametrize("name", SHAPES)
def test_inference_stores_no_more_than_it_needs(name: str, eager: None) -> None:
    function, shapes = SHAPES[name]
    torch.manual_seed(0)
    inputs, backend = [half(*shape) for shape in shapes], ltt.Backend(ALL, explain=True)
    with torch.no_grad():
        found = torch.compile(function, backend=backend)(*inputs)
        assert error(found, function(*(x.double() for x in inputs))) < 2**-6
    assert [row.results for row in backend.report() if row.results] == INFERRED[name]


def rms_norm(x: Any, w: Any, c: Any, *more: Any) -> Any:
    """A residual sum, its norm with the scales in `more` or none, and a gated layer."""
    scale, v = more if len(more) > 1 else (None, *more)
    h = c + functional.linear(x, w)
    gate, up = functional.linear(functional.rms_norm(h, h.shape[-1:], scale, 1e-6), v).chunk(2, -1)
    return functional.silu(gate) * up, h


RMS_NORM = ((2, 8, 16), (32, 16), (2, 8, 32), (32,), (64, 32))


def first_of_rms_norm(*inputs: Any) -> Any:
    return rms_norm(*inputs)[0]


@pytest.mark.parametrize("shapes", [((32,), (64, 32)), ((64, 32),)])
def test_the_scale_of_rmsnorm_comes_after_the_product(shapes: tuple[tuple[int, ...], ...], eager: None) -> None:
    """Without a backward pass. One kernel stores the sum, its product with the scales of columns, and the statistics,
    so that no other kernel reads a matrix."""
    torch.manual_seed(0)
    inputs = [half(*shape) for shape in ((2, 8, 16), (32, 16), (2, 8, 32), *shapes)]
    backend = ltt.Backend(ALL, explain=True)
    with torch.no_grad():
        found = torch.compile(rms_norm, backend=backend)(*inputs)
    exact = rms_norm(*(x.double() for x in inputs))
    assert all(error(one, other) < 2**-7 for one, other in zip(found, exact, strict=True))
    first, second = backend.report()
    assert first.results == ("add, mul_tensor, row sum of pow_1" if len(shapes) > 1 else "add, row sum of pow_1")
    assert second.epilogue.startswith("(acc: f32, acc2: f32, %x0: per_row f32) -> (y0: bf16)")


def test_scales_of_rows_that_others_read_stay_before_the_product(eager: None) -> None:
    def function(x: Any, w: Any) -> Any:
        y = functional.rms_norm(x, x.shape[-1:])
        return y @ w, y

    torch.manual_seed(0)
    x, w, backend = half(32, 16), half(16, 24), ltt.Backend(ALL, explain=True)
    with torch.no_grad():
        torch.compile(function, backend=backend)(x, w)
        torch.compile(lambda x, w: functional.rms_norm(x, x.shape[-1:]) @ w, backend=ltt.Backend())(x, w)
    (row,) = backend.report()
    assert row.taken == () and row.product == "mm"


def test_a_cross_entropy_needs_no_logits_without_a_backward_pass(eager: None) -> None:
    torch.manual_seed(0)
    inputs = [half(2, 8, 16), half(40, 16), targets(3, -100, *range(14))]
    backend = ltt.Backend(ALL, explain=True)
    found = errors(torch.compile(cross_entropy, backend=backend), cross_entropy, inputs)
    torch._dynamo.reset()
    with torch.no_grad():
        alone = torch.compile(cross_entropy, backend=backend)(*inputs)
    exact = cross_entropy(*(x.double() for x in inputs[:2]), inputs[2])
    assert found["y"] < 2**-8 and max(found.values()) < 2**-7 and abs(alone - exact) < 1e-5 * exact
    assert [row.results for row in backend.report() if row.results] == [
        "mm, log-sum-exp of view_2, column of gather",
        "log-sum-exp of view_2, column of gather",
    ]


def test_a_sure_row_has_no_gradient_of_rounding(eager: None) -> None:
    """Its logits are rounded before the log-sum-exp: the backward pass reads them as they are stored."""
    x, w = torch.eye(8, 16).bfloat16().requires_grad_(), torch.full((40, 16), -9.0)
    w[range(8), range(8)] = 20.0625  # not a number of bf16: times 1.0 it is 20.125 or 20.0
    w = w.bfloat16().float().add(0.03).bfloat16()
    x.data *= 1.0078125
    loss = torch.compile(cross_entropy, backend=ltt.Backend(ALL))(x, w, torch.arange(8))
    loss.backward()
    assert loss == 0 and x.grad.abs().max() < 1e-6


def test_what_depends_on_the_product_otherwise_is_no_operand(eager: None) -> None:
    """The sum reads another function of the product, so no kernel of the product can compute it."""

    def function(x: Any, w: Any) -> Any:
        y = x @ w
        return (functional.relu(y) + y.cumsum(0)) @ w.mT, functional.silu(y) @ w.mT

    torch.manual_seed(0)
    x, w, backend = half(32, 16), half(16, 24), ltt.Backend(ALL, explain=True)
    found = torch.compile(function, backend=backend)(x, w)
    for one, other in zip(found, function(x.double(), w.double()), strict=True):
        assert error(one, other) < 2**-5
    row = backend.report()[0]
    assert row.results.startswith("mm, ") and "add" not in (row.taken or ())[-1:]


LEFT: dict[str, Callable[..., Any]] = {
    "three parts": lambda x, w: (lambda a, b, c: functional.silu(a) * b + c)(*(x @ w).split((16, 16, 16), -1)),
    "unequal parts": lambda x, w: (lambda a, b: functional.silu(a)[..., :16] * b)(*(x @ w).split((32, 16), -1)),
    "statistics of LayerNorm": lambda x, w: functional.layer_norm(x @ w, (48,)),
    "a sum over a part of the rows": lambda x, w: (x @ w).view(2, 16, 48).relu().sum(1),
}


@pytest.mark.parametrize("name", LEFT)
def test_other_forms_are_left_as_they_are(name: str, eager: None) -> None:
    torch.manual_seed(0)
    x, w, backend = half(32, 16), half(16, 48), ltt.Backend(ALL, explain=True)
    found = torch.compile(LEFT[name], backend=backend)(x, w)
    assert error(found, LEFT[name](x.double(), w.double())) < 2**-6
    assert not any(row.results for row in backend.report())


def test_a_rule_leaves_results(eager: None) -> None:
    backend = ltt.Backend(replace(ALL, results=False), explain=True)
    torch.compile(gated, backend=backend)(half(2, 8, 16), half(64, 16), half(24, 32))
    assert not any(row.results for row in backend.report())
    assert ltt.GemmPass().rule.results and not ltt.GemmPass(numerics="batch_invariant").rule.results


def test_sizes_of_run_time_are_taken(eager: None) -> None:
    backend, w, down = ltt.Backend(ALL, explain=True), half(64, 16), half(24, 32)
    compiled = torch.compile(lambda x: gated(x, w, down), backend=backend)
    for rows in (32, 8, 40):
        x = half(3, rows, 16)
        torch._dynamo.mark_dynamic(x, 1)
        assert error(compiled(x), gated(x.double(), w.double(), down.double())) < 2**-6
    (row,) = (row for row in backend.report() if row.results)
    assert row.results.startswith("mul") and row.epilogue.startswith("(acc: f32, acc2: f32) -> (y0: bf16)")


@pytest.mark.parametrize("name", ["gated", "residual", "rms norm"])
def test_two_sizes_of_run_time_are_no_error(name: str, eager: None) -> None:
    function, shapes = {**SHAPES, "rms norm": (first_of_rms_norm, RMS_NORM)}[name]
    torch.manual_seed(0)
    backend, rest = ltt.Backend(ALL, explain=True), [half(*shape) for shape in shapes[1:]]
    compiled = torch.compile(function, backend=backend)
    for batch, rows in ((2, 8), (3, 16)):
        x, given = half(batch, rows, 16), list(rest)
        if name in ("residual", "rms norm"):
            given[1] = half(batch, rows, 32)
        for each in (x, *(y for y in given if y.dim() == 3)):
            torch._dynamo.mark_dynamic(each, 0)
            torch._dynamo.mark_dynamic(each, 1)
        with torch.no_grad():
            exact = function(*(y.double() for y in (x, *given)))
            assert error(compiled(x, *given), exact) < 2**-6
    assert any(row.results for row in backend.report())


def test_the_op_gives_halves_of_one_matrix_and_refuses_others() -> None:
    a, b = half(5, 8), half(8, 12)
    text = "(acc: f32, acc2: f32) -> (h: bf16, gate: bf16, up: bf16) { %0 = mul acc, acc2; %0, acc, acc2 }"
    hidden, both = several.gemm_results(a, b, [], text, ["gate", "up"])
    assert both.shape == (5, 12) and error(both, a.double() @ b.double()) < 2**-8 and hidden.shape == (5, 6)
    empty = several.gemm_results(a[:0], b, [], text, ["gate", "up"])
    assert [tuple(x.shape) for x in empty] == [(0, 6), (0, 12)]
    with pytest.raises(Exception, match=r"\[halves-results\]"):
        several.gemm_results(a, b, [], text, ["gate", "other"])
    with pytest.raises(Exception, match=r"\[results-arguments\]"):
        several.gemm_results(a, b, [a], text, [])


class FakePlan:
    """Keeps the addresses of the launches that it prepares, and of those that run."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def prepare(self, addresses: list[int]) -> Any:
        return SimpleNamespace(again=lambda: self.ran.append(addresses))


TEXT = (
    "(acc: f32, acc2: f32, %x0: per_column bf16) -> (h: bf16, gate: bf16, up: bf16, s0: row_sum)"
    " { %0 = mul acc, acc2; %1 = add %0, %x0; %1, acc, acc2, %1 }"
)


def test_a_known_call_only_allocates_and_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = pytest.importorskip("lowtide.torch.fx.calling")
    a, b, c, plan, computed = half(8, 8), half(8, 16), half(8), FakePlan(), []
    names = ("a", "b", "h", "gate", "up", "x0", "s0")  # as a manifest may order them

    def by_kernel(*given: Any) -> Any:
        found, _ = several_by_kernel(*given)
        return found, several.Known(plan.prepare(["first"]), plan, names)

    def compute(*given: Any) -> Any:
        computed.append(given)
        return several.compute(*given)

    several_by_kernel = several._by_kernel
    monkeypatch.setattr(several, "_by_kernel", by_kernel)
    monkeypatch.setattr(calling, "compute", compute)
    for name in ("_LAUNCHES", "_MAKERS", "_PLANS"):
        monkeypatch.setattr(calling, name, calling.Recent(64))

    def run(lies: str | None) -> Any:
        return calling.run_results(a, b, [c], TEXT, ["gate", "up"], lies=lies)

    kept = [run(None), run("it"), run(None)]
    assert len(computed) == 3 and plan.ran == []
    made = run("it")  # at new addresses
    assert [(x.shape, x.stride(), x.dtype) for x in made] == [(x.shape, x.stride(), x.dtype) for x in kept[1]]
    h, whole, s0 = (x.data_ptr() for x in made)
    expected = [a.data_ptr(), b.data_ptr(), h, whole, whole + 16, c.data_ptr(), s0]
    assert len(computed) == 3 and plan.ran == [expected]
    calling._MAKERS["it"] = [lambda x=x: x for x in made]
    calling._PLANS["it"] = None
    assert all(x is y for x, y in zip(run("it"), made, strict=True)) and plan.ran == [expected] * 2
    a = half(65)[1:].view(8, 8)  # a multiple of 2 bytes only
    calling._PLANS["it"] = plan, ()
    found = run("it")
    assert len(computed) == 4 and all(x is y for x, y in zip(found, made, strict=True)) and len(plan.ran) == 2
    gate, up = (a.double() @ b.double()).chunk(2, 1)
    assert error(found[0], gate * up + c.double()) < 2**-7 and error(found[1], torch.cat([gate, up], 1)) < 2**-8


def test_launches_and_plans_are_for_two_matrices_so_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = pytest.importorskip("lowtide.torch.fx.calling")
    text = "(acc: f32, acc2: f32) -> (y0: bf16) { %0 = sub acc, acc2; %0 }"
    both, a, plan, computed = half(40, 8), half(8, 8), FakePlan(), []

    def by_kernel(*given: Any) -> Any:
        computed.append(given)
        found, _ = several_by_kernel(*given)
        return found, several.Known(plan.prepare(["first"]), plan, ("a", "b", "y0"))

    several_by_kernel = several._by_kernel
    monkeypatch.setattr(several, "_by_kernel", by_kernel)
    for name in ("_LAUNCHES", "_MAKERS", "_PLANS"):
        monkeypatch.setattr(calling, name, calling.Recent(64))

    def run(a: Any, first: int, second: int) -> Any:
        gate, up = (both[row : row + 8] for row in (first, second))
        (found,) = calling.run_results(a, gate.mT, [], text, [], up.mT, lies="it")
        return found, a.double() @ (gate.double() - up.double()).mT

    for places in ((0, 16), (16, 0), (0, 24)):
        found, exact = run(a, *places)
        assert error(found, exact) < 2**-7
    assert len(computed) == 3 and not plan.ran
    other = a.clone()
    for number, places in enumerate(((0, 16), (16, 0), (16, 32), (8, 32)), 1):
        found, _ = run(other, *places)
        assert len(computed) == 3 and plan.ran[-1] == [other.data_ptr(), both[min(places)].data_ptr(), found.data_ptr()]
        assert len(plan.ran) == number


def test_the_second_matrix_of_b_is_like_the_first() -> None:
    text = "(acc: f32, acc2: f32) -> (y0: bf16) { %0 = div acc, acc2; %0 }"
    two = pytest.importorskip("lowtide.torch.two_weights")
    assert two.exchanged(text) == "(acc: f32, acc2: f32) -> (y0: bf16) { %0 = div acc2, acc; %0 }"
    for one, other in ((text, half(8, 6)), ("(acc: f32) -> (y0: bf16) { acc }", half(8, 5))):
        with pytest.raises(lt.LaunchError, match="results-second"):
            several.gemm_results(half(4, 8), half(8, 5), [], one, [], other)
    with pytest.raises(lt.LaunchError, match=r"\[two-matrices\]"):
        two.as_one(half(8, 6), half(16, 6)[::2])

    def on_gpu(address: int) -> Any:
        like = {"shape": (8, 6), "stride": lambda: (6, 1), "dtype": torch.bfloat16, "itemsize": 2}
        return SimpleNamespace(is_cuda=True, data_ptr=lambda: address, **like)

    for apart in (0, 8, 2**40):
        with pytest.raises(lt.LaunchError, match=r"\[two-matrices-apart\]"):
            two.as_one(on_gpu(512), on_gpu(512 + apart))
    whole, is_exchanged = two.as_one(*half(2, 8, 6))
    assert whole.shape == (2, 8, 6) and not is_exchanged


def test_without_a_launch_that_may_be_repeated_each_call_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = pytest.importorskip("lowtide.torch.fx.calling")
    monkeypatch.setattr(calling, "_MAKERS", calling.Recent(64))
    a, b = half(5, 8), half(8, 6)
    text = "(acc: f32) -> (y0: bf16, s0: row_sum) { acc, acc }"
    for _ in range(2):
        found = calling.run_results(a, b, [], text, [], lies="it")
        assert error(found[0], a.double() @ b.double()) < 2**-8 and calling._MAKERS["it"] is None


def test_a_kernel_from_disk_that_refuses_an_address_is_replaced_by_one_that_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = pytest.importorskip("lowtide.torch.results")
    called: list[str] = []

    def from_disk(*matrices: Any, **given: Any) -> Any:
        called.append("from disk")
        raise MisalignedError("operand a: its base is no multiple of 16 bytes")

    def compiled(*matrices: Any, **given: Any) -> Any:
        called.append("compiled")
        return {"d": matrices[0]}

    class Wanted:
        def kernel(self) -> Any:
            return from_disk

        def compiled(self) -> Any:
            return compiled

    wanted = Wanted()
    monkeypatch.setattr(module, "_KERNELS", Recent(4))
    monkeypatch.setattr(module, "_wanted", lambda *_: wanted)
    a = SimpleNamespace(device=SimpleNamespace(type="cuda"), detach=lambda: "a")
    for _ in range(2):
        assert module.results(a, a, lambda acc: {"d": acc}, {}) == {"d": "a"}
    assert called == ["from disk", "compiled", "compiled"]
