"""SASS on a page: the output of nvdisasm as a step after the PTX, linked to level llvm. nvdisasm is a script here."""

from pathlib import Path

import pytest

from lowtide.compiler.origins.origins import Origins
from lowtide.inspection.explore import sass
from lowtide.inspection.explore.data import page_data
from lowtide.inspection.explore.lexer import CLASSES, SassLexer, coloured
from lowtide.inspection.explore.sass import sass_of
from lowtide.inspection.explore.steps import steps_of

SCRIPT = """#!/bin/sh
echo '.text.gemm_kernel:'
if [ "$2" = -g ]; then echo '	//## File "llvm.mlir", line {line}'; fi
echo '        /*0040*/               @!P1 LDSM.16.M88.4 R40, [{register}] ;'
if [ "$2" = -g ]; then echo '	//## File "llvm.mlir", line 1'; fi
echo '        /*0050*/                   EXIT ;'
"""


def program(folder: Path, text: str) -> Path:
    path = folder / "nvdisasm"
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def line(dumped: tuple[Path, Origins]) -> int:
    (op, *_) = (op for op in dumped[1].ops("llvm") if op.name == "nvvm.ldmatrix")
    return op.line


def test_instructions_link_to_level_llvm(
    line: int, dumped: tuple[Path, Origins], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = program(tmp_path, SCRIPT.replace("{line}", str(line)).replace("{register}", "R0"))
    monkeypatch.setattr(sass, "find_nvdisasm", lambda: script)
    data = page_data("kernel", steps_of(dumped[1]))
    last = data["steps"][-1]
    assert (last["place"], data["steps"][last["before"]]["level"], data["why_no_sass"]) == (
        "10-sass/kernel",
        "llvm",
        "",
    )
    assert [(at, data["names"][name], *own) for at, name, *own in last["ops"]] == [
        (2, "LDSM.16.M88.4", line),
        (3, "EXIT"),
    ]


def test_code_that_differs_with_lines_has_no_links(
    line: int, dumped: tuple[Path, Origins], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = program(tmp_path, SCRIPT.replace("{line}", str(line)).replace("{register}", "R0+$#"))
    script.write_text(script.read_text().replace("'        /*0040*/", '"        /*0040*/').replace("] ;'", '] ;"'))
    monkeypatch.setattr(sass, "find_nvdisasm", lambda: script)
    step, why = sass_of(steps_of(dumped[1]))
    assert step is not None and why == ""
    assert [(row.op, row.origins) for row in step.rows] == [("LDSM.16.M88.4", ()), ("EXIT", ())]


def test_the_page_says_why_there_is_no_sass(
    dumped: tuple[Path, Origins], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = steps_of(dumped[1])
    assert sass_of(steps) == (None, "nvdisasm is not installed (pip install 'lowtide[sass]')")
    script = program(tmp_path, "#!/bin/sh\nexit 3\n")
    monkeypatch.setattr(sass, "find_nvdisasm", lambda: script)
    step, why = sass_of(steps)
    assert step is None and "returned non-zero exit status 3" in why
    assert sass_of(steps.without(["09-ptx/kernel"])) == (None, "level llvm or ptx is missing")


def test_lines_are_coloured_whole() -> None:
    text = "        /*0040*/               @!P1 LDSM.16.M88.4 R40, [R0+UR4+0x400] ;"
    tokens = coloured(SassLexer())(text)
    assert "".join(map(str, tokens[1::2])) == text
    found = {str(part).strip(): CLASSES[int(kind)] for kind, part in zip(tokens[::2], tokens[1::2], strict=True)}
    assert (found["LDSM.16.M88.4"], found["R40"], found["0x400"]) == ("op", "value", "number")
