"""A batch of products in one launch, run on the interpreter; some inputs are shared.

    python examples/batches.py

A, B and D have a batch as their first dimension, with any stride. Inputs without this dimension, or with stride 0 along
it, are shared by all products. The kernel works on one grid of tiles: the index of the matrix is the first coordinate
of a work item and of TMA loads.
"""

import ml_dtypes
import numpy as np

import lowtide as lt

BATCH, M, N, K = 3, 70, 48, 72


def add_bias(acc, bias: lt.PerColumn):
    return lt.relu(acc + bias)


def main() -> None:
    spec = lt.GemmSpec(batch=None, a="bf16", b="bf16", d="bf16", epilogue=add_bias)
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule="grid.tile = [64, 16], stages = 2, roles = cooperative(1)")
    print(next(line.strip() for line in kernel.levels["cta"].splitlines() if "tile.work_tiles" in line))

    rng = np.random.default_rng(0)
    shapes = {"a": (BATCH, M, K), "b": (N, K), "bias": (BATCH, N)}  # one B, one bias per product
    inputs = {name: rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for name, shape in shapes.items()}
    reference, bound = lt.reference_with_bound(spec, **inputs)
    for level in ("cta", "epilogue", "ptx"):
        outcome = lt.compare(spec, kernel.interpret(**inputs, level=level), reference, bound)
        print(f"{BATCH} of {M}×{N}×{K}, level {level}: {outcome.message}")
        assert outcome.ok


if __name__ == "__main__":
    main()
