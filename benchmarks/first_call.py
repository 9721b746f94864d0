"""The cost of the first call of `lt.matmul`: without a cache, for further shapes, and from a warm disk.

    python benchmarks/first_call.py [--size 4096,4096,4096 …] [--repeat 3] [--profile]

Each measurement is a separate process that has imported torch and made the operands. *cold*: the first call with an
empty cache, including imports and the plan of the weights. *next M*: the first call after that with one row less, which
most often takes the same kernel. *next schedule*: with twice as many rows, which most often compiles another. *warm
disk*: the first call of another process with the cache that the first one wrote. Times include the GPU's work.
`--profile`: also profile a cold call and one from a warm disk with cProfile, which slows them down.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HEADINGS = ("M × N × K", "import lowtide", "cold", "next M", "next schedule", "warm disk")
_CHILD = """
import cProfile, json, pstats, sys, time
import torch
m, n, k = map(int, sys.argv[1].split(","))
w = torch.randn(n, k, device="cuda").bfloat16()
x = torch.randn(2 * m, k, device="cuda").bfloat16()
torch.matmul(x, w.mT)
torch.cuda.synchronize()
def timed(call):
    begun = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) * 1e3
def imported():
    global lt
    import lowtide as lt
    lt.matmul
found = {"import": timed(imported)}
if sys.argv[2] == "profile":
    profile = cProfile.Profile()
    profile.runcall(lambda: timed(lambda: lt.matmul(x[:m], w.mT)))
    pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
else:
    found["first"] = timed(lambda: lt.matmul(x[:m], w.mT))
    found["next M"] = timed(lambda: lt.matmul(x[: m - 1], w.mT))
    found["next schedule"] = timed(lambda: lt.matmul(x, w.mT))
    print(json.dumps(found))
"""


def child(size: str, cache: str, *, profile: bool = False) -> str:
    command = [sys.executable, "-c", _CHILD, size, "profile" if profile else "time"]
    environment = {**os.environ, "LOWTIDE_CACHE": cache}
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def measured(size: str) -> tuple[dict[str, float], dict[str, float]]:
    """Milliseconds in a process with an empty cache and in one after it."""
    with tempfile.TemporaryDirectory(prefix="lowtide-first-call-") as folder:
        cache = str(Path(folder, "cache"))
        return json.loads(child(size, cache)), json.loads(child(size, cache))


def row(size: str, repeat: int) -> str:
    cold, warm = zip(*(measured(size) for _ in range(repeat)), strict=True)

    def shown(runs: tuple[dict[str, float], ...], name: str) -> str:
        times = [run[name] for run in runs]
        return f"{statistics.median(times):.3g} ({min(times):.3g} … {max(times):.3g})"

    columns = ("import", "first", "next M", "next schedule")
    cells = (size.replace(",", " × "), *(shown(cold, name) for name in columns))
    return "| " + " | ".join((*cells, shown(warm, "first"))) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", action="append", help="M,N,K")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    print("ms, median (least … greatest)\n")
    print("| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS), flush=True)
    for size in arguments.size or ("64,64,64", "16,4096,4096", "512,4096,4096", "4096,4096,4096"):
        print(row(size, arguments.repeat), flush=True)
        if arguments.profile:
            with tempfile.TemporaryDirectory(prefix="lowtide-first-call-") as folder:
                for state in ("cold", "warm disk"):
                    print(f"\n{state}:\n{child(size, str(Path(folder, 'cache')), profile=True)}")


if __name__ == "__main__":
    main()
