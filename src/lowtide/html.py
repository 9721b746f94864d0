"""Tables of HTML, which notebooks show. All text is escaped."""

from collections.abc import Iterable, Sequence
from html import escape


def table(title: str, rows: Iterable[Sequence[str]]) -> str:
    """A table with a caption. The first cell of a row names it; the other cells are code, whose lines are kept."""
    body = "".join(f"<tr>{_name(name)}{''.join(map(_cell, cells))}</tr>" for name, *cells in rows)
    return f"<table><caption>{escape(title)}</caption><tbody>{body}</tbody></table>"


def _name(text: str) -> str:
    return f'<th scope="row" style="text-align:left">{escape(text)}</th>'


def _cell(text: str) -> str:
    return f'<td style="text-align:left"><code style="white-space:pre-wrap">{escape(text)}</code></td>'
