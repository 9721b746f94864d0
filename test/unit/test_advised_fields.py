"""Every field that a page or a message names can be written as it is printed: `prologue = once`, `a.copy = tma`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError

ROOT = Path(__file__).parents[2]
FIELDS = {path.rpartition(".")[2] for path in Schedule.paths()}
_VALUE = r"\w+\([^)]*\)|\[[^\]]*\]|<[\d,]*>|[\w.]*\w"
_GIVEN = re.compile(
    r"(?<![\w.{%])((?:(?:grid|mainloop|agents|producer|consumer|single|multiply|epilogue|a|b)\.)*[a-z_]+)"
    rf" = ({_VALUE})"
)
_FILLED_IN = "2"  # what a message computes
# Assignments of Python, of MLIR, or of a page's own letters
_OTHERS = {"k = products", "launch = kernel.bind"}
_NESTED = ("warps", "instances")  # stand within `agents = <…>`


def texts(path: Path) -> Iterator[str]:
    """Code of a page; strings of a module, in which what is computed is a number."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from re.findall(r"`([^`\n]+)`", text)
        return
    nodes = list(ast.walk(ast.parse(text)))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            found = (part.value if isinstance(part, ast.Constant) else _FILLED_IN for part in node.values)
            yield "".join(map(str, found)).replace(f"{_FILLED_IN}.", "a.")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def assignments() -> dict[str, str]:
    """Fields with values, as printed, and where."""
    pages = [*ROOT.glob("docs/*.md"), ROOT / "README.md"]
    modules = [
        path
        for folder in ("passes", "compiler", "verification", "inspection", "measurement", "runtime")
        for path in (ROOT / folder).rglob("*.py")
    ]
    found = {}
    for path in (*pages, *modules):
        for text in texts(path):
            for name, value in _GIVEN.findall(text):
                if name.rpartition(".")[2] in FIELDS:
                    found[f"{name} = {value}"] = str(path.relative_to(ROOT))
    return found


def test_what_pages_and_messages_say_of_fields_can_be_written() -> None:
    found = assignments()
    assert len(found) > 150 and {"pack = rows", "scales = direct", "prologue = once"} <= found.keys()
    refused = {}
    for given, where in found.items():
        name, _, value = given.partition(" = ")
        if given in _OTHERS or name in _NESTED:
            continue
        value = re.sub(r"\b[mn]\b", "2", value)  # cooperative(n), [m, n, 1]
        try:
            Schedule.parse(f"{name} = {value}")
        except ScheduleError as error:
            if set(value) != {_FILLED_IN}:  # else a value that a message computes
                refused[given] = f"{where}: {error}"
    assert refused == {}


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_the_name_of_each_field_is_known_or_says_what_to_write(name: str) -> None:
    paths = [path for path in Schedule.paths() if path.rpartition(".")[2] == name]
    try:
        assert Schedule().with_(**{name: None}) == Schedule()
    except ScheduleError as error:
        assert str(error) == f"schedule field {name!r} is ambiguous: write {' or '.join(paths)} [ambiguous-field]"
