"""Whether the verdict on each preset's kernel holds for every order of agents, at the levels of one thread's program.

python benchmarks/every_order.py [--only NAME] [--journal FILE]

Each kernel runs once at levels nvvm, llvm and ptx, with three ragged work tiles for each of two CTAs (or clusters) and
two more K steps than the ring has stages. With a journal, presets in it are skipped.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.presets import LADDERS
from lowtide.interpreter import Loaded, Report, interpret

LEVELS = ("nvvm", "llvm", "ptx")


def report_of(kernel: CompiledKernel, level: str, a: np.ndarray, b: np.ndarray, sms: int) -> Report:
    """The report of one run at a level on other orders. Raises AssertionError for a wrong product."""
    levels, report = kernel.levels, Report()
    module = Loaded(levels["llvm"], levels["ptx"]) if level == "ptx" else Loaded(levels[level])
    d = interpret(module, {"a": a, "b": b}, sms=sms, domain="exact", report=report)
    assert np.array_equal(d, a @ b.T)
    return report


def row_of(name: str) -> str:
    """A preset's row: for each level `every order`, or the reason against it."""
    preset, started = LADDERS[name], time.process_time()
    kernel = lt.compile_gemm(preset.spec(preset.dtypes[0]), preset.target, preset.schedule)
    (tile_m, tile_n, tile_k), (high, wide) = kernel.schedule.tile_mnk, kernel.schedule.cluster
    stages = kernel.schedule.mainloop.stages or 2
    m, n, k = 3 * high * tile_m - 9, 2 * wide * tile_n - 8, (stages + 2) * tile_k
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, k)) for rows in (m, n))
    found = []
    for level in LEVELS:
        report = report_of(kernel, level, a, b, 2 * high * wide)
        found.append("every order" if report.holds and report.kernels else str(report))
    return f"| {name} | {m}×{n}×{k} | {' | '.join(found)} | {time.process_time() - started:.0f} s |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append")
    parser.add_argument("--journal", type=Path)
    arguments = parser.parse_args()
    done = arguments.journal.read_text() if arguments.journal and arguments.journal.exists() else ""
    for name in LADDERS:
        if (arguments.only and name not in arguments.only) or f"| {name} |" in done:
            continue
        row = row_of(name)
        print(row, flush=True)
        if arguments.journal:
            with arguments.journal.open("a") as journal:
                journal.write(row + "\n")


if __name__ == "__main__":
    main()
