"""Bytes of two registers put into one (PTX ISA, "prmt"). Lowtide's own kernels take bytes out of registers by it."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import raw, unsigned
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

# By mode: the byte that byte `at` of the result takes, of the eight of both registers, for a selector of two bits.
_MODES: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "f4e": lambda selector, at: (selector + at) % 8,
        "b4e": lambda selector, at: (selector - at) % 8,
        "rc8": lambda selector, at: selector,
        "ecl": lambda selector, at: max(selector, at),
        "ecr": lambda selector, at: min(selector, at),
        "rc16": lambda selector, at: 2 * (selector % 2) + at % 2,
    }
)
# By mode: the selectors of the plain instruction.
_SELECTORS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        mode: tuple(sum(byte(selector, at) << 4 * at for at in range(4)) for selector in range(4))
        for mode, byte in _MODES.items()
    }
)


@TABLE.values("prmt", types="b32", words=" ".join(_MODES), section="Data Movement and Conversion Instructions: prmt")
def prmt(form: Form) -> Callable[..., Any]:
    """Bytes of two registers, chosen by the nibbles of a third, or by its low bits in a mode; whole halves keep
    numbers."""
    chosen = _chosen_bytes(form.domain)
    mode = next((word for word in _MODES if word in form.words), None)
    if mode is None:
        return chosen
    table = np.array(_SELECTORS[mode], np.int64)

    def compute(x: Any, y: Any, selector: Any) -> Any:
        found = table[np.asarray(selector) & 3]
        return chosen(x, y, found if found.ndim else int(found))

    return compute


def _chosen_bytes(domain: Domain) -> Callable[..., Any]:
    def compute(x: Any, y: Any, selector: Any) -> Any:
        if not isinstance(selector, np.ndarray):
            x, y = _if_chosen(x, y, int(selector))
        if (x is None and _is_unwritten_or_zero(y)) or (y is None and _is_unwritten_or_zero(x)):
            return None  # the result is unwritten too: a compiler later replaces its bytes, or does not use them
        if not isinstance(selector, np.ndarray) and not (registers.is_raw(x) and registers.is_raw(y)):
            found = _halves(x, y, int(selector), domain)
            if found is None:
                found = _bytes(x, y, int(selector), domain)
            if found is not None:
                return found
        bits = [unsigned(raw(value, 32, domain), 32) for value in (x, y)]
        low, high = (value.astype(np.uint64) if isinstance(value, np.ndarray) else np.uint64(value) for value in bits)
        both, result = low | high << np.uint64(32), np.uint64(0)
        for byte in range(4):
            nibble = np.asarray(selector, np.int64) >> 4 * byte & 15
            found = both >> (nibble & 7).astype(np.uint64) * np.uint64(8) & np.uint64(255)
            signs = np.where(found & np.uint64(128), np.uint64(255), np.uint64(0))
            result = result | np.where(nibble & 8, signs, found) << np.uint64(8 * byte)
        words = np.asarray(result, np.uint64).astype(np.uint32).view(np.int32)
        return words if words.ndim else int(words)

    return compute


def _is_unwritten_or_zero(value: Any) -> bool:
    return value is None or (registers.is_raw(value) and not np.any(value))


def _if_chosen(x: Any, y: Any, selector: int) -> tuple[Any, Any]:
    """The registers; zero for an unwritten one if none of its bytes is chosen."""
    from_y = [selector >> 4 * byte & 4 for byte in range(4)]
    return 0 if x is None and all(from_y) else x, 0 if y is None and not any(from_y) else y


def _bytes(x: Any, y: Any, selector: int, domain: Domain) -> Any:
    """The result if registers hold 8-bit numbers, or zeros, and none is chosen for its sign; else None."""
    types = registers.types_of(x) | registers.types_of(y)
    chosen = [selector >> 4 * byte & 15 for byte in range(4)]
    if len(types) != 1 or max(chosen) > 7:
        return None
    (dtype,) = types
    if ELEMENT_BYTES[dtype] != 1 or any(registers.is_raw(value) and np.any(value) for value in (x, y)):
        return None
    rows = [registers.numbers_of(value, 32, dtype, domain) for value in (x, y)]
    both = np.concatenate(np.broadcast_arrays(*rows), axis=1)
    return Packed(both[:, chosen], dtype)


def _halves(x: Any, y: Any, selector: int, domain: Domain) -> Any:
    """The result if the selector takes whole halves, any value for unwritten ones; else None."""
    chosen = [selector >> 8 * half & 0xFF for half in (0, 1)]
    if any(pair not in (0x10, 0x32, 0x54, 0x76) for pair in chosen):
        return None
    halves = [half for each in (x, y) for half in ((None,) * 2 if each is None else registers.split(each, 32, domain))]
    low, high = (halves[(pair & 15) // 2] for pair in chosen)
    return registers.join(low, high, 16, domain)
