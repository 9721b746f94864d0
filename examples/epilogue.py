"""A GEMM with a custom epilogue, run on the interpreter and compared with float64.

    python examples/epilogue.py

The epilogue is a Python function of the accumulator and of named operands. It becomes the region of `tile.gemm`, and
stays one region at every level; no pass has code for a specific epilogue.
"""

import numpy as np

import lowtide as lt


def scaled_residual(acc, c: lt.Full, bias: lt.PerColumn, alpha: lt.Scalar):
    return lt.relu(alpha * acc + 0.5 * c + bias)


def main() -> None:
    spec = lt.GemmSpec(m=None, n=None, k=None, a="bf16", b="bf16", d="bf16", epilogue=scaled_residual)
    kernel = lt.compile_gemm(spec, target="sm_80", schedule="grid.tile = [64, 64], k = 32, stages = 3")
    print(kernel.levels["problem"])

    # Ragged extents, rows padded by 8 elements: the padding holds NaN, so reading it gives a wrong result.
    inputs = lt.random_inputs(spec, 100, 72, 40, np.random.default_rng(0), row_padding=8)
    reference, bound = lt.reference_with_bound(spec, **inputs)
    for level in ("cta", "atoms", "nvvm"):
        outcome = lt.compare(spec, kernel.interpret(**inputs, level=level), reference, bound)
        print(f"level {level}: {outcome.message}")
        assert outcome.ok


if __name__ == "__main__":
    main()
