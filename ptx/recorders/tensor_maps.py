"""Converts the arguments of cuTensorMapEncodeTiled to a tensor map of a record.

The layout of the 128 bytes of a CUtensorMap is not documented, so a recorder keeps the arguments instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.errors import LaunchError
from lowtide.launches import TensorMap
from lowtide.ptx.dtypes import dtype_of
from lowtide.ptx.recorders.memory import Memory

MAP_BYTES = 128
_F32_FTZ, TF32, _TF32_FTZ = 10, 11, 12
_ELEMENTS = ("u8", "s16", "s32", "s32", "s64", "s64", "f16", "f32", "f64", "bf16", "f32", "tf32", "tf32")
"""By CUtensorMapDataType (CUDA driver API, "Data types used by CUDA driver"). Integers have no sign in memory."""
_SWIZZLES = (0, 32, 64, 128)  # bytes, by CUtensorMapSwizzle


@dataclass(frozen=True)
class Encoded:
    """A tensor map. `kind` and `swizzle` are the numbers of CUtensorMapDataType and CUtensorMapSwizzle. Dimensions are
    outermost first; `strides` are in bytes, for all dimensions but the last."""

    address: int
    kind: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    more: tuple[str, ...] = ()
    """Descriptions of its other properties that the interpreter does not support."""

    def check(self, what: str) -> None:
        """Raises LaunchError if the interpreter does not support the tensor map. `what` names it in the message."""
        refused = list(self.more)
        if self.kind not in range(len(_ELEMENTS)) or self.kind in (_F32_FTZ, _TF32_FTZ):
            refused.append(f"elements of CUtensorMapDataType {self.kind}")
        if self.swizzle not in range(len(_SWIZZLES)):
            refused.append(f"swizzle {self.swizzle}")
        if refused:
            raise LaunchError(f"{what}: a tensor map with {', '.join(refused)} is not interpreted [recorded-map]")

    @property
    def element(self) -> str:
        """The type of its elements in a record."""
        return _ELEMENTS[self.kind]

    @property
    def width(self) -> int:
        """The size of an element in bytes."""
        return dtype_of(self.element).itemsize

    @property
    def span(self) -> int:
        """The span of the swizzle in bytes; 0 for none."""
        return _SWIZZLES[self.swizzle]

    def placed(self, memory: Memory, what: str) -> TensorMap:
        """The tensor map in a record. If the array's elements are as wide, it has their type. Raises LaunchError."""
        at = memory.find(self.address)
        if at is None:
            raise LaunchError(
                f"{what}: the tensor map's address {self.address:#x} is in no array; name its array in arrays=…"
                " [recorded-map-array]"
            )
        element = next(each.element for each in memory.regions if each.name == at.array)
        if self.kind == TF32 or dtype_of(element).itemsize != self.width:
            element = self.element
        strides = tuple(stride // self.width for stride in self.strides)
        return TensorMap(at, element, self.shape, strides, self.box, self.span)
