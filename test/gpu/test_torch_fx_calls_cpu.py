"""The calls of compiled graphs, without a GPU: how tensors lie, what is kept of a call, which kernels are begun."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from lowtide.compiler.ahead import AHEAD
from lowtide.runtime.operands import Operand
from lowtide.targets import get

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
ltt = pytest.importorskip("lowtide.torch")
name_of = importlib.import_module("lowtide.torch.dtypes").name_of
functional = torch.nn.functional
ALL = ltt.Rule(devices=("cpu",), least_rows=1, least=0, full="any", left=())


def half(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.bfloat16)


class At:
    """A tensor of the GPU, as far as a known call reads it."""

    is_cuda, dtype = True, "a dtype"

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address


def test_new_addresses_of_a_known_call_take_its_plan_if_they_are_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = importlib.import_module("lowtide.torch.fx.calling")
    done: list[Any] = []

    class Plan:
        def prepare(self, addresses: list[int]) -> Any:
            return SimpleNamespace(again=lambda: done.append(addresses))

    def known(a: At, *rest: Any, alone: bool, **more: Any) -> tuple[Any, Any]:
        done.append("computed")
        assert alone and alone is asked_alone[-1]
        return SimpleNamespace(again=lambda: done.append("again")), Plan()

    asked_alone: list[bool] = []
    monkeypatch.setattr(calling, "compute_out", lambda *given, alone: asked_alone.append(alone))
    monkeypatch.setattr(calling, "matmul", SimpleNamespace(known=known))
    for name in ("_LAUNCHES", "_PLANS"):
        monkeypatch.setattr(calling, name, calling.Recent(64))

    def run(*addresses: int, lies: str | None = "it") -> None:
        a, b, out = map(At, addresses)
        calling.run(a, b, out=out, lies=lies, epilogue="", numerics="repeatable", precision=None)

    run(16, 32, 48 + 2)
    run(16, 32, 48 + 2)
    run(16, 32, 64)  # no plan is known yet
    run(16, 32, 80)
    run(16, 32, 80)
    run(16, 32, 96 + 2)
    run(16, 32, 80, lies="other")
    expected = ["computed", "again", "computed", [16, 32, 80], [16, 32, 80], "computed", "computed"]
    assert done == expected
    run(16, 32, 80, lies=None)
    run(16, 32, 80, lies=None)
    assert done == expected  # nothing is kept, and nothing is asked for
    assert asked_alone == [True] * 4 + [False] * 2


def test_calls_of_groups_read_addresses_alone_once_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors on the CPU are taken for tensors on a GPU."""
    calling = importlib.import_module("lowtide.torch.fx.calling")
    done: list[Any] = []
    made = [torch.zeros(3, 4, 2) for _ in range(4)]  # each D lies elsewhere

    class Plan:
        def prepare(self, addresses: list[int]) -> Any:
            return SimpleNamespace(again=lambda: done.append(addresses))

    def known(*given: Any, out: Any) -> tuple[Any, Any, list[str]]:
        done.append("computed")
        return SimpleNamespace(again=lambda: done.append("again")), Plan(), ["ends", "a", "d", "b"]

    monkeypatch.setattr(calling, "grouped_gemm", lambda *given: made[0])
    monkeypatch.setattr(calling, "empty_or_zeros", lambda like, *given: made[len(done)])
    monkeypatch.setattr(calling, "grouped_matmul", SimpleNamespace(known=known))
    for name in ("_LAUNCHES", "_PLANS", "_MAKERS"):
        monkeypatch.setattr(calling, name, calling.Recent(64))
    b, ends = torch.zeros(64, 2), torch.zeros(3, dtype=torch.int32)

    class OnGpu(torch.Tensor):  # type: ignore[misc, name-defined]
        is_cuda = True

    a, copied = (x.as_subclass(OnGpu) for x in (torch.zeros(64, 4).mT, torch.zeros(4, 64)))

    def run(lies: str | None, a: Any = a) -> Any:
        return calling.run_groups(a, b, ends, lies=lies)

    assert run(None) is run("other", copied) is made[0] and not done  # nothing is kept
    assert [run("it") for _ in range(3)] == [made[0], made[1], made[2]]
    address = [x.data_ptr() for x in (ends, a, made[1], b)]
    assert done == ["computed", address, [*address[:2], made[2].data_ptr(), address[3]]]
    made.append(made[0])
    monkeypatch.setattr(calling, "empty_or_zeros", lambda like, *given: made[0])
    assert run("it") is made[0] and done[-1] == "again"


