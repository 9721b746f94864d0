"""The tensor that a node of an FX graph stands for: its shape, strides, element type and device.

Extents are integers, or symbolic integers of torch. The latter are compared as text, so that no guard is added.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowtide.runtime.dtypes import LIBRARY_NAMES


@dataclass(frozen=True)
class Value:
    """`dtype` is the name of an element type, None for a type that kernels do not have, such as bool."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: str | None
    device: str

    @property
    def transposed(self) -> "Value":
        """The tensor with its last two dimensions exchanged."""
        shape, strides = ((*x[:-2], *x[:-3:-1]) for x in (self.shape, self.strides))
        return replace(self, shape=shape, strides=strides)


def value_of(node: Any) -> Value | None:
    """The tensor in a node's metadata; None if it is not a tensor. Graphs of Dynamo have it by another name."""
    meta = getattr(node, "meta", {})
    tensor: Any = meta.get("val", meta.get("example_value"))
    try:
        shape, strides, dtype, device = tensor.shape, tensor.stride, tensor.dtype, tensor.device
    except AttributeError:
        return None
    return Value(tuple(shape), tuple(strides()), _name(dtype), str(getattr(device, "type", device)))


@functools.cache
def _name(dtype: Any) -> str | None:
    """The name of an element type; None for a type that kernels do not have."""
    return LIBRARY_NAMES.get(str(dtype).rpartition(".")[2])


def same_extent(first: Any, second: Any) -> bool:
    """Whether two extents are known to be equal."""
    if isinstance(first, int) and isinstance(second, int):
        return first == second
    return str(first) == str(second)


def same_shape(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return len(first) == len(second) and all(map(same_extent, first, second))


def is_one(extent: Any) -> bool:
    return is_int(extent, 1)


def is_int(extent: Any, number: int | None) -> bool:
    """Whether an extent is known to be a number; no symbolic one is."""
    return isinstance(extent, int) and extent == number


def expected(extent: Any) -> int | None:
    """The extent, or the value of a symbolic extent when the graph was traced; None if it had none."""
    if isinstance(extent, int):
        return extent
    found = getattr(getattr(extent, "node", None), "hint", None)
    return found if isinstance(found, int) else None


def sizes_for_reshape(shape: Sequence[Any]) -> list[int] | None:
    """A shape for `aten.reshape`, with -1 for a symbolic extent; None if there are two."""
    sizes = [extent if isinstance(extent, int) else -1 for extent in shape]
    return sizes if sizes.count(-1) <= 1 else None


def is_by_rows(value: Value) -> bool:
    """Whether rows are contiguous, and all dimensions but the last can be merged into one."""
    *outer, columns = zip(value.shape, value.strides, strict=True)
    if not is_one(columns[1]) and not is_one(columns[0]):
        return False
    wanted = None
    for extent, stride in reversed(outer):
        if is_one(extent):
            continue
        if wanted is not None and str(stride) != str(wanted):
            return False
        wanted = stride * extent
    return True
