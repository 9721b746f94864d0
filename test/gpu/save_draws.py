"""`python test/gpu/save_draws.py DIR`: compile the draws of feature_draws.py for a GPU without a compiler.

Each kernel is a folder in DIR. `DIR/verify.txt` has a line of arguments for each: `xargs -L 1 python -m lowtide.runtime
verify < verify.txt`, run in DIR, checks them there against float64.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from feature_draws import KERNELS, KINDS, Draw, draw, title

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel

_ATTEMPTS = 12


def compiled(number: int) -> tuple[Draw, CompiledKernel, int]:
    """The first draw of this number whose registers suffice by ptxas, its kernel, and how many before it spill."""
    for attempt in range(_ATTEMPTS):
        drawn = draw(number, attempt)
        try:
            kernel = lt.compile_gemm(drawn.spec, target=drawn.target, schedule=drawn.schedule)
            kernel.cubin  # noqa: B018
        except lt.CompileError as error:
            # No rule counts the registers that an epilogue needs beside its accumulators; everything else is a fault.
            if error.code != "kernel-spills":
                raise
        else:
            return drawn, kernel, attempt
    raise lt.CompileError(f"{_ATTEMPTS} draws of {title(number)} in a row spill")


def features(drawn: Draw) -> tuple[str, ...]:
    """The features of a draw, each with its road."""
    road, _ = KINDS[drawn.number % len(KINDS)]
    return tuple(f"{road}-{feature}" for feature in drawn.features)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 all compile, 1 at least one does not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--last", type=int, default=KERNELS - 1, help="number of the last draw")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these; the last draw is said")
    options = parser.parse_args(arguments)
    start, count, sizes, refused, spilled, faults = time.monotonic(), Counter[str](), 0, 0, 0, 0
    options.folder.mkdir(parents=True, exist_ok=True)
    number = options.first - 1
    while number < options.last and time.monotonic() - start < options.seconds:
        number += 1
        try:
            drawn, kernel, spills = compiled(number)
        except lt.Error as error:
            print(f"FAULT {title(number)}: {error}", flush=True)
            faults += 1
            continue
        kernel.save(options.folder / title(number))
        runs = " ".join(f"--size {'x'.join(map(str, size))}" for size in drawn.sizes)
        with (options.folder / "verify.txt").open("a") as lines:
            lines.write(f"{title(number)} {runs}\n")
        count.update(features(drawn))
        sizes, refused, spilled = sizes + len(drawn.sizes), refused + drawn.refused, spilled + spills
    print(f"draws {options.first} to {number}: {sizes} sizes, {faults} faults; {refused} were refused, {spilled} spill")
    for feature, times in sorted(count.items()):
        print(f"  {feature:20} {times}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
