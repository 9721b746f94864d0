"""A picture as SVG or PNG, drawn by `tensor_layouts.viz`."""

import importlib
import math
import re
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensor_layouts import ComposedLayout, Layout

from lowtide.compiler.whole_files import check_writable, write_whole
from lowtide.errors import Error
from lowtide.inspection.draw.panels import Picture

FORMATS = (".svg", ".png")

# Inches. viz makes labels of 8 to 4 points, smaller for more rows of panels.
_CELL, _SMALL_CELL = 0.45, 0.22
_ROWS_OF_LARGE_CELLS = 2
_MARGIN, _LINE, _NARROWEST = 1.2, 0.17, 4.0  # around a panel; a line of its title; a panel
_CHARACTERS = 10.5  # of a title per inch
_TITLE_FROM_TOP, _TITLE_LINE = 0.02, 0.21  # of the whole picture: its position in viz, relative to the height; a line
_DPI, _SMALL_CELL_DPI, _MOST_PIXELS = 200, 300, 60e6
_NOTHING = Layout((0, 0), (0, 0))
# Text stays text, in a font that viewers have or one of the same width; one picture always gives the same file.
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lowtide",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "figure.max_open_warning": 0,
}


def check_file(path: Path) -> None:
    """Raise Error if the picture could not be written: another format, no folder, no matplotlib."""
    if path.suffix.lower() not in FORMATS:
        raise Error(f"{path}: pictures are {' or '.join(FORMATS)}; end the name in one of these [picture-format]")
    check_writable(path)
    viz_or_refuse()


def viz_or_refuse() -> Any:
    """`tensor_layouts.viz`. Raises Error, which says how to install it, without matplotlib."""
    try:
        return importlib.import_module("tensor_layouts.viz")
    except ImportError:
        raise Error(
            "pictures are drawn by matplotlib, which is not installed; pip install 'lowtide[draw]'"
            " [pictures-matplotlib]"
        ) from None


def write_picture(picture: Picture, path: Path) -> None:
    """Write the picture, completely or not at all. Raises Error for too many cells to read, and as `check_file`."""
    picture.check_readable()
    check_file(path)
    write_whole(path, picture_bytes(picture, path.suffix.lower()))


def picture_bytes(picture: Picture, suffix: str) -> bytes:
    """The contents of a file of a readable picture: `.svg` (UTF-8) or `.png`. Raises Error without matplotlib."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"picture{suffix}"
        _draw(picture, file)
        return _plain(file.read_text(encoding="utf-8")).encode() if suffix == ".svg" else file.read_bytes()


def _draw(picture: Picture, file: Path) -> None:
    viz, matplotlib = viz_or_refuse(), importlib.import_module("matplotlib")
    rows = -(-len(picture.panels) // picture.columns)
    cell, dpi = (_CELL, _DPI) if rows <= _ROWS_OF_LARGE_CELLS else (_SMALL_CELL, _SMALL_CELL_DPI)
    tallest, widest = (max(panel.labels.shape[axis] for panel in picture.drawn) for axis in (0, 1))
    width = max(widest * cell + _MARGIN, _NARROWEST)
    title = _wrapped(picture.title, width * picture.columns)
    titles = ["" if panel is None else _wrapped(panel.title, width) for panel in picture.panels]
    lines = max(text.count("\n") for text in titles)
    height = tallest * cell + _MARGIN + _LINE * lines
    # viz puts the title of the picture over those of the first panels, so empty lines move these down.
    above = _TITLE_FROM_TOP * rows * height + _TITLE_LINE * (1 + title.count("\n"))
    space = math.ceil(above / _LINE)
    titles = [("\n" * space if place < picture.columns else "") + text for place, text in enumerate(titles)]
    height += _LINE * space
    pixels = rows * height * picture.columns * width
    with matplotlib.rc_context(_SETTINGS):
        viz.draw_composite(
            _for_viz(picture),
            file,
            arrangement=f"grid:{rows}x{picture.columns}",
            titles=titles,
            main_title=title,
            dpi=min(dpi, int(math.sqrt(_MOST_PIXELS / pixels))),
            panel_size=(width, height),
            colorize=True,
        )


def _wrapped(title: str, width: float) -> str:
    return textwrap.fill(title, max(20, int(width * _CHARACTERS)))


def _for_viz(picture: Picture) -> list[tuple[Any, dict[str, Any]]]:
    """The panels in viz's form: a layout to the numbers of the labels, one to the colours, and the labels.

    All numbers have the same number of digits, because viz makes labels smaller for longer numbers.
    """
    names = np.unique(np.concatenate([panel.labels.reshape(-1) for panel in picture.drawn]))
    first = next(power for power in (1, 10, 100, 1000) if len(names) <= 9 * power)
    labels = {first + number: name for number, name in enumerate(names.tolist())}
    found: list[tuple[Any, dict[str, Any]]] = []
    for panel in picture.panels:
        if panel is None:
            found.append((_NOTHING, {}))
            continue
        numbers = first + np.searchsorted(names, panel.labels)
        colours, marked = _table(panel.colours), panel.marked
        found.append((_table(numbers), {"cell_labels": labels, "color_layout": colours, "highlight_mask": marked}))
    return found


def _table(values: NDArray[np.int64]) -> ComposedLayout:
    """(row, column) to the value in a table, as a layout: viz needs one, but these values have no strides."""
    rows = values.shape[0]
    return ComposedLayout(values.T.reshape(-1).tolist().__getitem__, Layout(values.shape, (1, rows)))


def _plain(svg: str) -> str:
    """Remove the date and invisible decimals, so that a command always gives the same text."""
    svg = re.sub(r" *<dc:date>.*?</dc:date>\n", "", svg)
    return re.sub(r"(\d\.\d\d)\d+", r"\1", svg)
