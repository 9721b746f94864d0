"""The contents of a tensor map in memory: its fields, and 128 bytes that hold them.

CUDA does not document the layout of these bytes, so this layout is the interpreter's own. A check sum follows the
fields, so that bytes which ordinary stores have changed, or copied in part, are no tensor map. 128 zero bytes are a map
whose fields were never set: kernels begin a map like this, and then set all fields by `tensormap.replace`.
"""

import struct
import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from lowtide.interpreter.machine.tensor_maps import TensorMap
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES

BYTES = 128  # of a tensor map
_LAYOUT = struct.Struct("<Q 4Q 5Q 5I 5I BBBB")
_CHECK = struct.Struct("<I")

#: PTX ISA, "tensormap.replace", table "Tensormap new_val validity": the types in memory, by `.elemtype`. None: flushes
#: denormals to zero.
_OF_PTX = ("i8", "i16", "i32", "i32", "i64", "i64", "f16", "f32", None, "f64", "bf16", "tf32", None)
#: Further types of maps that the host encodes.
_ELEMENTS = (*_OF_PTX, *(name for name in ELEMENT_BYTES if name not in _OF_PTX))
ELEMENT_TYPES = range(len(_OF_PTX))
"""The numbers of element types on sm_90a."""
SPANS = (0, 32, 64, 128)
"""Bytes that a swizzle permutes, by `.swizzle_mode`."""


@dataclass(frozen=True)
class Fields:
    """The fields, with dimensions innermost first; 0 for one that was never set. `strides` in bytes.

    `element`: 1 + the number of the element's type. `steps` are the element strides.
    """

    address: int = 0
    strides: tuple[int, ...] = (0,) * 4
    extents: tuple[int, ...] = (0,) * 5
    box: tuple[int, ...] = (0,) * 5
    steps: tuple[int, ...] = (0,) * 5
    rank: int = 0
    element: int = 0
    swizzle: int = 0
    interleave: int = 0
    fill: int = 0

    def with_part(self, name: str, at: int, value: int) -> "Fields":
        """With another value of a field; for a field of several dimensions, of dimension `at`."""
        held = getattr(self, name)
        changed: Any = (*held[:at], value, *held[at + 1 :]) if isinstance(held, tuple) else value
        return replace(self, **{name: changed})

    @property
    def dtype(self) -> str | None:
        """The type of an element in memory; None for one that is not interpreted. The element's type must be set."""
        return _ELEMENTS[self.element - 1]

    @property
    def unset(self) -> str | None:
        """The first field that must be set and is not, by its name in PTX."""
        for name in ("rank", "element", "address"):
            if not getattr(self, name):
                return {"element": "elemtype", "address": "global_address"}.get(name, name)
        for name, held in (("box_dim", self.box), ("global_dim", self.extents), ("element_stride", self.steps)):
            if 0 in held[: self.rank]:
                return f"{name} of dimension {held.index(0)}"
        return f"global_stride of dimension {self.strides.index(0)}" if 0 in self.strides[: self.rank - 1] else None


def fields_of(map: TensorMap) -> Fields:
    """The fields of a map that the host has encoded."""
    width, rank = map.element.bytes, len(map.box)

    def padded(values: tuple[int, ...], count: int) -> tuple[int, ...]:
        return (*reversed(values), *(0,) * (count - len(values)))

    return Fields(
        map.matrix.address,
        padded(tuple(stride * width for stride in map.strides[:-1]), 4),
        padded(map.shape, 5),
        padded(map.box, 5),
        padded((1,) * rank, 5),
        rank,
        1 + _ELEMENTS.index(map.element.name),
        SPANS.index(map.span),
    )


@lru_cache(maxsize=256)
def encoded(fields: Fields) -> bytes:
    """The bytes that hold these fields."""
    parts = (*fields.strides, *fields.extents, *fields.box, *fields.steps)
    last = fields.rank, fields.element, fields.swizzle, 16 * fields.fill + fields.interleave
    body = _LAYOUT.pack(fields.address, *parts, *last).ljust(BYTES - _CHECK.size, b"\0")
    return body + _CHECK.pack(zlib.crc32(body))


@lru_cache(maxsize=256)
def decoded(data: bytes) -> Fields | None:
    """The fields in 128 bytes; None for bytes that are no tensor map."""
    if not any(data):
        return Fields()
    body, (check,) = data[: -_CHECK.size], _CHECK.unpack(data[-_CHECK.size :])
    if zlib.crc32(body) != check:
        return None
    address, *parts = _LAYOUT.unpack(body[: _LAYOUT.size])
    numbers, (rank, element, swizzle, modes) = tuple(parts[:-4]), parts[-4:]
    each = numbers[:4], numbers[4:9], numbers[9:14], numbers[14:19]
    return Fields(address, *each, rank, element, swizzle, modes % 16, modes // 16)
