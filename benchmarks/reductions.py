"""Reductions, saved results and gradients in one kernel, beside Lowtide's plain product of A and B, and torch.compile.

    python benchmarks/reductions.py [--case N …] [--rounds 5] [--seed 1] [--seconds 40]

Each case is raced in shuffled rounds, and its row is printed: µs and TFLOP/s of the own kernel, and ratios of speed in
the same rounds, median (least … greatest); above 1 the own kernel is faster. The plain product stores D alone.
torch.compile compiles the product and the ops after it in its default mode, and does not store values that are not
needed. Every result is compared with float64 before it is timed.

Exit status: 0; 1 if Lowtide has no time in a case; 3 if `--seconds` were up before the last case. If a case
hangs, the process ends with 4, 15 seconds later.
"""

import sys

from lowtide.measurement.bench.case_races import chosen, parser, run_cases
from lowtide.measurement.bench.reductions import CASES, HEADINGS, race_case


def main() -> int:
    options = parser(__doc__ or "", CASES, seconds=40).parse_args()
    return run_cases(options, chosen(options, CASES), HEADINGS, race_case)


if __name__ == "__main__":
    sys.exit(main())
