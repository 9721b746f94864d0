"""The cost of promises on the order of sums: `lt.matmul` with each of them beside torch.matmul, by number of rows.

    python benchmarks/numerics.py [--size 4096,4096] [--rows 1 …] [--rounds 9] [--seed 0]

bf16, layout tn. Each contender is a CUDA graph of launches on operands that together exceed L2. In a round each graph
runs, in shuffled order, until clocks have settled. Times are medians of the rounds, in microseconds.
"""

import argparse
import importlib
import random
import statistics
import sys
from typing import Any

import lowtide as lt
from lowtide.compiler.numerics_words import BATCH_INVARIANT, REPEATABLE
from lowtide.measurement.bench.gpu_timing import L2_MULTIPLE_BYTES, Contender, capture, estimate_ms, replay

ROWS = (1, 16, 64, 100, 128, 200, 256, 300, 400, 512, 600, 1000, 2000, 4096)
_WARM_MS, _TIMED_MS = 20.0, 30.0


def times_of(torch: Any, m: int, size: tuple[int, int], arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Microseconds per launch, by contender."""
    n, k = size
    count = -(-L2_MULTIPLE_BYTES // (2 * (m * k + n * k + m * n)))
    random_matrix = [
        (torch.randn(m, k, device="cuda").bfloat16(), torch.randn(n, k, device="cuda").bfloat16().mT)
        for _ in range(count)
    ]
    outs = [torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    contenders = [Contender("torch.matmul", lambda i: torch.matmul(*random_matrix[i], out=outs[i]))]
    for promise in (REPEATABLE, BATCH_INVARIANT):
        contenders.append(
            Contender(promise, lambda i, promise=promise: lt.matmul(*random_matrix[i], out=outs[i], numerics=promise))
        )
    graphs = {one.name: capture(one, count) for one in contenders}
    about = {name: estimate_ms(graph) for name, graph in graphs.items()}
    found: dict[str, list[float]] = {name: [] for name in graphs}
    names, shuffler = list(graphs), random.Random(arguments.seed)
    for _ in range(arguments.rounds):
        shuffler.shuffle(names)
        for name in names:
            replay(graphs[name], _WARM_MS, about[name])
            elapsed, replays = replay(graphs[name], _TIMED_MS, about[name])
            found[name].append(elapsed / replays / count * 1e3)
    return found


def extents(text: str) -> tuple[int, int]:
    """`4096,4096`."""
    n, k = (int(part) for part in text.split(","))
    return n, k


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=extents, default=(4096, 4096), help="N,K")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="M")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0, help="of the random order")
    arguments = parser.parse_args()
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        sys.exit("numerics.py: error: torch is not installed, but makes the matrices; install torch with CUDA")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {arguments.rounds} rounds\n")
    print(f"| M | torch.matmul | {REPEATABLE} | {BATCH_INVARIANT} |\n|---|---|---|---|")
    for m in arguments.rows:
        found = times_of(torch, m, arguments.size, arguments)
        print(f"| {m} | " + " | ".join(f"{statistics.median(one):.1f}" for one in found.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
