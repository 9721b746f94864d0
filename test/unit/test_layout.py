"""A checkout is the package: git's paths, new modules seen at once, the edit loop timed."""

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import lowtide

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "folder", sorted(path.name for path in (ROOT / "src" / "lowtide").iterdir() if path.is_symlink())
)
def test_a_folder_is_imported_by_the_path_that_git_knows(folder: str) -> None:
    assert importlib.import_module(f"lowtide.{folder}").__file__ == str(ROOT / folder / "__init__.py")


def test_a_new_module_is_seen_at_once(tmp_path: Path) -> None:
    """In a copy of what needs no build; the runtime, which a plain checkout must import too."""
    shutil.copytree(ROOT / "src", tmp_path / "src", symlinks=True)
    shutil.copytree(ROOT / "runtime", tmp_path / "runtime")
    (tmp_path / "runtime" / "new_module.py").write_text("WHERE = __file__\n")
    code = "import lowtide.runtime.new_module as new; print(new.WHERE)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(tmp_path / "runtime" / "new_module.py"), done.stderr


def test_the_package_is_this_checkout() -> None:
    assert Path(lowtide.__file__) == ROOT / "src" / "lowtide" / "__init__.py"


def edit_loop() -> ModuleType:
    spec = importlib.util.spec_from_file_location("edit_loop", ROOT / "test" / "edit_loop.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("seconds", "not_repeated", "kept"), [(59.0, 0.0, True), (61.0, 0.0, False), (1, 60, False)])
def test_an_edit_that_takes_too_long_is_found(
    monkeypatch: pytest.MonkeyPatch, seconds: float, not_repeated: float, kept: bool
) -> None:
    module = edit_loop()
    cpu = iter([0.0, 2 * seconds])

    def build(build: Path, COMPILE_TAKEN: str) -> None:
        """Two compilations, as the launcher tells them."""
        Path(COMPILE_TAKEN).write_text(f"{not_repeated}\n" * 2)

    monkeypatch.setattr(module, "children_cpu", lambda: next(cpu))
    monkeypatch.setattr(module, "build_and_test", build)
    monkeypatch.setattr(module, "EDITS", {"an edit": ((), 60.0, 2)})
    assert module.measure(ROOT, "an edit") is kept
