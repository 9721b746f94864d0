"""Analyses a text by MLIR's parser and verifier, and by the rules of levels and schedules."""

import re
from collections.abc import Iterator

from mlir import ir

from lowtide.compiler.contexts import make_context
from lowtide.dialects._lowtide import positions
from lowtide.dialects.levels import LEVEL_ATTRIBUTE
from lowtide.dialects.locations import place_of
from lowtide.dialects.text import check_text
from lowtide.errors import Error, code_of, without_codes
from lowtide.inspection.editor.analysis import Analysis, Definition, OpPlace, Problem
from lowtide.inspection.editor.rules import check_rules
from lowtide.inspection.editor.text import Range, Text

MOST_BYTES = 4 * 2**20
"""Of a text that is analysed: about 20 times the longest dump of a kernel."""
_FILE = "<text>"  # in locations
_PLACE = re.compile(rf"{_FILE}:(\d+)(?::(\d+))?: ")
_SEPARATOR = re.compile(rb"^// -----.*$", re.MULTILINE)  # as in files that `lowtide-opt --split-input-file` reads
_ATTEMPTS = 8
_CURRENT_OPERATION = "see current operation:"  # a note with the op, which the editor shows anyway


def analyze(text: str) -> Analysis:
    """The analysis of a text. Lines `// -----` divide it into modules."""
    whole, found = Text(text), Analysis()
    if len(whole.encoded) > MOST_BYTES:
        limit = f"the file has more than {MOST_BYTES // 2**20} MiB, and is not checked; lowtide-opt has no such limit"
        found.problems.append(Problem((0, 0), limit, severity="information"))
        return found
    try:
        check_text(text, _FILE)
    except Error as error:
        found.problems.append(_of_error(error, whole))
        return found
    start = 0
    for end in (*(line.start() for line in _SEPARATOR.finditer(whole.encoded)), len(whole.encoded)):
        _add_part(found, whole, start, end)
        start = end
    return found


def _add_part(found: Analysis, whole: Text, start: int, end: int) -> None:
    """Add a module. MLIR gets blanks in place of the text before it, so that its places are those of the whole text."""
    before = re.sub(rb"[^\n]", b" ", whole.encoded[:start])
    part = Text((before + whole.encoded[start:end]).decode())
    problems: list[Problem] = []
    module, ops, definitions = _parsed(part, problems)
    if module is not None and LEVEL_ATTRIBUTE in module.operation.attributes:
        level = module.operation.attributes[LEVEL_ATTRIBUTE]
        found.level = level.value if isinstance(level, ir.StringAttr) else None
        problems += _broken_rules(module, part)
    found.problems += problems
    found.ops += (OpPlace(name, place, all_) for name, place, all_ in ops)
    found.definitions += (_definition(*each) for each in definitions)


def _definition(place: Range, uses: list[Range], meaning: str) -> Definition:
    return Definition(
        place, tuple(use for use in uses if use != place), meaning
    )  # MLIR lists some symbols as used there


_Parsed = tuple[ir.Module | None, list[tuple[str, Range, Range]], list[tuple[Range, list[Range], str]]]


def _parsed(part: Text, problems: list[Problem]) -> _Parsed:
    """The module of a part, or None, with the places that were found.

    The parser stops at the first error. To find more places, the line of the error is left out and the rest is parsed
    again; errors of these attempts are not reported.
    """
    encoded = part.encoded
    best: _Parsed = (None, [], [])
    for attempt in range(_ATTEMPTS):
        with make_context() as context, _Taken(context, part) as taken:
            found = positions(encoded.decode(), _FILE, context)
        if attempt == 0:
            problems += taken.problems
        # In a whole text all types are known: that is worth the op of a line left out, but no more.
        if len(found[1]) + (found[0] is not None) >= len(best[1]):
            best = found
        if found[0] is not None or not taken.problems:
            break
        at = taken.problems[0].place[0]
        start, end = encoded.rfind(b"\n", 0, at) + 1, (encoded + b"\n").index(b"\n", at)
        if not encoded[start:end].strip():
            break
        encoded = encoded[:start] + b" " * (end - start) + encoded[end:]
    return (best[0] if not problems else None, *best[1:])


def _broken_rules(module: ir.Module, part: Text) -> list[Problem]:
    """The first broken rule of the level or of the schedule. The module is changed."""
    with _Taken(module.context, part) as taken:
        try:
            check_rules(module)
        except Error as error:
            # A pass that refuses, ours or MLIR's, says so at the op; a check of levels only raises.
            return [each for each in taken.problems if each.severity == "error"] or [_of_error(error, part)]
    return []


def _of_error(error: Error, text: Text) -> Problem:
    """An error of Lowtide, at the place that its message names, or at the beginning."""
    message, found = str(error), _PLACE.search(str(error))
    at = 0 if found is None else text.mlir_offset(int(found[1]), int(found[2] or 1))
    message = without_codes(_PLACE.sub("", message)).partition("\n")[0]
    return Problem(text.token(at), message, error.code)


class _Taken:
    """Collects MLIR's errors and warnings in a `with` block, in place of standard error."""

    def __init__(self, context: ir.Context, text: Text) -> None:
        self.context, self.text = context, text
        self.problems: list[Problem] = []

    def __enter__(self) -> "_Taken":
        self._handler = self.context.attach_diagnostic_handler(self._take)
        return self

    def __exit__(self, *error: object) -> None:
        self._handler.detach()
        del self._handler  # which holds this object: a cycle that is not freed by counting

    def _take(self, diagnostic: ir.Diagnostic) -> bool:
        severity = diagnostic.severity.name.lower()
        if severity in ("error", "warning"):
            code = code_of(diagnostic.message)
            notes = tuple(self._notes(diagnostic))
            message = without_codes(diagnostic.message)
            self.problems.append(Problem(self._place(diagnostic.location), message, code, severity, notes))
        return True

    def _notes(self, diagnostic: ir.Diagnostic) -> Iterator[tuple[Range, str]]:
        for note in diagnostic.notes:
            if not note.message.startswith(_CURRENT_OPERATION):
                yield self._place(note.location), note.message

    def _place(self, location: ir.Location) -> Range:
        place = place_of(location)
        return self.text.token(0 if place is None else self.text.mlir_offset(*place[1:]))
