"""Element types of the front end by their short names, and the suggestion in an error about a name."""

import difflib
from collections.abc import Sequence

import ml_dtypes
import numpy as np

NUMPY: dict[str, np.dtype] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
}

# What other libraries call them: only for the hint, never accepted.
_ELSEWHERE = {"float16": "f16", "half": "f16", "fp16": "f16", "float": "f32", "float32": "f32", "fp32": "f32"}
_ELSEWHERE |= {"bfloat16": "bf16", "bfloat": "bf16"}


def choices(given: object, valid: Sequence[str]) -> str:
    """The end of an error about an unknown name: what is valid, and the nearest of it."""
    text = f"valid are {', '.join(valid)}"
    if not isinstance(given, str):
        return text
    nearest = _ELSEWHERE.get(given.lower(), given.lower())
    close = [nearest] if nearest in valid else difflib.get_close_matches(nearest, valid, 1)
    return f"{text}; did you mean {close[0]!r}?" if close else text


# Bits of the significand with the implicit one, and the exponent of the smallest normal number.
_PRECISION = {"f16": (11, -14), "bf16": (8, -126), "f32": (24, -126)}


def half_ulp(x: np.ndarray, dtype: str) -> np.ndarray:
    """The most that rounding to `dtype` moves a number of at most |x|: half the spacing there, subnormals included."""
    precision, least = _PRECISION[dtype]
    exponent = np.frexp(x)[1] - 1
    return np.ldexp(1.0, np.maximum(exponent, least) - precision)


def round_to(x: np.ndarray, dtype: str) -> np.ndarray:
    """Round float64 values to the nearest of `dtype` (ties to even, overflow to ±∞) and return them as float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(NUMPY[dtype]).astype(np.float64)
