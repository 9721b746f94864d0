"""A, B and the epilogue's operands as float64 arrays for the reference, checked against the spec."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.epilogue.operands import Operand, OperandKind
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import SCALES, ZEROS
from lowtide.elements import element_type
from lowtide.errors import SpecError
from lowtide.runtime.dtypes import multiplied, split
from lowtide.runtime.weights import unpack_weights, zero_points
from lowtide.words import APART


def matrices_of(
    spec: GemmSpec, a: np.ndarray, b: np.ndarray, operands: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """A as (M, K) and B as (K, N), float64, checked against the spec; packed weights as their scaled values."""
    for name, array, expected in (("a", a, spec.a_shape), ("b", b, spec.b_shape)):
        fits = array.ndim == len(expected) and all(
            want in (None, have) for want, have in zip(expected, array.shape, strict=True)
        )
        if not fits:
            raise SpecError(
                f"{name} has shape {array.shape}; layout {spec.layout} wants {_shape_text(expected)} [reference-shape]"
            )
    b = np.reshape(b, (2 * b.shape[1], b.shape[2])) if spec.pairs == APART else b
    left = multiplied(np.asarray(a).astype(numpy_dtype(spec.a)).astype(np.float64), spec.a)
    if spec.is_mixed:
        right = _weights(spec, b, operands)
    else:
        right = multiplied(np.asarray(b).astype(numpy_dtype(spec.b)).astype(np.float64), spec.b)
    if spec.decomposition is not None:
        left, right = split(left, spec.decomposition), split(right, spec.decomposition)
    left = left if spec.layout in ("tn", "tt") else left.T
    right = right.T if spec.layout in ("tn", "nn") else right
    if spec.pairs is not None and right.shape[1] % 2:
        raise SpecError(f"b has {right.shape[1]} rows; pairs of columns need an even number [reference-pairs]")
    if left.shape[1] != right.shape[0]:
        raise SpecError(
            f"a says K = {left.shape[1]}, b says {right.shape[0]} (layout {spec.layout}); they must agree [reference-k]"
        )
    return left, right


def _weights(spec: GemmSpec, packed: np.ndarray, operands: Mapping[str, Any]) -> np.ndarray:
    """Packed weights as float64 (N, K), minus their zero points, times their scales."""
    weights = unpack_weights(np.asarray(packed).astype(np.uint8), spec.b).astype(np.float64)
    if spec.group is None:
        return weights
    wanted = (weights.shape[1] // spec.group, weights.shape[0])
    for name in (SCALES, ZEROS):
        if name in operands and np.shape(operands[name]) != wanted:
            raise SpecError(
                f"{name} has shape {np.shape(operands[name])}; groups of {spec.group} of weights {weights.shape} want "
                f"{_shape_text(wanted)} [reference-weights]"
            )
    if ZEROS in operands:
        weights -= np.repeat(zero_points(operands[ZEROS], spec.b), spec.group, axis=0).T
    if SCALES not in operands:
        return weights
    scales = np.asarray(operands[SCALES]).astype(numpy_dtype(spec.scales or spec.a)).astype(np.float64)
    return weights * np.repeat(scales, spec.group, axis=0).T


def operands_of(spec: GemmSpec, given: Mapping[str, Any], m: int, n: int) -> list[np.ndarray]:
    """The epilogue's operands in order, in float64. Each broadcasts to (M, N)."""
    names = [operand.name for operand in spec.operands]
    if {*given} - {result.name for result in spec.results} != {*names}:
        raise SpecError(
            f"epilogue operands given: {sorted(given)}; the epilogue takes {sorted(names)} [reference-operands]"
        )
    taken = spec.epilogue_graph.operands
    return [_operand(spec, operand, np.asarray(given[operand.name]), m, n) for operand in taken]


def _operand(spec: GemmSpec, operand: Operand, value: np.ndarray, m: int, n: int) -> np.ndarray:
    is_turned = operand.kind is OperandKind.FULL and spec.d_order == "column"
    expected = operand.shape(m, n)[::-1] if is_turned else operand.shape(m, n)
    if value.shape != expected:
        raise SpecError(
            f"operand {operand.name!r} has shape {value.shape}; {operand.kind.value} wants {_shape_text(expected)}"
            " [reference-operand]"
        )
    exact = value.astype(numpy_dtype(operand.dtype)).astype(np.float64)
    if is_turned:
        return exact.T
    return exact[:, None] if operand.kind in (OperandKind.PER_ROW, OperandKind.TARGET) else exact


def scaled(
    spec: GemmSpec, given: Mapping[str, Any], left: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | float]:
    """A (M, K) and B (K, N) multiplied by the scales of their blocks, and the possible loss of sums if the product of
    two scales is not a normal f32.

    The kernel rounds that product before the sum of a block is multiplied by it. If it overflows there is no bound; if
    it is below the normal numbers, half the smallest number may be lost.
    """
    if spec.block_scales is None:
        return left, right, 0.0
    (m, k), n = left.shape, right.shape[1]
    scales = []
    for operand in spec.block_scales.operands:
        value = np.asarray(given.get(operand.name))
        if value.shape != operand.shape(m, n, k):
            raise SpecError(
                f"operand {operand.name!r} has shape {value.shape}; {operand.kind.value} wants "
                f"{_shape_text(operand.shape(m, n, k))} [reference-scales]"
            )
        scales.append(value.astype(numpy_dtype(operand.dtype)).astype(np.float64))
    of_a = scales[0].T if spec.block_scales.a[0] == 1 else np.repeat(scales[0], spec.block_scales.a[0], axis=0)[:m]
    of_b = scales[1].T if spec.block_scales.b[0] == 1 else np.repeat(scales[1], spec.block_scales.b[0], axis=0)[:n]
    row, blocks = element_type(spec.sums), of_a.shape[1]
    lost = np.zeros((m, n))
    with np.errstate(all="ignore"):
        for block in range(blocks):
            inside = slice(block * spec.block_scales.a[1], (block + 1) * spec.block_scales.a[1])
            product = np.abs(of_a[:, block, None] * of_b[None, :, block])
            size = magnitudes(left[:, inside]) @ magnitudes(right[inside])
            lost += np.where(product > row.largest, np.inf, 0.0)
            lost += np.where((product > 0) & (product < row.smallest / row.spacing), row.smallest / 2 * size, 0.0)
        left = left * np.repeat(of_a, spec.block_scales.a[1], axis=1)[:, :k]
        right = right * np.repeat(of_b, spec.block_scales.b[1], axis=1)[:, :k].T
    return left, right, lost


def _shape_text(shape: tuple[int | None, ...]) -> str:
    words = ["any" if extent is None else str(extent) for extent in shape]
    return f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})"


def magnitudes(matrix: np.ndarray) -> np.ndarray:
    """The magnitudes, with 0 for infinities and NaN."""
    return np.where(np.isfinite(matrix), np.abs(matrix), 0.0)
