"""Compile time from spec to PTX, in process and without imports, by owner: Lowtide, MLIR, LLVM.

python benchmarks/compile_time.py [--size 4096] [--repeat 5] [--target sm_80] [--passes]

With `--passes`, the first case alone, by step.
"""

import argparse
import os
import statistics
import time
from collections.abc import Sequence

import lowtide as lt
from lowtide.compiler.driver import Lowered, lower
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.ptxas import assemble
from lowtide.markdown import markdown
from lowtide.measurement.bench.contest import interval
from lowtide.targets import get

LEAST_SHARE = 0.01  # of the whole time; a step with less has no row of its own


def bias_gelu(acc, bias: lt.PerColumn):
    return lt.gelu(acc + bias)


def by_step(runs: Sequence[tuple[Lowered, float]]) -> list[tuple[str, ...]]:
    """Rows of the steps, the longest first: level, step, owner, ms, share of the whole time. One row has the sum of the
    steps below 1 %, another one the time outside of steps. `runs`: compilations of one problem, each with its seconds.
    """
    steps: dict[tuple[str, str, str], list[float]] = {}
    for lowered, _ in runs:
        own: dict[tuple[str, str, str], float] = {}
        for one in lowered.timings:
            key = (str(one.level), one.step, one.owner)
            own[key] = own.get(key, 0.0) + one.seconds
        for key, seconds in own.items():
            steps.setdefault(key, []).append(seconds)
    wholes = [seconds for _, seconds in runs]
    long = {key: times for key, times in steps.items() if _share(times, wholes) >= LEAST_SHARE}
    short = [sum(steps[key][i] for key in steps.keys() - long.keys()) for i in range(len(runs))]
    outside = [wholes[i] - sum(times[i] for times in steps.values()) for i in range(len(runs))]
    ordered = sorted(long.items(), key=lambda item: -statistics.median(item[1]))
    others = [
        (("", f"{len(steps) - len(long)} further steps", ""), short),
        (("", "outside of steps: the problem's IR, checks of the input", "lowtide"), outside),
        (("", "all", ""), wholes),
    ]
    return [(*key, _milliseconds(times), f"{_share(times, wholes):.0%}") for key, times in [*ordered, *others]]


def _share(times: Sequence[float], wholes: Sequence[float]) -> float:
    return statistics.median(x / whole for x, whole in zip(times, wholes, strict=True))


def _milliseconds(times: Sequence[float]) -> str:
    return interval((1e3 * statistics.median(times), 1e3 * min(times), 1e3 * max(times)), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--passes", action="store_true", help="the first case alone, by step")
    arguments = parser.parse_args()
    os.environ["LOWTIDE_CACHE"] = "off"
    n, target = arguments.size, get(arguments.target)
    cases = {
        f"{n}³ bf16": lt.GemmSpec(m=n, n=n, k=n, a="bf16", b="bf16", d="bf16"),
        "run-time M, N, K": lt.GemmSpec(a="bf16", b="bf16", d="bf16"),
        f"{n}³ bf16, bias + gelu": lt.GemmSpec(m=n, n=n, k=n, a="bf16", b="bf16", d="bf16", epilogue=bias_gelu),
    }
    lt.compile_gemm(lt.GemmSpec(m=64, n=64, k=64, a="f16", b="f16", d="f16"), arguments.target)  # starts LLVM
    if arguments.passes:
        runs = []
        for _ in range(arguments.repeat):
            started = time.perf_counter()
            lowered = lower(problem_text(cases[f"{n}³ bf16"], target))
            runs.append((lowered, time.perf_counter() - started))
        print(markdown(("level", "step", "owner", "ms", "share"), by_step(runs)))
        return
    print("| case | spec → PTX, median ms (least … greatest) | lowtide | MLIR's passes | NVPTX backend | ptxas, ms |")
    print("|---|---|---|---|---|---|")
    for name, spec in cases.items():
        totals, shares, assembly = [], [], 0.0
        for _ in range(arguments.repeat):
            started = time.perf_counter()
            lowered = lower(problem_text(spec, target))
            totals.append(time.perf_counter() - started)
            owners = {owner: sum(t.seconds for t in lowered.timings if t.owner == owner) for owner in ("mlir", "llvm")}
            owners["lowtide"] = totals[-1] - sum(owners.values())
            shares.append({owner: seconds / totals[-1] for owner, seconds in owners.items()})
            started = time.perf_counter()
            assert lowered.ptx is not None
            assemble(lowered.ptx, target)
            assembly = time.perf_counter() - started
        share = {owner: statistics.median(s[owner] for s in shares) for owner in ("lowtide", "mlir", "llvm")}
        middle = statistics.median(totals) * 1e3
        print(
            f"| {name} | {middle:.0f} ({min(totals) * 1e3:.0f} … {max(totals) * 1e3:.0f}) | {share['lowtide']:.0%} "
            f"| {share['mlir']:.0%} | {share['llvm']:.0%} | {assembly * 1e3:.0f} |"
        )


if __name__ == "__main__":
    main()
