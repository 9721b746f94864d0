"""Initializers of variables (PTX ISA, "Variables: Initializers"): the bytes that they give, and addresses in them."""

from collections.abc import Sequence
from math import prod

import numpy as np

from lowtide.interpreter.ptx.words import Words

Pointers = tuple[tuple[int, str, int], ...]
"""Addresses among the bytes: offset, name of the variable or function, number of bytes after its start."""

NOTHING: tuple[bytes, Pointers] = (b"", ())

_BITS = 64


def initial_values(words: Words, type: str, width: int, sides: Sequence[int]) -> tuple[bytes, Pointers]:
    """The bytes of a variable of this type and extents, after its `=`; bytes that are not given are zero.

    The first extent is 0 if the initializer determines it.
    """
    places: dict[int, bytes] = {}
    pointers: list[tuple[int, str, int]] = []
    parts: dict[int, tuple[int, str, int]] = {}
    steps = [width * prod(sides[level + 1 :]) for level in range(len(sides))]

    def read(level: int, at: int) -> int:
        """A value, or values in braces, for byte `at`; returns the first byte after them."""
        if not words.take("{"):
            if words.kinds[words.at] == "integer" and words.words[words.at + 1] == "(":
                parts[at] = _masked(words)
                return at + width
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
    return bytes(result), (*pointers, *_joined(words, parts))


def _masked(words: Words) -> tuple[int, str, int]:
    """A byte of an address, `0xFF00(name)`: the mask, the name, the number of bytes after its start."""
    mask = words.integer()
    words.expect("(")
    name, offset = _name(words)
    words.expect(")")
    return mask, name, offset


def _joined(words: Words, parts: dict[int, tuple[int, str, int]]) -> Pointers:
    """Addresses whose bytes are given one by one, each by a mask, from the lowest to the highest."""
    masks = [0xFF << 8 * number for number in range(_BITS // 8)]
    found = tuple((at, *part[1:]) for at, part in parts.items() if part[0] == masks[0])
    bytes_ = {at + number: (mask, *place) for at, *place in found for number, mask in enumerate(masks)}
    if bytes_ != parts:
        words.reject("an address by its bytes has eight of them, 0xFF(name), 0xFF00(name), … [ptx-initial-bytes]")
    return found


def _name(words: Words) -> tuple[str, int]:
    """`name`, `name+8` or `generic(name)+8`: the name, and the number of bytes after its start."""
    name = words.name("a variable")
    if name == "generic":
        words.expect("(")
        name = words.name("a variable")
        words.expect(")")
    return name, words.integer() if words.take("+") or words.word == "-" else 0


def _value(words: Words, type: str, width: int, at: int, pointers: list[tuple[int, str, int]]) -> bytes:
    """The bytes of one value: a number, or the address of a variable or function."""
    if words.kinds[words.at] == "name":
        name, offset = _name(words)
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
