"""The verdict of `lowtide check --json`, with the steps and the ops of a page that it names."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lowtide.compiler.contexts import read_text
from lowtide.errors import Error, without_codes
from lowtide.inspection.explore.steps import Steps

_AT = re.compile(r'loc\("((?:[^"\\]|\\.)*)":(\d+):\d+\)|(?<=\sat )(\S+\.mlir|\S+\.ptx):(\d+):\d+')

_FIX = re.compile(
    r"; ((?:put|wait for|let|widen|lay out) [^`;]*?)( \([^()]*\))?$"
)  # the end of what the interpreter says

# An access that races with another: the agent, what it does, the other agent, what that does, why that is wrong, where.
_ACCESS = re.compile(
    r", (CTA \d+ [^:`]*): (?:race \([^)]*\)|in flight): (reads|writes) what ([^,;`]+?) "
    r"(wrote|read|fills|may still read)(?: by `[^`]*`[^;]*)?(, [^;]*)?;.*\(shared memory address \w+, (byte [^()]*)\)"
)


def read_report(path: Path) -> dict[str, Any]:
    """Read a report of `lowtide check --json`. Raises Error for any other file."""
    try:
        found = json.loads(read_text(path, "JSON"))
        if isinstance(found["verdict"], str) and "guilty" in found:
            return dict(found)
    except (ValueError, KeyError, TypeError):
        pass
    raise Error(f"{path} is not a report of lowtide check; write one with lowtide check … --json > FILE [check-report]")


def verdict_of(report: Mapping[str, Any], steps: Steps) -> dict[str, Any]:
    """The verdict as plain data. `at`: the steps and lines of the ops that it names, first of the op that broke a rule.
    `edited`: whether the file of the first wrong step was edited; `fix`: how the interpreter says to mend it, or "";
    `short`: for a race in shared memory, who does what where, or "". Raises Error for a report that does not have the
    form of a check."""
    try:
        return _verdict(report, steps)
    except (KeyError, TypeError, AttributeError):
        raise Error(
            "the report does not have the form of lowtide check --json; write it again with this version [check-form]"
        ) from None


def _verdict(report: Mapping[str, Any], steps: Steps) -> dict[str, Any]:
    guilty, places = report["guilty"], [step.place for step in steps.shown]
    found = {"ok": bool(report["ok"]), "verdict": str(report["verdict"]), "notes": [str(n) for n in report["notes"]]}
    if guilty is None:
        return found
    message = str(guilty["outcome"]["message"])
    text = _AT.sub(_in_words, without_codes(message))
    fix = _FIX.search(text)
    named = [_place(match[1] or match[3], int(match[2] or match[4])) for match in _AT.finditer(message)]
    if not named and guilty["op"]:
        named = [_place(match[1] or match[3], int(match[2] or match[4])) for match in _AT.finditer(guilty["op"])]
    at = [[places.index(place), line] for place, line in dict.fromkeys(named) if place in places]
    return found | {
        "level": str(guilty["level"]),
        "step": str(guilty["step"]),
        "right": None if guilty["before"] is None else _step(str(guilty["before"]), places),
        "wrong": _step(str(guilty["after"]), places),
        "files": [guilty["before"] and str(guilty["before"]), str(guilty["after"])],
        "edited": bool(guilty["edited"]),
        "message": text if fix is None else text[: fix.start()] + (fix[2] or ""),
        "short": "" if (own := _ACCESS.search(text)) is None else _short(own),
        "fix": "" if fix is None else fix[1],
        "op": _AT.sub(_in_words, str(guilty["op"])),
        "command": str(guilty["command"]),
        "at": at,
    }


def _short(access: re.Match[str]) -> str:
    """A race in one sentence."""
    who, does, other, did, why, where = access.groups(default="")
    return f"{who} {does} {where}, which {other} {did}{why}"


def _in_words(match: re.Match[str]) -> str:
    """A location as the page names it: the line of a step."""
    place, line = _place(match[1] or match[3], int(match[2] or match[4]))
    return f"line {line} of {place}"


def _place(file: str, line: int) -> tuple[str, int]:
    path = Path(file)
    return f"{path.parent.name}/{path.stem}", line


def _step(file: str, places: Sequence[str]) -> int | None:
    """The number of the step of a file. A file of a whole level, which `check` writes if there is no dump, is the last
    step of its level."""
    place, _ = _place(file, 0)
    if place in places:
        return places.index(place)
    level = place.partition("/")[0]
    return next((at for at in reversed(range(len(places))) if places[at].startswith(f"{level}/")), None)
