"""Documentation of ops, attributes and types, and of the fields of schedules, as Markdown.

For our dialects it comes from ODS; the build writes it to `dialects/_…_docs_gen.py`. For upstream's dialects it comes
from the docstrings of MLIR's Python classes.
"""

import importlib
import inspect
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from lowtide.dialects import _sm_docs_gen, _tile_docs_gen
from lowtide.dialects.levels import life_of
from lowtide.dialects.tile.parts import Part

_PAGES = (_tile_docs_gen.TEXT, _sm_docs_gen.TEXT)
_TITLE = re.compile(r"`?([\w.]+)`?.*\n")
_SYMBOL = re.compile(r"^([#!]\w+\.\w+)[<\n]", re.MULTILINE)  # how an attribute or type is written
_CPP = re.compile(
    r"^Syntax:\s+```\n[#!](?s:.*?)\n```\n"  # parameters in C++; the example shows the syntax
    r"|^Syntax: `[#!].*\n"
    r"|^####(?s:.*)\Z"  # tables of operands, attributes and parameters in C++
    r"|^(?:Traits|Interfaces|Effects): .*\n",
    re.MULTILINE,
)
_ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| (.*?) \| (.*) \|$", re.MULTILINE)


@cache
def _sections() -> Mapping[str, str]:
    """The text of each section: by the name of an op; by the class of an attribute or type, and as it is written."""
    found: dict[str, str] = {}
    for page in _PAGES:
        for section in re.split(r"^#{2,3} ", page, flags=re.MULTILINE)[1:]:
            title = _TITLE.match(section)
            if title is None:
                continue
            text = section[title.end() :]
            names = [title[1], *dict.fromkeys(_SYMBOL.findall(text))]
            cleaned = re.sub(r"\n{3,}", "\n\n", _CPP.sub("", text)).strip()
            for name in names[: 1 if "." in title[1] else 2]:
                found.setdefault(name, cleaned)
    return MappingProxyType(found)


def of_op(name: str) -> str:
    """The documentation of an op, with the levels at which it is legal; "" for an unknown op."""
    text = _sections().get(name) or _of_upstream(name)
    levels = _levels(name)
    return "\n\n".join(part for part in (f"**{name}**", text, levels) if part) if text or levels else ""


def of_symbol(written: str) -> str:
    """The documentation of an attribute or type, `#tile.layout` or `!sm.ring`; "" for an unknown one."""
    text = _sections().get(written, "")
    return f"**{written}**\n\n{text}" if text else ""


def of_field(part: type[Part], field: str) -> str:
    """The values and the meaning of a field of a part of a schedule; "" for an unknown field."""
    for names, values, meaning in _ROW.findall(_sections().get(f"{part.__name__}Attr", "")):
        if f"`{field}`" in names:
            return f"**{field}** = {values}\n\n{meaning}"
    return ""


def summary(name: str) -> str:
    """The summary of an op of our dialects; "" for others."""
    found = re.match(r"_(.+)_\n", _sections().get(name, "") + "\n")
    return found[1] if found else ""


def _levels(name: str) -> str:
    lives = {side: life_of(name, host=side == "host functions") for side in ("host functions", "device code")}
    found = [
        f"in {side} at level `{life.first}`" + (f" to `{life.last}`" if life.last != life.first else "")
        for side, life in lives.items()
        if life is not None
    ]
    return f"Legal {'; '.join(found)}." if found else ""


@cache
def _of_upstream(name: str) -> str:
    try:
        module = importlib.import_module(f"mlir.dialects._{name.partition('.')[0]}_ops_gen")
    except ImportError:
        return ""
    classes = (each for each in vars(module).values() if inspect.isclass(each))
    own = next((each for each in classes if getattr(each, "OPERATION_NAME", None) == name), None)
    return inspect.cleandoc(own.__doc__ or "") if own is not None else ""
