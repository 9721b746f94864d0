"""Bars of a table's speeds: as text for a terminal, as SVG for a page. No library draws them."""

from collections.abc import Sequence
from html import escape

Bar = tuple[str, float, float]
"""Name, sustained, burst, in one unit."""

_BLOCKS = " ▏▎▍▌▋▊▉█"  # eighths of a column
_WIDTH = 48  # columns of the longest text bar

_ROW, _BAR, _TOP, _SCALE = 34, 11, 56, 420.0  # SVG user units
_MARGIN = 12
_CHARACTER = 7.2
_SUSTAINED, _BURST, _PEER = "#1f5f8b", "#9cc3dd", "#8a8a8a"


def text_bars(bars: Sequence[Bar]) -> str:
    """A line a bar, of the sustained speed."""
    most = max(sustained for _, sustained, _ in bars)
    width = max(len(name) for name, _, _ in bars)
    lines = []
    for name, sustained, _ in bars:
        whole, eighths = divmod(round(8 * _WIDTH * sustained / most), 8)
        drawn = "█" * whole + _BLOCKS[eighths].strip()
        lines.append(f"{name:<{width}}  {drawn} {sustained:.0f}")
    return "\n".join(lines)


def svg(title: str, unit: str, bars: Sequence[Bar]) -> str:
    """Two bars a row, sustained above burst; the last row is the peer, whose speeds are also drawn as lines across.

    Readable on light and on dark pages: it brings its own ground.
    """
    most = max(max(sustained, burst) for _, sustained, burst in bars)
    left = _MARGIN + _CHARACTER * max(len(name) for name, _, _ in bars) + _MARGIN
    width, height = left + _SCALE + 70, _TOP + _ROW * len(bars) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}" font-family="ui-monospace, monospace" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="22" font-size="14" fill="#222222">{escape(title)}</text>',
        *_legend(left, unit),
    ]
    for row, (name, sustained, burst) in enumerate(bars):
        is_peer = row == len(bars) - 1
        top = _TOP + _ROW * row
        parts.append(f'<text x="{_MARGIN}" y="{top + _BAR + 4}" fill="#222222">{escape(name)}</text>')
        for offset, value, colour in ((0, sustained, _PEER if is_peer else _SUSTAINED), (_BAR + 1, burst, _BURST)):
            length = _SCALE * value / most
            parts.append(
                f'<rect x="{left:.1f}" y="{top + offset}" width="{length:.1f}" height="{_BAR}" fill="{colour}"/>'
            )
            parts.append(
                f'<text x="{left + length + 4:.1f}" y="{top + offset + 10}" font-size="10" fill="#222222">'
                f"{value:.0f}</text>"
            )
    _, sustained, _ = bars[-1]
    line = left + _SCALE * sustained / most
    parts.append(
        f'<line x1="{line:.1f}" x2="{line:.1f}" y1="{_TOP - 4}" y2="{height - _MARGIN}" stroke="{_PEER}" '
        'stroke-dasharray="4 3"/>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(left: float, unit: str) -> list[str]:
    parts = []
    for place, (text, colour) in enumerate((("sustained", _SUSTAINED), ("burst", _BURST))):
        x = left + 110 * place
        parts.append(f'<rect x="{x:.1f}" y="34" width="{_BAR}" height="{_BAR}" fill="{colour}"/>')
        parts.append(f'<text x="{x + _BAR + 4:.1f}" y="44" fill="#222222">{text}</text>')
    parts.append(f'<text x="{left + 220:.1f}" y="44" fill="#222222">{escape(unit)}</text>')
    return parts
