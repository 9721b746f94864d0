"""torch's products: matmul, bmm for a batch, _scaled_mm for 8-bit floats, _int_mm for bytes.

Sums have the requested type if torch has a setting for it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lowtide.elements import ELEMENTS, element_type
from lowtide.errors import DeviceError
from lowtide.measurement.bench.gpu_timing import Contender, Operands

_Multiply = Callable[[Operands, bool], object]
"""Multiplies operands; the flag allows sums that are less precise than their type."""


@dataclass(frozen=True)
class Product:
    """A function of torch. `d`: the types that D may have, the first by default; empty: that of A and B. `layouts`:
    those it supports without a copy. `by_cublaslt`: whether cuBLASLt's algorithms race beside it."""

    name: str
    multiply: Callable[[Any], _Multiply]
    d: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ("tn", "tt", "nn", "nt")
    by_cublaslt: bool = True


def _matmul(torch: Any) -> _Multiply:
    return lambda one, is_fast: torch.matmul(one.logical_a, one.logical_b, out=one.d)


def _bmm(torch: Any) -> _Multiply:
    return lambda one, is_fast: torch.bmm(one.logical_a, one.logical_b, out=one.d)


def _scaled(torch: Any) -> _Multiply:
    unit = torch.ones((), device="cuda")

    def multiply(one: Operands, is_fast: bool) -> None:
        scales = {"scale_a": unit, "scale_b": unit}
        options = {"out_dtype": one.d.dtype, "use_fast_accum": is_fast, "out": one.d}
        torch._scaled_mm(one.logical_a, one.logical_b, **scales, **options)

    return multiply


def _integers(torch: Any) -> _Multiply:
    return lambda one, is_fast: torch._int_mm(one.logical_a, one.logical_b, out=one.d)


MATMUL = Product("torch.matmul", _matmul)
BMM = Product("torch.bmm", _bmm, by_cublaslt=False)
SCALED = Product("torch._scaled_mm", _scaled, ("bf16", "f16", "f32"), ("tn",))
INTEGERS = Product("torch._int_mm", _integers, ("s32",), ("tn",))


def product_of(dtype: str, *, batched: bool = False) -> Product:
    """torch's product for operands of a type."""
    row = element_type(dtype)
    if batched:
        return BMM
    if not row.is_float:
        return INTEGERS
    if row.bits == 8:
        return SCALED
    if row.storage is not None:  # matmul with the setting that truncates the stored type
        return Product(MATMUL.name, _matmul, (row.computes_in,))
    return MATMUL


def check_sums(torch: Any, dtype: str, acc: str) -> None:
    """Raise DeviceError if torch does not sum products of `dtype` in `acc`."""
    if acc == element_type(dtype).computes_in or product_of(dtype) is INTEGERS:
        return
    setting = element_type(acc).torch_sums
    if setting is None or not hasattr(torch.backends.cuda.matmul, setting):
        raise DeviceError(
            f"torch {torch.__version__} has no setting to sum products of {dtype} in {acc}"
            + (f" (torch.backends.cuda.matmul.{setting}, of torch 2.7 and later)" if setting else "")
            + f"; time sums in {element_type(dtype).computes_in} [torch-sums]"
        )


def torch_product(
    torch: Any, sets: Sequence[Operands], dtype: str, acc: str, *, batched: bool = False, is_fast: bool = False
) -> Contender:
    """The contender: D = A · B of set i, summed in `acc`."""
    product = product_of(dtype, batched=batched)
    multiply, settings = product.multiply(torch), _settings(dtype, acc)

    def launch(i: int) -> None:
        with _set(torch.backends.cuda.matmul, settings):
            multiply(sets[i], is_fast)

    return Contender(product.name, launch)


def with_exact_parts(torch: Any, contender: Contender) -> Contender:
    """The contender without reduced-precision reductions. By default, torch may divide K into parts, and round the sum
    of each to the type of D before it adds them."""
    settings = {f"allow_{dtype}_reduced_precision_reduction": False for dtype in ("bf16", "fp16")}

    def launch(i: int) -> None:
        with _set(torch.backends.cuda.matmul, settings):
            contender.launch(i)

    return Contender(contender.name, launch)


def _settings(dtype: str, acc: str) -> Mapping[str, bool]:
    """torch's settings for the type of the sums; for f32, whether products are of tf32."""
    sums = {row.torch_sums: row.name == acc for row in ELEMENTS.values() if row.torch_sums is not None}
    return MappingProxyType({**sums, "allow_tf32": element_type(dtype).storage is not None})


@contextmanager
def _set(settings: Any, wanted: Mapping[str, bool]) -> Iterator[None]:
    """Apply the settings that this torch has; restore them afterwards."""
    before = {setting: getattr(settings, setting) for setting in wanted if hasattr(settings, setting)}
    for setting in before:
        setattr(settings, setting, wanted[setting])
    try:
        yield
    finally:
        for setting, value in before.items():
            setattr(settings, setting, value)
