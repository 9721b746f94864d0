"""Thread-value layouts as panels: the thread and the value number of each element."""

import numpy as np
from numpy.typing import NDArray
from tensor_layouts import Layout

from lowtide.inspection.draw.panels import Panel
from lowtide.targets.tv import Shape, coordinates

Ints = NDArray[np.int64]

LEGEND = "T: thread, V: number of its value"
NOBODY = "–"


def held_panel(title: str, axes: tuple[str, str], tv: Layout, shape: Shape, *, transposed: bool = False) -> Panel:
    """The elements of a tile, with `T3 V1` in the cell of thread 3's value 1, coloured by thread.

    If several threads hold an element, the first is drawn, and the title gives their number. `axes` are those of the
    tile; with `transposed`, the panel's rows are its columns. Raises ScheduleError if the layout exceeds the tile.
    """
    where = coordinates(tv, shape)
    threads, values = where.shape[:2]
    numbers = np.broadcast_to(np.arange(threads)[:, None], (threads, values))
    holders = int(np.unique(where.reshape(-1, 2), axis=0, return_counts=True)[1].max())
    if holders > 1:
        title += f", each element in {holders} threads, the first of which is drawn"
    panel = owner_panel(title, axes, shape, where, numbers, second=("V", np.arange(values)))
    return Panel(panel.title, axes[::-1], panel.labels.T, panel.colours.T) if transposed else panel


def owner_panel(
    title: str,
    axes: tuple[str, str],
    shape: Shape,
    where: Ints,
    owners: Ints,
    *,
    first: str = "T",
    second: tuple[str, Ints] | None = None,
) -> Panel:
    """Elements labelled and coloured by number: `owners` [i, …] is at `where` [i, …] = (row, column).

    The first of several at one place wins. `second`: a letter, and numbers that broadcast to `owners`, in a second
    line.
    """
    labels = np.full(shape, NOBODY, dtype="<U16")
    colours = np.zeros(shape, dtype=np.int64)
    lines = np.char.add(first, owners.astype(str))
    if second is not None:
        lines = np.char.add(lines, np.char.add(f"\n{second[0]}", second[1].astype(str)))
    places, first_of = np.unique(where[..., 0] * shape[1] + where[..., 1], return_index=True)
    labels.reshape(-1)[places] = lines.reshape(-1)[first_of]
    colours.reshape(-1)[places] = owners.reshape(-1)[first_of]
    return Panel(title, axes, labels, colours)
