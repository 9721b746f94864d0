"""Timing GEMMs against each other on one GPU: interleaved, shuffled, on random data, in and out of the power limit.

Every contender is a CUDA graph of launches that rotate over several sets of operands, more than L2 holds. In each
round all contenders run once, in an order drawn anew; the first round is not counted. *Sustained* is a replay of about
80 ms after 50 ms of the same; *burst* one of about 4 ms after 60 ms of idleness.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

SUSTAINED_MS, WARM_MS, BURST_MS, IDLE_MS = 80.0, 50.0, 4.0, 60.0
L2_MULTIPLE_BYTES = 320 * 2**20


@dataclass
class Contender:
    """A name and how it computes operand set i; filled with seconds a launch by `race`."""

    name: str
    launch: Callable[[int], object]
    sustained: list[float] = field(default_factory=list)
    burst: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Operands:
    """One set: A and B as they lie in memory, D poisoned."""

    a: torch.Tensor
    b: torch.Tensor
    d: torch.Tensor


def operand_sets(
    a_shape: tuple[int, int], b_shape: tuple[int, int], d_shape: tuple[int, int], dtype: torch.dtype
) -> list[Operands]:
    """As many sets of normal random operands as L2 cannot hold."""
    size = sum(x * y for x, y in (a_shape, b_shape, d_shape)) * 2
    sets = []
    for _ in range(max(2, -(-L2_MULTIPLE_BYTES // size))):
        a, b = (torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype) for shape in (a_shape, b_shape))
        sets.append(Operands(a, b, torch.full(d_shape, float("nan"), device="cuda", dtype=dtype)))
    torch.cuda.synchronize()
    return sets


def capture(contender: Contender, sets: int) -> torch.cuda.CUDAGraph:
    """A graph of one launch for each operand set."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(sets):
            contender.launch(i)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(sets):
            contender.launch(i)
    torch.cuda.synchronize()
    return graph


def replay(graph: torch.cuda.CUDAGraph, milliseconds: float, estimate_ms: float) -> tuple[float, int]:
    """Replays for about so long; (elapsed ms by events, replays)."""
    count = max(1, round(milliseconds / estimate_ms))
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        graph.replay()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop), count


def race(contenders: Sequence[Contender], sets: int, rounds: int, seed: int) -> None:
    """Fills every contender's `sustained` and `burst`, seconds a launch, one entry a counted round."""
    graphs = {contender.name: capture(contender, sets) for contender in contenders}
    estimates: dict[str, float] = {}
    for name, graph in graphs.items():
        elapsed, count = replay(graph, 1.0, 1.0)
        elapsed, count = replay(graph, 5.0, elapsed / count)
        estimates[name] = elapsed / count
    order = list(contenders)
    shuffler = random.Random(seed)
    for number in range(rounds + 1):
        shuffler.shuffle(order)
        for contender in order:
            graph, estimate = graphs[contender.name], estimates[contender.name]
            replay(graph, WARM_MS, estimate)
            elapsed, count = replay(graph, SUSTAINED_MS, estimate)
            if number:
                contender.sustained.append(elapsed / count / sets / 1e3)
        shuffler.shuffle(order)
        for contender in order:
            graph, estimate = graphs[contender.name], estimates[contender.name]
            time.sleep(IDLE_MS / 1e3)
            elapsed, count = replay(graph, BURST_MS, estimate)
            if number:
                contender.burst.append(elapsed / count / sets / 1e3)


def spread(seconds: Sequence[float], flops: float) -> tuple[float, float, float]:
    """(median, least, greatest) TFLOP/s."""
    rates = [flops / s / 1e12 for s in seconds]
    return statistics.median(rates), min(rates), max(rates)


def ratio(contender: Contender, other: Contender, kind: str) -> tuple[float, float, float]:
    """(median, least, greatest) of the rounds' ratios of speed; over 1: the first is faster."""
    mine, theirs = getattr(contender, kind), getattr(other, kind)
    ratios = [y / x for x, y in zip(mine, theirs, strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios)
