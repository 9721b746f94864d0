"""A transformer block of `transformers`, forward and backward, compiled by torch.compile, with and without Lowtide.

    python benchmarks/torch_models.py [--model llama gpt2] [--tokens 4096 64] [--with inductor lowtide]
        [--rounds 9] [--seconds 0.4] [--forward] [--check] [--report] [--profile] [--seed 0]

`llama` is one block with the shapes of Llama 3 8B, `gpt2` one of GPT-2 XL, and `gpt2-1020` one of width 1020, whose
rows are no multiples of 16 bytes; weights are random bf16. Contenders are
`inductor` (torch.compile's default), `max-autotune`, `max-autotune-no-cudagraphs`, `lowtide` (the backend), `lowtide-
measure` (with measure=True), `lowtide-full` and `lowtide-alone` (with Rule(full=…) of "any" and of "alone"),
`lowtide-small` (with Rule(least_rows=16)), `lowtide-single` (with Rule(results=False)), `lowtide-aligned` (with
Rule(unaligned=False)), and `lowtide-cudagraphs` (with mode="reduce-overhead"). Two take nothing and should cost
nothing: with `lowtide-none` the pass finds nothing to take, with `lowtide-away` Inductor compiles without the pass.

A step is the forward pass, and the backward pass from a fixed gradient into new gradients of all weights and of the
input; with `--forward` it is only the forward pass, and nothing requires a gradient. Each round runs every contender
for `--seconds`, in shuffled order. Prints steps per second, the median of the rounds (least … greatest), and the median
ratio to the first contender. `--check` compares output and gradients with a float64 copy of the block, beside the first
contender.
"""

import argparse
import copy
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import GPT2Config, LlamaConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from lowtide.torch.fx import Backend, Rule


class Llama(torch.nn.Module):
    """One block, with the positions of one sequence."""

    width = 4096

    def __init__(self, tokens: int) -> None:
        super().__init__()
        config = LlamaConfig(
            hidden_size=self.width,
            intermediate_size=14336,
            num_attention_heads=32,
            num_key_value_heads=8,
            num_hidden_layers=1,
            max_position_embeddings=8192,
            attn_implementation="sdpa",
        )
        self.block = LlamaDecoderLayer(config, 0)
        angles = LlamaRotaryEmbedding(config)
        cos, sin = angles(torch.zeros(1), torch.arange(tokens)[None])
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _first(self.block(x, position_embeddings=(self.cos, self.sin)))


