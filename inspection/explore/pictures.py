"""The pictures of `lowtide draw` as data: the thread or the bank of each element, which page.js draws as tables."""

from typing import Any

from lowtide.errors import Error
from lowtide.inspection.draw.kernels import VIEWS, kernel_picture
from lowtide.inspection.draw.panels import Panel


def pictures_of(text: str, notes: list[str]) -> list[dict[str, Any]]:
    """The views of a kernel of level `epilogue`, each a `name`, a `title` and its `panels`. If the text cannot be
    drawn, the result is empty, and a note says why."""
    found = []
    for name in ("banks", *(each for each in VIEWS if each != "banks")):
        try:
            picture = kernel_picture(text, show=name)
        except Error as error:
            if error.code == "no-view":
                continue
            notes.append(f"pictures are left out: {str(error).splitlines()[0]}")
            return []
        found.append({"name": name, "title": picture.title, "panels": [_plain(panel) for panel in picture.drawn]})
    return found


def _plain(panel: Panel) -> dict[str, Any]:
    """`labels` and `colours` by row and column, and the cells that are `marked`."""
    marked = (
        [] if panel.marked is None else [[int(at) for at in cell] for cell in zip(*panel.marked.nonzero(), strict=True)]
    )
    return {
        "title": panel.title,
        "axes": list(panel.axes),
        "labels": panel.labels.tolist(),
        "colours": panel.colours.tolist(),
        "marked": marked,
    }
