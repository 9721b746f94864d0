"""Records, for each step of a compilation, which ops of the previous step its ops come from.

The location of an op says where it comes from. Before a step runs, the location of each op names the op's line in the
text. A pass builds an op at the location of the op that it replaces or serves, and an op that stays keeps its own. So
after the step, locations name the origins, as lines of the text before. Then the new text is parsed, and gives the
locations for the next step. Locations are not printed, and no pass depends on them.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mlir import ir

from lowtide.compiler.contexts import parse_text
from lowtide.compiler.origins.origins import PTX_PLACE, Origins, Row, Step
from lowtide.compiler.origins.ptx_lines import ptx_with_lines, rows_of_ptx
from lowtide.dialects._lowtide import ops_named

_FUNCTIONS = ("builtin.module", "func.func", "tile.kernel", "gpu.module", "gpu.func", "llvm.func")
HOLDERS = frozenset((*_FUNCTIONS, "sm.roles", "tile.work_tiles", "scf.for", "scf.while"))
"""Functions, roles and loops. They are origins of each other only: an op comes from an op in a loop, not from the
loop."""

_AFTER = re.compile(r'tile\.after = "[^"]*", ')


_Place = tuple[str, int, int]  # file, line, column


@dataclass
class Recorder:
    """Follows one compilation; `steps`: those that it has seen."""

    steps: list[Step] = field(default_factory=list)
    _lines: dict[_Place, int] = field(default_factory=dict)  # of the last step, by the place in an op's location

    def result(self) -> Origins:
        return Origins(tuple(self.steps))

    def begin(self, place: str, module: ir.Module, text: str) -> Step:
        """Record the input, whose ops keep the locations that messages name."""
        read = self._record(place, module, text, parse_text(text, module.context, f"<{place}>"))
        self._lines = {}
        for op, at in read:
            for own in _places(op.location):
                self._lines.setdefault(own, at.start_line)
        return self.steps[-1]

    def record(self, place: str, module: ir.Module, text: str, name: str) -> Step:
        """Record what a step has left. The ops' locations then are their lines in the file `name`."""
        if _AFTER.sub("", text) == _AFTER.sub("", self.steps[-1].text):  # the step changed nothing
            return self._add(place, text, [Row(row.line, row.op, (row.line,)) for row in self.steps[-1].rows])
        read = parse_text(text, module.context, name)
        for op, at in self._record(place, module, text, read):
            op.location = at
        return self.steps[-1]

    def record_parsed(self, place: str, module: ir.Module, text: str, read: ir.Module) -> Step:
        """Record what a step has left; `read` is its text, parsed, with which the compilation goes on."""
        self._record(place, module, text, read)
        return self.steps[-1]

    def record_ptx(self, ptx: str, emit: str) -> Step:
        """Record the PTX, which the pass `emit` has made from the last step."""
        llvm = self.steps[-1]
        lines = frozenset(row.line for row in llvm.rows if row.op not in HOLDERS)
        rows = rows_of_ptx(ptx, ptx_with_lines(llvm.text, emit), lines)
        return self._add(PTX_PLACE, ptx, rows)

    def _record(
        self, place: str, module: ir.Module, text: str, read: ir.Module
    ) -> list[tuple[ir.Operation, ir.Location]]:
        """Add a step, and follow the ops of `read`, its text. Returns the module's ops with their locations there."""
        before = {row.line: row.op for row in self.steps[-1].rows} if self.steps else {}
        file = read.operation.location.filename
        rows: dict[int, Row] = {}
        lines: dict[_Place, int] = {}
        located = [(op, again.location) for op, again in zip(_ops(module), _ops(read), strict=True)]
        for op, at in located:
            line, name = at.start_line, op.name
            found = dict.fromkeys(self._lines[own] for own in _places(op.location) if own in self._lines)
            origins = tuple(other for other in found if name in HOLDERS or before[other] not in HOLDERS)
            rows.setdefault(line, Row(line, name, origins))  # a terminator that is not printed has no line
            lines[file, line, at.start_col] = line
        self._lines = lines
        self._add(place, text, rows.values())
        return located

    def _add(self, place: str, text: str, rows: Iterable[Row]) -> Step:
        self.steps.append(Step(place, self.steps[-1].place if self.steps else None, text, tuple(rows)))
        return self.steps[-1]


def _ops(module: ir.Module) -> list[ir.Operation]:
    return list(ops_named(module.operation, "*"))


def _places(location: ir.Location) -> Iterator[_Place]:
    """The places in files that a location names."""
    if location.is_a_file():
        yield location.filename, location.start_line, location.start_col
    elif location.is_a_name():
        yield from _places(location.child_loc)
    elif location.is_a_callsite():
        yield from _places(location.callee)
    elif location.is_a_fused():
        for part in location.locations:
            yield from _places(part)
