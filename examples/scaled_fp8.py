"""8-bit floats with scales, one for each row of A and of B, as for quantized weights and activations.

Each row is divided by its largest magnitude over that of the type, so that it uses the type's whole range; the epilogue
multiplies the sums by the scales. With acc="f32", sums of 128 products are added in f32, because tensor cores keep few
bits of longer sums; acc="fast" omits that. On a GPU, operands are torch tensors of torch.float8_e4m3fn.
"""

import ml_dtypes
import numpy as np

import lowtide as lt
from lowtide.elements import element_type


def by_rows(acc, scale_a: lt.PerRow["f32"], scale_b: lt.PerColumn["f32"]):  # noqa: F821
    return acc * scale_a * scale_b


def quantized(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix in e4m3 and the scale of each of its rows."""
    scales = np.abs(matrix).max(axis=1) / element_type("e4m3").largest
    return (matrix / scales[:, None]).astype(ml_dtypes.float8_e4m3fn), scales.astype(np.float32)


def main() -> None:
    spec = lt.GemmSpec(m=None, n=None, k=None, a="e4m3", b="e4m3", d="bf16", epilogue=by_rows)
    kernel = lt.compile_gemm(spec, target="sm_90a")
    rng = np.random.default_rng(0)
    exact_a, exact_b = rng.standard_normal((160, 512)), rng.standard_normal((96, 512))
    (a, scale_a), (b, scale_b) = quantized(exact_a), quantized(exact_b)
    d = kernel.interpret(a, b, scale_a=scale_a, scale_b=scale_b)
    product = exact_a @ exact_b.T
    error = np.linalg.norm(d.astype(np.float64) - product) / np.linalg.norm(product)
    print(f"relative error of the product, mostly from rounding A and B to e4m3: {error:.3f}")
    inputs = {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b}
    found = lt.compare(spec, d, *lt.reference_with_bound(spec, **inputs))
    print(found.message)
    assert found.ok and error < 0.05


if __name__ == "__main__":
    main()
