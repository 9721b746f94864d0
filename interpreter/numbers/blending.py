"""Values that differ by lane, chosen by a condition."""

from typing import Any

import numpy as np


def blend(condition: Any, x: Any, y: Any, dtype: Any = None) -> Any:
    """`x` if the condition holds, else `y`, for any kind of value; `dtype` is numpy's for integers.

    An undefined value counts as any value.
    """
    if x is y:
        return x
    if x is None or y is None:
        return y if x is None else x
    if isinstance(x, tuple):
        return tuple(blend(condition, a, b) for a, b in zip(x, y, strict=True))
    if hasattr(x, "blend"):
        return x.blend(condition, y)
    if hasattr(y, "blend"):
        return y.blend(~condition, x)
    extra = max(np.ndim(x), np.ndim(y)) - condition.ndim
    result = np.where(condition.reshape(condition.shape + (1,) * extra) if extra > 0 else condition, x, y)
    for side in (x, y):
        if isinstance(side, np.ndarray) and result.dtype != side.dtype:
            return result.astype(side.dtype)
    return result if dtype is None or result.dtype == dtype else result.astype(dtype)
