"""SwiGLU as one kernel, beside Lowtide's plain product of the same A and B, and torch.compile.

    python benchmarks/gated.py [--case N …] [--rounds 5] [--seed 1] [--seconds 45]

Each case is raced in shuffled rounds, and its row is printed: µs and TFLOP/s of the gated kernel, and ratios of speed
in the same rounds, median (least … greatest); above 1 the gated kernel is faster. The plain product stores all columns,
so it writes twice as many bytes. torch.compile compiles one product with all columns and the activation, in its default
mode. Every result is compared with float64 before it is timed.

Exit status: 0; 1 if Lowtide has no time in a case; 3 if `--seconds` were up before the last case. If a case
hangs, the process ends with 4, 15 seconds later.
"""

import sys

from lowtide.measurement.bench.case_races import chosen, parser, run_cases
from lowtide.measurement.bench.gated import CASES, HEADINGS, race_case


def main() -> int:
    options = parser(__doc__ or "", CASES, seconds=45).parse_args()
    return run_cases(options, chosen(options, CASES), HEADINGS, race_case)


if __name__ == "__main__":
    sys.exit(main())
