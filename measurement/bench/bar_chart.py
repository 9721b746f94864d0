"""Bar charts of speeds: as text for a terminal, and as SVG for a page, drawn by matplotlib."""

import importlib
import io
import textwrap
from collections.abc import Sequence
from types import ModuleType

from lowtide.errors import Error

Bar = tuple[str, float, float]
"""Name, sustained speed, burst speed, both in one unit."""

_BLOCKS = " ▏▎▍▌▋▊▉█"  # eighths of a column
_WIDTH = 48  # columns of the longest bar in text

_SUSTAINED, _BURST, _PEER = "#1f5f8b", "#9cc3dd", "#8a8a8a"
_TITLE_COLUMNS = 60


def text_bars(bars: Sequence[Bar]) -> str:
    """One line per bar, with the sustained speed."""
    most = max(sustained for _, sustained, _ in bars)
    width = max(len(name) for name, _, _ in bars)
    lines = []
    for name, sustained, _ in bars:
        whole, eighths = divmod(round(8 * _WIDTH * sustained / most), 8)
        drawn = "█" * whole + _BLOCKS[eighths].strip()
        lines.append(f"{name:<{width}}  {drawn} {_figure(sustained)}")
    return "\n".join(lines)


def _figure(speed: float) -> str:
    return f"{speed:.{0 if speed >= 100 else 1}f}"


def matplotlib_or_refuse() -> ModuleType:
    """matplotlib. Raises Error, with the command to install it, if it is missing."""
    try:
        return importlib.import_module("matplotlib")
    except ImportError:
        raise Error(
            "charts need matplotlib, which is not installed; pip install 'lowtide[bench]' [charts-matplotlib]"
        ) from None


def svg(title: str, unit: str, bars: Sequence[Bar]) -> str:
    """Two bars per row, sustained above burst. The last row is the peer; a dashed line marks its sustained speed.

    Raises Error if matplotlib is missing.
    """
    settings = {"svg.fonttype": "none", "svg.hashsalt": "lowtide", "font.family": "monospace", "font.size": 9}
    with matplotlib_or_refuse().rc_context(settings):
        figure = importlib.import_module("matplotlib.figure").Figure(
            figsize=(9, 1.3 + 0.42 * len(bars)), layout="constrained"
        )
        axes = figure.add_subplot()
        rows = range(len(bars))
        colours = [*[_SUSTAINED] * (len(bars) - 1), _PEER]
        drawn = (
            axes.barh([row - 0.2 for row in rows], [one[1] for one in bars], 0.4, color=colours, label="sustained"),
            axes.barh([row + 0.2 for row in rows], [one[2] for one in bars], 0.4, color=_BURST, label="burst"),
        )
        # The line is behind the bars, and each figure has a background, so the line crosses neither.
        axes.axvline(bars[-1][1], color=_PEER, linestyle="--", linewidth=1, zorder=0)
        for container in drawn:
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
            axes.bar_label(container, fmt=_figure, padding=3, fontsize=8, bbox=ground)
        axes.set_yticks(rows, [one[0] for one in bars])
        axes.invert_yaxis()
        axes.margins(x=0.08, y=0.01)
        axes.set_xlabel(unit)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(handles=drawn, loc="outside upper right", ncols=2, frameon=False)
        figure.suptitle(textwrap.fill(title, _TITLE_COLUMNS), x=0.01, ha="left", fontsize=10)
        text = io.StringIO()
        figure.savefig(text, format="svg", facecolor="white", metadata={"Date": None, "Title": title})
    return text.getvalue()
