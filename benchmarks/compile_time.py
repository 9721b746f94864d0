"""Compile time from spec to PTX, in process and without imports, by owner: Lowtide, MLIR, LLVM.

python benchmarks/compile_time.py [--size 4096] [--repeat 5] [--target sm_80]
"""

import argparse
import os
import statistics
import time

import lowtide as lt
from lowtide.compiler.driver import lower
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.ptxas import assemble
from lowtide.targets import get


def bias_gelu(acc, bias: lt.PerColumn):
    return lt.gelu(acc + bias)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--target", default="sm_80")
    arguments = parser.parse_args()
    os.environ["LOWTIDE_CACHE"] = "off"
    n, target = arguments.size, get(arguments.target)
    cases = {
        f"{n}³ bf16": lt.GemmSpec(m=n, n=n, k=n, a="bf16", b="bf16", d="bf16"),
        "run-time M, N, K": lt.GemmSpec(a="bf16", b="bf16", d="bf16"),
        f"{n}³ bf16, bias + gelu": lt.GemmSpec(m=n, n=n, k=n, a="bf16", b="bf16", d="bf16", epilogue=bias_gelu),
    }
    lt.compile_gemm(lt.GemmSpec(m=64, n=64, k=64, a="f16", b="f16", d="f16"), arguments.target)  # starts LLVM
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
