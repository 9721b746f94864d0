"""`lt.grouped_matmul` beside torch._grouped_mm, a loop of torch.mm, a product of all rows with one matrix, and a copy.

    python benchmarks/grouped.py [--case N …] [--rounds 5] [--seed 1] [--seconds 60] [--jobs 8]

Kernels are compiled first, in several processes. Then each case is raced in shuffled rounds, and its row is printed:
TFLOP/s of all rows, and ratios of speed in the same rounds, median (least … greatest); above 1 Lowtide is faster. The
groups of a case have the same number of rows, or their ends are drawn uniformly with `--seed`. The product with one
matrix is Lowtide's, and is timed only if groups have the same number of rows. The copy moves as many bytes as the
product has to: A, D, and the matrices of groups with rows. Every result is compared with float64 before it is timed.

Exit status: 0; 1 if Lowtide has no time in a case; 3 if `--seconds` of racing were up before the last case. If a race
hangs, the process ends with 4, 30 seconds later.
"""

import argparse
import os
import sys
import time

from lowtide.markdown import markdown
from lowtide.measurement.bench.any_shape.races import DONE, GPU_LOST, OUT_OF_TIME, end_process_after
from lowtide.measurement.bench.any_shape.racing import Settings
from lowtide.measurement.bench.grouped import CASES, HEADINGS, OWN, compile_cases, race_case

_FAILED = 1
_GRACE = 30.0  # seconds of a race that has begun, past the deadline


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    options = parser().parse_args()
    cases = [CASES[number] for number in options.case or range(len(CASES))]
    began = time.monotonic()
    for refusal in compile_cases(cases, options.jobs):
        say(refusal)
    say(f"compiled in {time.monotonic() - began:.0f} s")
    deadline = time.monotonic() + options.seconds
    end_process_after(options.seconds + _GRACE, GPU_LOST)
    print(markdown(HEADINGS, []), flush=True)
    failed = False
    for case in cases:
        if time.monotonic() > deadline:
            return OUT_OF_TIME
        found = race_case(case, options.rounds, options.seed, Settings().pace_for(case.flops))
        print(markdown(found.row(), []).splitlines()[0], flush=True)
        say(f"  {time.monotonic() - began:.0f} s; {found.schedule}")
        failed |= OWN in found.failed
    return _FAILED if failed else DONE


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = "; ".join(f"{number}: {case}" for number, case in enumerate(CASES))
    result.add_argument("--case", type=int, action="append", choices=range(len(CASES)), help=f"default all; {names}")
    result.add_argument("--rounds", type=int, default=5, help="counted rounds; default 5")
    result.add_argument("--seed", type=int, default=1, help="of the ends and the operands; default 1")
    result.add_argument("--seconds", type=float, default=60.0, help="the time after which no race begins; default 60")
    result.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that compile")
    return result


if __name__ == "__main__":
    sys.exit(main())