class Gpt2(torch.nn.Module):
    """One block, without dropout."""

    width, heads = 1600, 25

    def __init__(self, tokens: int) -> None:
        super().__init__()
        config = GPT2Config(
            n_embd=self.width,
            n_head=self.heads,
            n_positions=8192,
            resid_pdrop=0.0,
            attn_pdrop=0.0,
            attn_implementation="sdpa",
        )
        self.block = GPT2Block(config, layer_idx=0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _first(self.block(x))


class OddGpt2(Gpt2):
    """One block of a width that is no multiple of 8."""

    width, heads = 1020, 15


MODELS: dict[str, Any] = {"llama": Llama, "gpt2": Gpt2, "gpt2-1020": OddGpt2}
RULES = {
    "lowtide-full": Rule(full="any"),
    "lowtide-alone": Rule(full="alone"),
    "lowtide-small": Rule(least_rows=16),
    "lowtide-single": Rule(results=False),
    "lowtide-aligned": Rule(unaligned=False),
    "lowtide-none": Rule(least=2**62),
    "lowtide-away": Rule(devices=()),
}


def _first(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


@dataclass
class Contender:
    """`step` runs forward and backward once. `rates`: steps per second, one entry per counted round."""

    name: str
    step: Callable[[], torch.Tensor]
    rates: list[float] = field(default_factory=list)


def compiled(name: str, model: torch.nn.Module, explain: bool) -> tuple[Any, Backend]:
    """A compiled copy that shares the weights, and its Lowtide backend, if it has one."""
    backend = Backend(RULES.get(name), explain=explain, measure=name.endswith("measure"))
    if name == "inductor":
        return torch.compile(model, dynamic=False), backend
    if name.startswith("lowtide"):
        mode = "reduce-overhead" if name.endswith("cudagraphs") else None
        return torch.compile(model, backend=backend, mode=mode, dynamic=False), backend
    return torch.compile(model, mode=name, dynamic=False), backend


def stepping(
    model: torch.nn.Module, function: Any, x: torch.Tensor, gradient: torch.Tensor | None
) -> Callable[[], Any]:
    """A step; without `gradient`, only the forward pass."""
    parameters = [*model.parameters(), x]

    def forward() -> torch.Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            return function(x)

    if gradient is None:
        return forward

    def step() -> torch.Tensor:
        for parameter in parameters:
            parameter.grad = None
        torch.compiler.cudagraph_mark_step_begin()
        y = function(x)
        y.backward(gradient)
        return y

    return step


def race(contenders: list[Contender], rounds: int, seconds: float) -> None:
    """Fill `rates`; the first round is not counted."""
    for contender in contenders:
        for _ in range(5):
            contender.step()
    torch.cuda.synchronize()
    for number in range(rounds + 1):
        for contender in random.sample(contenders, len(contenders)):
            rate = _rate(contender.step, seconds)
            if number:
                contender.rates.append(rate)


def _rate(step: Callable[[], Any], seconds: float) -> float:
    torch.cuda.synchronize()
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(5):
            step()
        steps += 5
        torch.cuda.synchronize()
    return steps / (time.perf_counter() - start)


def errors(model: torch.nn.Module, contenders: list[Contender], x: torch.Tensor, gradient: torch.Tensor) -> None:
    """Print ‖ours − exact‖ / ‖exact‖ of the output and of the gradients, the maximum over all weights."""
    exact = copy.deepcopy(model).double()
    wide = x.detach().double().requires_grad_()
    y = exact(wide)
    y.backward(gradient.double())
    wanted = [y, wide.grad, *(parameter.grad for parameter in exact.parameters())]
    for contender in contenders:
        found = [contender.step(), x.grad, *(parameter.grad for parameter in model.parameters())]
        each = [((a.double() - b).norm() / b.norm()).item() for a, b in zip(found, wanted, strict=True)]
        print(f"error of {contender.name}: output {each[0]:.2e}, dx {each[1]:.2e}, dw {max(each[2:]):.2e}", flush=True)


def profile(contender: Contender) -> None:
    """Print the time of each kernel in ten steps."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        for _ in range(10):
            contender.step()
        torch.cuda.synchronize()
    print(f"{contender.name}: kernels of ten steps")
    rows = sorted(found.key_averages(), key=lambda row: -row.self_device_time_total)
    for row in rows[:30]:
        print(f"  {row.self_device_time_total / 10:9.1f} us a step  {row.count / 10:5.1f} x  {row.key[:100]}")


def bench(name: str, tokens: int, arguments: argparse.Namespace) -> None:
    model = MODELS[name](tokens).to(device="cuda", dtype=torch.bfloat16)
    x = torch.randn(1, tokens, model.width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    gradient = torch.randn(1, tokens, model.width, device="cuda", dtype=torch.bfloat16)
    contenders = []
    for contender in getattr(arguments, "with"):
        start = time.perf_counter()
        function, backend = compiled(contender, model, arguments.report)
        step = stepping(model, function, x, None if arguments.forward else gradient)
        step()
        torch.cuda.synchronize()
        print(f"{name} {tokens}: {contender} compiled in {time.perf_counter() - start:.1f} s", flush=True)
        contenders.append(Contender(contender, step))
        if arguments.report and backend.report():
            print(backend.report())
    if arguments.check and not arguments.forward:
        errors(model, contenders, x, gradient)
    race(contenders, arguments.rounds, arguments.seconds)
    what = "forward" if arguments.forward else "forward and backward"
    print(f"\n| {name}, {tokens} tokens, {what} | steps/s | ratio |\n|---|---|---|")
    first = contenders[0]
    for contender in contenders:
        ratio = statistics.median(a / b for a, b in zip(contender.rates, first.rates, strict=True))
        rate = statistics.median(contender.rates)
        print(
            f"| {contender.name} | {rate:.2f} ({min(contender.rates):.2f} … {max(contender.rates):.2f}) | {ratio:.3f} |"
        )
    sys.stdout.flush()
    if arguments.profile:
        for contender in contenders:
            profile(contender)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=[*MODELS], default=["llama"])
    parser.add_argument("--tokens", nargs="+", type=int, default=[4096, 64])
    parser.add_argument("--with", nargs="+", default=["inductor", "lowtide"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--seed", type=int, default=0)
    for flag in ("--forward", "--check", "--report", "--profile"):
        parser.add_argument(flag, action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    random.seed(arguments.seed)
    for name in arguments.model:
        for tokens in arguments.tokens:
            bench(name, tokens, arguments)


if __name__ == "__main__":
    main()
