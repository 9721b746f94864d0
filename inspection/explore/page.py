"""The page: the data, compressed, in one HTML file with its style and scripts, which loads nothing else.

A browser runs no script but the page's own: the policy in its head names the hash of the text.
"""

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from lowtide.errors import Error

MOST_BYTES = 32_000_000
_FOLDER = "assets"


def page_text(data: Mapping[str, Any]) -> str:
    """The HTML of a page. Raises Error if it is too large to open."""
    style, script = _assets()
    # With sort_keys unset and no time in the gzip header, equal data are equal pages.
    packed = gzip.compress(json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode(), mtime=0)
    found = _filled(
        _asset("page.html"),
        {
            "title": html.escape(f"{data['title']}"),
            "version": html.escape(f"{data['lowtide']}"),
            "style": style,
            "style_hash": _hash(style),
            "script": script,
            "script_hash": _hash(script),
            "data": base64.b64encode(packed).decode(),
        },
    )
    if len(found) > MOST_BYTES:
        raise Error(
            f"the page would have {len(found):,} bytes; the most is {MOST_BYTES:,}; read the dumps instead"
            " [explored-size]"
        )
    return found


def is_of_these_assets(page: str) -> bool:
    """Whether a page has the style and the scripts that `page_text` would give it."""
    return all(f"'sha256-{_hash(text)}'" in page for text in _assets())


def _assets() -> tuple[str, str]:
    """The style, and all scripts as one."""
    folder = files(__package__) / _FOLDER
    scripts = sorted(path.name for path in folder.iterdir() if path.name.endswith(".js"))
    return _asset("page.css"), "\n".join(['"use strict";', *map(_asset, scripts)])


def _asset(name: str) -> str:
    return (files(__package__) / _FOLDER / name).read_text(encoding="utf-8")


def _filled(template: str, parts: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _hash(text: str) -> str:
    """As a policy names a text (Content Security Policy Level 3, "hash-source")."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
