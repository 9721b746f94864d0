"""benchmarks/calibrate.py without a GPU: what it compiles and times, the file of a journal, and the output of a fit."""

import importlib
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lowtide.errors import Error
from lowtide.measurement.bench.any_shape.draws import Drawn
from lowtide.measurement.bench.any_shape.racing import Raced
from lowtide.measurement.calibration import kernels, timing
from lowtide.measurement.calibration.compiling import compile_form
from lowtide.measurement.calibration.kernels import FormFolder, Note
from lowtide.measurement.calibration.rows import load
from lowtide.passes.schedules.cost.fitted import FITTED

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "benchmarks" / "results" / "calibration"
GRIDS = {f"grid.tile=[64, {columns}]": (64, columns, 64, 1, 1, 1, 1, 1, 0, 1, 0) for columns in range(64, 257, 32)}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    if str(ROOT / "benchmarks") not in sys.path:
        sys.path.append(str(ROOT / "benchmarks"))
    return importlib.import_module("calibrate")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with notes of seven kernels and a refusal. Loading a kernel gives its number."""
    path = tmp_path / "kernels"
    path.mkdir()
    notes = [Note("grid.tile=[1, 1]", "too small"), *(Note(text, "", grid) for text, grid in GRIDS.items())]
    for number, note in enumerate(notes):
        (path / f"{number}.json").write_text(json.dumps(asdict(note)), encoding="utf-8")
    monkeypatch.setattr(kernels.runtime, "load", lambda path: path.name)
    return path


@pytest.fixture
def raced(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """A GPU on which schedule i takes i microseconds; the results of 3 are wrong. Gives the schedules of each race."""
    found: list[set[str]] = []

    def race_shape(shape: Drawn, given: Any, settings: Any, seed: int, *, with_matmul: bool) -> Raced:
        assert not with_matmul and all(name == kernel for name, kernel in given.items())
        found.append(set(given))
        seconds = {name: [1e-6 * int(name)] * settings.rounds for name in given if name != "3"}
        return Raced({"torch": [2e-6] * settings.rounds, **seconds}, {"3": "wrong"} if "3" in given else {})

    monkeypatch.setattr(timing, "race_shape", race_shape)
    monkeypatch.setattr(timing, "gpu_is_usable", lambda: True)
    monkeypatch.setattr(timing, "device_and_software", lambda: ("NVIDIA X", "torch 0"))
    monkeypatch.setattr(script, "end_process_after", lambda seconds, status: None)
    return found


def test_a_schedule_is_compiled_or_its_refusal_is_noted(tmp_path: Path) -> None:
    text = "grid.tile=[64, 64], roles=cooperative(1), operands=swapped, order=row"
    note = compile_form(tmp_path / "1", text, "bf16", "tn", "sm_90a")
    assert note.text.startswith(f"{text}, epilogue.path=") and not note.refusal
    assert note.form.grid[:5] == (64, 64, 64, 1, 1) and (tmp_path / "1").exists()
    note = compile_form(tmp_path / "2", "grid.tile=[64, 520], roles=cooperative(1)", "bf16", "tn", "sm_90a")
    assert note.refusal and not (tmp_path / "2").exists()


def test_a_folder_compiles_what_it_lacks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "texts", lambda: ["x"] * 8)
    assert FormFolder(folder).compile_missing("bf16", "tn", "sm_90a", 1, 0.0) == 0
    monkeypatch.setattr(kernels, "texts", lambda: ["x"] * 10)
    assert FormFolder(folder).compile_missing("bf16", "tn", "sm_90a", 1, 0.0) == 2
    assert list(FormFolder(folder).forms) == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(Error, match=r"\[calibration-kernels\]"):
        FormFolder(folder / "none").forms  # noqa: B018
    (folder / "9.json").write_text("{", encoding="utf-8")
    with pytest.raises(Error, match=r"\[calibration-note\]"):
        FormFolder(folder).forms  # noqa: B018


def test_a_run_goes_on_and_its_journal_becomes_a_file_of_rows(
    script: ModuleType,
    folder: Path,
    raced: list[set[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(script, "ROWS", tmp_path)
    where = ["--kernels", str(folder), "--journal", str(tmp_path / "run")]
    assert script.main(["record", *where, "--name", "x"]) == 2
    assert script.main(["time", *where, "--seed", "7", "--count", "3", "--minutes", "0"]) == 3
    assert script.main(["record", *where, "--name", "x"]) == 2
    assert "[calibration-empty]" in capsys.readouterr().err
    assert script.main(["time", *where, "--rounds", "2"]) == 2
    assert "at least 3" in capsys.readouterr().err
    assert script.main(["time", *where, "--rounds", "3"]) == 0
    assert script.main(["time", *where]) == 0
    assert len(raced) == 3 and all(len(numbers) > 1 for numbers in raced)
    assert script.main(["record", *where, "--name", "x"]) == 0
    file = load(tmp_path / "x.json")
    assert (file.device, file.software, file.seed, len(file.shapes)) == ("NVIDIA X", "torch 0", "7", 3)
    for numbers, shape in zip(raced, file.shapes, strict=True):
        texts = {file.forms[number].text: times for number, times in shape.microseconds.items()}
        assert texts == {list(GRIDS)[int(one) - 1]: (float(one),) * 3 for one in numbers - {"3"}}
        assert shape.torch == (2.0, 2.0, 2.0)


def test_a_fit_prints_and_writes_constants_and_their_quality(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "held_out", lambda samples, target: samples.estimated(FITTED, target))
    monkeypatch.setattr(script, "TABLE", tmp_path / "cost-model.json")
    monkeypatch.setattr(script, "FITTED_FILE", tmp_path / "fitted.py")
    (tmp_path / "fitted.py").write_text("# constants\nFITTED = Constants(\n)\n", encoding="utf-8")
    rows = tmp_path / "rows"
    fit = ["fit", "--rows", str(rows)]
    assert script.main(fit) == 2
    (rows / "afterwards").mkdir(parents=True)
    shutil.copy(ROWS / "h200-bf16-few-rows.json", rows)
    shutil.copy(ROWS / "h200-bf16-large.json", rows / "afterwards")
    assert script.main([*fit, "--judge", "--record"]) == 0
    out = capsys.readouterr().out
    assert "FITTED" not in out and "| the same | all | 6 |" in out and "| drawn afterwards | all | 8 |" in out
    recorded = json.loads((tmp_path / "cost-model.json").read_text(encoding="utf-8"))
    assert recorded["device"] == "NVIDIA H200" and recorded["rows"][0][:2] == ["the same", "all"]
    monkeypatch.setattr(script, "fitted", lambda samples, start, target: FITTED)
    assert script.main(fit) == 0
    assert f"memory={FITTED.memory:g}," in capsys.readouterr().out
    assert script.main([*fit, "--write"]) == 0
    assert f"    memory={FITTED.memory:g},\n" in (tmp_path / "fitted.py").read_text(encoding="utf-8")
