"""README's blocks run in the order in which they stand, in one folder, without a GPU.

Two commands of the set-up make the environment; CI runs these. The chapter on passes is run by `test_write_a_pass.py`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SET_UP = "python3 -m venv"
ACTIVATE = ". .venv/bin/activate\n"


def blocks() -> list[tuple[str, str]]:
    """Language and text; those of the chapter on passes are indented."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^```(sh|python)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(language, block) for language, block in found if not block.startswith(SET_UP)]


def test_the_blocks_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    (tmp_path / ".venv").symlink_to(sys.prefix)
    session: dict[str, Any] = {}
    environment, ran = dict(os.environ), []
    for language, block in blocks():
        if language == "python":
            exec(compile(block, "README.md", "exec"), session)
        else:
            assert block == ACTIVATE or ACTIVATE in ran, "a command before the environment is activated"
            script = block if block == ACTIVATE else ACTIVATE + block
            subprocess.run(["bash", "-euo", "pipefail", "-c", script], check=True, env=environment, timeout=60)
        ran.append(block)
    assert session["d"].shape == (40, 72)
    assert (tmp_path / "kernel.html").exists()
    assert (tmp_path / "banks.svg").exists() and (tmp_path / "gemm.lowtide").is_dir() and (tmp_path / "dump").is_dir()
    languages = [language for language, _ in blocks()]
    assert (languages.count("sh"), languages.count("python")) == (3, 4)


def test_the_set_up_is_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(rf"^```sh\n{SET_UP}.*\n```$", text, re.MULTILINE)) == 2
