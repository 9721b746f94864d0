"""Dumps that tests of pages share, and a browser."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from explored_kernel import GUILTY, SCHEDULE

from lowtide.compiler.driver import lower
from lowtide.compiler.origins.origins import Origins
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile.schedule import Schedule
from lowtide.inspection.explore import sass
from lowtide.targets import get
from lowtide.verification.checking.check import check
from lowtide.verification.checking.subjects import of_dump


@pytest.fixture(autouse=True, scope="session")
def no_sass() -> Iterator[None]:
    """Pages have no machine code, also where there is nvdisasm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sass, "find_nvdisasm", lambda: None)
        yield


@pytest.fixture(scope="session")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Origins]:
    """The dumps of a small kernel by mma.sync, in which reads of A conflict."""
    folder = tmp_path_factory.mktemp("kernel")
    spec = GemmSpec(m=None, n=None, k=None, a="bf16", b="bf16", d="bf16")
    text = problem_text(spec, get("sm_80"), Schedule.parse(SCHEDULE))
    origins = lower(text, dump_dir=folder).origins
    assert origins is not None
    return folder, origins


@pytest.fixture
def folder(dumped: tuple[Path, Origins], tmp_path: Path) -> Path:
    """A copy of the dumps, for a test to edit."""
    return Path(shutil.copytree(dumped[0], tmp_path / "copy"))


@pytest.fixture(scope="session")
def race(dumped: tuple[Path, Origins], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The dumps without the barrier in the main loop, and what lowtide check says of them."""
    copy = Path(shutil.copytree(dumped[0], tmp_path_factory.mktemp("race") / "race"))
    dump = copy / f"{GUILTY}.mlir"
    text = dump.read_text()
    assert text.count("\n        sm.barrier\n") == 1
    dump.write_text(text.replace("\n        sm.barrier\n", "\n"))
    report = check(of_dump(copy), seed=1, budget=1, jobs=1).as_json()
    return copy, json.loads(json.dumps(report))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    program = browser.found()
    if program is None:
        pytest.skip("no Chromium on PATH; apt-get install chromium")
    with browser.opened(program, tmp_path_factory.mktemp("profile")) as one:
        yield one
