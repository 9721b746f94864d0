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
    folder = files(__package__) / _FOLDER
    scripts = sorted(path.name for path in folder.iterdir() if path.name.endswith(".js"))
    script = "\n".join(['"use strict";', *((folder / name).read_text(encoding="utf-8") for name in scripts)])
    style = (folder / "page.css").read_text(encoding="utf-8")
    # With sort_keys unset and no time in the gzip header, equal data are equal pages.
    packed = gzip.compress(json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode(), mtime=0)
    found = _filled(
        (folder / "page.html").read_text(encoding="utf-8"),
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


def _filled(template: str, parts: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _hash(text: str) -> str:
    """As a policy names a text (Content Security Policy Level 3, "hash-source")."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
