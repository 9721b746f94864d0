"""Matrix products of float64 arrays to more than float64's precision, for checking kernels that sum in f64.

Ozaki's scheme (Ozaki, Ogita, Oishi, Rump, Numerical Algorithms 59, 2012): both matrices are cut into slices of so few
bits that the product of two slices is exact in float64, in any order of sums. The significant products of slices are
added with their rounding errors (Knuth's TwoSum). It takes as long as a few products of BLAS.
"""

from __future__ import annotations

import math

import numpy as np

from lowtide.elements import element_type

_BITS = 53  # of a float64's significand
_WANTED_BITS = 70  # of each element, relative to the largest of its row of A or column of B


def exact_product(a: np.ndarray, b: np.ndarray, acc: str) -> tuple[np.ndarray, np.ndarray]:
    """A (M, K) · B (K, N) in float64, far more exact than sums in the type `acc`, and its error bound.

    For types narrower than float64, the error of float64 itself is not counted.
    """
    if element_type(acc).precision < _BITS:
        return a @ b, np.zeros((a.shape[0], b.shape[1]))
    return wide_product(a, b)


def wide_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A (M, K) · B (K, N), rounded to float64, and a bound on the difference of each element from the exact product.

    The bound is u·|A·B| + 2⁻⁶⁴·K·(largest of the row of A)·(largest of the column of B), u = 2⁻⁵³. If a slice would
    overflow, or an element is not finite, the product is numpy's and the bound infinite.
    """
    depth = a.shape[1]
    step = math.ceil((_BITS + math.log2(max(2, depth))) / 2)
    count = math.ceil(_WANTED_BITS / (_BITS - step))
    with np.errstate(all="ignore"):
        rows, columns = _slices(a, step, count, axis=1), _slices(b, step, count, axis=0)
        total, error = np.zeros((2, a.shape[0], b.shape[1]))
        # The small products first. Omitted ones are below 2⁻⁷⁰ of the largest element's.
        for level in range(count - 1, -1, -1):
            for i in range(level + 1):
                total, lost = _two_sum(total, rows[i] @ columns[level - i])
                error += lost
        product = total + error
        sizes = np.abs(a).max(1, keepdims=True, initial=0.0) * np.abs(b).max(0, keepdims=True, initial=0.0)
        bound = np.abs(product) * 2.0**-_BITS + 2.0**-64 * depth * sizes + depth * np.finfo(np.float64).tiny
        plain = a @ b
    is_known = np.isfinite(product) & np.isfinite(bound)
    return np.where(is_known, product, plain), np.where(is_known, bound, math.inf)


def _slices(matrix: np.ndarray, step: int, count: int, axis: int) -> list[np.ndarray]:
    """The matrix as a sum of `count` parts of at most 53 − step bits each, below the largest along `axis`."""
    slices, rest = [], matrix
    for _ in range(count):
        largest = np.abs(rest).max(axis=axis, keepdims=True, initial=0.0)
        _, exponent = np.frexp(largest)
        shift = np.ldexp(1.0, exponent + step)
        part = np.where(largest == 0, 0.0, (rest + shift) - shift)
        slices.append(part)
        rest = rest - part
    return slices


def _two_sum(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x + y rounded, and the rounding error."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)
