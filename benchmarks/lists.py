"""Lists of products of any sizes, by `lt.grouped_matmul`, beside kernels that threads or TMA fill, torch._grouped_mm, a
loop of torch.mm and a copy.

    python benchmarks/lists.py [--case N …] [--rounds 5] [--seed 1] [--seconds 60]

Each case is raced in shuffled rounds, and its row is printed: µs and TFLOP/s of `lt.grouped_matmul`, and ratios of
speed in the same rounds, median (least … greatest); above 1 it is faster. The kernels get lists that were made before.
With TMA, a launch before the product makes the tensor maps; it is part of the time. torch._grouped_mm is timed only if
all products have the same N and K; it gets one array, without a copy. Every result is compared with float64 before it
is timed.

Exit status: 0; 1 if Lowtide has no time in a case; 3 if `--seconds` were up before the last case. If a case hangs, the
process ends with 4, 15 seconds later.
"""

import sys

from lowtide.measurement.bench.case_races import chosen, parser, run_cases
from lowtide.measurement.bench.listed import CASES, HEADINGS, race_case


def main() -> int:
    options = parser(__doc__ or "", CASES, seconds=60).parse_args()
    return run_cases(options, chosen(options, CASES), HEADINGS, race_case)


if __name__ == "__main__":
    sys.exit(main())
