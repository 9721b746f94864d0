"""Layers of experts of transformers, forward and backward, compared with their loop over experts in float64.

The layers are those of Mixtral 8x7B (8 experts of 4096×14336, 2 for each token) and of Qwen3 30B-A3B (128 experts of
2048×768, 8 for each token), with random weights. Without a GPU, matrices are 16 times narrower. Each layer is computed
in two ways: by calls of lowtide.torch, and, on a GPU, by torch.compile with Lowtide's backend, which needs no change of
the model. The example needs torch and transformers 5.

    python examples/transformers_experts.py
"""

import importlib
import importlib.util

from lowtide.errors import DependencyError

try:
    from lowtide.torch import Backend, combine_slots, grouped_gated_mlp, routes
except DependencyError as error:
    print(f"not run: {error}")
    raise SystemExit from None

import torch

if not importlib.util.find_spec("transformers") or not importlib.util.find_spec("transformers.integrations.moe"):
    print("not run: the example needs transformers 5, which is not installed; pip install 'transformers>=5'")
    raise SystemExit
transformers = importlib.import_module("transformers")

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
TOKENS, NARROWER = (1024, 1) if device == "cuda" else (64, 16)
MODELS = {  # the names of the layer and its configuration, the layer's extents, and the experts of a token
    "mixtral": ("Mixtral", {"hidden_size": 4096, "intermediate_size": 14336}, {"num_local_experts": 8}, 2),
    "qwen3_moe": ("Qwen3Moe", {"hidden_size": 2048, "moe_intermediate_size": 768}, {"num_experts": 128}, 8),
}


def layer_of(model: str, dtype: torch.dtype, implementation: str) -> torch.nn.Module:
    """The experts of a model: `gate_up_proj` (experts, 2·hidden, width) and `down_proj` (experts, width, hidden)."""
    name, widths, experts, _ = MODELS[model]
    module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    narrow = {key: width // NARROWER for key, width in widths.items()}
    config = getattr(transformers, f"{name}Config")(**narrow, **experts)
    with torch.device(device):
        layer = getattr(module, f"{name}Experts")(config).to(dtype)
    layer.config._experts_implementation = implementation
    return layer


def by_calls(layer: torch.nn.Module, x: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The first product gathers the rows of the tokens. The second scales its rows, and scatters them into slots."""
    ends, tokens, places = routes(experts, layer.num_experts)
    into = {"d_rows": places, "rows": experts.numel(), "weight": weights.flatten()[places.long()]}
    slots = grouped_gated_mlp(x, layer.gate_up_proj, layer.down_proj, ends, a_rows=tokens, **into)
    return combine_slots(slots, experts.shape[1])


def compare(model: str) -> None:
    layer, exact = layer_of(model, torch.bfloat16, "grouped_mm"), layer_of(model, torch.float64, "eager")
    for own, other in zip(layer.parameters(), exact.parameters(), strict=True):
        own.data.normal_(std=own.shape[-1] ** -0.5)
        other.data.copy_(own.data)
    width, experts_of_token = layer.gate_up_proj.shape[-1], MODELS[model][3]
    x = torch.randn(TOKENS, width, device=device).bfloat16()
    router = torch.randn(TOKENS, layer.num_experts, device=device).softmax(-1)
    weights, experts = router.topk(experts_of_token)
    weights = (weights / weights.sum(-1, keepdim=True)).bfloat16()
    gradient = torch.randn(TOKENS, width, device=device).bfloat16()

    def results(function, module, dtype):
        inputs = [each.to(dtype).requires_grad_() for each in (x, weights)]
        y = function(inputs[0], experts, inputs[1])
        return y.detach(), *torch.autograd.grad(y, [*inputs, *module.parameters()], gradient.to(dtype))

    wanted = results(exact, exact, torch.float64)
    ways = {"calls": lambda *given: by_calls(layer, *given)}
    if device == "cuda":
        backend = Backend(explain=True)
        ways["the backend"] = torch.compile(layer, backend=backend, fullgraph=True, dynamic=False)
    for way, function in ways.items():
        found = results(function, layer, torch.bfloat16)
        names = ("y", "dx", "d weights", "d gate and up", "d down")
        for name, one, other in zip(names, found, wanted, strict=True):
            error = ((one.double() - other).norm() / other.norm()).item()
            print(f"{model}, {name} {tuple(one.shape)} by {way}: relative error {error:.1e}")
            assert error < 2**-6
    if device == "cuda":
        print(backend.report())
        assert len(backend.report()) == 6 and not backend.report().left


for model in MODELS:
    compare(model)
print(f"on {device}: {len(MODELS)} layers of experts agree with loops in float64")
