"""Functions that tests compile with the backend on the CPU and on GPUs, and their errors."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import pytest

BY_ANOTHER = "by the kernel of "  # the reason in the report of a product that another product's kernel computes


def is_product(name: str) -> bool:
    """Whether a kernel of this name is one of ours that multiplies: the names of others have no layout."""
    return re.fullmatch(r"lowtide_gemm_\w+_(tn|tt|nn|nt)_\w+", name) is not None


def error(found: Any, exact: Any) -> float:
    """Relative to float64."""
    return float((found.double() - exact).norm() / exact.norm())


def errors(compiled: Callable[..., Any], function: Callable[..., Any], inputs: list[Any]) -> dict[str, float]:
    """The errors of a compiled function and of its gradients against the function in float64. Inputs that are not
    floats have no gradients."""
    torch = importlib.import_module("torch")
    own = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    exact = [x.detach().double().requires_grad_() if x.is_floating_point() else x for x in inputs]
    y, wanted = compiled(*own), function(*exact)
    gradient = torch.randn_like(wanted)
    y.backward(gradient.to(y.dtype))
    wanted.backward(gradient)
    found = {"y": error(y.detach(), wanted.detach())}
    pairs = [(x.grad, right.grad) for x, right in zip(own, exact, strict=True) if x.grad is not None]
    return found | {f"gradient {i}": error(*pair) for i, pair in enumerate(pairs)}


def gated(x: Any, w: Any, down: Any) -> Any:
    """A gated MLP with one combined weight."""
    functional = importlib.import_module("torch.nn.functional")
    gate, up = functional.linear(x, w).chunk(2, -1)
    return functional.linear(functional.silu(gate) * up, down)


def gated_by_slices(x: Any, w: Any, down: Any) -> Any:
    functional = importlib.import_module("torch.nn.functional")
    both, hidden = functional.linear(x, w), w.shape[0] // 2
    return functional.linear(functional.silu(both[..., :hidden]) * both[..., hidden:], down)


def gated_of_two(x: Any, gate: Any, up: Any, down: Any) -> Any:
    functional = importlib.import_module("torch.nn.functional")
    return functional.linear(functional.silu(functional.linear(x, gate)) * functional.linear(x, up), down)


def with_biases(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
    """Two linear layers with an activation between them."""
    functional = importlib.import_module("torch.nn.functional")
    return functional.linear(functional.gelu(functional.linear(x, w, b), approximate="tanh"), v, c)


def residual(x: Any, w: Any, c: Any, scale: Any, v: Any) -> Any:
    """A residual sum, and RMSNorm with a linear layer beside it."""
    torch = importlib.import_module("torch")
    h = c + torch.nn.functional.linear(x, w)
    wide = h.to(torch.promote_types(h.dtype, torch.float32))
    normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return torch.nn.functional.linear(scale * normed.to(h.dtype), v) + h


def cross_entropy(x: Any, w: Any, target: Any) -> Any:
    torch = importlib.import_module("torch")
    logits = torch.nn.functional.linear(x, w)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return torch.nn.functional.cross_entropy(wide.view(-1, w.shape[0]), target)


def layer_of_experts(name: str, width: int, hidden: int, experts: int, device: str = "cpu") -> tuple[Any, Any]:
    """A layer of experts of transformers that calls products of groups, in f32 with random values of bf16, and a copy
    in f64 that loops over the experts. `name`: "mixtral" or "qwen3_moe". Skips the test without transformers 5."""
    torch = importlib.import_module("torch")
    reason = "NO LAYER OF EXPERTS RAN: pip install 'transformers>=5'"
    pytest.importorskip("transformers.integrations.moe", reason=reason)
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    transformers = importlib.import_module("transformers")
    if name == "mixtral":
        given = {"intermediate_size": hidden, "num_local_experts": experts}
        make, of = module.MixtralExperts, transformers.MixtralConfig
    else:
        given = {"moe_intermediate_size": hidden, "num_experts": experts}
        make, of = module.Qwen3MoeExperts, transformers.Qwen3MoeConfig
    torch.manual_seed(0)
    layers = [make(of(hidden_size=width, **given)).to(device) for _ in range(2)]
    for layer, implementation in zip(layers, ("grouped_mm", "eager"), strict=True):
        layer.config._experts_implementation = implementation
    for parameter in layers[0].parameters():
        parameter.data = (parameter.shape[-1] ** -0.5 * torch.randn_like(parameter)).bfloat16().float()
    layers[1].load_state_dict(layers[0].state_dict())
    return layers[0], layers[1].double()
