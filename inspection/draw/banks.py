"""Shared memory: the bank of each element, coloured by the conflicts of one access."""

import numpy as np

from lowtide.inspection.draw.panels import Panel
from lowtide.inspection.explain.accesses import SharedAccess
from lowtide.inspection.explain.footprints import Footprint, Ints
from lowtide.targets import lane_ways
from lowtide.targets.banks import BANKS, WORD_BYTES

LEGEND = (
    "cells: bank; green: without conflict, yellow: 2-way, red: more, blue: not accessed; red borders: one conflict of "
    "the worst phase"
)

# viz's colours by number: 0 blue, 1 green, 2 yellow, 3 red.
_UNTOUCHED, _MOST_WAYS = 0, 3


def bank_panel(access: SharedAccess, axes: tuple[str, str]) -> Panel:
    """The buffer of an access as stored, with each element labelled by its bank."""
    footprint = access.footprint
    assert footprint is not None
    banks = footprint.places // WORD_BYTES % BANKS
    return Panel(title_of(access), axes, banks.astype(str), _ways(footprint), _witness(access, footprint))


def title_of(access: SharedAccess) -> str:
    """The title of the panel of an access."""
    ways = "no conflicts" if access.conflict.ways == 1 else f"{access.conflict.ways}-way conflicts"
    swizzle = "swizzle<{},{},{}>".format(*access.swizzle) if access.swizzle[0] else "no swizzle"
    does = "written" if access.direction == "write" else "read"
    return f"{access.what} {does} by {access.atom}: {access.buffer}, {swizzle}, {ways}"


def _ways(footprint: Footprint) -> Ints:
    """[row, column]: the worst ways of the phases that access an element, 0 if there are none."""
    worst = np.zeros(footprint.places.shape, dtype=np.int64)
    ways = lane_ways(footprint.starts, footprint.vector * footprint.element_bytes)
    columns = footprint.stored[..., 1, None] + np.arange(footprint.vector)
    np.maximum.at(worst, (footprint.stored[..., 0, None], columns), ways[..., None])
    return np.minimum(worst, _MOST_WAYS)


def _witness(access: SharedAccess, footprint: Footprint) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
    """The elements that the lanes of the witness access, if there is a conflict."""
    touched = np.zeros(footprint.places.shape, dtype=bool)
    if access.conflict.ways > 1:
        for address in access.conflict.addresses:
            length = footprint.vector * footprint.element_bytes
            touched |= (footprint.places >= address) & (footprint.places < address + length)
    return touched