def test_compiled_products_of_groups_say_how_their_tensors_lie_and_their_kernels_are_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call later asks for the kernel that was begun. To begin kernels, the test pretends that tensors on the CPU
    are on a GPU."""
    extern_kernels = importlib.import_module("torch._inductor.select_algorithm").extern_kernels
    beginning, grouped = map(importlib.import_module, ("lowtide.torch.fx.beginning", "lowtide.compiler.matmul.grouped"))
    run, told, asked, begun = extern_kernels.lowtide_grouped_gemm, [], [], []
    monkeypatch.setattr(grouped, "_target_of", lambda a: "sm_90a")
    monkeypatch.setattr(beginning, "_gpu_of", lambda node: 0)
    monkeypatch.setattr(AHEAD, "begin", lambda key, *job: begun.append(key))

    def noted(*given: Any, lies: str | None) -> Any:
        told.append(lies)
        a, b, ends = (Operand(x.data_ptr(), tuple(x.shape), x.stride(), name_of(x.dtype), 0) for x in given[:3])
        with monkeypatch.context() as patch:
            patch.setattr(grouped, "kernel_for", lambda product: asked.append(product) or (lambda *given, **more: None))
            grouped.GroupedMatmul()(a, b, ends)
        return run(*given, lies=lies)

    monkeypatch.setattr(extern_kernels, "lowtide_grouped_gemm", noted)
    a, b = half(12, 64).requires_grad_(), half(3, 64, 32).requires_grad_()
    ends = torch.tensor([4, 7, 12], dtype=torch.int32)

    def model(a: Any, b: Any) -> Any:
        return ltt.grouped_matmul(a, b, ends).relu()

    torch._dynamo.reset()
    found = torch.compile(model, backend=ltt.Backend(ALL))(a, b)
    assert torch.equal(found, model(a, b))
    (da, db), (wanted_da, wanted_db) = (torch.autograd.grad(x.sum(), (a, b)) for x in (found, model(a, b)))
    assert torch.equal(da, wanted_da) and torch.equal(db, wanted_db)
    assert [lies.split("; ")[0] for lies in told] == [f"cpu: bf16 [12, {x}, {x}, 1]" for x in (64, 32)] + [
        "cpu: bf16 [64, 12, 1, 64]"
    ]
    assert len(asked) == len({*asked}) and {*asked} == {*begun}


def test_tensors_of_a_graph_with_odd_rows_are_padded_so_that_launches_need_not_copy_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D of the first product, and A of the second; the weights and the result lie as before. Inductor pads tensors of
    the CPU only on request."""
    extern_kernels = importlib.import_module("torch._inductor.select_algorithm").extern_kernels
    run, strides = extern_kernels.lowtide_gemm, []

    def noted(a: Any, b: Any, *operands: Any, out: Any, **asked: Any) -> None:
        strides.append([x.stride() for x in (a, b, out)])
        run(a, b, *operands, out=out, **asked)

    monkeypatch.setattr(extern_kernels, "lowtide_gemm", noted)
    monkeypatch.setattr(importlib.import_module("lowtide.compiler.fx.rule"), "_OF_LAUNCH", 0)
    x, first, second = half(400, 256), half(516, 256), half(516, 516)

    def model(x: Any) -> Any:
        return functional.linear(functional.softmax(functional.linear(x, first), -1), second)

    torch._dynamo.reset()
    rule = ltt.Rule(devices=("cpu",), least_rows=1, least=0, results=False)
    with torch.no_grad(), torch._inductor.config.patch(shape_padding=False, disable_padding_cpu=False):
        found = torch.compile(model, backend=ltt.Backend(rule, explain=True), dynamic=False)(x)
    assert strides == [[(256, 1), (1, 256), (576, 1)], [(576, 1), (1, 516), (516, 1)]]
    assert found.is_contiguous() and (found - model(x)).abs().max() <= 2**-6


