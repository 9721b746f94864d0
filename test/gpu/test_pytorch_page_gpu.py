"""The examples of docs/pytorch.md run, one after the other, on a GPU with torch and the compiler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu
PAGE = Path(__file__).resolve().parents[2] / "docs" / "pytorch.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path))
    blocks = re.findall(r"<!-- pytorch -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert blocks
