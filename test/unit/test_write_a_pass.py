"""README's chapter on passes, taken at its word: its blocks go where it says, in a copy of the tree, and are run."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PASS = "passes/cta/merge_clamps.py"
STEPS = "passes/cta/__init__.py"
LIT_TEST = "test/lit/passes/cta/merge-clamps.mlir"
SEMANTIC_TEST = "test/interpreter/passes/test_merge_clamps.py"
# The tests that a new pass affects: those of pipelines, dumps, imports and pages. The generated pages are new already.
UNITS = (
    "test_pass_pipeline.py",
    "test_driver.py::test_a_compilation_goes_through_every_level_to_ptx",
    "test_driver.py::test_dumps_are_numbered_by_level_and_by_place_in_the_table",
    "test_driver.py::test_going_on_from_a_level_gives_the_same_ptx",
    "test_imports.py::test_a_pass_imports_no_pass",
    "test_imports.py::test_a_folder_imports_only_what_lies_below_it[passes]",
    "test_imports.py::test_nothing_of_the_package_is_imported_inside_a_function[passes]",
    "test_docs.py::test_dumps_that_are_named_are_the_last_of_their_level",
    "test_docs.py::test_paths_that_are_named_exist",
    "test_docs.py::test_links_lead_to_files",
)
LIT = ("-c", "from lit.main import main; main()", "-v")


def chapter() -> str:
    found = re.search(r"^## Write a pass\n(.*?)^## ", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def blocks() -> dict[str, str]:
    """The text of each block that stands under the path of a file."""
    found = re.findall(r"^   `([\w./-]+)`:\n\n   ```\w+\n(.*?)^   ```$", chapter(), re.DOTALL | re.MULTILINE)
    return {path: textwrap.dedent(text) for path, text in found}


def enter(tree: Path) -> None:
    """The import in its place among the folder's, the step below TileToCtas, as item 2 says."""
    import_line, _, step = blocks()[STEPS].partition("\n")
    text = (tree / STEPS).read_text(encoding="utf-8")
    text = re.sub(r"(?m)^(?=from lowtide\.passes\.cta\.tile_to_ctas)", import_line + "\n", text, count=1)
    text = re.sub(r"(?m)^    Step\(TileToCtas,.*\n", lambda line: line[0] + step.strip("\n") + "\n", text, count=1)
    (tree / STEPS).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with the pass wired in."""
    copy = tmp_path_factory.mktemp("tree") / "lowtide"
    left_out = shutil.ignore_patterns(".git", ".venv", ".*_cache", "build", "dist", "Output")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=left_out)
    for path, text in blocks().items():
        if path != STEPS:
            (copy / path).parent.mkdir(exist_ok=True)
            (copy / path).write_text(text, encoding="utf-8")
    enter(copy)
    return copy


def run(tree: Path, *arguments: str) -> str:
    """This Python in the copy. Returns its output; fails where the exit status is not 0."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "COLUMNS": "200"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_chapter_has_every_file_of_the_pass() -> None:
    assert set(blocks()) == {PASS, STEPS, LIT_TEST, SEMANTIC_TEST}
    for path in re.findall(r"`(test/[\w./-]+)`(?!:)", chapter()):
        assert (ROOT / path).exists(), path


def test_the_pass_is_formatted_and_lint_free(tree: Path) -> None:
    run(tree, "-m", "ruff", "check", PASS, STEPS, SEMANTIC_TEST)
    run(tree, "-m", "ruff", "format", "--check", PASS, STEPS, SEMANTIC_TEST)


def test_its_lit_test_passes_and_fails_without_it(tree: Path) -> None:
    broken = tree / "test/lit/passes/cta/broken.mlir"
    text = (tree / LIT_TEST).read_text(encoding="utf-8")
    broken.write_text(text.replace("-p merge-clamps,cse", "-p cse"), encoding="utf-8")
    with pytest.raises(AssertionError, match=r"arith\.maximumf") as failed:
        run(tree, *LIT, LIT_TEST, str(broken))
    broken.unlink()
    for verdict, path in (("PASS", LIT_TEST), ("FAIL", "test/lit/passes/cta/broken.mlir")):
        assert f"{verdict}: lowtide :: {path.removeprefix('test/lit/')}" in str(failed.value)


def test_its_semantic_test_fails_where_it_changes_numbers(tree: Path) -> None:
    """That it passes is seen below, in one run with the other tests."""
    source = (tree / PASS).read_text(encoding="utf-8")
    # Of another length: Python takes a file for unchanged whose size and second are the same.
    (tree / PASS).write_text(source.replace("> (sign * second,", "<= (sign * second,"), encoding="utf-8")
    try:
        with pytest.raises(AssertionError, match="D differs"):
            run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", SEMANTIC_TEST)
    finally:
        (tree / PASS).write_text(source, encoding="utf-8")


def test_the_driver_takes_it_its_tests_pass_and_the_pages_are_written(tree: Path) -> None:
    run(tree, "docs/generate.py")
    assert "merge-clamps" in (tree / "docs" / "passes.md").read_text(encoding="utf-8")
    units = [f"test/unit/{name}" for name in UNITS]
    found = run(tree, "-m", "pytest", "-x", "-p", "no:cacheprovider", SEMANTIC_TEST, *units)
    assert f"{SEMANTIC_TEST} .  " in found, found


def test_the_example_is_the_same_pass() -> None:
    def code(text: str) -> str:
        return text[text.index("@dataclass") :].strip()

    own = (ROOT / "examples" / "own_pass.py").read_text(encoding="utf-8")
    assert code(blocks()[PASS]) == code(own.partition("\n\n\ndef relu_and_clamp")[0])
