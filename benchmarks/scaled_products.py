"""Products of 8-bit floats with scales, compared with torch._scaled_mm: A and B of e4m3, D of bf16, tn.

    python benchmarks/scaled_products.py [--size 8192 …] [--scales blocks …] [--schedule FIELDS …] [--rounds 6]
        [--seed 0] [--save DIR | --saved DIR]

Scales are per tensor, per row of A and of B, or per block: 1×128 of A and 128×128 of B. Sums are the tensor cores' own
(fast), or sums of at most 128 products are added in f32; torch has both as `use_fast_accum`. Each kernel is compiled
with the schedule chosen for it, or with those given. `--save` only compiles, without a GPU; `--saved` times the saved
kernels. Prints TFLOP/s, median (least … greatest) of the shuffled rounds, and the ratio to the faster of torch's two
kernels with such sums. Before timing, every result is compared with float64 on sampled rows.
"""

import argparse
import os
import statistics
import sys
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import lowtide as lt
from lowtide.measurement.bench.gpu_timing import KINDS, Contender, ratio, spread
from lowtide.measurement.bench.scaled import SCALES, SUMS, Case, Size, asked, problem, raced

CHOSEN = "chosen"


def compiled(size: Size, schedules: list[str], kinds: Collection[str]) -> Iterator[Case]:
    """A kernel for each kind of sums and scales, and each schedule."""
    for sums, kind in asked(kinds):
        for number, schedule in enumerate(schedules):
            given = None if schedule == CHOSEN else schedule
            try:
                kernel = lt.compile_gemm(problem(size, sums, kind), target="sm_90a", schedule=given)
                assert kernel.cubin
            except lt.Error as error:
                say(f"lowtide {sums} {kind} {schedule}: left out: {error}")
                continue
            yield Case(f"lowtide {sums} {kind} {number}", sums, kind, kernel)


def saved(folder: Path, kinds: Collection[str]) -> Iterator[Case]:
    """The kernels that `--save` wrote, of the requested kinds."""
    for each in sorted(folder.iterdir()):
        sums, kind, number = each.name.split(".")
        if kind in kinds:
            yield Case(f"lowtide {sums} {kind} {number}", sums, kind, lt.runtime.load(each))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def report(size: Size, found: dict[tuple[str, str], list[Contender]]) -> None:
    """A Markdown table, with ratios to the faster of torch's kernels with such sums."""
    m, n, k = size
    print(f"\n### {m}×{n}×{k} e4m3 tn, D of bf16\n")
    print("| kernel | sustained | to torch | burst | to torch |\n|---|---|---|---|---|")
    for sums in SUMS:
        mine = [one for (own, _), each in found.items() if own == sums for one in each]
        cells: dict[str, list[str]] = {one.name: [] for one in mine}
        for kind in KINDS if mine else ():
            peers = [one for one in mine if one.name.startswith("torch")]
            best = min(peers, key=lambda one: statistics.median(one.seconds(kind)))
            for one in mine:
                middle, least, most = spread(one.seconds(kind), 2.0 * m * n * k)
                times, low, high = ratio(one, best, kind)
                cells[one.name] += [f"{middle:.0f} ({least:.0f} … {most:.0f})", f"{times:.3f} ({low:.3f} … {high:.3f})"]
        for name, row in cells.items():
            print(f"| {name} | {' | '.join(row)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", action="append", help="M = N = K, or MxNxK; default 8192")
    parser.add_argument("--scales", action="append", choices=SCALES, help="kinds of scales; default tensor and rows")
    parser.add_argument("--schedule", action="append", help=f"fields, or {CHOSEN} (default)")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="compile and save to this folder, without timing")
    parser.add_argument("--saved", type=Path, help="time the kernels written by --save, without compiling")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds after which the process exits")
    arguments = parser.parse_args()
    watchdog = threading.Timer(arguments.timeout, lambda: os._exit(3))
    watchdog.daemon = True
    watchdog.start()
    kinds = arguments.scales or SCALES[:2]
    for text in arguments.size or ["8192"]:
        extents = [int(extent) for extent in text.split("x")]
        m, n, k = extents * 3 if len(extents) == 1 else extents
        size = (m, n, k)
        if arguments.saved is None:
            cases = compiled(size, arguments.schedule or [CHOSEN], kinds)
        else:
            cases = saved(arguments.saved / text, kinds)
        if arguments.save is not None:
            for case in cases:
                case.kernel.save(arguments.save / text / ".".join(case.name.split()[1:]))
            continue
        report(size, raced(size, kinds, cases, arguments.rounds, arguments.seed, say))


if __name__ == "__main__":
    main()
