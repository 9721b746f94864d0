"""The diagnostics that a test expects, in comments, compared with those reported.

For `lowtide-opt --verify-diagnostics`, as in mlir-opt: `// expected-error @+1 {{part of the message}}`, with error,
warning, remark or note. It refers to its own line, or to `@+n`, `@-n`, `@above`, `@below` (the next line without an
expectation), or `@unknown` for a diagnostic without a location in the file. In `expected-error-re`, `{{…}}` inside the
braces is a regular expression.
"""

import re
from dataclasses import dataclass

from lowtide.errors import Error

_EXPECTED = re.compile(
    r"expected-(?P<kind>error|warning|remark|note)(?P<re>-re)?\s*(?:@(?P<place>[+-]\d+|above|below|unknown))?\s*"
    r"\{\{(?P<text>.*)\}\}\s*$"
)


@dataclass(frozen=True)
class Report:
    """One diagnostic; `line` and `column` are None if it has no location in the file. `elsewhere`: its location in
    another file, or "" if it has none."""

    kind: str
    line: int | None
    column: int | None
    message: str
    elsewhere: str = ""

    def __str__(self) -> str:
        return f"{self.place}{self.kind}: {self.message}"

    @property
    def place(self) -> str:
        """The text before a message: `line:column: `, `file:line:column: `, or nothing."""
        if self.line is None:
            return f"{self.elsewhere}: " if self.elsewhere else ""
        return f"{self.line}:{self.column}: "


@dataclass(frozen=True)
class Expectation:
    """One `expected-…` comment: the line that it refers to (None: unknown), and a pattern for the message."""

    kind: str
    line: int | None
    text: str
    pattern: re.Pattern[str]
    written_at: int

    def matches(self, report: Report) -> bool:
        return report.kind == self.kind and report.line == self.line and self.pattern.search(report.message) is not None


def lines_of(text: str) -> list[str]:
    """The lines as MLIR's parser counts them: only a line feed ends one."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def expectations(text: str, first_line: int = 1) -> list[Expectation]:
    """Every expectation in a text; `first_line` numbers its first line. Raises Error for an invalid pattern."""
    lines = lines_of(text)
    found = [_EXPECTED.search(line) for line in lines]
    result = []
    for index, match in enumerate(found):
        if match is not None:
            line = _line(match["place"], index, found)
            result.append(
                Expectation(
                    kind=match["kind"],
                    line=None if line is None else line + first_line,
                    text=match["text"],
                    pattern=_pattern(match["text"], match["re"] is not None, index + first_line),
                    written_at=index + first_line,
                )
            )
    return result


def _line(place: str | None, index: int, found: list[re.Match[str] | None]) -> int | None:
    """The index of the line that an expectation on line `index` refers to."""
    if place == "unknown":
        return None
    if place in ("above", "below"):
        step = -1 if place == "above" else 1
        index += step
        while 0 <= index < len(found) and found[index] is not None:
            index += step
        return index
    return index + int(place or 0)


def _pattern(text: str, is_regex: bool, line: int) -> re.Pattern[str]:
    if not is_regex:
        return re.compile(re.escape(text))
    parts = re.split(r"\{\{(.*?)\}\}", text)
    try:
        return re.compile("".join(part if i % 2 else re.escape(part) for i, part in enumerate(parts)))
    except (re.error, OverflowError, RecursionError) as error:
        raise Error(
            f"{line}: {text!r} has an invalid regular expression in its braces: {error} [expected-pattern]"
        ) from None


def unmet(expected: list[Expectation], reports: list[Report]) -> list[str]:
    """The differences: reports that were not expected, and expectations without a report. Empty if all match."""
    open_expectations = list(expected)
    complaints = []
    for report in reports:
        match = next((expectation for expectation in open_expectations if expectation.matches(report)), None)
        if match is not None:
            open_expectations.remove(match)
        else:
            complaints.append(f"{report.place}unexpected {report.kind}: {report.message}")
    for expectation in open_expectations:
        complaints.append(
            f'{expectation.written_at}: expected {expectation.kind} "{expectation.text}" was not produced'
            + (f" on line {expectation.line}" if expectation.line is not None else "")
        )
    return complaints
