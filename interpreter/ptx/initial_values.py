"""Initializers of variables (PTX ISA, "Variables: Initializers"): the bytes that they give, and addresses in them."""

from collections.abc import Sequence
from math import prod

import numpy as np

from lowtide.interpreter.ptx.words import Words

Pointers = tuple[tuple[int, str, int], ...]
"""Addresses among the bytes: offset, name of the variable, number of bytes after its start."""

NOTHING: tuple[bytes, Pointers] = (b"", ())

_BITS = 64


def initial_values(words: Words, type: str, width: int, sides: Sequence[int]) -> tuple[bytes, Pointers]:
    """The bytes of a variable of this type and extents, after its `=`; bytes that are not given are zero.

    The first extent is 0 if the initializer determines it.
    """
    places: dict[int, bytes] = {}
    pointers: list[tuple[int, str, int]] = []
    steps = [width * prod(sides[level + 1 :]) for level in range(len(sides))]

    def read(level: int, at: int) -> int:
        """A value, or values in braces, for byte `at`; returns the first byte after them."""
        if not words.take("{"):
            places[at] = _value(words, type, width, at, pointers)
            return at + width
        if level >= len(sides):
            words.reject("more braces than the variable has dimensions [ptx-initial-braces]")
        step, first = steps[level], at
        while not words.take("}"):
            read(level + 1, at)
            at += step if words.word in (",", "}") else 0
            if not words.take(",") and words.word != "}":
                words.expect("}")
        return max(at, first)

    end = read(0, 0)
    size = width * prod(sides) or end
    if any(at >= size for at in places):
        words.reject(f"an initializer of {end} bytes for a variable of {size} [ptx-initial-size]")
    result = bytearray(size)
    for at, value in places.items():
        result[at : at + width] = value
    return bytes(result), tuple(pointers)


def _value(words: Words, type: str, width: int, at: int, pointers: list[tuple[int, str, int]]) -> bytes:
    """The bytes of one value: a number, or the address of a variable, `name`, `name+8` or `generic(name)+8`."""
    if words.kinds[words.at] == "name":
        name = words.name("a variable")
        if name == "generic":
            words.expect("(")
            name = words.name("a variable")
            words.expect(")")
        offset = words.integer() if words.take("+") or words.word == "-" else 0
        if width != _BITS // 8:
            words.reject(f"the address of {name} in {width} bytes; an address takes eight [ptx-initial-address]")
        pointers.append((at, name, offset))
        return bytes(width)
    is_negative = words.take("-")
    if words.kinds[words.at] == "float":
        return _float(words.next(), type, width, is_negative)
    value = words.integer() * (-1 if is_negative else 1)
    if type[0] == "f":
        return _float(f"{value}.0", type, width, False)
    return (value & (1 << 8 * width) - 1).to_bytes(width, "little")


def _float(word: str, type: str, width: int, is_negative: bool) -> bytes:
    """A float by its bits, 0f… or 0d…, or as a decimal number, rounded to the type."""
    if word[:2].lower() in ("0f", "0d"):
        bits = int(word[2:], 16)
        value = float(np.array(bits, f"u{(len(word) - 2) // 2}").view(f"f{(len(word) - 2) // 2}"))
    else:
        value = float(word)
    with np.errstate(over="ignore"):
        return np.array(-value if is_negative else value, f"f{width}").tobytes()
