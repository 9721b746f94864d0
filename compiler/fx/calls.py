"""The kernel call that replaces a fusion, as shapes and strides: the schedule is chosen and tuned for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.epilogue.text import TextEpilogue
from lowtide.compiler.fx.fusion import Fusion
from lowtide.compiler.fx.products import Product
from lowtide.compiler.fx.values import Value, expected, is_one
from lowtide.compiler.matmul.arrangement import arrange
from lowtide.compiler.matmul.family import family_of
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import UNGROUPED
from lowtide.runtime.operands import Operand
from lowtide.words import APART


@dataclass(frozen=True)
class Call:
    """The arguments of `lt.matmul`, without addresses. `operands`: by name, each with its kind."""

    a: Operand
    b: Operand
    d: Operand
    operands: tuple[tuple[str, str, Operand], ...]
    epilogue: str

    def spec(self, numerics: str, target: str) -> GemmSpec:
        """The problem that `lt.tune` tunes for this call. Raises LaunchError, SpecError."""
        operands = {name: (kind, operand) for name, kind, operand in self.operands}
        product, _ = arrange(self.a, self.b, self.d, operands)
        epilogue = TextEpilogue(self.epilogue) if self.epilogue else None
        return family_of(product, Options(numerics), target).example(epilogue, product.m)


def call_of(fusion: Fusion, epilogue: str) -> Call | None:
    """The call, with each run-time size as in the first call; None if a size is unknown."""
    product = fusion.product
    a, b = _lying(product.a_value), _lying(product.b_value)
    shape = _extents(product.value.shape)
    if a is None or b is None or shape is None:
        return None
    shapes = {OperandKind.FULL: shape, OperandKind.PER_ROW: shape[:-1], OperandKind.PER_COLUMN: shape[-1:]}
    operands = [(leaf.name, leaf.kind.value, _contiguous(shapes[leaf.kind], leaf.dtype)) for leaf in fusion.leaves]
    return Call(a, b, _contiguous(shape, fusion.d), tuple(operands), epilogue)


def _lying(value: Value) -> Operand | None:
    shape, strides = _extents(value.shape), _extents(value.strides)
    if shape is None or strides is None or value.dtype is None:
        return None
    return Operand(0, shape, strides, value.dtype, None)


def _contiguous(shape: tuple[int, ...], dtype: str) -> Operand:
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return Operand(0, shape, strides, dtype, None)


def _extents(extents: Sequence[Any]) -> tuple[int, ...] | None:
    found = [expected(extent) for extent in extents]
    return None if None in found else tuple(extent for extent in found if extent is not None)


def spec_of(product: Product, epilogue: str, of_two: bool = False) -> GemmSpec:
    """The problem of a product, or of one of groups of rows, with several results or pairs of columns. `of_two`: it
    is one of two products. Raises SpecError if it is not supported."""
    text, dtype, n = TextEpilogue(epilogue), product.a_value.dtype, product.value.shape[-1]
    assert dtype is not None
    pairs: dict[str, Any] = {"pairs": APART if of_two else "stacked"} if text.sums > 1 else {}
    return GemmSpec(
        m=None,
        n=n // (1 if of_two else text.sums) if isinstance(n, int) else None,
        a=dtype,
        b=dtype,
        d=dtype,
        layout="tn" if is_one(product.b_value.strides[-2]) else "tt",
        groups=None if product.form.grouped else UNGROUPED,
        epilogue=text,
        result_types=text.result_types,
        **pairs,
    )
