"""Text that would end the process in MLIR's parser, or that is none: refused wherever a user can give it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide import interpreter
from lowtide.cli.opt_tool import main as opt
from lowtide.dialects.text import MOST_NESTING, check_text
from lowtide.inspection.explain.explanation import explain_ir

DEEP = 20000
TEXTS = {
    "regions": "module {" * DEEP,
    "regions, closed": "module {" * DEEP + "}" * DEEP,
    "generic": '"builtin.module"() ({ ' * DEEP + "}) : () -> ()" * DEEP,
    "types": f"func.func private @f({'tuple<' * DEEP}i1{'>' * DEEP})",
    "attributes": f"module attributes {{tile.a = {'[' * DEEP}{']' * DEEP}}} {{}}",
    "layouts": f"module attributes {{tile.a = #tile.layout<{'(' * DEEP}1{')' * DEEP}:1>}} {{}}",
    "behind a string and a comment": 'module attributes {tile.a = "}}\\"}}"} { // }}}}\n' + "module {" * DEEP,
}
TOO_DEEP = f"brackets are nested more than {MOST_NESTING} deep"


@pytest.mark.parametrize("kind", TEXTS)
def test_text_that_is_nested_too_deep_is_refused_everywhere(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, path = TEXTS[kind] + "\n", tmp_path / "deep.mlir"
    path.write_text(text)
    for source in (text, path, str(path)):
        with pytest.raises(lt.IRError, match=rf"^({path}|<text>):\d:\d+: {TOO_DEEP}.*\[nested-brackets\]"):
            lt.compile_ir(source)
        with pytest.raises(lt.IRError, match=TOO_DEEP):
            explain_ir(source, None)
    with pytest.raises(lt.IRError, match=TOO_DEEP):
        interpreter.interpret(text, {"a": np.zeros((1, 1)), "b": np.zeros((1, 1))})
    assert opt([str(path)]) == 1
    assert TOO_DEEP in capsys.readouterr().err


@pytest.mark.parametrize("opening", ["[", "(", "<", "{"])
def test_a_schedule_that_is_nested_too_deep_is_refused(opening: str) -> None:
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16")
    for text in (f"cta = {opening * DEEP}", f"#tile.schedule<cta = {opening * DEEP}"):
        with pytest.raises(lt.ScheduleError, match=TOO_DEEP):
            lt.Schedule.parse(text)
        with pytest.raises(lt.ScheduleError, match=TOO_DEEP):
            lt.compile_gemm(spec, "sm_80", schedule=text)


def test_the_limit_is_far_below_what_ends_the_process() -> None:
    """Ten times as deep still parses, in a process of its own in case it does not."""
    code = (
        "from lowtide.compiler.contexts import make_context, parse_text\n"
        f"parse_text('module {{' * {4 * MOST_NESTING} + '}}' * {4 * MOST_NESTING}, make_context(), 'text')"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        "(" * MOST_NESTING + ")" * MOST_NESTING,
        "()[]{}<>" * 10_000,
        '"' + "(" * 1000 + '"',
        '"\\"' + "(" * 1000 + '"',
        "// " + "(" * 1000,
        "-> <= >= " * 1000,
        "{ < }" * 1000,  # a sign that is no bracket ends with what it stands in
        ")]}>" * 1000,
    ],
)
def test_shallow_text_passes(text: str) -> None:
    check_text(text, "text")


def test_the_place_is_that_of_the_bracket() -> None:
    with pytest.raises(lt.IRError, match=r"^text:3:2: brackets.*\[nested-brackets\]"):
        check_text("(" * (MOST_NESTING - 1) + "\n(\n (", "text")


@pytest.mark.parametrize("source", [None, 5, b"module {}", ["module {}"], object()])
def test_what_is_neither_text_nor_a_path_is_refused(source: Any) -> None:
    with pytest.raises(lt.IRError, match=r"\[source-kind\]"):
        lt.compile_ir(source)


@pytest.mark.parametrize("source", ["module {\ud800}", "module {} // \ud800"])
def test_text_that_is_not_unicode_is_refused(source: str) -> None:
    with pytest.raises(lt.IRError, match=r"<text>: not Unicode text.*\[not-unicode\]"):
        lt.compile_ir(source)


@pytest.mark.parametrize("source", ["a\0b.mlir", "x" * 100_000, "x" * 100_000 + ".mlir"])
def test_a_path_that_cannot_be_is_refused(source: str) -> None:
    with pytest.raises(lt.IRError, match=r"cannot read|neither the text") as caught:
        lt.compile_ir(source)
    assert "x" * 200 not in str(caught.value) or source.endswith(".mlir")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"spec": None}, r"spec is NoneType; give a lowtide.GemmSpec.*\[spec-kind\]"),
        ({"target": 5}, "unknown target 5"),
        ({"target": ""}, "unknown target ''"),
        ({"schedule": 5}, r"schedule is int; give None, a preset's name.*\[schedule-kind\]"),
        ({"dump_ir": 5}, r"a dump folder is a str or a pathlib.Path, not int.*\[dump-kind\]"),
        ({"dump_ir": b"dump"}, "a dump folder is a str or a pathlib.Path, not bytes"),
    ],
)
def test_arguments_of_other_types_are_refused(arguments: dict[str, Any], message: str) -> None:
    given = {"spec": lt.GemmSpec(a="bf16", b="bf16", d="bf16"), **arguments}
    with pytest.raises(lt.Error, match=message):
        lt.compile_gemm(**given)
