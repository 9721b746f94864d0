"""Results with one rounding where two are computed: x * y + z by float64, and float64 to narrow types by f32.

A product of two f32 is exact in float64, and so is its sum with an f32 in nearly all cases. If it is not, the sum is
rounded to odd: its last bit says that there are more, so that rounding it again to a narrower type is right. For f64
the product and the sum are pairs of float64 without an error (S. Boldo, G. Melquiond, "Emulation of FMA and correctly
rounded sums", 2008).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]

_SPLIT = 2.0**27 + 1  # of the 53 bits of a float64 into halves, whose products are exact
_CUT = (1 << 29) - 1  # the bits of a float64 that an f32 lacks


def odd_sum(x: Values, y: Values) -> Values:
    """x + y rounded to odd: if it is inexact, towards zero with the last bit set."""
    total, error = _sum(np.asarray(x, np.float64), np.asarray(y, np.float64))
    return _to_odd(total, error) if np.any(error) else total


def fma(x: Values, y: Values, z: Values) -> Values:
    """x * y + z of f64, rounded to nearest once."""
    x, y, z = (np.asarray(each, np.float64) for each in (x, y, z))
    high, low = _product(x, y)
    above, below = _sum(z, low)
    above, between = _sum(high, above)
    found = above + odd_sum(between, below)
    return np.where(np.isfinite(found), found, x * y + z)[()]


def singles(values: Values) -> Values:
    """Numbers as f32, rounded to odd: rounded again to a type of at most 22 bits, they are as if rounded once."""
    values = np.asarray(values, np.float64)
    found = values.astype(np.float32)
    is_exact = found == values
    if is_exact.all():
        return found
    bits = values.view(np.int64)
    odd = (bits & ~_CUT | ((bits & _CUT) != 0).astype(np.int64) * (_CUT + 1)).view(np.float64)
    return np.where(is_exact | np.isnan(values), values, odd).astype(np.float32)[()]


def _sum(x: Values, y: Values) -> tuple[Values, Values]:
    """The rounded sum, and its error."""
    total = x + y
    of_y = total - x
    return total, (x - (total - of_y)) + (y - of_y)


def _product(x: Values, y: Values) -> tuple[Values, Values]:
    """The rounded product, and its error; numbers from 2^996 on have none."""
    total = x * y
    high_x, high_y = (each * _SPLIT - (each * _SPLIT - each) for each in (x, y))
    low_x, low_y = x - high_x, y - high_y
    return total, low_x * low_y - ((total - high_x * high_y - low_x * high_y) - high_x * low_y)


def _to_odd(total: Values, error: Values) -> Values:
    """A rounded sum with this error, rounded to odd in place of to nearest."""
    bits = total.view(np.int64)
    is_inexact = (error != 0) & ~np.isnan(error) & (bits & 1 == 0)
    step = np.where(np.signbit(error) == np.signbit(total), 1, -1)
    return np.where(is_inexact, bits + step, bits).view(np.float64)[()]
