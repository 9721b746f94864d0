"""Layouts and swizzles: the offset of each coordinate."""

from itertools import product

import numpy as np
from numpy.typing import NDArray
from tensor_layouts import Layout, mode, rank, size

from lowtide.dialects.tile.layouts import NO_SWIZZLE, SwizzleBits, layout_attr, swizzle_offset
from lowtide.errors import Error
from lowtide.inspection.draw.panels import Panel, Picture, check_elements
from lowtide.targets.tv import offsets

_AXES = ("rows", "columns")
_PANELS_A_ROW = 4
_MOST_PANELS = 16


def layout_picture(layout: Layout, swizzle: SwizzleBits = NO_SWIZZLE) -> Picture:
    """The offset that a layout gives each coordinate, in elements, coloured by its unit of 2^M elements.

    One mode is drawn as a row, two as rows and columns; of more modes, the first two are drawn, with a panel for each
    coordinate of the others. Raises Error for too many panels.
    """
    text = str(layout_attr(layout, swizzle)).removeprefix("#tile.layout<").removesuffix(">")
    modes = rank(layout)
    unit = swizzle[1] if swizzle[0] else 0
    name = f"layout {text}"
    check_elements(name, size(layout))
    title = f"{name}: offsets in elements"
    if unit:
        title += f", colours by units of {1 << unit}"
    if modes < 2:
        return Picture(name, title, (_panel("", offsets(layout, np.arange(size(layout)))[None, :], swizzle, unit),))
    extents = [size(mode(layout, axis)) for axis in range(modes)]
    outer = list(product(*map(range, extents[2:])))
    if len(outer) > _MOST_PANELS:
        raise Error(
            f"{name} has {len(outer)} panels of its first two modes; {_MOST_PANELS} are the most that can be "
            "read; nest its modes in two [drawn-panels]"
        )
    whole = offsets(layout, np.arange(size(layout))).reshape(extents, order="F")
    cut = whole.reshape(extents[0], extents[1], -1)
    panels = tuple(_panel(_place(place), cut[..., number], swizzle, unit) for number, place in enumerate(outer))
    return Picture(name, title, panels, columns=min(len(panels), _PANELS_A_ROW))


def _place(place: tuple[int, ...]) -> str:
    return ", ".join(f"mode {2 + axis} = {number}" for axis, number in enumerate(place))


def _panel(title: str, found: NDArray[np.int64], swizzle: SwizzleBits, unit: int) -> Panel:
    swizzled = swizzle_offset(found, swizzle)
    return Panel(title, _AXES, swizzled.astype(str), swizzled >> unit)


def swizzle_picture(swizzle: SwizzleBits) -> Picture:
    """The place of each unit of 2^M elements, without and with the swizzle, over one period."""
    bits, base, shift = swizzle
    name = "swizzle<{},{},{}>".format(*swizzle)
    check_elements(name, 1 << (bits + shift))
    units = np.arange(1 << (bits + shift)).reshape(1 << bits, 1 << shift)
    moved = swizzle_offset(units, (bits, 0, shift))
    elements = "1 element" if not base else f"{1 << base} elements"
    return Picture(
        name,
        f"{name}: the place of each unit of {elements}, in rows of {1 << (base + shift)} elements",
        tuple(
            Panel(title, _AXES, shown.astype(str), shown & ((1 << shift) - 1))
            for title, shown in (("without", units), ("with", moved))
        ),
        columns=2 if shift <= 4 else 1,
    )
