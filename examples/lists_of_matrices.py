"""Lists of matrices: products of matrices of any sizes, which lie anywhere in memory, in one launch.

Run on the interpreter.

    python examples/lists_of_matrices.py

Each product has its own M, N and K. The kernel takes A, B and D as lists: tables of addresses and extents, which only
the device reads. On a GPU, `lt.matrix_list` makes such a table from arrays, and `lt.grouped_matmul(xs, ws)` does all of
it. Here `interpret` puts each matrix at a place of its own.
"""

import ml_dtypes
import numpy as np

import lowtide as lt

SIZES = ((90, 24, 48), (1, 40, 8), (0, 8, 8), (33, 16, 56))  # M, N and K of each product


def main() -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="f32", batch=None, counts=True, lists="abd")
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule="grid.tile = [64, 32], stages = 2")
    print(next(line.strip() for line in kernel.levels["cta"].splitlines() if "tile.view %B" in line))

    rng = np.random.default_rng(0)
    xs, ws = (
        [rng.integers(-3, 4, (size[rows], size[2])).astype(ml_dtypes.bfloat16) for size in SIZES] for rows in (0, 1)
    )
    counts = np.array([m for m, _, _ in SIZES], np.int32)
    for level in ("problem", "pipelined", "ptx"):
        products = kernel.interpret(xs, ws, counts=counts, level=level)
        for x, w, d in zip(xs, ws, products, strict=True):
            assert np.array_equal(d, x.astype(np.float32) @ w.astype(np.float32).T)
        print(f"{level}: products of shapes {', '.join(str(d.shape) for d in products)} are right")


if __name__ == "__main__":
    main()
