"""`lowtide.torch` on a GPU, with torch and the compiler: bits, gradients, torch.compile, CUDA graphs, autocast."""

from __future__ import annotations

from typing import Any

import pytest

import lowtide as lt

try:
    import torch

    from lowtide import torch as ltt
except ImportError:
    torch = ltt = None

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for all tests of a run: a kernel is compiled once."""
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))


def rows(*shape: int, grad: bool = False) -> Any:
    return torch.randn(*shape, device="cuda").bfloat16().requires_grad_(grad)


def gelu_residual(acc: Any, bias: lt.PerColumn, c: lt.Full, alpha: lt.Scalar) -> Any:
    return lt.gelu(alpha * acc + bias) + c


def in_float64(*inputs: Any) -> tuple[Any, ...]:
    return tuple(x.detach().double().requires_grad_() for x in inputs)


def check(found: Any, exact: Any, k: int, units: float = 4.0) -> None:
    """Within some roundings to bf16 of the values and of a sum of k terms."""
    bound = units * 2.0**-8 * (exact.abs() + exact.double().pow(2).mean().sqrt() * max(1.0, k**0.5 / 16))
    assert found.shape == exact.shape and bool(((found.double() - exact).abs() <= bound).all())


def test_an_op_has_the_bits_of_matmul() -> None:
    a, w, bias, c = rows(70, 128), rows(96, 128), rows(96), rows(70, 96)
    text = ltt.epilogue_text(gelu_residual, "f32", "bf16")
    fused = lt.matmul(a, w.mT, epilogue=gelu_residual, bias=bias, c=c, alpha=0.5)
    assert torch.equal(ltt.gemm(a, w.mT, [bias, c], [0.5], text, "repeatable", None, None), fused)
    assert torch.equal(ltt.matmul(a, w.mT), lt.matmul(a, w.mT))
    wide = torch.empty(70, 96, device="cuda")
    assert ltt.matmul(a, w.mT, out=wide) is wide
    assert torch.equal(wide, ltt.matmul(a, w.mT, out_dtype=torch.float32))
    batch, shared = rows(3, 40, 128), ltt.matmul(rows(3, 40, 128), rows(3, 128, 72))
    assert shared.shape == (3, 40, 72) and torch.equal(ltt.matmul(batch, w.mT)[1], lt.matmul(batch, w.mT)[1])


def test_what_no_kernel_reads_is_copied() -> None:
    w = rows(96, 128)
    expanded = rows(1, 1).expand(70, 128)
    assert torch.equal(ltt.matmul(expanded, w.mT), ltt.matmul(expanded.contiguous(), w.mT))
    scattered = rows(70, 256)[:, ::2]
    assert torch.equal(ltt.matmul(scattered, w.mT), ltt.matmul(scattered.contiguous(), w.mT))
    four = rows(2, 3, 70, 128).transpose(0, 1)
    assert torch.equal(ltt.matmul(four, w.mT), ltt.matmul(four.contiguous(), w.mT))


@pytest.mark.parametrize("shape", [(70, 128), (2, 35, 128)])
def test_gradients_are_those_of_float64(shape: tuple[int, ...]) -> None:
    inputs = rows(*shape, grad=True), rows(96, 128, grad=True), rows(96, grad=True), rows(*shape[:-1], 96, grad=True)
    exact = in_float64(*inputs)

    def theirs(a: Any, w: Any, bias: Any, c: Any) -> Any:
        return torch.nn.functional.gelu(0.125 * a @ w.mT + bias) + c

    def ours(a: Any, w: Any, bias: Any, c: Any) -> Any:
        return ltt.matmul(a, w.mT, epilogue=gelu_residual, bias=bias, c=c, alpha=0.125)

    gradient = rows(*shape[:-1], 96)
    for call in (ours, torch.compile(ours, fullgraph=True)):
        d = call(*inputs)
        check(d, theirs(*exact), 128)
        found = torch.autograd.grad(d, inputs, gradient)
        wanted = torch.autograd.grad(theirs(*exact), exact, gradient.double())
        for x, y, given in zip(found, wanted, inputs, strict=True):
            assert x.dtype == given.dtype and x.stride() == given.stride()
            check(x, y, 128)


def test_the_ops_pass_the_checks_of_torch() -> None:
    a, w, bias = rows(64, 128, grad=True), rows(96, 128, grad=True), rows(96, grad=True)

    def bias_silu(acc: Any, bias: lt.PerColumn) -> Any:
        return lt.silu(acc + bias)

    text = ltt.epilogue_text(bias_silu, "f32", "bf16")
    torch.library.opcheck(ltt.gemm, (a, w.mT, [bias], [], text, "repeatable", None, None))
    plain = (a.detach(), w.mT.detach(), [], [], "", "repeatable", None, torch.empty(64, 96, device="cuda"))
    torch.library.opcheck(ltt.gemm_out, plain)


def mlp(**options: Any) -> Any:
    layers = ltt.Linear(256, 512, activation="gelu", **options), ltt.Linear(512, 256, **options)
    return torch.nn.Sequential(*layers)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_model_trains_as_in_eager_mode(mode: str) -> None:
    torch.manual_seed(0)
    model, x = mlp(device="cuda", dtype=torch.bfloat16), rows(128, 256)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, mode=mode)
    model(x).float().pow(2).sum().backward()
    wanted = [parameter.grad.clone() for parameter in model.parameters()]
    for _ in range(4):  # warms up, is captured, is replayed
        model.zero_grad()
        compiled(x).float().pow(2).sum().backward()
    for parameter, gradient in zip(model.parameters(), wanted, strict=True):
        check(parameter.grad, gradient.double(), 512)
    with torch.inference_mode():
        check(compiled(x), model(x).double(), 512)


def test_a_step_of_training_is_captured() -> None:
    model, x = mlp(device="cuda", dtype=torch.bfloat16), rows(128, 256)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            model.zero_grad(set_to_none=True)
            model(x).float().sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
        y.float().sum().backward()
    x.copy_(rows(128, 256))
    graph.replay()
    found = [y.clone(), *(parameter.grad.clone() for parameter in model.parameters())]
    model.zero_grad(set_to_none=True)
    again = model(x)
    again.float().sum().backward()
    for one, other in zip(found, [again, *(parameter.grad for parameter in model.parameters())], strict=True):
        assert torch.equal(one, other)


def test_a_layer_is_torchs() -> None:
    theirs = torch.nn.Linear(256, 320, device="cuda", dtype=torch.bfloat16)
    ours, x = ltt.Linear.of(theirs, activation="silu"), rows(3, 50, 256)
    exact = torch.nn.functional.silu(theirs(x).double())
    check(ours(x), exact, 256)
    with torch.no_grad():
        check(ours(x), exact, 256)
        assert ours(x[0, 0]).shape == (320,)


def test_a_row_of_a_layer_may_not_depend_on_the_others() -> None:
    layer, x = ltt.Linear(256, 320, device="cuda", dtype=torch.bfloat16, numerics="batch_invariant"), rows(300, 256)
    with torch.inference_mode():
        whole = layer(x)
        for m in (1, 70, 129):
            assert torch.equal(layer(x[:m]), whole[:m])


def test_autocast() -> None:
    model, x = mlp(device="cuda"), torch.randn(64, 256, device="cuda")
    for call in (model, torch.compile(model, fullgraph=True)):
        model.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = call(x)
        assert y.dtype == torch.bfloat16
        y.float().sum().backward()
        assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())


def test_gradients_of_weights_are_summed_in_f32_where_asked_for() -> None:
    layer, x = ltt.Linear(256, 128, bias=False, device="cuda", dtype=torch.bfloat16), rows(64, 256)
    if not hasattr(layer.weight, "grad_dtype"):
        pytest.skip("this torch has no Tensor.grad_dtype, which 2.10 and later have")
    layer.weight.grad_dtype = torch.float32
    for _ in range(3):
        layer(x).sum().backward()
    exact = 3 * torch.ones(64, 128, device="cuda").double().mT @ x.double()
    assert bool(((layer.weight.grad.double() - exact).abs() <= 2.0**-20 * 3 * 64**0.5 * 8).all())


def test_what_is_refused() -> None:
    a, b = rows(64, 128), rows(128, 96)
    for call, what in (
        (lambda: ltt.matmul(a, b.cpu()), "on the CPU"),
        (lambda: ltt.matmul(a.cfloat(), b.cfloat()), r"\[torch-dtype\]"),
        (lambda: ltt.matmul(a.to_sparse(), b), "strided"),
        (lambda: ltt.matmul(a, b.half()), "are not multiplied"),
        (lambda: ltt.matmul(a, b[:64]), "pass b.mT"),
        (lambda: ltt.matmul(rows(64, 128, grad=True), b, out=rows(64, 96)), "autograd"),
    ):
        with pytest.raises(lt.LaunchError, match=what):
            call()
