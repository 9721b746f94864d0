"""benchmarks/stamps.py without a GPU: what it saves, what it prints, and what it says where it cannot run."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.inspection.timeline.compared import compared
from lowtide.inspection.timeline.measured import stamps_of
from lowtide.measurement.stamped import stamp_words

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "stamps.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_stamps", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stamps")
    arguments = ["prepare", "--folder", str(made), "--size", "256,256,128", "--target", "sm_90a"]
    script.main([*arguments, "--schedule", "grid.tile = [128, 64], roles = cooperative(2), k = 64, stages = 3"])
    return made


def test_both_kernels_are_saved_with_the_prediction(script: ModuleType, folder: Path) -> None:
    case = json.loads((folder / "case.json").read_text())
    assert (case["agents"], case["tiles"]) == (["producer", "consumer"], 64)
    plain, stamped = (lt.runtime.load(folder / name) for name in ("plain", "stamped"))
    assert case["kernel"] in plain.ptx and "%globaltimer_lo" in stamped.ptx and "%globaltimer_lo" not in plain.ptx
    timeline = script.predicted_timeline(case)
    assert set(timeline.agents) >= {"producer", "consumer"}


def test_each_phase_stands_beside_its_prediction(script: ModuleType, folder: Path) -> None:
    timeline = script.predicted_timeline(json.loads((folder / "case.json").read_text()))
    words = np.zeros((1, 2, 64, 9), np.int32)
    words[0, :, 0, :8] = [(1, 1, 2001, 1001, 4001, 2001, 6001, 3001)] * 2
    rows = compared(timeline, stamps_of(words.reshape(-1), ("producer", "consumer"), 64))
    assert [row[:2] for row in rows] == [
        ("producer", "wait"),
        ("producer", "load"),
        ("consumer", "wait"),
        ("consumer", "multiply"),
        ("consumer", "epilogue"),
    ]
    assert [row[3] for row in rows] == ["2.0", "1.0", "1.0", "1.0", "1.0"]
    predicted = {row[:2]: float(row[2]) for row in rows}
    tiles = [each for each in timeline.of("consumer") if each.what.value == "epilogue"]
    assert predicted["consumer", "epilogue"] == pytest.approx(sum(each.duration for each in tiles), abs=0.05)
    assert 0 < predicted["consumer", "multiply"] < timeline.total


def test_a_kernel_without_stamps_is_refused(folder: Path) -> None:
    kernel: Any = lt.runtime.load(folder / "plain")
    with pytest.raises(lt.LaunchError, match=r"have 0 and 0 workspaces, but stamps are one more.*\[stamps-workspace\]"):
        stamp_words(kernel, kernel, None, None, None)


@pytest.mark.parametrize(("arguments", "message"), [(["measure"], "measure needs --folder FOLDER")])
def test_what_cannot_be_done_ends_with_a_message(arguments: list[str], message: str) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and message in done.stderr and "Traceback" not in done.stderr
