"""The TextMate grammar: its rules are regular expressions that name every word of our dialects."""

import json
import re
from enum import IntEnum
from pathlib import Path

import pytest
from editor_client import PROBLEM

from lowtide.compiler.contexts import make_context
from lowtide.compiler.driver import lower
from lowtide.dialects import _sm_enum_gen, _tile_enum_gen
from lowtide.dialects._lowtide import known_ops
from lowtide.dialects.tile.schedule import Schedule

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "inspection" / "editor" / "vscode"
GRAMMAR = json.loads((FOLDER / "mlir.tmLanguage.json").read_text(encoding="utf-8"))
RULES = [(rule["name"], re.compile(rule["match"], re.MULTILINE)) for rule in GRAMMAR["patterns"]]
WORD = re.compile(r"[A-Za-z_][\w.]*")


def scopes(text: str) -> list[tuple[str, str | None]]:
    """The tokens of a text with the name of the rule that an editor takes: the first one that matches where none has
    before. Words without a rule have None."""
    found, at = [], 0
    while at < len(text):
        name, token = next(
            ((name, hit) for name, rule in RULES if (hit := rule.match(text, at)) and hit[0]), (None, None)
        )
        word = token or WORD.match(text, at)
        if word is not None:
            found.append((word[0], name))
        at = at + 1 if word is None else word.end()
    return found


def scope(text: str) -> str | None:
    return scopes(text)[0][1]


def test_every_op_has_its_rule() -> None:
    ours = [name for name in known_ops(make_context()) if name.startswith(("tile.", "sm."))]
    assert len(ours) > 80
    assert {name: scopes(name) for name in ours if scopes(name) != [(name, "support.function.lowtide.mlir")]} == {}
    assert scope("tile.mmma %a") is None and scope("arith.addi %a") == "support.function.mlir"


@pytest.mark.parametrize("module", [_tile_enum_gen, _sm_enum_gen])
def test_every_word_of_an_enum_has_a_rule(module: object) -> None:
    enums = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, IntEnum)]
    words = {str(word) for enum in enums for word in enum} - {"IntEnum"}
    assert words and [word for word in words if scope(word) is None] == []


def test_every_field_of_a_schedule_has_a_rule() -> None:
    fields = {name for path in Schedule.paths() for name in path.split(".")}
    assert {scope(f"{name} = 3") for name in fields} == {"variable.parameter.schedule.lowtide.mlir"}


def test_no_word_of_a_dump_is_without_a_rule() -> None:
    for text in lower(PROBLEM, until="epilogue").levels.values():
        assert {word for word, name in scopes(text) if name is None} == set()


def test_no_word_of_our_own_ops_is_without_a_rule() -> None:
    lines = [
        line.partition("//")[0]
        for file in (ROOT / "test" / "lit" / "dialects").glob("*/*.mlir")
        if "invalid" not in file.name
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*(?:%[\w:, %]+ = )?(?:tile|sm)\.\w+ ", line)
    ]
    assert len(lines) > 100
    assert {word for line in lines for word, name in scopes(line) if name is None} == {"test.note"}


def test_the_extension_names_files_that_exist() -> None:
    package = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))["contributes"]
    [language], [colours] = package["languages"], package["grammars"]
    assert language["id"] == colours["language"] and colours["scopeName"] == GRAMMAR["scopeName"]
    assert json.loads((FOLDER / language["configuration"]).read_text(encoding="utf-8"))["comments"]
    assert (FOLDER / colours["path"]).name == "mlir.tmLanguage.json"
