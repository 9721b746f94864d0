"""Records, step by step, which ops of the step before the ops of a compilation come from.

The location of an op says where it comes from. Before a step runs, the location of each op names the op's line in the
text. A pass builds an op at the location of the op that it replaces or serves, and an op that stays keeps its own. So
after the step, locations name the origins, as lines of the text before. Then the new text is parsed, and gives the
locations for the next step. Locations are not printed, and no pass decides by them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mlir import ir

from lowtide.compiler.contexts import parse_text
from lowtide.compiler.origins.origins import Origins, Row, Step
from lowtide.dialects._lowtide import ops_named

HOLDERS = frozenset(
    ("builtin.module", "func.func", "tile.kernel", "gpu.module", "gpu.func", "llvm.func", "sm.roles", "tile.work_tiles")
    + ("scf.for", "scf.while")
)
"""Functions, roles and loops. They are origins of each other only: an op comes from an op in a loop, not from the
loop."""

_AFTER = re.compile(r'tile\.after = "[^"]*", ')


@dataclass
class Recorder:
    """Follows one compilation; `steps`: those that it has seen."""

    steps: list[Step] = field(default_factory=list)
    _source: str = ""  # the file that the locations of the present ops name

    def result(self) -> Origins:
        return Origins(tuple(self.steps))

    def record(self, place: str, module: ir.Module, text: str, name: str) -> Step:
        """Record what a step has left. The ops' locations then are their lines in the file `name`."""
        if self.steps and _AFTER.sub("", text) == _AFTER.sub("", self.steps[-1].text):  # the step changed nothing
            rows = tuple(Row(row.line, row.op, (row.line,)) for row in self.steps[-1].rows)
            return self._add(place, text, rows)
        read = parse_text(text, module.context, name)
        step = self.record_parsed(place, module, text, read)
        for op, again in zip(_ops(module), _ops(read), strict=True):
            op.location = again.location
        return step

    def record_parsed(self, place: str, module: ir.Module, text: str, read: ir.Module) -> Step:
        """Record what a step has left; `read` is its text, parsed, with which the compilation goes on."""
        before = {row.line: row.op for row in self.steps[-1].rows} if self.steps else {}
        rows: dict[int, Row] = {}
        for op, again in zip(_ops(module), _ops(read), strict=True):
            line, name = again.location.start_line, op.name
            found = dict.fromkeys(number for file, number in _places(op.location) if file == self._source)
            origins = (at for at in found if at in before and (name in HOLDERS or before[at] not in HOLDERS))
            rows.setdefault(line, Row(line, name, tuple(origins)))  # a terminator that is not printed has no line
        self._source = read.operation.location.filename
        return self._add(place, text, tuple(rows.values()))

    def _add(self, place: str, text: str, rows: tuple[Row, ...]) -> Step:
        self.steps.append(Step(place, self.steps[-1].place if self.steps else None, text, rows))
        return self.steps[-1]


def _ops(module: ir.Module) -> list[ir.Operation]:
    return list(ops_named(module.operation, "*"))


def _places(location: ir.Location) -> Iterator[tuple[str, int]]:
    """The file and line of each place in a location."""
    if location.is_a_file():
        yield location.filename, location.start_line
    elif location.is_a_name():
        yield from _places(location.child_loc)
    elif location.is_a_callsite():
        yield from _places(location.callee)
    elif location.is_a_fused():
        for part in location.locations:
            yield from _places(part)
