"""`lowtide explore`: the page of a problem or a folder, with a verdict; and what it refuses."""

import json
from pathlib import Path

import pytest
from cli_calls import SMALL, accepted, refused, reported

PAGE = "<!DOCTYPE html>"


def test_a_problem_becomes_a_page(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    output = accepted("explore", *SMALL, "-o", str(file))
    assert reported(output, "problem").startswith("bf16 tn 70x50x40")
    assert reported(output, "written") == f"{file}, {file.stat().st_size:,} bytes"
    assert file.read_text().startswith(PAGE) and "70×50×40" in file.read_text()


def test_a_folder_becomes_a_page_with_a_report_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    accepted("compile", *SMALL, "--dump-ir", "dump")
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"ok": True, "verdict": "ok: 3 runs", "notes": [], "guilty": None}))
    assert reported(accepted("explore", "dump", "--report", "report.json"), "verdict") == "ok: 3 runs"
    assert (tmp_path / "lowtide.html").read_text().startswith(PAGE)


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    file = str(tmp_path / "page.html")
    assert "[report-or-check]" in refused("explore", "--check", "--report", "x.json", "-o", file)
    assert "[beside-file]" in refused("explore", str(tmp_path), "--m", "3", "-o", file)
    assert "[explored-folder]" in refused("explore", str(tmp_path), "-o", file)
    assert "[source-read]" in refused("explore", *SMALL, "--report", str(tmp_path / "none.json"), "-o", file)
