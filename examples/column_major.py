"""D in column-major order: D and its full operands are arrays of (N, M), last dimension contiguous.

    python examples/column_major.py

The kernel computes the transpose, Dᵀ = Bᵀ · Aᵀ, which is row-major: A and B change places, and no element moves.
"""

import numpy as np

import lowtide as lt

M, N, K = 40, 72, 48


def add_bias(acc, c: lt.Full, bias: lt.PerColumn):
    return acc + c + bias


def main() -> None:
    spec = lt.GemmSpec(a="f16", b="f16", d="f16", layout="tt", d_order="column", epilogue=add_bias)
    kernel = lt.compile_gemm(spec, target="sm_90a")
    print(f"grid.operands = {kernel.schedule.grid.operands}")
    print(next(line.strip() for line in kernel.levels["problem"].splitlines() if "tile.gemm" in line))

    rng = np.random.default_rng(0)
    a, b, c, bias = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((M, K), (K, N), (N, M), (N,)))
    d = kernel.interpret(a, b, c=c, bias=bias)  # bias still has length N, an element for each column of D
    assert d.shape == (N, M)
    np.testing.assert_array_equal(d.T, a @ b + c.T + bias)
    print(f"d {d.shape} is (a @ b + c.T + bias).T")


if __name__ == "__main__":
    main()
