"""Element types by Lowtide's names, and what other libraries call them.

Sizes are bytes. bf16 needs nothing but numpy: its bytes are held as uint16.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

ITEMSIZE: dict[str, int] = {
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "f8e4m3": 1,
    "f8e5m2": 1,
    "i8": 1,
    "u8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
}

#: The dtype's last name component in torch, numpy, CuPy and ml_dtypes.
LIBRARY_NAMES: dict[str, str] = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
}
TORCH_NAME: dict[str, str] = {ours: theirs for theirs, ours in LIBRARY_NAMES.items()}

#: (code, bits) of DLDataType, dlpack.h 1.1.
DLPACK_NAMES: dict[tuple[int, int], str] = {
    (2, 16): "f16",
    (4, 16): "bf16",
    (2, 32): "f32",
    (2, 64): "f64",
    (10, 8): "f8e4m3",
    (12, 8): "f8e5m2",
    (0, 8): "i8",
    (1, 8): "u8",
    (0, 16): "i16",
    (0, 32): "i32",
    (0, 64): "i64",
}

#: typestr of the CUDA array interface, without its byte order.
TYPESTR_NAMES: dict[str, str] = {
    "f2": "f16",
    "f4": "f32",
    "f8": "f64",
    "i1": "i8",
    "u1": "u8",
    "i2": "i16",
    "i4": "i32",
    "i8": "i64",
}

#: (precision in bits with the hidden one, smallest normal exponent, largest finite) of each float type: IEEE 754.
FLOAT_FORMATS: dict[str, tuple[int, int, float]] = {
    "f16": (11, -14, 65504.0),
    "bf16": (8, -126, float((2 - 2**-7) * 2.0**127)),
    "f32": (24, -126, float(np.finfo(np.float32).max)),
}


def round_to(values: Any, dtype: str) -> np.ndarray:
    """The float64 values rounded to nearest even in `dtype` (subnormals kept, overflow to infinity), as float64."""
    values = np.asarray(values, dtype=np.float64)
    if dtype == "f64":
        return values
    precision, smallest, largest = FLOAT_FORMATS[dtype]
    _, exponent = np.frexp(values)
    unit = np.maximum(exponent, smallest + 1) - precision
    finite = np.isfinite(values)
    safe = np.where(finite, values, 0.0)
    rounded = np.ldexp(np.rint(np.ldexp(safe, -unit)), unit)
    rounded = np.where(np.abs(rounded) > largest, np.copysign(math.inf, rounded), rounded)
    return np.where(finite, rounded, values)


def half_unit(values: Any, dtype: str) -> np.ndarray:
    """The most that rounding to `dtype` changes each value, half a unit in its last place (below overflow)."""
    precision, smallest, _ = FLOAT_FORMATS.get(dtype, (53, -1022, 0.0))
    values = np.asarray(values, dtype=np.float64)
    _, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    return np.ldexp(0.5, np.maximum(exponent, smallest + 1) - precision)


def to_bits(values: np.ndarray, dtype: str) -> np.ndarray:
    """The values rounded to `dtype`, as an array that holds its bytes (bf16: uint16)."""
    rounded = round_to(values, dtype)
    if dtype == "bf16":
        return (np.asarray(rounded, dtype=np.float32, order="C").view(np.uint32) >> 16).astype(np.uint16)
    return rounded.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype])


def from_bits(stored: np.ndarray, dtype: str) -> np.ndarray:
    """float64 values of an array as `to_bits` makes it."""
    if dtype == "bf16":
        return (stored.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.view({"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype]).astype(np.float64)
