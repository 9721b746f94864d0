"""Packed weights: the bytes that a kernel of mixed types reads in place of B, and the way to make them.

Weights are a matrix (N, K). Each row is cut into blocks of 32 of K, and in a block k lies at byte

    8 · t + 4 · s + 2 · h + i    with k = 16 · s + 8 · i + 2 · t + h,   t < 4, s, i, h < 2

so that thread t of the four that hold a row of mma.m16n8k16's B (PTX ISA, "Matrix Fragments for mma.m16n8k16") finds
what it needs for two of them side by side. Weights of 8 bits take a byte each. Of 4 bits, the low half of a byte in row
8 · q + r, r < 8, is of row 16 · q + r, and the high half of row 16 · q + r + 8. Signed weights lie with the sign bit
inverted: as the unsigned number that is larger by 128, or by 8.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowtide.elements import WEIGHT_BLOCK, WEIGHT_ROWS, element_type, weight_types
from lowtide.errors import SpecError


def weight_order() -> np.ndarray:
    """Which k of a block lies at each byte of it: (32,)."""
    t, s, h, i = (axis.reshape(-1) for axis in np.indices((4, 2, 2, 2)))
    return np.asarray(16 * s + 8 * i + 2 * t + h)


def pack_weights(weights: Any, of: Any) -> np.ndarray:
    """The bytes of weights (N, K), integers, as kernels take them for B: uint8, (N, K), of 4 bits (N / 2, K).

    `of`: a GemmSpec with packed weights, or their type, "s8", "u8", "s4" or "u4". Rows, 16 at a time, and parts of K
    that are multiples of 32 may be packed apart: their bytes lie side by side.

    Raises SpecError for another type, weights that are no integers or beyond its range, a K that is no multiple of 32,
    or with 4 bits an N that is none of 16.
    """
    dtype = getattr(of, "b", of)
    if dtype not in weight_types():
        raise SpecError(f"weights of {dtype!r}: they are one of {', '.join(weight_types())}")
    row, values = element_type(dtype), np.asarray(weights)
    if values.ndim != 2 or (values.dtype.kind not in "iu" and values.dtype.name not in ("int4", "uint4")):
        raise SpecError(
            f"weights are a matrix (N, K) of integers, not {values.dtype} of shape {values.shape}: quantize them"
        )
    values = values.astype(np.int64)
    n, k = values.shape
    if k % WEIGHT_BLOCK:
        raise SpecError(
            f"K of the weights is {k}, must be a multiple of {WEIGHT_BLOCK}: pad them, and A, with zeros to "
            f"{-(-k // WEIGHT_BLOCK) * WEIGHT_BLOCK}"
        )
    if row.per_byte > 1 and n % WEIGHT_ROWS:
        raise SpecError(
            f"N of the weights is {n}, of {dtype} it must be a multiple of {WEIGHT_ROWS}: pad them to "
            f"{-(-n // WEIGHT_ROWS) * WEIGHT_ROWS} rows"
        )
    if values.size and not row.lowest <= values.min() <= values.max() <= row.largest:
        raise SpecError(
            f"weights from {values.min()} to {values.max()} are no {dtype}, {row.lowest:.0f} to {row.largest:.0f}: "
            "clamp them"
        )
    stored = (values - int(row.lowest)).astype(np.uint8)
    ordered = stored.reshape(n, -1, WEIGHT_BLOCK)[..., weight_order()].reshape(n, k)
    if row.per_byte == 1:
        return ordered
    halves = ordered.reshape(-1, 2, WEIGHT_ROWS // 2, k)
    return np.ascontiguousarray(halves[:, 0] | halves[:, 1] << 4).reshape(n // 2, k)


def zero_points(zeros: Any, of: Any) -> np.ndarray:
    """The zero points that count, int64: of weights of 4 bits the lower four of each, as one of the weights' type."""
    row = element_type(getattr(of, "b", of))
    return ((np.asarray(zeros).astype(np.int64) - int(row.lowest)) & (1 << row.bits) - 1) + int(row.lowest)


def unpack_weights(packed: Any, of: Any) -> np.ndarray:
    """The weights (N, K) of packed ones, as int64; `of` as in `pack_weights`."""
    dtype = getattr(of, "b", of)
    row, values = element_type(dtype), np.asarray(packed).astype(np.int64)
    rows, k = values.shape
    if row.per_byte > 1:
        halves = values.reshape(-1, 1, WEIGHT_ROWS // 2, k)
        values = np.concatenate([halves & 15, halves >> 4], axis=1).reshape(2 * rows, k)
    result = np.empty_like(values).reshape(len(values), -1, WEIGHT_BLOCK)
    result[..., weight_order()] = values.reshape(result.shape)
    return result.reshape(len(values), k) + int(row.lowest)
