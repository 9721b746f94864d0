"""Packed weights compared with torch: A of bf16, weights (28672, 4096) of s4 in groups of 128, D of bf16.

    python benchmarks/weights.py [--m 1 16 64] [--n 28672] [--k 4096] [--weights s4] [--schedule FIELDS …] [--rounds 5]
        [--seed 0] [--save DIR | --saved DIR]

The peers are torch.matmul on the weights in bf16, and for s4 weights torch's int4 kernel,
torch.ops.aten._weight_int4pack_mm. Each kernel is compiled with the chosen schedule, or with those given. `--save` only
compiles, without a GPU; `--saved` times the saved kernels, without the compiler. Before timing, D is compared with
float64. Operands rotate over sets that together exceed L2. Prints microseconds, median (least … greatest) of the
shuffled rounds.
"""

import argparse
import json
from pathlib import Path

import lowtide as lt
from lowtide.elements import weight_types
from lowtide.measurement.bench.weights import Case, microseconds, problem, raced

CHOSEN = "chosen"


def save(options: argparse.Namespace, folder: Path) -> None:
    """Compile a kernel for each M and schedule."""
    cases = []
    for m in options.m:
        spec = problem(m, options.weights, options.n, options.k)
        for schedule in options.schedule:
            kernel = lt.compile_gemm(spec, target="sm_90a", schedule=None if schedule == CHOSEN else schedule)
            kernel.save(folder / str(len(cases)))
            cases.append({"m": m, "name": schedule, "kernel": str(len(cases))})
    (folder / "cases.json").write_text(
        json.dumps({"n": options.n, "k": options.k, "weights": options.weights, "cases": cases})
    )


def time_saved(folder: Path, rounds: int, seed: int) -> None:
    """Race the kernels of each M with torch's, and print the results."""
    found = json.loads((folder / "cases.json").read_text())
    cases = [Case(one["m"], one["name"], lt.runtime.load(folder / one["kernel"])) for one in found["cases"]]
    for m, contenders in raced(found["weights"], found["n"], found["k"], cases, rounds, seed):
        for contender in contenders:
            print(f"M = {m:3}  {' / '.join(microseconds(contender))} us  {contender.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--m", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--n", type=int, default=28672)
    parser.add_argument("--k", type=int, default=4096)
    parser.add_argument("--weights", choices=weight_types("bf16"), default="s4")
    parser.add_argument("--schedule", action="append", help="fields, a preset, or 'chosen'; repeatable")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--save", type=Path)
    where.add_argument("--saved", type=Path)
    options = parser.parse_args()
    options.schedule = options.schedule or [CHOSEN]
    folder = options.save or options.saved or Path("weights-kernels")
    if options.saved is None:
        folder.mkdir(parents=True, exist_ok=True)
        save(options, folder)
    if options.save is None:
        time_saved(folder, options.rounds, options.seed)


if __name__ == "__main__":
    main()
