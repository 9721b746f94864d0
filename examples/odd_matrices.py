"""Matrices that lie anywhere, run on the interpreter: one behind the other, with rows of an odd number of elements.

    python examples/odd_matrices.py

TMA reads rows that begin at multiples of 16 bytes. With `pack = rows`, which is chosen here since extents are open, the
host function tests base and row stride of each matrix at the launch. Where they are not aligned, a small kernel copies
the matrix to a workspace with aligned rows first; D is copied out afterwards. Where they are, nothing else is launched.
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
