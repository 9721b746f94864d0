"""The gradients of a layer of experts, run on the interpreter and compared with a loop over experts in float64.

    python examples/expert_gradients.py

Each expert has two matrices of weights and computes y = relu(x · up) · down for its rows x. The rows are sorted by
expert. Products with weights have groups of rows. The gradients of weights have groups of K, because they are sums over
the rows of each expert. All six products take the same `ends`, which only the device reads. One expert has no rows: its
gradients are 0.
"""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import lowtide as lt

EXPERTS, ROWS, WIDTH, HIDDEN = 4, 100, 32, 48
COUNTS = (37, 0, 1, 50)  # rows of each expert; the last 12 rows belong to none
TYPES = {"a": "bf16", "b": "bf16", "d": "bf16"}
BF16 = ml_dtypes.bfloat16
Array = NDArray[np.generic]


def products(target: str = "sm_90a") -> dict[str, Any]:
    """A kernel for each form of product; one serves all extents."""
    specs = {
        "rows": lt.GemmSpec(groups=None, layout="tt", **TYPES),  # by B (K, N)
        "rows of the transpose": lt.GemmSpec(groups=None, layout="tn", **TYPES),  # by B (N, K)
        "weights": lt.GemmSpec(groups=lt.Groups(axis="k"), layout="nt", **(TYPES | {"d": "f32"})),
    }
    return {name: lt.compile_gemm(spec, target, "grid.tile = [64, 32], k = 32") for name, spec in specs.items()}


def by_kernels(x: Array, up: Array, down: Array, dy: Array, ends: Array) -> dict[str, Array]:
    """The output and the gradients. Rows of no expert keep the zeros of their arrays."""
    kernels = products()

    def times(form: str, a: Array, b: Array, columns: int) -> Array:
        out = np.zeros((ROWS, columns), BF16)
        return kernels[form].interpret(a=a, b=b, ends=ends, out=out, level="ptx")

    hidden = times("rows", x, up, HIDDEN)
    active = np.maximum(hidden, BF16(0))
    dz = np.where(hidden > 0, times("rows of the transpose", dy, down, HIDDEN), BF16(0))
    return {
        "y": times("rows", active, down, WIDTH),
        "dx": times("rows of the transpose", dz, up, WIDTH),
        "d up": kernels["weights"].interpret(a=x, b=dz, ends=ends, level="ptx"),
        "d down": kernels["weights"].interpret(a=active, b=dy, ends=ends, level="ptx"),
    }


def by_a_loop(x: Array, up: Array, down: Array, dy: Array, ends: Array) -> dict[str, Array]:
    """The same in float64, expert by expert."""
    x, up, down, dy = (each.astype(np.float64) for each in (x, up, down, dy))
    found = {"y": np.zeros_like(x), "dx": np.zeros_like(x), "d up": np.zeros_like(up), "d down": np.zeros_like(down)}
    for expert, (first, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        rows = slice(first, end)
        hidden = x[rows] @ up[expert]
        dz = np.where(hidden > 0, dy[rows] @ down[expert].T, 0)
        found["y"][rows], found["dx"][rows] = np.maximum(hidden, 0) @ down[expert], dz @ up[expert].T
        found["d up"][expert], found["d down"][expert] = x[rows].T @ dz, np.maximum(hidden, 0).T @ dy[rows]
    return found


def main() -> None:
    rng = np.random.default_rng(0)
    shapes = {"x": (ROWS, WIDTH), "up": (EXPERTS, WIDTH, HIDDEN), "down": (EXPERTS, HIDDEN, WIDTH), "dy": (ROWS, WIDTH)}
    given = {name: (rng.standard_normal(shape) / 4).astype(BF16) for name, shape in shapes.items()}
    given["ends"] = np.cumsum(COUNTS, dtype=np.int32)
    computed = by_kernels(**given)
    for name, expected in by_a_loop(**given).items():
        found = computed[name].astype(np.float64)
        error = np.abs(found - expected).max() / np.abs(expected).max()
        print(f"{name} {found.shape}: the largest error is {error:.1e} of the largest element")
        assert error < 2**-6  # two roundings to bf16, and sums of rounded values
    assert not found[1].any()


if __name__ == "__main__":
    main()
