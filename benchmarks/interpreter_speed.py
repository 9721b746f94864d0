"""CPU time of the interpreter at level nvvm, on fixed cases: of a first run from text, and of one more run.

python benchmarks/interpreter_speed.py [--only NAME] [--profile] [--rounds 3]
"""

import argparse
import cProfile
import pstats
import time
from dataclasses import dataclass

import numpy as np

import lowtide as lt
from lowtide.interpreter import Loaded, interpret


@dataclass(frozen=True)
class Case:
    """A compilation, the extents of its runs, and the number of SMs."""

    target: str
    dtype: str
    extents: tuple[int, int, int]
    schedule: str | None = None
    sms: int = 2


_SQUARE, _RAGGED = (256, 256, 128), (200, 264, 104)

CASES = {
    "sm80": Case("sm_80", "bf16", _SQUARE),
    "sm80-ragged": Case("sm_80", "bf16", _RAGGED),
    "sm90": Case("sm_90a", "bf16", _SQUARE),
    "sm90-ragged": Case("sm_90a", "bf16", _RAGGED),
    "sm80-simt-f32": Case("sm_80", "f32", (128, 128, 64), "sm80-simt-best"),
    "sm80-split-k": Case("sm_80", "bf16", _SQUARE, "sm80-split-k", 4),
    "sm90-cluster": Case("sm_90a", "bf16", _SQUARE, "sm90-cluster-2x1"),
}


def text_of(case: Case) -> str:
    """Level nvvm of a case, with run-time extents."""
    spec = lt.GemmSpec(a=case.dtype, b=case.dtype, d=case.dtype, layout="tn")
    return lt.compile_gemm(spec, target=case.target, schedule=case.schedule).levels["nvvm"]


def operands(case: Case) -> dict[str, np.ndarray]:
    """A and B: small integers, with rows at multiples of 16 bytes."""
    m, n, k = case.extents
    rng = np.random.default_rng(0)
    return {name: rng.integers(-3, 4, (rows, k + 8))[:, :k] for name, rows in (("a", m), ("b", n))}


def run(module: str | Loaded, case: Case) -> tuple[float, np.ndarray]:
    """CPU seconds of one run, and D."""
    given = operands(case)
    started = time.process_time()
    d = interpret(module, given, sms=case.sms, domain="exact")
    return time.process_time() - started, d


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for name, case in CASES.items():
        if arguments.only and name not in arguments.only:
            continue
        text = text_of(case)
        if arguments.profile:
            with cProfile.Profile() as profile:
                run(text, case)
            pstats.Stats(profile).sort_stats("tottime").print_stats(35)
            continue
        first, further = [], []
        for _ in range(arguments.rounds):
            loaded = Loaded(text)
            run(loaded, case)
            first.append(run(text, case)[0])
            spent, d = run(loaded, case)
            further.append(spent)
        given = operands(case)
        assert np.array_equal(d, given["a"] @ given["b"].T)
        extents = "x".join(map(str, case.extents))
        print(f"{name:16} {extents:12} {min(first):6.2f} s, one more {min(further):6.2f} s", flush=True)


if __name__ == "__main__":
    main()
