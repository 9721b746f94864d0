"""`lt.grouped_matmul` beside torch._grouped_mm, torch.compile, a loop of torch.mm, a dense product and a copy.

    python benchmarks/grouped.py [--case N …] [--rounds 5] [--seed 1] [--seconds 60] [--jobs 8]

Kernels are compiled first, in several processes. Then each case is raced in shuffled rounds, and its row is printed: µs
and TFLOP/s of all rows, and ratios of speed in the same rounds, median (least … greatest); above 1 Lowtide is faster.
The groups of a case have the same number of rows, or their ends are drawn uniformly with `--seed`. The product of all
rows with one matrix is Lowtide's, and is timed only if groups have the same number of rows. The copy moves as many
bytes as the product has to: A, D, and the matrices of groups with rows. In the cases of SwiGLU, Lowtide's kernel has
the activation as its epilogue. The peers apply it to their product, and torch.compile compiles torch._grouped_mm with
it. In the case with tokens, Lowtide's kernel takes the rows of A at an index, and the peers take them first. In the
case with rows of D at an index, Lowtide's kernel stores them there, and the peers copy the rows of their product. Every
result is compared with float64 before it is timed. In cases with scales of blocks, A and B are e4m3 and D is bf16; the
product of all rows has the same scales, and no peer is timed.

Exit status: 0; 1 if Lowtide has no time in a case; 3 if `--seconds` of racing were up before the last case. If a race
hangs, the process ends with 4, 15 seconds later.
"""

import os
import sys

from lowtide.measurement.bench.case_races import chosen, parser, run_cases, say
from lowtide.measurement.bench.grouped import CASES, HEADINGS, compile_cases, race_case


def main() -> int:
    given = parser(__doc__ or "", CASES, seconds=60)
    given.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that compile")
    options = given.parse_args()
    cases = chosen(options, CASES)
    for refusal in compile_cases(cases, options.jobs):
        say(refusal)
    return run_cases(options, cases, HEADINGS, race_case)


if __name__ == "__main__":
    sys.exit(main())
