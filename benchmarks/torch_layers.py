"""`lowtide.torch` beside torch: the host time of a call, and layers forward and backward, in eager mode and compiled.

    python benchmarks/torch_layers.py [--tokens 4096]

Times are medians of shuffled rounds, measured by CUDA events around calls that keep the GPU busy (layers), or by the
host's clock (calls on 64³).
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.select_algorithm import extern_kernels

import lowtide as lt
from lowtide import torch as ltt
from lowtide.torch.fx import lowering as _registers_the_call  # noqa: F401

ROUNDS = 15


def host_times(calls: dict[str, Callable[[], Any]], repeats: int = 2000) -> dict[str, float]:
    """Microseconds of the host per call."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name in random.sample([*calls], len(calls)):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(repeats // 10):
                calls[name]()
            found[name].append((time.perf_counter() - start) / (repeats // 10) * 1e6)
            torch.cuda.synchronize()
    return {name: statistics.median(times) for name, times in found.items()}


def device_times(calls: dict[str, Callable[[], Any]], repeats: int = 10) -> dict[str, float]:
    """Microseconds of the GPU per call, while the host is ahead."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name in random.sample([*calls], len(calls)):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(repeats):
                calls[name]()
            end.record()
            end.synchronize()
            found[name].append(start.elapsed_time(end) / repeats * 1e3)
    return {name: statistics.median(times) for name, times in found.items()}


def show(title: str, times: dict[str, float]) -> None:
    first = next(iter(times.values()))
    print(title)
    for name, microseconds in times.items():
        print(f"  {name:34} {microseconds:9.1f} us  {first / microseconds:6.3f}", flush=True)


def of_host() -> None:
    a, w, x = (torch.randn(64, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    b, bias = w.mT, torch.randn(64, device="cuda", dtype=torch.bfloat16)
    out, needs = torch.empty_like(a), x.clone().requires_grad_()
    layer = torch.nn.Linear(64, 64, device="cuda", dtype=torch.bfloat16)
    own = ltt.Linear.of(layer)
    calls = {
        "torch.matmul(out=)": lambda: torch.matmul(a, b, out=out),
        "torch.matmul": lambda: torch.matmul(a, b),
        "lt.matmul(out=)": lambda: lt.matmul(a, b, out=out),
        "lt.matmul": lambda: lt.matmul(a, b),
        "ltt.gemm": lambda: ltt.gemm(a, b, [], [], "", "repeatable", None, None),
        "ltt.matmul": lambda: ltt.matmul(a, b),
        "torch.addmm": lambda: torch.addmm(bias, a, b),
    }
    product = {"epilogue": "", "numerics": "repeatable", "precision": None}
    of_graphs = {
        "mm": lambda: extern_kernels.mm(a, b, out=out),
        "lowtide": lambda: extern_kernels.lowtide_gemm(a, b, out=out, lies="64x64x64", **product),
        "lowtide, sizes of run time": lambda: extern_kernels.lowtide_gemm(a, b, out=out, lies=None, **product),
    }
    with torch.no_grad():
        for call in [*calls.values(), *of_graphs.values()]:
            call()
        show("host time of a call on 64x64x64 without gradients", host_times(calls))
        show("host time of such a call from a compiled graph", host_times(of_graphs))
        layers = {"torch.nn.Linear": lambda: layer(a), "ltt.Linear": lambda: own(a)}
        for call in layers.values():
            call()
        show("host time of a layer without gradients", host_times(layers))
    step = {
        "torch.nn.Linear": lambda: layer(needs).sum().backward(),
        "ltt.Linear": lambda: own(needs).sum().backward(),
    }
    for call in step.values():
        call()
    show("host time of a layer, forward and backward", host_times(step, 500))


class Mlp(torch.nn.Module):
    """gelu(x W1 + b1) W2 + b2, with or without the activation in the layer."""

    def __init__(self, own: bool, width: int, hidden: int) -> None:
        super().__init__()
        options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
        self.own = own
        self.up = (
            ltt.Linear(width, hidden, activation="gelu", **options)
            if own
            else torch.nn.Linear(width, hidden, **options)
        )
        self.down = (ltt.Linear if own else torch.nn.Linear)(hidden, width, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x)
        return self.down(h if self.own else torch.nn.functional.gelu(h))


def of_layers(tokens: int, width: int, hidden: int) -> None:
    theirs, ours = Mlp(False, width, hidden), Mlp(True, width, hidden)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    gradient = torch.randn_like(x)
    compiled = {name: torch.compile(model, fullgraph=True) for name, model in (("torch", theirs), ("lowtide", ours))}
    models = {"torch eager": theirs, "lowtide eager": ours}
    models |= {f"{name} compiled": model for name, model in compiled.items()}

    def training(model: Any) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(model(x), (x, *model.parameters()), gradient)

    steps = {name: training(model) for name, model in models.items()}
    for step in steps.values():
        step()
    show(f"MLP {width}-{hidden}, {tokens} tokens, forward and backward", device_times(steps))
    with torch.no_grad():
        calls = {name: (lambda model=model: model(x)) for name, model in models.items()}
        for call in calls.values():
            call()
        show(f"MLP {width}-{hidden}, {tokens} tokens, forward alone", device_times(calls))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4096)
    tokens = parser.parse_args().tokens
    of_host()
    of_layers(tokens, 4096, 14336)


if __name__ == "__main__":
    main()
