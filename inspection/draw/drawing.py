"""A picture as a value, which notebooks show: SVG, or text where matplotlib is not installed."""

from dataclasses import dataclass

import numpy as np

from lowtide.errors import Error
from lowtide.inspection.draw.panels import Panel, Picture
from lowtide.inspection.draw.render import picture_bytes

_MOST_ROWS, _MOST_COLUMNS = 32, 32  # of a panel as text


@dataclass(frozen=True, repr=False)
class Drawing:
    """A readable picture. `repr` is its text; in notebooks it is drawn by matplotlib."""

    picture: Picture

    def _repr_svg_(self) -> str | None:
        try:
            return picture_bytes(self.picture, ".svg").decode()
        except Error:  # no matplotlib: notebooks show the text
            return None

    def __repr__(self) -> str:
        return "\n\n".join([self.picture.title, *map(_text, self.picture.drawn)])


def _text(panel: Panel) -> str:
    """A panel as lines of aligned cells. Slashes separate the lines within a cell."""
    cells = np.char.replace(panel.labels[:_MOST_ROWS, :_MOST_COLUMNS].astype(str), "\n", "/")
    width = max(map(len, cells.reshape(-1).tolist()), default=0)
    rows, columns = panel.labels.shape
    more = " …" if columns > _MOST_COLUMNS else ""
    lines = [" ".join(cell.rjust(width) for cell in row) + more for row in cells.tolist()]
    return "\n".join([*[panel.title] * bool(panel.title), *lines, *["…"] * (rows > _MOST_ROWS)])
