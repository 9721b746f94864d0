"""Finds which op of level `llvm` each line of the PTX comes from, with a second PTX that has `.loc` directives.

The second PTX is only read here, or compiled by `ptxas -lineinfo`. Apart from these directives, and the labels that
they need, its lines are those of the PTX that ships, which has no such directives.
"""

import re
from collections.abc import Iterator

from mlir.passmanager import PassManager

from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.origins.origins import Row
from lowtide.compiler.ptx import keep_device_side, ptx_text

# Not LineTablesOnly, for which the backend writes `.target …, debug`: ptxas then ignores setmaxnreg.
_SCOPES = "ensure-debug-info-scope-on-llvm-func{emission-kind=DebugDirectivesOnly}"
_ADDED = re.compile(r"\s*(\.loc\s|\.file\s|\.section\s+\.debug)|\$L__(func_begin|func_end|tmp)\d+:")
_LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
_INSTRUCTION = re.compile(r"\s*(?:@!?%?\w+\s+)?([a-z][\w.:]*)(?=[\s;]|$)")


def ptx_with_lines(llvm: str, emit: str, name: str = "llvm.mlir") -> str:
    """The PTX of a module of level `llvm`, with `.loc` directives that name its lines as those of the file `name`.

    `emit`: the pass that makes PTX."""
    with make_context() as context:
        module = parse_text(llvm, context, name)
        keep_device_side(module)
        PassManager.parse(f"builtin.module({_SCOPES},{emit})").run(module.operation)
        return ptx_text(module)


def rows_of_ptx(ptx: str, with_lines: str, llvm: frozenset[int]) -> tuple[Row, ...]:
    """The instructions of the PTX that ships, with their origins: of the lines in which ops of level `llvm` begin.

    Empty if the second PTX has other instructions."""
    read = list(_without_lines(with_lines))
    if [text for text, _ in read if text.strip()] != [text for text in ptx.split("\n") if text.strip()]:
        return ()
    at, rows, begins = iter([line for text, line in read if text.strip()]), [], True
    for number, text in enumerate(ptx.split("\n"), 1):
        line = next(at) if text.strip() else 0
        found = _INSTRUCTION.match(text) if begins else None
        if found is not None:
            rows.append(Row(number, found[1], (line,) if line in llvm else ()))
        begins = ";" in text if found is not None or not begins else True
    return tuple(rows)


def _without_lines(with_lines: str) -> Iterator[tuple[str, int]]:
    """The lines of the PTX without what names lines, each with the line that it comes from."""
    line = 0
    for text in with_lines.split("\n"):
        if found := _LOC.match(text):
            line = int(found[1])
        elif not _ADDED.match(text):
            yield text, line
