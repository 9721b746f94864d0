"""CPU time of the interpreter at level nvvm, on fixed cases: of a first run from text, and of one more run.

With --ptx, prints a table for kernels of the PTX corpus (test/ptx/kernels): warp instructions per minute of CPU time,
with all checks. An instruction counts once for each warp that executes it.

python benchmarks/interpreter_speed.py [--ptx] [--only NAME] [--profile] [--rounds 3]
"""

import argparse
import cProfile
import math
import pstats
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import lowtide as lt
from lowtide.interpreter import Loaded, interpret
from lowtide.interpreter.launching import parsed
from lowtide.interpreter.machine.options import Work
from lowtide.ptx.judging import Watch, prepare, run_judged
from lowtide.ptx.launch_files import AFTER, BEFORE, LAUNCH, read_launch
from lowtide.ptx.recording import PTX
from lowtide.ptx.settings import Settings

KERNELS = Path(__file__).resolve().parents[1] / "test" / "ptx" / "kernels"


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


PTX_CASES = (
    *("matmul_fp16_mmav2", "matmul_fp16_s1", "matmul_fp16_s2", "matmul_fp16_s4", "matmul_batched", "matmul_f32_ieee"),
    *("matmul_tma_persistent", "attention_full", "softmax_rows", "layernorm_fwd", "transpose", "tiled_matmul"),
)


def ptx_rate(name: str, rounds: int) -> tuple[int, float]:
    """The number of warp instructions of a kernel of the corpus, and the CPU seconds of a check, decoding left out."""
    folder = KERNELS / name
    source = parsed((folder / PTX).read_text(encoding="utf-8"), PTX)
    given = read_launch(source.module, folder / LAUNCH, folder / BEFORE, folder / AFTER, None)
    prepare(source, given.record)
    seconds, work = [], Work()
    for _ in range(rounds):
        work = Work()
        started = time.process_time()
        report = run_judged(source, given.record, given.expected, Settings(), Watch(work=work))
        seconds.append(time.process_time() - started)
        assert report.ok, report.message
    return work.instructions, min(seconds)


def ptx_rates(names: Sequence[str], rounds: int) -> None:
    """Print a row of a table for each kernel, and one for the geometric mean."""
    print("| kernel | warp instructions | CPU s | million a minute |\n| --- | --- | --- | --- |")
    rates = []
    for name in names:
        count, seconds = ptx_rate(name, rounds)
        rates.append(count / seconds * 60e-6)
        print(f"| {name} | {count} | {seconds:.3f} | {rates[-1]:.1f} |", flush=True)
    if len(rates) > 1:
        print(f"| geometric mean | | | {math.exp(sum(map(math.log, rates)) / len(rates)):.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append")
    parser.add_argument("--ptx", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.ptx:
        ptx_rates(arguments.only or PTX_CASES, arguments.rounds)
        return
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
