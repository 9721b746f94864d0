"""Graphs compiled with the pass, by Inductor on a GPU: every kernel within its derived bound, and whole models."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from compiled_graphs import BY_ANOTHER

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
transformers = pytest.importorskip("transformers", reason="NO MODEL RAN: pip install transformers")
ltt = pytest.importorskip("lowtide.torch")
lowering = pytest.importorskip("lowtide.torch.fx.lowering")
extern_kernels = pytest.importorskip("torch._inductor.select_algorithm").extern_kernels
functional = torch.nn.functional
pytestmark = pytest.mark.gpu

ALL = ltt.Rule(least_rows=1, least=0, full="any", left=())


def _array(x: Any) -> np.ndarray:
    if x.dtype == torch.bfloat16:
        return x.contiguous().view(torch.int16).cpu().numpy().view(ml_dtypes.bfloat16)
    return x.contiguous().cpu().numpy()


def _check(a: Any, b: Any, operands: tuple[Any, ...], text: str, d: Any) -> float:
    """The worst ratio of a kernel's error to its derived bound."""
    asked = lowering.read(text)
    names = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}
    types = {"a": names[a.dtype], "b": names[b.dtype], "d": names[d.dtype]}
    batch = lt.UNBATCHED if a.dim() == 2 else None
    spec = lt.GemmSpec(**types, batch=batch, layout="tt", epilogue=asked.function if asked else None)
    named = dict(zip(asked.names if asked else (), map(_array, operands), strict=True))
    reference, bound = lt.reference_with_bound(spec, _array(a), _array(b), **named)
    found = lt.compare(spec, _array(d), reference, bound)
    assert found.ok, found.message
    return float(found.max_ratio)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Every call of a kernel from a compiled graph is compared with float64."""
    ratios: list[float] = []

    def run(a: Any, b: Any, *operands: Any, out: Any, **how: Any) -> None:
        for _ in range(2):  # the second time it is a call that is known
            out.fill_(float("nan"))
            lowering.run(a, b, *operands, out=out, **how)
        ratios.append(_check(a, b, operands, how["epilogue"], out))

    monkeypatch.setattr(extern_kernels, "lowtide_gemm", run)
    torch._dynamo.reset()
    yield ratios
    torch._dynamo.reset()


def _llama() -> tuple[Any, dict[str, Any]]:
    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=128,
        intermediate_size=320,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation="sdpa",
    )
    return transformers.LlamaForCausalLM(config), {"use_cache": False}


def _gpt2() -> tuple[Any, dict[str, Any]]:
    config = transformers.GPT2Config(
        vocab_size=256,
        n_embd=128,
        n_layer=2,
        n_head=4,
        n_positions=128,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        attn_implementation="sdpa",
    )
    return transformers.GPT2LMHeadModel(config), {"use_cache": False}


def _loss(model: Any, tokens: Any, about: dict[str, Any]) -> Any:
    logits = model(tokens, **about).logits
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return functional.cross_entropy(wide[:, :-1].reshape(-1, 256), tokens[:, 1:].reshape(-1))


def _error(found: Any, exact: Any) -> float:
    return float((found.double() - exact).norm() / exact.norm())


def _phi3() -> tuple[Any, dict[str, Any]]:
    """Gate and up are one weight."""
    config = transformers.Phi3Config(
        vocab_size=256,
        hidden_size=128,
        intermediate_size=320,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        attn_implementation="sdpa",
    )
    return transformers.Phi3ForCausalLM(config), {"use_cache": False}


@pytest.mark.parametrize(("make", "results"), [(_llama, 0), (_gpt2, 0), (_llama, 4), (_gpt2, 4), (_phi3, 4)])
def test_models_train_with_every_kernel_within_its_bound(
    make: Callable[[], Any], results: int, checked: list[float]
) -> None:
    """Output and gradients are as near to float64 as those of eager bf16. `results`: the least number of kernels that
    store more than one value; 0 if the rule leaves these. Kernels of one value are compared with their bounds."""
    torch.manual_seed(0)
    model, about = make()
    model = model.to(device="cuda", dtype=torch.bfloat16)
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    tokens = torch.randint(256, (2, 48), device="cuda")
    backend = ltt.Backend(replace(ALL, results=results > 0), explain=True)
    compiled = torch.compile(model, backend=backend, dynamic=False)
    losses = [_loss(each, tokens, about) for each in (compiled, eager, exact)]
    for loss in losses:
        loss.backward()
    report = backend.report()
    assert len(report.taken) > 20 and any(len(row.taken or ()) > 2 for row in report)
    of_several = [row for row in report.taken if row.results]
    of_one = [row for row in report.taken if not row.results and not row.reason.startswith(BY_ANOTHER)]
    assert len(checked) >= len(of_one) > 0 and len(of_several) >= results
    if not results:
        assert of_one == list(report.taken)
    assert abs(losses[0].item() - losses[2].item()) <= 0.01 * losses[2].item()
    for ours, theirs, right in zip(model.parameters(), eager.parameters(), exact.parameters(), strict=True):
        assert _error(ours.grad, right.grad) <= 2 * _error(theirs.grad, right.grad) + 2**-8


def test_models_infer_with_activations_in_kernels(checked: list[float]) -> None:
    torch.manual_seed(0)
    model, about = _gpt2()
    model = model.to(device="cuda", dtype=torch.bfloat16).eval()
    exact = copy.deepcopy(model).double()
    tokens = torch.randint(256, (2, 48), device="cuda")
    backend = ltt.Backend(ALL, explain=True)
    with torch.no_grad():
        ours = torch.compile(model, backend=backend, dynamic=False)(tokens, **about).logits
        assert _error(ours, exact(tokens, **about).logits) < 2**-5
    assert any("tanh" in (row.taken or ()) for row in backend.report()) and checked


def test_dynamic_sizes_strided_operands_and_batches(checked: list[float]) -> None:
    torch.manual_seed(0)
    w = torch.randn(96, 256, device="cuda", dtype=torch.bfloat16)
    bias = torch.randn(96, device="cuda", dtype=torch.bfloat16)

    def function(x: Any, y: Any) -> Any:
        a = functional.silu(functional.linear(x[..., :256], w, bias))
        return torch.bmm(a, y.transpose(1, 2)) * 0.5

    compiled = torch.compile(function, backend=ltt.Backend(ALL, explain=True), dynamic=True)
    for rows in (40, 64, 130):
        x = torch.randn(3, rows, 320, device="cuda", dtype=torch.bfloat16)
        y = torch.randn(3, 72, 96, device="cuda", dtype=torch.bfloat16)
        exact = functional.silu(functional.linear(x[..., :256].double(), w.double(), bias.double()))
        assert _error(compiled(x, y), torch.bmm(exact, y.double().transpose(1, 2)) * 0.5) < 2**-6
    assert len(checked) >= 6


def test_graphs_are_captured_with_reduce_overhead() -> None:
    torch.manual_seed(0)
    x, w = (torch.randn(512, 512, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    compiled = torch.compile(
        lambda x: functional.relu(x @ w) @ w, backend=ltt.Backend(ALL), mode="reduce-overhead", dynamic=False
    )
    with torch.no_grad():
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            x = x + 1
            exact = functional.relu(x.double() @ w.double()) @ w.double()
            assert _error(compiled(x), exact) < 2**-6


def test_the_rule_takes_large_products_alone() -> None:
    x, w = (torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    backend = ltt.Backend(explain=True)
    with torch.no_grad():
        torch.compile(lambda x, w: ((x @ w).relu(), x[:64] @ w), backend=backend, dynamic=False)(x, w)
    first, second = backend.report()
    assert first.taken == ("relu",) and second.taken is None and "64×2048×2048" in second.reason


def test_products_with_odd_rows_are_taken_with_rows_copied_by_the_launch(checked: list[float]) -> None:
    x = torch.randn(1527, 1020, device="cuda", dtype=torch.bfloat16)
    narrow, wide = (torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for n, k in ((1022, 4080), (4080, 1020)))
    bias, backend = torch.randn(4080, device="cuda", dtype=torch.bfloat16), ltt.Backend(explain=True)

    def mlp(x: Any) -> Any:
        return functional.linear(functional.relu(functional.linear(x, wide, bias)), narrow)

    with torch.no_grad(), torch._inductor.config.patch(shape_padding=False):
        torch.compile(mlp, backend=backend, dynamic=False)(x)
    assert [row.is_taken for row in backend.report()] == [True, True] and len(checked) == 2


def test_calls_that_differ_in_addresses_or_device_memory_alone_are_told_apart() -> None:
    """What is kept of a call is by where its tensors are; new ones take the long way, once."""
    torch.manual_seed(0)
    compiled = torch.compile(lambda x, w: (x @ w).relu(), backend=ltt.Backend(ALL), dynamic=False)
    pairs = [[torch.randn(256, 256, device="cuda", dtype=torch.bfloat16) for _ in range(2)] for _ in range(3)]
    with torch.no_grad():
        for x, w in pairs * 3:
            assert _error(compiled(x, w), (x.double() @ w.double()).relu()) < 2**-7
            w += 1


def test_products_of_f32_are_taken_with_a_precision() -> None:
    torch.manual_seed(0)
    x, w = (torch.randn(1024, 1024, device="cuda") for _ in range(2))
    backend = ltt.Backend(explain=True, precision="tf32x3")
    with torch.no_grad():
        found = torch.compile(lambda x, w: (x @ w).relu(), backend=backend, dynamic=False)(x, w)
    (row,) = backend.report()
    assert row.taken == ("relu",) and _error(found, (x.double() @ w.double()).relu()) < 1e-5  # of tf32 alone 3e-4


def test_products_that_are_left_are_timed_on_request() -> None:
    """Whichever is faster is taken; a layer of f32 beside it is torch's."""
    torch.manual_seed(0)
    x, w = torch.randn(64, 1024, device="cuda"), torch.randn(1024, 1024, device="cuda")
    compiled = torch.compile(
        lambda x, w: (x.bfloat16() @ w.bfloat16()).float() + x @ w, backend=ltt.Backend(measure=True), dynamic=False
    )
    with torch.no_grad():
        assert _error(compiled(x, w), 2 * (x.double() @ w.double())) < 2**-7
