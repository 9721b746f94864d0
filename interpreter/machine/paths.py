"""The sides of branches that a run took, and the iterations of loops: the part of a program covered by a set of runs.

Recorded only on request (`interpret(…, paths=…)`): at each scf.if, scf.for and scf.while of the kernels, and at each
branch between blocks, except those of waits, whose iterations depend on timing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lowtide.interpreter.program.batches import flat
from lowtide.interpreter.program.dependence import waits
from lowtide.interpreter.program.graphs import Branch, Edge, Graph
from lowtide.interpreter.program.program import DecodedBlock, Program

THEN, ELSE = "then", "else"
TAKEN, PASSED = "taken", "not taken"
NEVER, ONCE, OFTEN = "no iteration", "one iteration", "several iterations"
_DECIDING = {"scf.if": 1, "scf.for": 3, "scf.while": 0}  # operands that determine the side
_SIDES = {"scf.if": (THEN, ELSE), "scf.for": (NEVER, ONCE, OFTEN), "scf.while": (NEVER, ONCE, OFTEN)}


@dataclass(frozen=True, order=True)
class Place:
    """A branch or loop: its line in the text of its module (0 if it has none), its kernel, and the op's name."""

    line: int
    kernel: str
    op: str

    def __str__(self) -> str:
        return f"{self.op} of @{self.kernel} at line {self.line}"


@dataclass(eq=False)
class Paths:
    """Filled by `interpret`.

    `sides`: for each branch or loop, the sides that were taken; with `possible`, all of its sides.
    """

    sides: dict[Place, set[str]] = field(default_factory=dict)
    possible: dict[Place, tuple[str, ...]] = field(default_factory=dict)
    _taken: dict[Any, set[str]] = field(default_factory=dict)
    _kernels: dict[Any, str] = field(default_factory=dict)

    def enter(self, program: Program) -> None:
        """A kernel is about to run: add all its branches and loops."""
        for op in _walk(program.block):
            if op.name in _SIDES and not op.is_settled(_DECIDING[op.name]):
                self._taken.setdefault(op, set())
                self._kernels[op] = program.name
        for branch in _branches(program.graph) if program.graph is not None else ():
            self._taken.setdefault(branch, set())
            self._kernels[branch] = program.name

    def edges(self, branch: Branch, taken: Iterable[Edge]) -> None:
        """An agent's lanes take these edges."""
        if branch in self._taken:
            self._taken[branch] |= {_side(branch, edge) for edge in taken}

    def branch(self, op: Any, taken: bool, other: bool) -> None:
        """An agent is at a branch that some of its lanes take, or some do not."""
        if op in self._taken:
            self._taken[op] |= {side for side, is_taken in ((THEN, taken), (ELSE, other)) if is_taken}

    def loop(self, op: Any, trips: int) -> None:
        """An agent runs `trips` iterations of a loop."""
        if op in self._taken:
            self._taken[op].add((NEVER, ONCE)[trips] if trips < 2 else OFTEN)

    def settle(self) -> None:
        """The run has ended: replace ops, which end with their module, by places."""
        for op, taken in self._taken.items():
            kernel = self._kernels[op]
            at = op.op if isinstance(op, Branch) else op
            place = Place(at.line, kernel, at.name)
            self.sides.setdefault(place, set()).update(taken)
            sides = [_side(op, edge) for edge in op.edges] if isinstance(op, Branch) else _SIDES[op.name]
            self.possible[place] = tuple(dict.fromkeys((*self.possible.get(place, ()), *sides)))
        self._taken, self._kernels = {}, {}


def merged(runs: Iterable[Paths]) -> Paths:
    """The union of several runs of one program."""
    whole = Paths()
    for paths in runs:
        for place, taken in paths.sides.items():
            whole.sides.setdefault(place, set()).update(taken)
        whole.possible.update(paths.possible)
    return whole


def _branches(graph: Graph) -> Iterator[Branch]:
    exempt = waits(graph)
    for number, block in enumerate(graph.blocks):
        if block.branch.condition is not None and number not in exempt:
            yield block.branch


def _side(branch: Branch, edge: Edge) -> str:
    number = next(at for at, each in enumerate(branch.edges) if each is edge)
    if len(branch.edges) == 2:
        return (TAKEN, PASSED)[number]
    return next((f"case {value}" for value, at in branch.cases.items() if at == number), "default")


def _walk(block: DecodedBlock) -> Iterator[Any]:
    for op in flat(block.ops):
        yield op
        for region in op.regions:
            yield from _walk(region)
