"""Unaligned matrices, run on the interpreter: back to back in memory, with rows of an odd number of elements.

    python examples/odd_matrices.py

TMA needs rows that begin at multiples of 16 bytes. With `pack = rows`, which is chosen here because extents are
dynamic, the host function tests base and row stride of each matrix at launch. If they are not aligned, a small kernel
first copies the matrix to a workspace with aligned rows; D is copied out afterwards. Otherwise there is no additional
launch.
"""

import ml_dtypes
import numpy as np

import lowtide as lt


def main() -> None:
    spec = lt.GemmSpec(m=None, n=None, k=None, a="bf16", b="bf16", d="bf16")
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule="grid.tile = [128, 64], stages = 2")
    print(kernel.levels["problem"])

    rng = np.random.default_rng(0)
    for m, n, k in ((150, 72, 64), (150, 73, 67)):
        inputs = {
            name: rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
            for name, shape in (("a", (m, k)), ("b", (n, k)))
        }
        reference, bound = lt.reference_with_bound(spec, **inputs)
        for level in ("cta", "epilogue", "nvvm"):
            outcome = lt.compare(spec, kernel.interpret(**inputs, level=level), reference, bound)
            print(f"{m}×{n}×{k}, level {level}: {outcome.message}")
            assert outcome.ok


if __name__ == "__main__":
    main()
