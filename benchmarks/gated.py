"""SwiGLU as one kernel, beside Lowtide's plain product of the same A and B, and torch.compile.

    python benchmarks/gated.py [--case N …] [--rounds 5] [--seed 1] [--seconds 45]

Each case is raced in shuffled rounds, and its row is printed: µs and TFLOP/s of the gated kernel, and ratios of speed
in the same rounds, median (least … greatest); above 1 the gated kernel is faster. The plain product stores all columns,
so it writes twice as many bytes. torch.compile compiles one product with all columns and the activation, in its default
mode. Every result is compared with float64 before it is timed.

Exit status: 0; 1 if the gated kernel has no time in a case; 3 if `--seconds` were up before the last case. If a case
hangs, the process ends with 4, 15 seconds later.
"""

import argparse
import sys
import time

from lowtide.markdown import markdown
from lowtide.measurement.bench.any_shape.races import DONE, GPU_LOST, OUT_OF_TIME, end_process_after
from lowtide.measurement.bench.any_shape.racing import Settings
from lowtide.measurement.bench.gated import CASES, HEADINGS, OWN, race_case

_FAILED = 1
_GRACE = 15.0  # seconds of a case that has begun, past the deadline


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    options = parser().parse_args()
    began = time.monotonic()
    deadline = began + options.seconds
    end_process_after(options.seconds + _GRACE, GPU_LOST)
    print(markdown(HEADINGS, []), flush=True)
    failed = False
    for case in [CASES[number] for number in options.case or range(len(CASES))]:
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
    result.add_argument("--seed", type=int, default=1, help="of the operands; default 1")
    result.add_argument("--seconds", type=float, default=45.0, help="the time after which no case begins; default 45")
    return result


if __name__ == "__main__":
    sys.exit(main())
