"""docs/ptx.md: its commands print what it shows, its tables are complete, its launch runs, and what it names exists."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lowtide as lt
from lowtide.cli.main import app
from lowtide.ptx.estimate import PER_SECOND

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "ptx.md").read_text(encoding="utf-8")
# The page wraps long lines of reports, so texts are compared without their spaces and line ends.
SHOWN = re.findall(r"```sh\nlowtide ptx (\w+ test/[^\n]*)\n```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def report(*arguments: object) -> Any:
    return json.loads(CliRunner().invoke(app, ["ptx", *map(str, arguments), "--json"]).stdout)


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command.split("/")[-1] for command, _ in SHOWN])
def test_a_command_prints_what_the_page_shows(command: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    printed = CliRunner().invoke(app, ["ptx", *command.split()]).output
    (*lines, time), (*wanted, its_time) = printed.splitlines(), shown.splitlines()  # the time differs
    assert "".join("".join(lines).split()) == "".join("".join(wanted).split())
    assert time.startswith("time ") and its_time.startswith("time ")


def test_the_page_shows_a_right_kernel_a_race_and_a_hang() -> None:
    assert [shown.split()[1] for _, shown in SHOWN] == ["ok:", "race:", "deadlock:"]


def test_the_launch_of_the_page_runs_with_the_arrays_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, code = re.search(
        r"<!-- a whole launch -->\n```json\n(.*?)```.*?```python\n(.*?)```", PAGE, re.DOTALL
    ).groups()
    shutil.copy(ROOT / "test" / "ptx" / "kernels" / "vec_add" / "kernel.ptx", tmp_path)
    (tmp_path / "launch.json").write_text(launch)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    found = report("check", tmp_path)
    assert (found["kind"], found["message"]) == ("ok", "no rule is broken; 1 array is as expected")


def test_the_fields_of_reports_are_listed() -> None:
    section = PAGE[PAGE.index("### Reports as JSON") : PAGE.index("## Kernels of other compilers")]
    named = set(re.findall(r"`(\w+)`", section))
    kernels = ROOT / "test" / "ptx" / "kernels"
    for found in (
        report("check", kernels / "tma_bulk_1d" / "fault1.ptx"),
        report("check", kernels / "matmul_int8"),
        report("info", kernels / "reverse"),
    ):
        assert fields(found) - named == set()


def fields(found: Any) -> set[str]:
    """The names of the fields of an object of JSON, and of the objects in it."""
    parts = found if isinstance(found, list) else found.values() if isinstance(found, dict) else []
    return set(found if isinstance(found, dict) else ()).union(*map(fields, parts))


def test_the_assumed_speed_is_that_of_the_estimate() -> None:
    (said,) = re.findall(r"estimate of time assumes ([\d,]+)", PAGE)
    assert int(said.replace(",", "")) == PER_SECOND


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
    assert imported - sys.stdlib_module_names - {"lowtide"} <= listed
