"""The texts of steps as data: each different line once, and each step as its changes to the step before.

The changes are the diff that the page shows. The texts omit `tile.after`, which names the last step that
ran, so a step that changes nothing has no changes.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lowtide.compiler.origins.origins import PTX_PLACE
from lowtide.inspection.explore.lexer import LevelLexer, PtxLexer, SassLexer, coloured
from lowtide.inspection.explore.steps import SASS_PLACE, Shown

_AFTER = re.compile(r'tile\.after = "[^"\n]*", ')
_ALIKE = 4000  # lines of both texts together, up to which a diff counts common lines too


@dataclass
class Texts:
    """Collects lines. `lines`: the tokens of each different line, in order of appearance."""

    lines: list[list[int | str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """The different names of ops."""
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        levels, ptx, sass = (coloured(lexer()) for lexer in (LevelLexer, PtxLexer, SassLexer))
        self._coloured = {"": levels, PTX_PLACE: ptx, SASS_PLACE: sass}

    def steps(self, shown: Sequence[Shown]) -> list[dict[str, Any]]:
        """The steps as plain data, for page.js.

        `changes`: for each changed range of lines of the step before, its begin and end, from 0, and the numbers of the
        lines in its place. `ops`: for each op its line, from 1, the number of its name, and the lines of its origins in
        the step `before`, which is given by its number."""
        numbers = {step.place: number for number, step in enumerate(shown)}
        found, before = [], list[str]()
        for step in shown:
            lines = _AFTER.sub("", step.text).rstrip("\n").split("\n")
            found.append(
                {
                    "place": step.place,
                    "level": step.level,
                    "edited": step.edited,
                    "before": None if step.before is None else numbers[step.before],
                    "changes": [
                        [start, end, [self._line(line, step.place) for line in lines[first:last]]]
                        for start, end, first, last in changes(before, lines)
                    ],
                    "ops": [[row.line, self._name(row.op), *row.origins] for row in step.rows],
                }
            )
            before = lines
        return found

    def _line(self, text: str, place: str) -> int:
        kind = place if place in self._coloured else ""
        number = self._numbers.setdefault((kind, text), len(self.lines))
        if number == len(self.lines):
            self.lines.append(self._coloured[kind](text))
        return number

    def _name(self, name: str) -> int:
        number = self._names.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


def changes(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """The changed ranges of lines: begin and end before, begin and end after, from 0."""
    autojunk = len(before) + len(after) > _ALIKE
    opcodes = difflib.SequenceMatcher(None, before, after, autojunk=autojunk).get_opcodes()
    return [(a, b, c, d) for tag, a, b, c, d in opcodes if tag != "equal"]
