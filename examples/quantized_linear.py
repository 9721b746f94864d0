"""A linear layer in bytes, run on the interpreter: u8 activations with zero points, s8 weights, D requantized to u8.

    python examples/quantized_linear.py

x ≈ scale_x · (a − zero_x) with one pair per row of A, and w ≈ scale_w · b with one scale per row of B. So x · wᵀ is
scale_x · scale_w · (Σ a·b − zero_x · Σ b). The second sum depends on B only and is computed once, with the weights. The
kernel adds bytes in s32, exactly; its epilogue subtracts the zero points, also exactly, and then computes in f32.
"""

import numpy as np

import lowtide as lt

M, N, K = 70, 48, 96
ZERO_OF_D, SCALE_OF_D = 16.0, 0.15


Zeros, Sums = lt.PerRow["s32"], lt.PerColumn["s32"]
ScalesOfX, ScalesOfW = lt.PerRow["f32"], lt.PerColumn["f32"]


def requantize(acc, zero: Zeros, sums: Sums, of_x: ScalesOfX, of_w: ScalesOfW):
    real = (acc - zero * sums) * of_x * of_w
    return lt.maximum(real, 0.0) * (1 / SCALE_OF_D) + ZERO_OF_D


def quantize(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows as bytes, with x ≈ scale · (bytes − zero) for each row."""
    low, high = x.min(axis=1).clip(max=0), x.max(axis=1).clip(min=0)
    scale = ((high - low) / 255).astype(np.float32)
    zero = np.rint(-low / scale).astype(np.int32)
    return np.rint(x / scale[:, None] + zero[:, None]).clip(0, 255).astype(np.uint8), zero, scale


def main() -> None:
    spec = lt.GemmSpec(m=None, n=N, k=K, a="u8", b="s8", d="u8", acc="s32", epilogue=requantize)
    kernel = lt.compile_gemm(
        spec, target="sm_80", schedule="grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 3"
    )

    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((M, K)), rng.standard_normal((N, K))
    a, zero, of_x = quantize(x)
    of_w = (np.abs(w).max(axis=1) / 127).astype(np.float32)
    b = np.rint(w / of_w[:, None]).astype(np.int8)
    inputs = {"a": a, "b": b, "zero": zero, "sums": b.sum(axis=1, dtype=np.int32), "of_x": of_x, "of_w": of_w}

    reference, bound = lt.reference_with_bound(spec, **inputs)
    for level in ("problem", "epilogue", "ptx"):
        d = kernel.interpret(**inputs, level=level)
        outcome = lt.compare(spec, d, reference, bound)
        print(f"{M}×{N}×{K}, level {level}: {outcome.message}")
        assert outcome.ok
    wanted = np.maximum(x @ w.T, 0)
    wrong = np.abs(SCALE_OF_D * (d.astype(np.float64) - ZERO_OF_D) - wanted)[wanted < 239 * SCALE_OF_D]
    print(f"of the layer in float64: at most {wrong.max():.3f}; one step of D is {SCALE_OF_D}")


if __name__ == "__main__":
    main()
