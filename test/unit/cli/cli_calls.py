"""Calls of the command `lowtide` in this process, and edits of its dumps."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lowtide.cli import run as cli_run
from lowtide.cli.main import app
from lowtide.runtime import driver
from lowtide.runtime.driver import Device
from lowtide.verification.checking.gpu_run import GpuRun

SMALL = ("--m", "70", "--n", "50", "--k", "40", "--target", "sm_80")
RUN = ("run", *SMALL, "--level", "smem")
LEVELS = ["problem", "cta", "smem", "pipelined", "atoms", "epilogue", "nvvm", "llvm", "ptx"]


def lowtide(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def accepted(*arguments: str) -> str:
    """What the command prints; it must succeed."""
    result = lowtide(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> str:
    """The message of a command that must be refused: exit status 2, no traceback, nothing on standard output but what
    was reported before."""
    result = lowtide(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    # What takes longer than a second reports where it is, before the error.
    told = "\n".join(line for line in result.stderr.splitlines() if not line.endswith(" …"))
    assert told.startswith("lowtide: error: ")
    return str(result.stderr)


def reported(output: str, label: str) -> str:
    """The text of a report's line."""
    found = re.search(rf"^{label} +(.*)$", output, re.MULTILINE)
    assert found is not None, output
    return found[1]


def level_file(dump: Path, level: str) -> Path:
    """The last step of a level."""
    return max(dump.glob(f"*-{level}/*.[mp]*"))


def edited(path: Path, folder: Path, old: str, new: str) -> str:
    """A copy of a dump in a folder of its own, with an edit that must apply."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    copy = folder / path.name
    copy.write_text(text.replace(old, new), encoding="utf-8")
    return str(copy)


def fake_gpu(monkeypatch: pytest.MonkeyPatch, error: float = 0.0, complaint: str = "") -> None:
    """A GPU whose kernels add `error` to float64's result."""

    def run(kernel: Any, spec: Any, inputs: Any, device: int) -> GpuRun:
        a, b = (inputs[name].astype(np.float64) for name in "ab")
        return GpuRun(a @ b.T + error, complaint, 0.001, 200)

    monkeypatch.setattr(driver, "current_device", lambda: Device(0, "Fake GPU", (8, 0), 166912, 108))
    monkeypatch.setattr(cli_run, "run_on_gpu", run)
