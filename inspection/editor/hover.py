"""What an editor shows for the word under the pointer."""

import re

from lowtide.inspection.editor import documentation, schedules
from lowtide.inspection.editor.analysis import Analysis
from lowtide.inspection.editor.text import Range, Text

_WORD = re.compile(rb"[#!]?[\w.]+")
_MOST = 2_000  # characters of a type or alias


def hover_at(analysis: Analysis, text: Text, offset: int) -> tuple[str, Range] | None:
    """Markdown, and the place that it describes. For the name of an op it is the documentation; for a value, its types;
    for an alias, its value; for an attribute, a type, or a field of a schedule, its meaning. None for other places."""
    op = analysis.op_named_at(offset)
    if op is not None:
        found = documentation.of_op(op.name)
        return (found, op.place) if found else None
    place = _word_at(text, offset)
    defined = analysis.definition(offset)
    if defined is not None and defined.meaning:
        name = text.part(defined.place)
        joined = " = " if name[0] in "#!" else ": "
        meaning = defined.meaning if len(defined.meaning) <= _MOST else defined.meaning[:_MOST] + "…"
        return f"```mlir\n{name}{joined}{meaning}\n```", place or defined.place
    if place is None:
        return None
    word = text.part(place)
    if word[0] in "#!":
        found = documentation.of_symbol(word)
    else:
        part = schedules.part_around(text.part((0, place[0])))
        found = "" if part is None else documentation.of_field(part, word)
    return (found, place) if found else None


def _word_at(text: Text, offset: int) -> Range | None:
    line = text.encoded.rfind(b"\n", 0, offset) + 1
    end = text.encoded.find(b"\n", offset)
    words = _WORD.finditer(text.encoded, line, len(text.encoded) if end < 0 else end)
    return next((word.span() for word in words if word.start() <= offset <= word.end()), None)
