"""One model of transformers, forward and backward, compiled by torch.compile with and without Lowtide.

    python benchmarks/architectures.py NAME --out FILE [--with inductor lowtide …] [--rounds 15] [--seconds 0.2]
        [--profiles 3] [--seed 1] [--device cuda]

`models.py` runs this for each model, in a process of its own. The model has 4 layers of width 1024 (`opt-1020`: 1020)
with feed-forward layers of 2816, random weights in bf16, and no dropout. It reads 3 sequences of 509 tokens. A step is
the forward pass, and the backward pass from a fixed gradient of the last hidden state into new gradients of all
weights.

Contenders are those of torch_models.py. Before one is compiled, torch's tracing is warm, and the caches of Inductor are
empty; so is Lowtide's, if LOWTIDE_CACHE names a new folder. `--out` receives a line of JSON with the fields of `Steps`.
"""

import argparse
import importlib
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch_models import RULES, compiled, stepping

from lowtide.measurement.bench.model_steps import Kernel, kernels_of

LAYERS, WIDTH, HIDDEN = 4, 1024, 2816
SEQUENCES, TOKENS, WORDS = 3, 509, 8192
_HOST_STEPS, _PROFILED = 10, 5


def _decoder(kind: str, **more: Any) -> Callable[[int], Any]:
    """A configuration that names its fields as Llama's does."""

    def make(width: int) -> Any:
        fields = {"hidden_size": width, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS, "vocab_size": WORDS}
        return getattr(transformers, f"{kind}Config")(**{**fields, "num_attention_heads": width // 64, **more})

    return make


def _gpt2(width: int) -> Any:
    return transformers.GPT2Config(
        vocab_size=WORDS, n_embd=width, n_inner=HIDDEN, n_layer=LAYERS, n_head=width // 64, n_positions=1024
    )


def _opt(width: int) -> Any:
    heads = 15 if width % 64 else width // 64
    return transformers.OPTConfig(
        vocab_size=WORDS,
        hidden_size=width,
        word_embed_proj_dim=width,
        ffn_dim=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=heads,
    )


def _t5(width: int) -> Any:
    return transformers.T5Config(
        vocab_size=WORDS,
        d_model=width,
        d_ff=HIDDEN,
        d_kv=64,
        num_layers=LAYERS,
        num_heads=width // 64,
        feed_forward_proj="gated-gelu",
    )


_SHARED_HEADS = {"num_key_value_heads": 4}
#: By name: the width, the configuration of a width, and the class of the model, without a head.
MODELS: dict[str, tuple[int, Callable[[int], Any], str]] = {
    "bert": (WIDTH, _decoder("Bert"), "BertModel"),
    "gpt2": (WIDTH, _gpt2, "GPT2Model"),
    "opt-1020": (1020, _opt, "OPTModel"),
    "llama": (WIDTH, _decoder("Llama", **_SHARED_HEADS), "LlamaModel"),
    "qwen3": (WIDTH, _decoder("Qwen3", **_SHARED_HEADS, head_dim=64), "Qwen3Model"),
    "gemma": (WIDTH, _decoder("Gemma", **_SHARED_HEADS, head_dim=64), "GemmaModel"),
    "phi": (WIDTH, _decoder("Phi"), "PhiModel"),
    "t5": (WIDTH, _t5, "T5EncoderModel"),
    "mixtral": (WIDTH, _decoder("Mixtral", **_SHARED_HEADS), "MixtralModel"),
    "opt": (WIDTH, _opt, "OPTModel"),
    "mistral": (WIDTH, _decoder("Mistral", **_SHARED_HEADS), "MistralModel"),
}


class Model(torch.nn.Module):
    """Tokens (sequences, tokens) to the last hidden state (sequences, tokens, width)."""

    def __init__(self, name: str, width: int | None = None) -> None:
        super().__init__()
        own, configuration, kind = MODELS[name]
        self.width = own if width is None else width
        config = configuration(self.width)
        config.use_cache = False
        more = {"add_pooling_layer": False} if name == "bert" else {}
        self.body = getattr(transformers, kind)(config, **more).eval()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.body(input_ids=tokens).last_hidden_state


def made(name: str, device: str, width: int | None = None) -> Model:
    """The model in bf16, except for tensors whose type it sets itself, as in rotary embeddings."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            return Model(name, width)
    finally:
        torch.set_default_dtype(before)


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def fresh_caches() -> Any:
    """Inductor's and Triton's caches in a new folder; its name changed in torch 2.9."""
    utilities = importlib.import_module("torch._inductor.utils")
    return getattr(utilities, "fresh_cache", None) or utilities.fresh_inductor_cache


def warm_tracing(model: Model, tokens: torch.Tensor, gradient: torch.Tensor, contenders: list[str]) -> None:
    """What a process does once, whichever model is compiled: imports, traced ops, workers, the first kernels."""
    stepping(model, torch.compile(model, backend="aot_eager", dynamic=False), tokens, gradient)()
    torch._dynamo.reset()
    size = 1088  # of a product that no model has
    layer = torch.nn.Linear(size, size, device=tokens.device, dtype=torch.bfloat16)
    x = torch.ones(size, size, device=tokens.device, dtype=torch.bfloat16, requires_grad=True)
    for contender in contenders:
        stepping(layer, compiled(contender, layer, False)[0], x, torch.ones_like(x))()
    torch._dynamo.reset()
    synchronize()


def results(model: Model, step: Callable[[], torch.Tensor]) -> list[torch.Tensor]:
    """The output and all gradients of a step."""
    found = [step().detach().clone()]
    return found + [x.grad.clone() for x in model.parameters() if x.grad is not None]


def error(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    """The greatest ‖found − wanted‖ / ‖wanted‖ of the output, and of all gradients as one vector."""

    def norm(tensors: list[torch.Tensor]) -> float:
        return sum(x.double().square().sum().item() for x in tensors) ** 0.5

    if len(found) != len(wanted):
        return float("nan")
    differences = [x.float() - y.float() for x, y in zip(found, wanted, strict=True)]
    parts = [(differences[:1], wanted[:1]), (differences[1:], wanted[1:])]
    return max(norm(difference) / norm(whole) for difference, whole in parts)


def step_time(step: Callable[[], Any], seconds: float) -> float:
    """The mean time of a step in seconds. Steps run one after the other for at least `seconds`."""
    synchronize()
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(5):
            step()
        steps += 5
        synchronize()
    return (time.perf_counter() - start) / steps


def host_time(step: Callable[[], Any]) -> float:
    """Seconds until the host has issued a step to an idle GPU: the median of 10 steps. The host does not wait for the
    step's end."""
    times = []
    for _ in range(_HOST_STEPS):
        synchronize()
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    synchronize()
    return sorted(times)[_HOST_STEPS // 2]


def profiled(step: Callable[[], Any]) -> list[Kernel]:
    """The kernels of a step, longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        for _ in range(_PROFILED):
            step()
        synchronize()
    launches = [
        (event.name, event.time_range.start, event.time_range.end)
        for event in found.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]
    return kernels_of(launches, _PROFILED)


def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    """The line of JSON of a model."""
    torch.manual_seed(arguments.seed)
    order, device = random.Random(arguments.seed), arguments.device
    model = made(arguments.name, device, arguments.width)
    tokens = torch.randint(WORDS, (SEQUENCES, arguments.tokens), device=device)
    gradient = torch.randn(*tokens.shape, model.width, device=device, dtype=torch.bfloat16)
    names = list(getattr(arguments, "with"))
    wanted = results(model, stepping(model, model, tokens, gradient))
    warm_tracing(model, tokens, gradient, names)
    steps, found, reports = {}, {}, {}
    for name in order.sample(names, len(names)):
        with fresh_caches()():
            start = time.perf_counter()
            function, backend = compiled(name, model, explain=False)
            step = stepping(model, function, tokens, gradient)
            step()
            synchronize()
            seconds = time.perf_counter() - start
        print(f"{arguments.name}: {name} compiled in {seconds:.1f} s", flush=True)
        steps[name] = step
        if name.startswith("lowtide"):
            reports[name] = str(backend.report())
        wrong = error(results(model, step), wanted)
        found[name] = {"step": [], "host": [], "kernels": [], "compile": seconds, "error": wrong}
    for number in range(arguments.rounds + 1):  # the first round is not counted
        for name in order.sample(names, len(names)):
            times = step_time(steps[name], arguments.seconds), host_time(steps[name])
            if number:
                found[name]["step"].append(times[0])
                found[name]["host"].append(times[1])
    for _ in range(arguments.profiles):
        for name in order.sample(names, len(names)):
            found[name]["kernels"].append(profiled(steps[name]))
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else device,
        "software": f"torch {torch.__version__}, transformers {transformers.__version__}",
        "found": {name: found[name] for name in names},
        "reports": reports,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=[*MODELS])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--with", nargs="+", default=["inductor", "lowtide"], help=f"lowtide or {', '.join(RULES)}, …")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a row of steps; default 0.2")
    parser.add_argument("--profiles", type=int, default=3, help="profiled rounds; default 3")
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"of a sequence; default {TOKENS}")
    parser.add_argument("--width", type=int, help="of the model; default: its own")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    arguments.out.write_text(json.dumps(measured(arguments)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
