"""Host time per call, compared with torch in the same process: bound launches, calls with and without `out`.

    python benchmarks/launch.py [--size 64 --size 128,64,256] [--dtype bf16] [--schedule NAME|TEXT|chosen …]
        [--target sm_90a] [--rounds 21] [--calls 200] [--seed 0]

Each round runs every contender once, in random order: `--calls` calls in a row, timed by the host's clock, followed
by a synchronization that is not timed. The first round is not counted. The problem is small and the calls are few, so
no call waits for the GPU or for space in its queue. Before timing, every contender's result is compared with float64.
Prints one Markdown table per case: microseconds per call, median (least … greatest), and the median of the rounds'
ratios to torch.matmul(out=); below 1 is less host time.
"""

import argparse
import itertools
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.elements import element_type
from lowtide.measurement.bench.gpu_timing import tolerance

CHOSEN = "chosen"
REFERENCE = "torch.matmul(out=)"
ROTATING_SETS = 8


@dataclass
class Contender:
    """A way to launch; `call` returns D. `race` fills `seconds`: seconds per call, one entry per counted round."""

    name: str
    call: Callable[[], object]
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Operands:
    """A (M, K) and B (N, K) of normal random values, and D (M, N), poisoned."""

    a: torch.Tensor
    b: torch.Tensor
    d: torch.Tensor


def operands(size: tuple[int, int, int], dtype: str) -> Operands:
    m, n, k = size
    kind = getattr(torch, element_type(dtype).library)
    a, b = (torch.randn(rows, k, device="cuda").to(kind) for rows in (m, n))
    return Operands(a, b, torch.full((m, n), float("nan"), device="cuda", dtype=kind))


def of_torch(given: Operands) -> list[Contender]:
    """torch's calls, with Bᵀ made once and, as in most code, at each call."""
    a, b, d = given.a, given.b, given.d
    transposed = b.t()
    return [
        Contender(REFERENCE, lambda: torch.matmul(a, transposed, out=d)),
        Contender("torch.matmul(a, b.t(), out=)", lambda: torch.matmul(a, b.t(), out=d)),
        Contender("torch.mm", lambda: torch.mm(a, transposed)),
    ]


def of_matmul(given: Operands) -> list[Contender]:
    """`lt.matmul`, with Bᵀ made once."""
    a, b, d = given.a, given.b.t(), given.d
    return [
        Contender("lt.matmul(out=)", lambda: lt.matmul(a, b, out=d)),
        Contender("lt.matmul", lambda: lt.matmul(a, b)),
    ]


def of_kernel(name: str, kernel: CompiledKernel, given: Operands, others: Sequence[Operands]) -> list[Contender]:
    """The kernel as compiled, and as loaded (`others`: same shapes at other addresses)."""
    loaded = lt.runtime.Kernel(kernel.manifest, kernel.ptx, kernel.cubin)
    a, b, d = given.a, given.b, given.d
    turn = itertools.cycle((given, *others))

    def rotating() -> object:
        following = next(turn)
        loaded(following.a, following.b, out=following.d)
        return d

    return [
        Contender(f"{name}: bind(…)()", kernel.bind(a, b, out=d)),
        Contender(f"{name}: kernel(a, b, out=d)", lambda: kernel(a, b, out=d)),
        Contender(f"{name}: kernel(a, b)", lambda: kernel(a, b)),
        Contender(f"{name}, loaded: kernel(a, b, out=d)", lambda: loaded(a, b, out=d)),
        Contender(f"{name}, loaded: the same, {1 + len(others)} sets of operands in turn", rotating),
    ]


def check(contender: Contender, given: Operands, dtype: str) -> bool:
    """Poison D, call, and compare with float64. Reports a wrong result."""
    given.d.fill_(float("nan"))
    result = contender.call()
    torch.cuda.synchronize()
    assert isinstance(result, torch.Tensor)
    expected = given.a.double() @ given.b.double().t()
    error = ((result.double() - expected).norm() / expected.norm()).item()
    if not error < tolerance(dtype, "f32", given.a.shape[1]):  # NaN is wrong too
        print(f"  {contender.name}: WRONG, relative error {error:.2e}: left out", file=sys.stderr)
        return False
    return True


