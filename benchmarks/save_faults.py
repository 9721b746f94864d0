"""Saves mutants that the interpreter refuses for their order of accesses, for run_faults.py on a machine with a GPU.

    python benchmarks/save_faults.py FOLDER [--count 30] [--seed 7]

Faults are injected at level nvvm, in kernels with several tiles per CTA, and lowered to PTX. The kernels without a
fault are saved too; they must be right.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from lowtide.compiler.driver import Lowered, lower
from lowtide.compiler.kernel import CompiledKernel
from lowtide.runtime import storage
from lowtide.verification.mutation.kernels import KERNELS
from lowtide.verification.mutation.operators import OPERATORS
from lowtide.verification.mutation.operators.operator import Kind
from lowtide.verification.mutation.run import Result, Status, judge
from lowtide.verification.mutation.sites import Mutant, sites

LEVEL = "nvvm"
NAMES = (
    "sm80-persistent",
    "sm80-filled-ring",
    "sm80-smem-epilogue",
    "sm80-sliced-k",
    "sm90-tma-wgmma",
    "sm90-producer-consumer",
    "sm90-two-consumers",
    "sm90-smem-epilogue",
    "sm90-tma-stores",
    "sm90-split-k",
    "sm90-cluster-2x1",
    "sm90-pingpong",
)


def found(originals: dict[str, Lowered], seed: int) -> Iterator[Result]:
    """Mutants that the interpreter kills, least used operators and kernels first."""
    used: Counter[str] = Counter()
    left = [
        (name, operator, place)
        for name in NAMES
        for operator in OPERATORS
        if operator.kind is Kind.ORDER and LEVEL in operator.levels
        for place in sites(operator, originals[name].levels[LEVEL])
    ]
    random.Random(seed).shuffle(left)
    while left:
        left.sort(key=lambda one: (used[one[1].name], used[one[0]]))
        name, operator, place = left.pop(0)
        text = operator.edit(originals[name].levels[LEVEL], place)
        if text is None:
            continue
        mutant = Mutant(operator.name, name, LEVEL, operator.name, operator.kind.value, text)
        result = judge(KERNELS[name], mutant, originals[name])
        if result.status is Status.KILLED and result.detector.startswith("interpreter: "):
            used.update((name, operator.name))
            yield result


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    originals = {name: lower(KERNELS[name].problem()) for name in NAMES}
    cases = []

    def save(lowered: Lowered, name: str, fault: str = "", rule: str = "") -> None:
        kernel = CompiledKernel(lowered)
        cases.append({"folder": f"case-{len(cases)}", "kernel": name, "fault": fault, "rule": rule})
        storage.save(options.folder / cases[-1]["folder"], kernel.manifest, kernel.ptx, None)

    for name, original in originals.items():
        save(original, name)
    for result in islice(found(originals, options.seed), options.count):
        mutant = result.mutant
        save(lower(mutant.text), mutant.kernel, mutant.operator, result.detector.removeprefix("interpreter: "))
    (options.folder / "cases.json").write_text(json.dumps(cases, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
