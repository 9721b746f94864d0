"""The panels of an SVG that `lowtide draw` wrote, read back: every cell's label and colour."""

import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

_SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Drawn:
    """One panel: its title, the numbers along its sides, its cells row by row, and how many have a red border."""

    title: str
    rows: list[str]
    columns: list[str]
    labels: NDArray[np.str_]
    colours: NDArray[np.str_]
    marked: int


def drawn_panels(file: Path) -> list[Drawn]:
    """The panels that are not empty, in the order of the picture."""
    root = ElementTree.parse(file).getroot()
    groups = (group for group in root.iter(f"{_SVG}g") if group.get("id", "").startswith("axes_"))
    return [panel for group in groups if (panel := _panel(group)) is not None]


def title_of(file: Path) -> str:
    """The title of the whole picture."""
    root = ElementTree.parse(file).getroot()
    figure = next(group for group in root.iter(f"{_SVG}g") if group.get("id") == "figure_1")
    return " ".join(_text(group) for group in figure if group.get("id", "").startswith("text_"))


def _panel(group: ElementTree.Element) -> Drawn | None:
    styles = [path.get("style", "") for path in group.iter(f"{_SVG}path")]
    fills = [re.search(r"fill: (#\w+)", style)[1] for style in styles]  # type: ignore[index]
    red = sum("stroke: #ff0000" in style for style in styles)
    texts = [_text(child) for child in group if child.get("id", "").startswith("text_")]
    if not fills:
        return None
    cells = len(fills) - red
    titles, side = len(texts) - cells, texts[-1]
    # Behind the cells stand the numbers of the rows, then those of the columns, which start at 0 again.
    behind = next(count for count in range(titles, 0, -1) if _counts_twice(texts[len(texts) - count :]))
    numbers = texts[len(texts) - behind :]
    split = len(numbers) - int(side) - 1
    rows, columns = numbers[:split], numbers[split:]
    labels = np.array(texts[len(texts) - behind - cells : len(texts) - behind]).reshape(len(rows), len(columns))
    colours = np.array(fills[:cells]).reshape(labels.shape)
    return Drawn(" ".join(texts[: titles - behind]), rows, columns, labels, colours, red)


def _counts_twice(texts: list[str]) -> bool:
    """Whether the texts are 0, 1, … twice."""
    if not all(text.isdigit() for text in texts):
        return False
    split = len(texts) - int(texts[-1]) - 1
    return split > 0 and texts == [*map(str, range(split)), *map(str, range(len(texts) - split))]


def _text(group: ElementTree.Element) -> str:
    """The lines of a text, joined by newlines."""
    return "\n".join(text.text.strip() for text in group.iter(f"{_SVG}text") if text.text and text.text.strip())
