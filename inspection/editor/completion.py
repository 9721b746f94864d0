"""What may be written at a place: ops, fields and words of schedules, names of levels and targets."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from lowtide.compiler.contexts import make_context
from lowtide.dialects._lowtide import known_ops
from lowtide.dialects.levels import LEVEL_ATTRIBUTE, TARGET_ATTRIBUTE, Level, life_of
from lowtide.inspection.editor import schedules
from lowtide.inspection.editor.documentation import summary
from lowtide.inspection.editor.text import Text
from lowtide.targets import KNOWN

# An op begins a line, or follows its results.
_OP = re.compile(r"(?:^|\n)[ \t]*(?:%[\w$.:#, %-]+=[ \t]*)?([a-z][\w.]*|)$")
_NAME = re.compile(rf'({re.escape(LEVEL_ATTRIBUTE)}|{re.escape(TARGET_ATTRIBUTE)})\s*=\s*"(\w*)$')
_MOST = 1_000  # characters of a line before the cursor


@dataclass(frozen=True)
class Choice:
    """A text to insert, a description of it, and the number of bytes before the cursor that it replaces."""

    text: str
    detail: str
    typed: int


def choices_at(text: Text, offset: int, level: str | None) -> list[Choice]:
    """What may be written at a byte, best choices first. `level`: that of the module, if it is known."""
    before = text.part((0, offset))
    place = schedules.place_in(before)
    if place is not None:
        typed = _typed(r"[\w.]*$", before)
        return [Choice(word, detail, typed) for word, detail in schedules.choices(place)]
    named = _NAME.search(before[-_MOST:])
    if named is not None:
        names = map(str, Level) if named[1] == LEVEL_ATTRIBUTE else (target.name for target in KNOWN)
        return [Choice(name, named[1], len(named[2])) for name in names]
    op = _OP.search(before[-_MOST:])
    return [] if op is None else [Choice(name, detail, len(op[1])) for name, detail in _ops(level)]


def _typed(pattern: str, before: str) -> int:
    found = re.search(pattern, before)
    return len(found[0]) if found else 0


def _ops(level: str | None) -> Iterator[tuple[str, str]]:
    """The ops of all levels; those of the module's level first."""
    known = next((each for each in Level if str(each) == level), None)
    legal = {name for name in _names() if known is None or _stands_at(name, known)}
    for name in (*(name for name in _names() if name in legal), *(name for name in _names() if name not in legal)):
        yield name, summary(name) if name in legal else f"not legal at level {level}"


@cache
def _names() -> tuple[str, ...]:
    return tuple(name for name in sorted(known_ops(make_context())) if life_of(name, True) or life_of(name, False))


def _stands_at(name: str, level: Level) -> bool:
    return any(life and life.first <= level <= life.last for life in (life_of(name, True), life_of(name, False)))
