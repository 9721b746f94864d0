"""A picture as data: grids of labelled, coloured cells, cut to a part and checked to be readable."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import Error

Part = Mapping[str, range]
"""A range of elements for some of the axes; the others are drawn in full."""

# Limits of a readable picture.
MOST_CELLS = 8192
MOST_SIDE = 128
MOST_ELEMENTS = 1 << 20  # of a subject that is drawn in part


def check_elements(name: str, count: int) -> None:
    """Raise Error for a picture with too many elements to read, before it is computed."""
    if count > MOST_ELEMENTS:
        raise Error(
            f"{name} has {count} elements; parts are drawn of at most {MOST_ELEMENTS}; draw a smaller one"
            " [drawn-elements]"
        )


@dataclass(frozen=True, eq=False)
class Panel:
    """One grid of cells. `axes` name its rows and its columns (`m`, `n`, `k`, `rows`, `columns`)."""

    title: str
    axes: tuple[str, str]
    labels: NDArray[np.str_]
    """[row, column]: the text of the cell; lines are separated by newlines."""
    colours: NDArray[np.int64]
    """[row, column]: the index of a colour; colours repeat after eight."""
    marked: NDArray[np.bool_] | None = None
    """[row, column]: cells with a red border."""

    def extents(self) -> dict[str, int]:
        """Cells along each axis."""
        return dict(zip(self.axes, self.labels.shape, strict=True))

    def cut(self, part: Part) -> "Panel":
        """The part of the panel; the title says which. Raises Error if it has no cell of this panel."""
        ranges, said = [], []
        for axis, extent in self.extents().items():
            wanted = part.get(axis, range(extent))
            kept = range(wanted.start, min(wanted.stop, extent))
            if not kept:
                raise Error(
                    f"part {axis}={wanted.start}:{wanted.stop} is outside of {self.title!r}, which has {extent} along "
                    f"{axis}; start below {extent} [part-outside]"
                )
            if len(kept) < extent:
                said.append(f"{axis} = {kept.start} to {kept.stop - 1} of {extent}")
            ranges.append(slice(kept.start, kept.stop))
        window = tuple(ranges)
        return replace(
            self,
            title=", ".join([self.title, *said]),
            labels=self.labels[window],
            colours=self.colours[window],
            marked=None if self.marked is None else self.marked[window],
        )


@dataclass(frozen=True)
class Picture:
    """Panels, row by row in `columns` columns; None leaves a place empty. `name` is the subject, for messages."""

    name: str
    title: str
    panels: tuple[Panel | None, ...]
    columns: int = 1

    @property
    def drawn(self) -> tuple[Panel, ...]:
        return tuple(panel for panel in self.panels if panel is not None)

    @property
    def cells(self) -> int:
        return sum(panel.labels.size for panel in self.drawn)

    def extents(self) -> dict[str, int]:
        """The largest extent along each axis."""
        found: dict[str, int] = {}
        for panel in self.drawn:
            for axis, extent in panel.extents().items():
                found[axis] = max(extent, found.get(axis, 0))
        return found

    def cut(self, part: Part) -> "Picture":
        """The part of every panel. Raises Error for an axis that no panel has."""
        known = self.extents()
        for axis in part:
            if axis not in known:
                raise Error(
                    f"{self.name} has no axis {axis!r} to take a part of; its axes are {', '.join(known)} [part-axis]"
                )
        return replace(self, panels=tuple(None if panel is None else panel.cut(part) for panel in self.panels))

    def check_readable(self) -> None:
        """Raise Error, with a part that can be drawn, if there are too many cells to read."""
        extents = self.extents()
        longest = max(extents, key=lambda axis: extents[axis])
        if self.cells <= MOST_CELLS and extents[longest] <= MOST_SIDE:
            return
        what = (
            f"{self.cells} cells; {MOST_CELLS}"
            if self.cells > MOST_CELLS
            else f"{extents[longest]} cells along {longest}; {MOST_SIDE}"
        )
        part = ",".join(f"{axis}=0:{extent}" for axis, extent in self._readable().items() if extent < extents[axis])
        raise Error(f"{self.name} has {what} are the most that can be read; draw a part: --part {part} [part-readable]")

    def _readable(self) -> dict[str, int]:
        """Readable extents: the longest is halved until all fit."""
        kept = {axis: min(extent, MOST_SIDE) for axis, extent in self.extents().items()}
        while self._cells_within(kept) > MOST_CELLS:
            longest = max(kept, key=lambda axis: kept[axis])
            kept[longest] = -(-kept[longest] // 2)
        return kept

    def _cells_within(self, kept: Mapping[str, int]) -> int:
        return sum(
            int(np.prod([min(extent, kept[axis]) for axis, extent in panel.extents().items()])) for panel in self.drawn
        )
