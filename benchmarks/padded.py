"""Padded groups, by `lt.grouped_matmul` with counts, beside torch.bmm of all rows, a loop of torch.mm and a copy.

    python benchmarks/padded.py [--case N …] [--rounds 5] [--seed 1] [--seconds 60]

Each case is raced in shuffled rounds, and its row is printed: µs and TFLOP/s of the rows that count, and ratios of
speed in the same rounds, median (least … greatest); above 1 Lowtide is faster. The counts are on the device; only the
loop knows them on the host. Every result is compared with float64 before it is timed.

Exit status: 0; 1 if Lowtide has no time in a case; 3 if `--seconds` were up before the last case. If a case hangs, the
process ends with 4, 15 seconds later.
"""

import sys

from lowtide.measurement.bench.case_races import chosen, parser, run_cases
from lowtide.measurement.bench.padded import CASES, HEADINGS, race_case


def main() -> int:
    options = parser(__doc__ or "", CASES, seconds=60).parse_args()
    return run_cases(options, chosen(options, CASES), HEADINGS, race_case)


if __name__ == "__main__":
    sys.exit(main())
