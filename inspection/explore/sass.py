"""The machine code of a kernel as a step after the PTX, if nvdisasm is installed.

The origins of its instructions are lines of level `llvm`, which a second PTX names with `.loc` directives
(`compiler/origins/ptx_lines.py`). If the second PTX assembles to other code, the instructions have no origins.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.origins.origins import Row
from lowtide.compiler.origins.ptx_lines import ptx_with_lines
from lowtide.compiler.origins.record import HOLDERS
from lowtide.compiler.ptxas import assemble
from lowtide.compiler.ptxas_program import in_wheel
from lowtide.dialects.levels import Level, target_of
from lowtide.errors import Error
from lowtide.inspection.explore.steps import SASS_PLACE, Shown, Steps
from lowtide.passes.pipeline import STEPS
from lowtide.targets import Target

_TIMEOUT_SECONDS = 60
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)")
_WIDE = re.compile(r" {5,}")
_LINE = re.compile(r'\s*//## File "[^"]*", line (\d+)')


def find_nvdisasm() -> Path | None:
    """nvdisasm on PATH, or in NVIDIA's wheel (`nvidia-cuda-nvdisasm`)."""
    found = shutil.which("nvdisasm")
    return Path(found) if found is not None else in_wheel("nvdisasm")


def sass_of(steps: Steps) -> tuple[Shown | None, str]:
    """The machine code as a step and "", or None and the reason why it is left out."""
    program, ptx, llvm = find_nvdisasm(), steps.last(str(Level.PTX)), steps.last(str(Level.LLVM))
    if program is None:
        return None, "nvdisasm is not installed (pip install 'lowtide[sass]')"
    if ptx is None or llvm is None:
        return None, "level llvm or ptx is missing"
    try:
        return _sass(program, ptx.text, llvm), ""
    except (Error, OSError, subprocess.SubprocessError) as error:
        return None, (str(error).splitlines() or [type(error).__name__])[0]


def _sass(program: Path, ptx: str, llvm: Shown) -> Shown:
    with make_context() as context:
        target = target_of(parse_text(llvm.text, context, "<level llvm>"))
    text = _disassembled(program, ptx, target, lines=False)
    plain = [line for line in text.split("\n") if line.strip()]
    located = [
        line
        for line in _disassembled(program, ptx_with_lines(llvm.text, _emit(target)), target, lines=True).split("\n")
        if line.strip()
    ]
    is_same = [line for line in located if not _LINE.match(line)] == plain
    known = frozenset(row.line for row in llvm.rows if row.op not in HOLDERS) if is_same else frozenset[int]()
    return Shown(
        SASS_PLACE,
        llvm.place,
        "\n".join(_WIDE.sub("    ", line) for line in plain),
        _rows(located if is_same else plain, known),
    )


def _emit(target: Target) -> str:
    return STEPS[Level.PTX][0].text(target)


def _disassembled(program: Path, ptx: str, target: Target, *, lines: bool) -> str:
    cubin = assemble(ptx, target, allow_spills=True, lines=lines).cubin
    with tempfile.TemporaryDirectory(prefix="lowtide-sass-") as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        command = [str(program), "-c", *(["-g"] if lines else []), str(file)]
        return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True).stdout


def _rows(located: list[str], known: frozenset[int]) -> tuple[Row, ...]:
    """The instructions; their lines are those without the lines that name level `llvm`."""
    rows, number, origin = [], 0, 0
    for text in located:
        if found := _LINE.match(text):
            origin = int(found[1])
            continue
        number += 1
        if found := _INSTRUCTION.match(text):
            rows.append(Row(number, found[1], (origin,) if origin in known else ()))
    return tuple(rows)
