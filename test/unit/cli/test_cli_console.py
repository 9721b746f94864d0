"""The lists, the console script, and what a command shows while it works."""

import re
import subprocess
import sys
from importlib import metadata

import pytest
from cli_calls import accepted

from lowtide.cli import compile as cli_compile
from lowtide.cli import output as cli_output
from lowtide.compiler.presets import PRESETS
from lowtide.targets import KNOWN


def test_presets_and_targets_are_listed() -> None:
    presets, targets = accepted("presets"), accepted("targets")
    assert all(re.search(rf"^{name} ", presets, re.MULTILINE) for name in PRESETS)
    assert re.search(r"^sm80-three-stages +sm_80 +a third stage\n +grid\.tile = .*, stages = 3,", presets, re.MULTILINE)
    assert all(re.search(rf"^{target.name} ", targets, re.MULTILINE) for target in KNOWN)


def test_the_console_script_prints_help_and_version() -> None:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "lowtide", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run("--version").stdout == f"lowtide {metadata.version('lowtide')}\n"
    done = run("compile", "--emit", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("lowtide: error: unknown level 'nothing'")


def test_what_takes_longer_than_patience_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_output, "PATIENCE", 0.0)
    with cli_output.busy("waiting") as update:
        update("waiting for [1/2]")
        while not (shown := capsys.readouterr().err):
            pass
    assert shown in ("waiting …\n", "waiting for [1/2] …\n")
    assert cli_compile.busy is cli_output.busy


def test_progress_is_written_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_output, "PATIENCE", 0.0)
    monkeypatch.setattr(cli_output, "EVERY", 0.0)
    with cli_output.busy("running") as update:
        while not capsys.readouterr().err:
            pass
        update("running: 1 of 2 CTAs")
        shown = capsys.readouterr().err
        monkeypatch.setattr(cli_output, "EVERY", 60.0)
        update("running: 2 of 2 CTAs")
    assert (shown, capsys.readouterr().err) == ("running: 1 of 2 CTAs …\n", "")


def test_what_is_quick_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with cli_output.busy("waiting"):
        pass
    assert capsys.readouterr() == ("", "")
