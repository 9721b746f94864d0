"""A layer with 4-bit weights: quantized in groups of 128 of K, packed once, multiplied by bf16 activations.

    python examples/weights.py

It runs on the interpreter; on a GPU, kernel(a, packed, scales=scales) takes torch or CuPy arrays.
"""

import ml_dtypes
import numpy as np

import lowtide as lt

GROUP = 128


def quantized(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (N, K) as integers from -8 to 7, and a scale for each group of K in each row: (K / GROUP, N)."""
    n, k = weights.shape
    groups = weights.reshape(n, k // GROUP, GROUP)
    scales = np.abs(groups).max(axis=2) / 7
    integers = np.rint(groups / scales[..., None]).reshape(n, k)
    return integers.astype(np.int8), np.ascontiguousarray(scales.T, np.float32)


def main() -> None:
    m, n, k = 5, 160, 256
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k)).astype(ml_dtypes.bfloat16)
    integers, scales = quantized(rng.standard_normal((n, k)))

    spec = lt.GemmSpec(m=None, n=n, k=k, a="bf16", b="s4", d="f32", group=GROUP, scales="f32")
    kernel = lt.compile_gemm(spec)
    packed = lt.pack_weights(integers, spec)
    d = kernel.interpret(a, packed, scales=scales)

    expected, bound = lt.reference_with_bound(spec, a, packed, scales=scales)
    print(f"{packed.nbytes} bytes of weights in place of {2 * n * k}")
    print(lt.compare(spec, d, expected, bound).message)


if __name__ == "__main__":
    main()
