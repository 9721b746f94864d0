"""benchmarks/compile_time.py: the table of steps, from timings that the test gives."""

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    if str(ROOT / "benchmarks") not in sys.path:
        sys.path.append(str(ROOT / "benchmarks"))
    return importlib.import_module("compile_time")


def test_long_steps_are_rows_and_the_rows_add_up_to_the_whole(script: ModuleType) -> None:
    def run(*steps: tuple[str, float]) -> Any:
        timings = [SimpleNamespace(level="cta", step=step, owner="mlir", seconds=seconds) for step, seconds in steps]
        return SimpleNamespace(timings=timings)

    # canonicalize runs twice; of a whole of 100 ms, 9 ms are in no step.
    one = run(("canonicalize", 0.02), ("cse", 0.0005), ("canonicalize", 0.01), ("tile-to-ctas", 0.06), ("sccp", 0.0005))
    rows = script.by_step([(one, 0.1)] * 3)
    assert [row[1] for row in rows[:3]] == ["tile-to-ctas", "canonicalize", "2 further steps"]
    assert [row[3].split()[0] for row in rows] == ["60.0", "30.0", "1.0", "9.0", "100.0"]
    assert [row[4] for row in rows] == ["60%", "30%", "1%", "9%", "100%"]
