"""The elements of a buffer in shared memory that an access touches, lane by lane."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from mlir import ir
from numpy.typing import NDArray
from tensor_layouts import Layout, Swizzle, compose, mode, size

from lowtide.dialects.tile.layouts import layout_of
from lowtide.errors import ScheduleError
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.streams.buffers import is_transposed_buffer
from lowtide.targets import Conflict, worst_conflict
from lowtide.targets.banks import AccessKind
from lowtide.targets.tv import offsets

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Footprint:
    """The elements of a buffer that an access touches. Rows and columns are those of the buffer as stored."""

    places: Ints
    """[row, column]: byte offset of each element from the start of the buffer."""
    stored: Ints
    """[request, lane, 2]: row and column of the first element that each lane touches."""
    vector: int
    """Contiguous elements that each lane touches."""
    element_bytes: int
    kind: AccessKind

    @property
    def starts(self) -> Ints:
        """[request, lane]: byte offset of the first element."""
        return self.places[self.stored[..., 0], self.stored[..., 1]]

    def conflict(self) -> Conflict:
        """The worst conflict, with wavefronts summed over all requests."""
        return worst_conflict(self.starts, self.vector * self.element_bytes, self.kind)


def footprint_of(atom: str, buffer: ir.MemRefType, stored: Ints, vector: int, kind: AccessKind) -> Footprint:
    """The footprint of an instruction whose lanes touch `vector` elements from each of `stored` [request, lane, 2].

    `stored` is relative to the buffer as stored, the contiguous dimension last.

    Raises ScheduleError if they exceed the buffer, or its layout separates the elements of a lane.
    """
    plain, swizzle = layout_of(buffer.layout)
    if is_transposed_buffer(buffer):
        plain = Layout(mode(plain, 1), mode(plain, 0))
    rows, columns = size(mode(plain, 0)), size(mode(plain, 1))
    if stored[..., 0].max() >= rows or stored[..., 1].max() + vector > columns:
        raise ScheduleError(
            f"{atom} exceeds its buffer of {rows}x{columns}; correct its layouts or offsets [footprint-outside]"
        )
    offset = offsets(compose(Swizzle(*swizzle), plain), np.arange(rows * columns)).reshape(columns, rows).T
    touched = offset[stored[..., 0, None], stored[..., 1, None] + np.arange(vector)]
    if np.any(touched != touched[..., :1] + np.arange(vector)):
        raise ScheduleError(
            f"the buffer's layout separates the {vector} elements that {atom} moves at once; take a swizzle with "
            f"M >= {(vector - 1).bit_length()}, or narrower accesses [footprint-vector]"
        )
    element_bytes = element_bits(buffer.element_type) // 8
    return Footprint(offset * element_bytes, stored, vector, element_bytes, kind)


def joined(footprints: Iterable[Footprint]) -> Footprint | None:
    """All requests, equal ones once; None for no footprints. All are of one kind, on buffers of one layout."""
    found = list(footprints)
    if not found:
        return None
    stored = {footprint.stored.tobytes(): footprint.stored for footprint in found}
    return replace(found[0], stored=np.concatenate(list(stored.values())))
