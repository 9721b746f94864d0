"""A product with exact sums in any order and for any division of K: D must equal it, element by element.

A and B hold −1, 0 and 1. The sums are integers, and the magnitude of a partial sum is at most the number of products
other than 0. That number is kept below the largest integer up to which the types of the accumulator and of D hold all
integers: A and B are so sparse that it is a quarter of that on average. (It is binomial: by Chernoff's bound one
element in 10⁷⁰ would exceed the limit of bf16, 256, the smallest of all.) So no rounding occurs, and a product too
many, too few or of another row is found, which `gpu_timing.tolerance` cannot promise for long sums in f16.
"""

import math
from dataclasses import dataclass
from typing import Any

from lowtide.compiler.spec import GemmSpec
from lowtide.elements import element_type, exact_sums
from lowtide.measurement.bench.gpu_timing import Contender, Operands, torch_with_gpu, unwritten, unwritten_d


@dataclass(frozen=True)
class ExactProduct:
    """One set of operands and the exact D."""

    operands: Operands
    expected: Any


def density(dtype: str, acc: str, k: int, d: str | None = None) -> float:
    """The fraction of elements of A and B other than 0. `d`: the type of D, by default that of A and B."""
    limit = min(element_type(d or dtype).exact_integers, exact_sums(dtype, acc))
    return min(1.0, math.sqrt(limit / (4 * k)))


def exact_product(spec: GemmSpec, seed: int) -> ExactProduct:
    """Random operands on the GPU, with the shapes of `operand_sets`. Raises DeviceError."""
    torch = torch_with_gpu()
    kind = getattr(torch, element_type(spec.a).library)
    generator = torch.Generator(device="cuda").manual_seed(seed)
    assert spec.k is not None
    share = density(spec.a, spec.sums, spec.k, spec.d)

    def matrix(shape: tuple[int | None, ...]) -> Any:
        uniform = torch.rand(shape, device="cuda", generator=generator)
        return ((uniform < share / 2).float() - (uniform >= 1 - share / 2).float()).to(kind)

    operands = Operands(matrix(spec.a_shape), matrix(spec.b_shape), unwritten_d(torch, spec), spec.layout)
    # f32 holds these integers exactly, and tf32 would hold −1, 0 and 1.
    return ExactProduct(operands, (operands.logical_a.float() @ operands.logical_b.float()).to(operands.d.dtype))


def exact_complaint(contender: Contender, exact: ExactProduct, index: int) -> str:
    """What is wrong with the contender's result on the exact product, which has operand set `index`; or ""."""
    torch = torch_with_gpu()
    d = exact.operands.d
    d.fill_(unwritten(d))
    contender.launch(index)
    torch.cuda.synchronize()
    wrong = d != exact.expected
    count = int(wrong.sum().item())
    if not count:
        return ""
    first = tuple(int(place) for place in wrong.nonzero()[0])
    return (
        f"{count} of {d.numel()} elements differ from exact sums of integers; the first: "
        f"d[{', '.join(map(str, first))}] = {d[first].item():g}, should be {exact.expected[first].item():g}"
    )
