"""One GEMM on the GPU compared with float64: padded operands, a poisoned D, and guards around D."""

import numpy as np

import lowtide as lt
from lowtide.elements import element_type
from lowtide.verification.checking.conditions import least_steps

try:
    import torch
except ImportError:
    torch = None

GUARD_ROWS = 8  # above and below D


def torch_dtype(name: str) -> "torch.dtype":
    return getattr(torch, element_type(name).library)


def padded(values: np.ndarray, dtype: str, pad: int) -> "torch.Tensor":
    """A matrix on the GPU with `pad` more elements after each row; the padding is NaN."""
    rows, columns = values.shape
    whole = torch.full((rows, columns + pad), float("nan"), device="cuda", dtype=torch_dtype(dtype))
    whole[:, :columns] = torch.from_numpy(values.astype(np.float64)).to("cuda", torch_dtype(dtype))
    return whole[:, :columns]


def aligned_pad(columns: int, itemsize: int, extra: int) -> int:
    """Padding that makes rows multiples of 16 bytes, and `extra` such units more."""
    vector = 16 // itemsize
    return -columns % vector + vector * extra


def operand_dtype(spec: lt.GemmSpec, name: str) -> str:
    named = {"a": spec.a, "b": spec.b, **{operand.name: operand.dtype for operand in spec.operands}}
    return named[name]


def on_gpu(
    spec: lt.GemmSpec, name: str, value: np.ndarray | float, rng: np.random.Generator, by_tma: bool = False
) -> "torch.Tensor | float":
    """One input of `lt.random_inputs`: A and B with rows of whole 16-byte units; full operands too if the kernel loads
    them `by_tma`, otherwise with rows of any."""
    if not isinstance(value, np.ndarray):
        return float(value)
    dtype = operand_dtype(spec, name)
    if value.ndim == 1:
        return torch.from_numpy(value.astype(np.float64)).to("cuda", torch_dtype(dtype))
    if by_tma or name in ("a", "b"):
        return padded(value, dtype, aligned_pad(value.shape[1], element_type(dtype).bytes, int(rng.integers(0, 3))))
    return padded(value, dtype, int(rng.integers(0, 4)))


def least_k(schedule: lt.Schedule) -> int:
    """The least K that a kernel of this schedule takes: parts that add shares of the columns need a K step each; those
    of split-K may be empty."""
    return max(1, least_steps(schedule) * schedule.mainloop.k)


def bits_of(matrix: "torch.Tensor") -> "torch.Tensor":
    """The same memory as integers: two NaNs of different bits differ."""
    return matrix.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[matrix.element_size()])


def check(spec: lt.GemmSpec, kernel: object, size: tuple[int, int, int], rng: np.random.Generator) -> None:
    """Launch on fresh random inputs of size (M, N, K); every element within its bound, nothing else of D's written."""
    m, n, k = size
    inputs = lt.random_inputs(spec, m, n, k, rng)
    by_tma = "path = tma" in str(kernel.schedule)
    operands = {name: on_gpu(spec, name, value, rng, by_tma) for name, value in inputs.items()}
    pad = aligned_pad(n, element_type(spec.d).bytes, int(rng.integers(1, 3)))
    # Poisoned: an element that is left out is NaN, as the padding is.
    whole = torch.full((m + 2 * GUARD_ROWS, n + pad), float("nan"), device="cuda", dtype=torch_dtype(spec.d))
    out = whole[GUARD_ROWS : GUARD_ROWS + m, :n]
    around = bits_of(whole).clone()
    result = kernel(operands.pop("a"), operands.pop("b"), out=out, **operands)
    torch.cuda.synchronize()
    what = f"{spec.layout} {size} {kernel.schedule}"
    assert result.data_ptr() == out.data_ptr()
    comparison = lt.compare(spec, out.double().cpu().numpy(), *lt.reference_with_bound(spec, **inputs))
    assert comparison.ok, f"{what}: {comparison.message}"
    out.fill_(float("nan"))
    assert torch.equal(bits_of(whole), around), f"wrote outside of D: {what}"


def random_matrix(rows: int, columns: int, dtype: str = "bf16", padding: int = 0) -> "torch.Tensor":
    """Random normal values on the GPU; rows padded to 16 bytes and by `padding` units of 16 bytes."""
    pad = aligned_pad(columns, element_type(dtype).bytes, padding)
    return torch.randn(rows, columns + pad, device="cuda").to(torch_dtype(dtype))[:, :columns]


def assert_product(d: "torch.Tensor", a: "torch.Tensor", b: "torch.Tensor") -> None:
    """D (M, N) is A (M, K) times the transpose of B (N, K), in float64 on the GPU.

    Within n = K + ⌈K/16⌉ + 2 roundings of 2⁻²³, as `lt.error_bound` has it, and one to D's type.
    """
    k = a.shape[1]
    roundings = (k + -(-k // 16) + 2) * 2.0**-23
    exact = a.double() @ b.double().T
    bound = a.double().abs() @ b.double().abs().T * (roundings / (1 - roundings))
    unit = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}[d.dtype]
    bound = bound + (exact.abs() + bound) * unit + 2.0**-24
    wrong = ~((d.double() - exact).abs() <= bound)
    assert not bool(wrong.any()), f"{int(wrong.sum())} of {d.numel()} elements out of bound, first {first(wrong)}"


def first(wrong: "torch.Tensor") -> list[int]:
    return wrong.nonzero()[0].tolist()
