"""`lowtide.torch` on the CPU, with torch and without a GPU: gradients, shapes, graphs, and what is refused."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

import lowtide as lt

torch = pytest.importorskip("torch", reason="NO TEST OF lowtide.torch RAN: torch is not installed; pip install torch")
ltt = importlib.import_module("lowtide.torch")
functional = torch.nn.functional


def smooth(acc: Any, bias: lt.PerColumn, c: lt.Full, r: lt.PerRow, alpha: lt.Scalar) -> Any:
    x = alpha * acc + bias
    return lt.sqrt(1.5 + x * c * (x * c)) + r * acc * c


def bias_relu(acc: Any, bias: lt.PerColumn) -> Any:
    return lt.relu(acc + bias)


def gelu_residual(acc: Any, bias: lt.PerColumn, c: lt.Full, alpha: lt.Scalar) -> Any:
    return lt.gelu(alpha * acc + bias) + c


TORCH_ACTIVATIONS: dict[str | None, Callable[[Any], Any]] = {
    None: lambda x: x,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


def wide(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("a", "b"),
    [((5, 7), (7, 6)), ((2, 5, 7), (7, 6)), ((2, 5, 7), (2, 7, 6)), ((5, 7), (2, 7, 6)), ((2, 3, 5, 7), (2, 3, 7, 6))],
)
def test_gradients_are_limits_of_differences(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert torch.autograd.gradcheck(lambda a, b: ltt.matmul(a, b), (wide(*a), wide(*b)))
    by_columns = wide(*b[:-2], b[-1], b[-2])
    assert torch.autograd.gradcheck(lambda a, b: ltt.matmul(a, b.mT), (wide(*a), by_columns))


def test_gradients_of_epilogues_and_of_gradients() -> None:
    def product(a: Any, w: Any, bias: Any, c: Any, r: Any) -> Any:
        return ltt.matmul(a, w.mT, epilogue=smooth, bias=bias, c=c, r=r, alpha=0.7)

    assert torch.autograd.gradcheck(product, (wide(2, 4, 5), wide(3, 5), wide(3), wide(2, 4, 3), wide(2, 4)))
    assert torch.autograd.gradgradcheck(product, (wide(3, 4), wide(2, 4), wide(2), wide(3, 2), wide(3)))


def add(acc: Any, c: lt.Full) -> Any:
    return acc + c


def test_what_is_kept_is_what_is_read_again() -> None:
    a, w, c = torch.randn(4, 5), torch.randn(3, 5, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        ltt.matmul(a, w.mT, epilogue=add, c=c)
    assert [tuple(x.shape) for x in kept] == [(4, 5)]


@pytest.mark.parametrize("kind", ["schema", "autograd_registration", "faketensor", "aot_dispatch_dynamic"])
def test_the_ops_pass_the_checks_of_torch(kind: str) -> None:
    a, w, bias = torch.randn(5, 7, requires_grad=True), torch.randn(6, 7, requires_grad=True), torch.randn(6)
    text = ltt.epilogue_text(bias_relu, "f32", "f32")
    for operands, epilogue in (([], ""), ([bias], text)):
        call = (a, w.mT, operands, [], epilogue, "repeatable", None, None)
        torch.library.opcheck(ltt.gemm, call, test_utils=f"test_{kind}")
    if kind != "autograd_registration":
        call = (a.detach(), w.mT.detach(), [bias], [], text, "repeatable", None, torch.empty(5, 6))
        torch.library.opcheck(ltt.gemm_out, call, test_utils=f"test_{kind}")


@pytest.mark.parametrize("compiled", [False, True])
def test_an_epilogue_is_as_in_torch(compiled: bool) -> None:
    def ours(a: Any, w: Any, bias: Any, c: Any) -> Any:
        return ltt.matmul(a, w.mT, epilogue=gelu_residual, bias=bias, c=c, alpha=0.5)

    def theirs(a: Any, w: Any, bias: Any, c: Any) -> Any:
        return functional.gelu(0.5 * a @ w.mT + bias) + c

    inputs = [torch.randn(*shape, requires_grad=True) for shape in ((5, 7), (6, 7), (6,), (5, 6))]
    call = torch.compile(ours, backend="aot_eager", fullgraph=True) if compiled else ours
    torch.testing.assert_close(call(*inputs), theirs(*inputs))
    gradients = [torch.autograd.grad(f(*inputs).sin().sum(), inputs) for f in (call, theirs)]
    torch.testing.assert_close(*gradients)
    with torch.no_grad():
        out = torch.empty(5, 6)
        a, w, bias, c = inputs
        assert ltt.matmul(a, w.mT, epilogue=gelu_residual, bias=bias, c=c, alpha=0.5, out=out) is out
        torch.testing.assert_close(out, theirs(*inputs))


def test_transforms_of_torch_func() -> None:
    def ours(a: Any, w: Any, bias: Any) -> Any:
        return ltt.matmul(ltt.linear(a, w, bias, activation="gelu"), w, epilogue=lt.tanh).sin().sum()

    def theirs(a: Any, w: Any, bias: Any) -> Any:
        return torch.tanh(functional.gelu(functional.linear(a, w, bias)) @ w).sin().sum()

    inputs, every = (torch.randn(5, 7), torch.randn(6, 7), torch.randn(6)), (0, 1, 2)
    torch.testing.assert_close(*(torch.func.grad(f, every)(*inputs) for f in (ours, theirs)))
    twice = [torch.func.grad(lambda *x, f=f: torch.func.grad(f)(*x).sum(), every)(*inputs) for f in (ours, theirs)]
    torch.testing.assert_close(*twice)


@pytest.mark.parametrize("compiled", [False, True])
def test_d_may_be_written_over_an_operand(compiled: bool) -> None:
    def add_to(c: Any, a: Any, w: Any) -> Any:
        return ltt.matmul(a, w.mT, epilogue=add, c=c, out=c)

    a, w, c = torch.randn(5, 7), torch.randn(6, 7), torch.randn(5, 6)
    expected = a @ w.mT + c
    (torch.compile(add_to, backend="aot_eager", fullgraph=True) if compiled else add_to)(c, a, w)
    torch.testing.assert_close(c, expected)


def test_one_graph_serves_any_number_of_rows() -> None:
    w, graphs = torch.randn(6, 7), []

    def count(graph: Any, inputs: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    call = torch.compile(lambda a: ltt.linear(a, w, activation="silu"), backend=count, fullgraph=True, dynamic=True)
    for rows in (5, 9, 17):
        torch.testing.assert_close(call(torch.ones(rows, 7)), functional.silu(torch.ones(rows, 7) @ w.mT))
    assert len(graphs) == 1


@pytest.mark.parametrize("activation", TORCH_ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_torchs(activation: str | None, bias: bool) -> None:
    activate = TORCH_ACTIVATIONS[activation]
    ours, theirs = ltt.Linear(16, 24, bias, activation=activation), torch.nn.Linear(16, 24, bias)
    theirs.load_state_dict(ours.state_dict())
    ours.load_state_dict(theirs.state_dict())
    for x in (torch.randn(3, 5, 16), torch.randn(16)):
        with torch.no_grad():
            torch.testing.assert_close(ours(x), activate(theirs(x)))
        ours.zero_grad()
        theirs.zero_grad()
        ours(x).sin().sum().backward()
        activate(theirs(x)).sin().sum().backward()
        for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(own.grad, other.grad)
            assert own.grad.stride() == own.stride()
    shared = ltt.Linear.of(theirs, activation=activation)
    assert shared.weight is theirs.weight and shared.bias is theirs.bias


def test_autocast() -> None:
    layer, x = ltt.Linear(16, 24, activation="silu"), torch.randn(3, 16)
    a, b = torch.randn(5, 7, requires_grad=True), torch.randn(7, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.compile(layer, backend="aot_eager", fullgraph=True)(x).dtype == torch.bfloat16
        d = ltt.matmul(a, b)
        assert d.dtype == ltt.gemm(a, b, [], [], "", "any", None, None).dtype == torch.bfloat16
        assert ltt.matmul(a.double(), b.double()).dtype == torch.float64
    d.sum().backward()
    assert a.grad.dtype == torch.float32


@pytest.mark.parametrize(("precision", "error"), [("f32", 1e-6), ("tf32x3", 1e-6), ("bf16x6", 1e-6), ("tf32", 2e-3)])
def test_a_precision_of_f32_is_that_of_gradients_too(precision: str, error: float) -> None:
    torch.manual_seed(3)
    layer = ltt.Linear.of(torch.nn.Linear(40, 24), precision=precision)
    x = torch.randn(16, 40, requires_grad=True)
    d = torch.compile(layer, backend="aot_eager", fullgraph=True)(x)
    found = torch.autograd.grad(d, (x, layer.weight), g := torch.randn(16, 24))
    exact = (
        x.double() @ layer.weight.double().mT + layer.bias,
        g.double() @ layer.weight.double(),
        g.double().mT @ x.double(),
    )
    for mine, wanted in zip((d, *found), exact, strict=True):
        off = ((mine - wanted).norm() / wanted.norm()).item()
        assert off < error and (precision != "tf32" or off > 1e-4)  # the lower bits of tf32 are cut off


def test_a_precision_is_of_f32_and_autocast_takes_its_own_type() -> None:
    a, b = torch.randn(5, 7), torch.randn(7, 6)
    with pytest.raises(lt.SpecError, match="unknown precision 'tf32x3'"):
        ltt.matmul(a.bfloat16(), b.bfloat16(), precision="tf32x3")
    with pytest.raises(lt.SpecError, match="unknown precision 'f16'"):
        ltt.matmul(a, b, precision="f16")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ltt.matmul(a, b, precision="tf32x3").dtype == torch.bfloat16
        assert ltt.gemm(a, b, [], [], "", "any", "tf32x3", None).dtype == torch.bfloat16


def test_the_gradient_of_a_weight_is_of_the_type_that_it_asks_for() -> None:
    layer, x = ltt.Linear(16, 24, dtype=torch.bfloat16), torch.randn(8, 16).bfloat16()
    if not hasattr(layer.weight, "grad_dtype"):
        pytest.skip("this torch has no Tensor.grad_dtype, which 2.10 and later have")
    layer.weight.grad_dtype = torch.float32
    for _ in range(2):
        layer(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, 2 * torch.ones(8, 24).mT @ x.float())
    layer.zero_grad()
    torch.compile(layer, backend="aot_eager", fullgraph=True)(x).sum().backward()
    assert layer.weight.grad.dtype == torch.float32


def test_a_weight_may_be_computed() -> None:
    layer = torch.nn.utils.parametrizations.weight_norm(ltt.Linear(5, 4))
    layer(torch.randn(3, 5)).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
    frozen = ltt.Linear(5, 4).requires_grad_(False)
    x = torch.randn(3, 5, requires_grad=True)
    frozen(x).sum().backward()
    torch.testing.assert_close(x.grad, frozen.weight.sum(0).expand(3, 5))


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_layers_of_other_types(dtype: str) -> None:
    layer, x = ltt.Linear(5, 4, activation="gelu", dtype=getattr(torch, dtype)), torch.randn(3, 5)
    x = x.to(layer.weight.dtype)
    expected = functional.gelu(functional.linear(x.double(), layer.weight.double(), layer.bias.double()))
    with torch.no_grad():
        torch.testing.assert_close(layer(x).double(), expected, rtol=2.0**-9, atol=2.0**-9)
    torch.testing.assert_close(layer(x).double(), expected, rtol=2.0**-9, atol=2.0**-9)


def test_integers_and_their_rounding() -> None:
    a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((5, 64), (64, 6)))
    exact = a.long() @ b.long()
    assert torch.equal(ltt.matmul(a, b).long(), exact)

    def scaled(acc: Any, scale: lt.Scalar) -> Any:
        return scale * acc

    d = ltt.matmul(a, b, epilogue=scaled, scale=0.01, out_dtype=torch.int8)
    assert torch.equal(d, torch.clamp(torch.round(exact.float() * 0.01), -128, 127).to(torch.int8))


def test_a_bias_beside_bytes_has_a_gradient() -> None:
    for dtype in (torch.int8, torch.float8_e4m3fn):
        a, b = torch.ones(5, 16).to(dtype), torch.ones(16, 6).to(dtype)
        bias = torch.zeros(6, requires_grad=True)
        ltt.matmul(a, b, epilogue=bias_relu, bias=bias, out_dtype=torch.bfloat16).backward(
            torch.full((5, 6), 1.3).bfloat16()
        )
        torch.testing.assert_close(bias.grad, torch.full((6,), 1.3).bfloat16().float() * 5)


def test_what_is_refused() -> None:
    a, b, needs = torch.randn(5, 7), torch.randn(7, 6), torch.randn(5, 7, requires_grad=True)
    bytes_ = needs.detach().to(torch.float8_e4m3fn)
    cases: list[tuple[Callable[[], Any], type[lt.Error], str]] = [
        (lambda: ltt.matmul(a, b.mT), lt.LaunchError, "pass b.mT"),
        (lambda: ltt.matmul(a.cfloat(), b.cfloat()), lt.LaunchError, r"\[torch-dtype\]"),
        (lambda: ltt.matmul(a.to_sparse(), b), lt.LaunchError, "to_dense"),
        (lambda: ltt.matmul(a, b.to("meta")), lt.LaunchError, "operand b: on meta, but a is on cpu"),
        (lambda: ltt.matmul(a, b.bfloat16()), lt.LaunchError, "f32 and bf16 are not multiplied"),
        (lambda: ltt.matmul(a, b.to(torch.int8)), lt.LaunchError, "float32 and torch.int8 are not multiplied"),
        (lambda: ltt.matmul(a, b, numerics="exact"), lt.SpecError, "choose one of any"),
        (lambda: ltt.matmul(a, b, c=a), lt.LaunchError, "the epilogue takes none, but the call gives c"),
        (lambda: ltt.matmul(a, b, epilogue=bias_relu, bias=a), lt.LaunchError, r"operand bias: shape \(5, 7\)"),
        (lambda: ltt.matmul(a, b, epilogue=bias_relu, bias=1.0), lt.LaunchError, "operand bias: must be a tensor"),
        (lambda: ltt.matmul(needs, b, out=torch.empty(5, 6)), lt.LaunchError, "autograd does not record"),
        (lambda: ltt.matmul(needs, b, epilogue=lambda acc: acc, out_dtype=torch.int8), lt.SpecError, "no derivative"),
        (lambda: ltt.matmul(bytes_.requires_grad_(), bytes_.mT), lt.LaunchError, r"\[gradient-type\]"),
        (lambda: ltt.gemm(a, b, [a], [], "", "any", None, None), lt.LaunchError, "1 tensors and 0 scalars"),
        (lambda: ltt.gemm(a, b, [], [], "relu", "any", None, None), lt.SpecError, "its form is"),
        (lambda: ltt.Linear(3, 4, activation="mish"), lt.LaunchError, "known are relu"),
    ]
    for call, error, what in cases:
        with pytest.raises(error, match=what):
            call()


def test_modes_and_subclasses_see_the_op() -> None:
    """What is called past the dispatcher in eager mode is an op to whatever watches."""
    seen: list[Any] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    a, layer = torch.randn(5, 7), ltt.Linear(7, 6)
    with Watch():
        ltt.matmul(a, a.mT)
        layer(a).sum().backward()
    assert seen.count(ltt.gemm) == 3  # of the layer's: forward, and the gradient of its weight
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        ltt.matmul(a, a.mT)
    assert counter.get_total_flops() == 2 * 5 * 5 * 7
    with torch._subclasses.FakeTensorMode() as mode:
        d = ltt.linear(mode.from_tensor(a), torch.empty(6, 7), activation="gelu")
    assert d.shape == (5, 6) and isinstance(d, torch._subclasses.FakeTensor)
