"""docs/ptx.md: its commands print what it shows, its table has all kinds of verdicts, and what it names exists."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lowtide as lt
from lowtide.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "ptx.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"<!-- ptx: (.*?) -->\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command.split("/")[-1] for command, _ in SHOWN])
def test_a_command_prints_what_the_page_shows(command: str, shown: str) -> None:
    name, file = command.split()
    done = CliRunner().invoke(app, ["ptx", name, str(ROOT / file)])
    printed = done.output.splitlines()
    for line in shown.splitlines():
        start = line.removesuffix("…")
        assert any(each == line or (start != line and each.startswith(start)) for each in printed), line


def test_the_table_has_all_kinds() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (\d) \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [(name, str(kind.status), kind.meaning) for name, kind in lt.ptx.KINDS.items()]


def test_what_the_page_names_exists() -> None:
    named = set(re.findall(r"lt\.ptx\.(\w+)", PAGE))
    assert {"load", "TensorMap", "Unwritten", "Bytes", "Settings"} <= named <= set(lt.ptx.__all__)
    source = (ROOT / "cli" / "ptx.py").read_text(encoding="utf-8")
    options = set(re.findall(r"(?<![-\w])--[a-z][a-z-]*", PAGE))
    assert len(options) > 5 and [each for each in options if f'"{each}"' not in source] == []


def test_the_command_from_a_clone_needs_only_what_the_page_installs() -> None:
    (line,) = re.findall(r"pip install (.*)", PAGE)
    listed = {name.replace("-", "_") for name in line.split()} | {"rich"}  # typer brings rich
    files = [*(ROOT / "ptx").rglob("*.py"), ROOT / "cli" / "ptx.py", ROOT / "cli" / "output.py"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    imported = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))
    standard = {"__future__", "collections", "contextlib", "dataclasses", "importlib", "io", "json", "math", "pathlib"}
    standard |= {
        "ctypes",
        "functools",
        "re",
        "struct",
        "sys",
        "threading",
        "time",
        "types",
        "typing",
        "zipfile",
        "zlib",
    }
    assert imported - standard - {"lowtide"} <= listed
