"""docs/find-a-fault.md: its commands run in order in a copy of the package, and print what it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "find-a-fault.md"
FOLDERS = ("src", *(path.name for path in (ROOT / "src/lowtide").iterdir() if path.is_symlink()))
COMMAND = 'lowtide() { "$PYTHON" -c "import sys; from lowtide.entry import lowtide; sys.exit(lowtide())" "$@"; }\n'
BLOCK = re.compile(
    r"(?:<!-- exit status (\d) -->\n)?```sh\n(.*?)```(?:\n\n<!-- output -->\n```text\n(.*?)```)?", re.DOTALL
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("tree")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True)
    return copy


def line_pattern(line: str) -> str:
    """A line of the page, in which … stands for anything."""
    return ".*".join(re.escape(part) for part in line.split("…"))


def test_the_page_is_true(tree: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 7 and sum(bool(output) for _, _, output in blocks) == 2
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHON": sys.executable, "COLUMNS": "200"}
    for status, commands, output in blocks:
        done = subprocess.run(
            ["bash", "-ec", COMMAND + commands], cwd=tree, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == int(status or 0), commands + done.stdout + done.stderr
        for line in output.splitlines():
            assert re.search(f"(?m)^{line_pattern(line)}", done.stdout), f"{line}\nis not in\n{done.stdout}"


def test_the_planted_edits_apply() -> None:
    commands = "".join(commands for _, commands, _ in BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    before = re.findall(r"s/([^/]*)/([^/]*)/' (passes\S+)", commands)
    assert len(before) == 2
    (planted, mended) = before
    source = (ROOT / planted[2]).read_text(encoding="utf-8")
    assert planted[0] in source
    assert mended[0] in planted[1]