def test_kernels_are_begun_as_their_calls_ask_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels that are begun, before Inductor lowers the graph and then again, are those for which the calls ask
    later, also with strides of slices. Tensors on the CPU are taken for tensors on a GPU."""
    names = "beginning", "lowering", "inductor"
    beginning, lowering, inductor = (importlib.import_module(f"lowtide.torch.fx.{name}") for name in names)
    results, calls = importlib.import_module("lowtide.torch.results"), importlib.import_module("lowtide.torch.calls")
    extern_kernels = importlib.import_module("torch._inductor.select_algorithm").extern_kernels
    begun: list[Any] = []
    early: list[Any] = []
    asked: list[Any] = []
    for module in (results, importlib.import_module("lowtide.compiler.matmul.calls")):
        monkeypatch.setattr(module, "target_of", lambda gpu: get("sm_90a"))
        monkeypatch.setattr(module.driver, "device", lambda ordinal: SimpleNamespace(name="a GPU"))
    monkeypatch.setattr(beginning, "_gpu_of", lambda node: 0)
    monkeypatch.setattr(AHEAD, "begin", lambda key, *job: begun.append(key))

    def begin_calls(graph: Any) -> None:
        beginning.begin_calls(graph)
        early.extend(begun)
        begun.clear()

    def record(x: Any) -> Operand:
        return Operand(x.data_ptr(), tuple(x.shape), x.stride(), "bf16", 0)

    def run(a: Any, b: Any, *operands: Any, out: Any, lies: str, **how: Any) -> None:
        of_text = calls.read(how["epilogue"])
        names = of_text.names if of_text else ()
        records = dict(zip(("a", "b", "d", *names), map(record, (a, b, out, *operands)), strict=True))
        known = len(begun)
        beginning.matmul.begin(
            records, **{**how, "epilogue": of_text.function if of_text else None}, alone=lies is not None
        )
        asked.append(begun.pop() if len(begun) > known else None)
        lowering.run(a, b, *operands, out=out, lies=lies, **how)

    def run_results(a: Any, b: Any, operands: Any, epilogue: str, halves: Any, *, lies: str) -> Any:
        text = beginning.read_text(epilogue)
        n = b.shape[1] // text.sums
        pairs, layout = ("stacked", "tn") if text.sums > 1 else (None, "tn" if b.stride(0) == 1 else "tt")
        asked.append(results.wanted_of((a.shape[0], n, a.shape[1]), "bf16", 0, text, layout, pairs))
        return lowering.run_results(a, b, operands, epilogue, halves, lies=lies)

    monkeypatch.setattr(inductor, "begin_calls", begin_calls)
    monkeypatch.setattr(extern_kernels, "lowtide_gemm", run)
    monkeypatch.setattr(extern_kernels, "lowtide_gemm_results", run_results)
    weight, gated = (torch.randn(lie, dtype=torch.bfloat16, requires_grad=True) for lie in ((64, 32), (128, 64)))

    def model(x: Any) -> Any:
        gate, up = functional.linear(x[:, 8:40] @ weight.mT, gated).chunk(2, -1)
        return functional.silu(gate) * up

    torch._dynamo.reset()
    rule = ltt.Rule(devices=("cpu",), least_rows=1, least=0, full="any", left=())
    x = torch.randn(48, 48, dtype=torch.bfloat16)
    torch.compile(model, backend=ltt.Backend(rule, explain=True))(x).sum().backward()
    assert {type(key).__name__ for key in asked} == {"Wanted", "ResultsWanted"}
    assert set(asked) == set(begun) == set(early)
