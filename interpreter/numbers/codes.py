"""The codes of elements of each type: one for each byte of memory, which says what the byte is part of."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import ELEMENTS
from lowtide.interpreter.numbers.accesses import Values
from lowtide.interpreter.numbers.storage import in_memory

# By MLIR name; an i1 is stored as a byte. Registers hold a signless i8.
_WIDTHS = {"i1": 1, "i8": 1, **{row.ir: row.bytes for row in ELEMENTS.values() if row.bits >= 8}}
ELEMENT_BYTES: Mapping[str, int] = MappingProxyType(_WIDTHS)
_IN_MEMORY: Mapping[str, int] = MappingProxyType(
    {dtype: code for code, dtype in enumerate(dict.fromkeys(map(in_memory, _WIDTHS)), start=1)}
)
CODES: Mapping[str, int] = MappingProxyType({dtype: _IN_MEMORY[in_memory(dtype)] for dtype in _WIDTHS})
NAMES: Mapping[int, str] = MappingProxyType({code: dtype for dtype, code in _IN_MEMORY.items()})
# The codes of integers, by size in bytes.
CODES_OF_INTEGERS: Mapping[int, int] = MappingProxyType({size: CODES[f"i{8 * size}"] for size in (1, 2, 4, 8)})
UNWRITTEN, ZERO, CONTINUED = 0, 254, 255
ZERO_TYPE = "zero"
"""Replaces a type: 16-bit elements that are zero of any type."""
WORDS: Mapping[int, Any] = MappingProxyType({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64})


ZEROS: Mapping[int, Any] = MappingProxyType(
    {width: np.full(width, ZERO, np.uint8).view(word)[0] for width, word in WORDS.items()}
)


_WIDTH_OF = np.zeros(256, np.int64)  # bytes of an element, by its code; 0 for those of no element
for _code, _name in NAMES.items():
    _WIDTH_OF[_code] = _WIDTHS[_name]


def _repeated(dtype: str, size: int) -> Any:
    """The codes of consecutive elements of a type, as one word of `size` bytes."""
    codes = ([CODES[dtype]] + [CONTINUED] * (_WIDTHS[dtype] - 1)) * (size // _WIDTHS[dtype])
    return np.array(codes, np.uint8).view(WORDS[size])[0]


PATTERNS: Mapping[str, Any] = MappingProxyType({dtype: _repeated(dtype, _WIDTHS[dtype]) for dtype in CODES})
# Whole words of elements of one type, by type and bytes of a word; and the type, by element, word and codes.
RUNS: Mapping[tuple[str, int], Any] = MappingProxyType(
    {(dtype, size): _repeated(dtype, size) for dtype in CODES for size in WORDS if size >= _WIDTHS[dtype]}
)
TYPES: Mapping[tuple[int, int, int], str] = MappingProxyType(
    {(_WIDTHS[dtype], size, int(word)): in_memory(dtype) for (dtype, size), word in RUNS.items()}
)


def codes_of(dtype: str, size: int) -> NDArray[np.uint8]:
    """The codes of consecutive elements of a type: array (1, size)."""
    codes = np.full((1, size), ZERO if dtype == ZERO_TYPE else CONTINUED, np.uint8)
    if dtype != ZERO_TYPE:
        codes[0, :: ELEMENT_BYTES[dtype]] = CODES[dtype]
    return codes


def zero_bytes(codes: Values, payload: Values) -> NDArray[np.bool_]:
    """The bytes (n, size) that are zero: zero-filled, or of elements that are zero and begin among them."""
    is_zero = (payload == 0) & ~np.signbit(payload)
    left, found = np.zeros(len(codes), np.int64), codes == ZERO
    for at in range(codes.shape[1]):
        begins = _WIDTH_OF[codes[:, at]]
        left = np.where(codes[:, at] == CONTINUED, left - 1, np.where(is_zero[:, at], begins, 0))
        found[:, at] |= left > 0
    return found