def race(
    contenders: Sequence[Contender], rounds: int, calls: int, seed: int, synchronize: Callable[[], object]
) -> None:
    """Fill `seconds` of every contender."""
    shuffler, order = random.Random(seed), list(contenders)
    for number in range(rounds + 1):
        shuffler.shuffle(order)
        for contender in order:
            call = contender.call
            call()
            synchronize()
            started = time.perf_counter()
            for _ in range(calls):
                call()
            elapsed = time.perf_counter() - started
            synchronize()
            if number:
                contender.seconds.append(elapsed / calls)


def table(contenders: Sequence[Contender]) -> str:
    """The Markdown table; ratios are to `REFERENCE`."""
    reference = next(contender.seconds for contender in contenders if contender.name == REFERENCE)
    lines = ["| call | host µs, median (least … greatest) | ratio to torch |", "|---|---|---|"]
    for contender in contenders:
        times = [second * 1e6 for second in contender.seconds]
        ratio = statistics.median(x / y for x, y in zip(contender.seconds, reference, strict=True))
        spread = f"{statistics.median(times):.2f} ({min(times):.2f} … {max(times):.2f})"
        lines.append(f"| {contender.name} | {spread} | {ratio:.2f} |")
    return "\n".join(lines)


def run_case(size: tuple[int, int, int], dtype: str, arguments: argparse.Namespace) -> None:
    m, n, k = size
    given, *others = (operands(size, dtype) for _ in range(ROTATING_SETS))
    contenders = [*of_torch(given), *of_matmul(given)]
    spec = lt.GemmSpec(m=m, n=n, k=k, a=dtype, b=dtype, d=dtype)
    for schedule in arguments.schedule or [CHOSEN]:
        try:
            kernel = lt.compile_gemm(spec, target=arguments.target, schedule=None if schedule == CHOSEN else schedule)
            contenders += of_kernel(f"lowtide {schedule}", kernel, given, others)
        except lt.Error as error:
            print(f"  {schedule}: left out: {error}", file=sys.stderr)
            continue
        print(f"  {schedule}: {kernel.schedule}", file=sys.stderr)
    contenders = [contender for contender in contenders if check(contender, given, dtype)]
    race(contenders, arguments.rounds, arguments.calls, arguments.seed, torch.cuda.synchronize)
    print(f"\n### {m}×{n}×{k} {dtype}\n\n{table(contenders)}", flush=True)


def extents(text: str) -> tuple[int, int, int]:
    """`64`, or `128,64,256`."""
    numbers = [int(part) for part in text.split(",")]
    if len(numbers) not in (1, 3):
        raise argparse.ArgumentTypeError(f"{text!r} must be N, for N×N×N, or M,N,K")
    m, n, k = numbers * 3 if len(numbers) == 1 else numbers
    return m, n, k


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", action="append", type=extents, help="N, for N×N×N, or M,N,K (default 64)")
    parser.add_argument("--dtype", action="append", choices=("bf16", "f16"))
    parser.add_argument("--schedule", action="append", help="a preset's name, schedule fields, or `chosen`")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--calls", type=int, default=200, help="in a row; the GPU's queue holds about 1000")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds after which the process exits")
    arguments = parser.parse_args()
    watchdog = threading.Timer(arguments.timeout, lambda: os._exit(3))
    watchdog.daemon = True
    watchdog.start()
    torch.manual_seed(arguments.seed)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    for size in arguments.size or [(64, 64, 64)]:
        for dtype in arguments.dtype or ["bf16"]:
            run_case(size, dtype, arguments)


if __name__ == "__main__":
    main()
