"""Packed weights: the bytes that a kernel of mixed types reads in place of B, and how to make them.

Weights are a matrix (N, K), or one for each group of rows. Each row is cut into blocks of 32 of K. In a block, k is at
byte

    8 · t + 4 · s + 2 · h + i    with k = 16 · s + 8 · i + 2 · t + h,   t < 4, s, i, h < 2

so that thread t of the four that hold a row of mma.m16n8k16's B (PTX ISA, "Matrix Fragments for mma.m16n8k16") finds
the bytes for two of them side by side. Weights of 8 bits take a byte each. For 4 bits, the low half of a byte in row 8
· q + r, r < 8, belongs to row 16 · q + r, and the high half to row 16 · q + r + 8. Signed weights are stored with the
sign bit inverted: as the unsigned number that is larger by 128, or by 8. Floats, e4m3, are stored as their bits; a NaN
byte is read as 480 or −480, the number that its bits denote in a type without NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowtide.elements import WEIGHT_BLOCK, WEIGHT_ROWS, ElementType, element_type, weight_types
from lowtide.errors import SpecError
from lowtide.keywords import check_keywords
from lowtide.runtime.dtypes import round_to, to_bits


def weight_order() -> np.ndarray:
    """The k of a block at each of its bytes: (32,)."""
    t, s, h, i = (axis.reshape(-1) for axis in np.indices((4, 2, 2, 2)))
    return np.asarray(16 * s + 8 * i + 2 * t + h)


@check_keywords
def pack_weights(weights: Any, of: Any) -> np.ndarray:
    """The bytes of weights (N, K) in the form that kernels take for B: uint8, (N, K), or (N / 2, K) for 4 bits. The
    weights of groups of rows are (groups, N, K); so are their bytes.

    `of`: a GemmSpec with packed weights, or their type: "s8", "u8", "s4" or "u4" for integers, "e4m3" for floats of
    any type whose values e4m3 holds exactly. Rows, 16 at a time, and parts of K that are multiples of 32 may be packed
    separately: their bytes are adjacent.

    Raises SpecError for another type, weights outside of the type, a K that is not a multiple of 32, or for 4 bits an
    N that is not a multiple of 16.
    """
    dtype = getattr(of, "b", of)
    if dtype not in weight_types():
        raise SpecError(f"weights of {dtype!r}: they are one of {', '.join(weight_types())} [weight-type]")
    row, values = element_type(dtype), np.asarray(weights)
    if values.ndim not in (2, 3) or _is_integer(values.dtype) == row.is_float:
        raise SpecError(
            f"weights of {dtype} are a matrix (N, K), or one for each group, of "
            f"{'floats' if row.is_float else 'integers'}, not {values.dtype} of shape {values.shape}: quantize them"
            " [weight-values]"
        )
    *groups, n, k = values.shape
    if k % WEIGHT_BLOCK:
        raise SpecError(
            f"K of the weights is {k}, must be a multiple of {WEIGHT_BLOCK}: pad them, and A, with zeros to "
            f"{-(-k // WEIGHT_BLOCK) * WEIGHT_BLOCK} [weight-k]"
        )
    if row.per_byte > 1 and n % WEIGHT_ROWS:
        raise SpecError(
            f"N of the weights is {n}, of {dtype} it must be a multiple of {WEIGHT_ROWS}: pad them to "
            f"{-(-n // WEIGHT_ROWS) * WEIGHT_ROWS} rows [weight-n]"
        )
    stored = _float_bits(values, row) if row.is_float else _unsigned(values.astype(np.int64), row)
    ordered = stored.reshape(*groups, n, k // WEIGHT_BLOCK, WEIGHT_BLOCK)[..., weight_order()].reshape(*groups, n, k)
    if row.per_byte == 1:
        return ordered
    halves = ordered.reshape(*groups, n // WEIGHT_ROWS, 2, WEIGHT_ROWS // 2, k)
    return np.ascontiguousarray(halves[..., 0, :, :] | halves[..., 1, :, :] << 4).reshape(*groups, n // 2, k)


def zero_points(zeros: Any, of: Any) -> np.ndarray:
    """The effective zero points, int64: for 4 bits, the lower four bits of each as a number of the weights' type."""
    row = element_type(getattr(of, "b", of))
    return ((np.asarray(zeros).astype(np.int64) - int(row.lowest)) & (1 << row.bits) - 1) + int(row.lowest)


@check_keywords
def unpack_weights(packed: Any, of: Any) -> np.ndarray:
    """The weights (N, K), or (groups, N, K), of packed ones, as int64, floats as float64; `of` as in `pack_weights`."""
    dtype = getattr(of, "b", of)
    row, values = element_type(dtype), np.asarray(packed).astype(np.int64)
    *groups, rows, k = values.shape
    if row.per_byte > 1:
        halves = values.reshape(*groups, 2 * rows // WEIGHT_ROWS, 1, WEIGHT_ROWS // 2, k)
        values = np.concatenate([halves & 15, halves >> 4], axis=-3).reshape(*groups, 2 * rows, k)
    result = np.empty_like(values).reshape(*values.shape[:-1], k // WEIGHT_BLOCK, WEIGHT_BLOCK)
    result[..., weight_order()] = values.reshape(result.shape)
    stored = result.reshape(values.shape)
    return _floats(stored, row) if row.is_float else stored + int(row.lowest)


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4")


def _unsigned(values: np.ndarray, row: ElementType) -> np.ndarray:
    """Integers minus the smallest of their type. Raises SpecError."""
    if values.size and not row.lowest <= values.min() <= values.max() <= row.largest:
        raise SpecError(
            f"weights from {values.min()} to {values.max()} exceed {row}, {row.lowest:.0f} to {row.largest:.0f}: clamp "
            "them [weight-range]"
        )
    return (values - int(row.lowest)).astype(np.uint8)


def _float_bits(values: np.ndarray, row: ElementType) -> np.ndarray:
    """The bits of floats. Raises SpecError."""
    values = values.astype(np.float64)
    rounded = round_to(values, row.name)
    wrong = rounded != values  # NaN too
    if np.any(wrong):
        raise SpecError(
            f"weights such as {values[wrong][0]} are not values of {row}, which is finite up to {row.largest:.0f} and "
            f"has {row.precision} bits: scale, clamp and round them, by .astype(ml_dtypes.{row.library}) or torch's "
            f".to(torch.{row.library}).float() [weight-float]"
        )
    return to_bits(values, row.name).astype(np.uint8)


def _floats(bits: np.ndarray, row: ElementType) -> np.ndarray:
    """The floats of bit patterns, all of them finite."""
    stored = row.precision - 1
    exponents = bits >> stored & (1 << (row.bits - row.precision)) - 1
    significands = bits & (1 << stored) - 1 | np.where(exponents > 0, 1 << stored, 0)
    values = np.ldexp(significands * row.smallest, np.maximum(exponents, 1) - 1)
    return np.where(bits >> (row.bits - 1), -values, values)
