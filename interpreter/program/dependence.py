"""What the control flow of a program depends on: the premise under which one run speaks for all.

Values *vary* if they come from memory, or from how instructions happened to be timed: what a load, an atomic operation
or a poll returns, and what is computed from it. All else follows from the kernel's parameters, constants and the
position of a thread. The premise holds where no branch, loop, address or operand of an instruction that orders, waits
or copies varies; matrix elements may vary as long as they are only computed with and stored. The check is made on the
program, whatever path a run takes: values that may vary somewhere vary everywhere.

A loop that only polls and computes, and that ends at one place, is a wait: its own branches may depend on the polls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from lowtide.interpreter.program.batches import Batch
from lowtide.interpreter.program.graphs import Graph
from lowtide.interpreter.program.program import DecodedBlock, Program


@dataclass(frozen=True)
class Use:
    """How an instruction uses its operands.

    `varies`: what it returns comes from memory or timing. `orders`: it accesses memory or orders accesses, so that its
    operands must not vary, those in the slots `data` apart.
    """

    varies: bool = False
    orders: bool = False
    data: frozenset[int] = frozenset()


Classify: TypeAlias = Callable[[Any], Use]


@dataclass(frozen=True)
class Dependence:
    """Where the premise fails: `op` depends on what `source` returned. Both in words, with their places."""

    op: str
    source: str
    what: str = "operand"

    def __str__(self) -> str:
        return f"the {self.what} of {self.op} depends on {self.source}"


def dependences(program: Program, classify: Classify) -> list[Dependence]:
    """Every place where the premise fails for a program; none where it holds."""
    flow = _Flow(classify)
    while flow.changed:
        flow.changed = False
        if program.graph is None:
            flow.block(program.block)
        else:
            flow.graph(program.graph)
    return list(dict.fromkeys(flow.found))


class _Flow:
    """Slots that vary, with what made them vary; grown until nothing changes."""

    def __init__(self, classify: Classify) -> None:
        self.classify = classify
        self.varying: dict[int, Any] = {}
        self.found: list[Dependence] = []
        self.changed = True

    def mark(self, slots: Iterable[int], source: Any) -> None:
        for slot in slots:
            if slot not in self.varying:
                self.varying[slot] = source
                self.changed = True

    def move(self, sources: Iterable[int], targets: Iterable[int]) -> None:
        for source, target in zip(sources, targets, strict=False):
            if source in self.varying:
                self.mark([target], self.varying[source])

    def require(self, op: Any, slots: Iterable[int], what: str) -> None:
        """These slots must not vary."""
        for slot in slots:
            if slot in self.varying:
                self.found.append(Dependence(op.describe(), self.varying[slot].describe(), what))

    def block(self, block: DecodedBlock) -> None:
        for op in _flat((*block.invariant, *block.ops)):
            if op.regions:
                self.structured(op)
            else:
                self.straight(op)

    def straight(self, op: Any) -> None:
        use = self.classify(op)
        if use.orders:
            self.require(op, (slot for slot in op.operands if slot not in use.data), "operand")
        if use.varies:
            self.mark(op.results, op)
        source = next((self.varying[slot] for slot in op.operands if slot in self.varying), None)
        if source is not None:
            self.mark(op.results, source)

    def structured(self, op: Any) -> None:
        """scf.for, scf.if, scf.while and what runs one region as it is."""
        deciding = {"scf.for": 3, "scf.if": 1}.get(op.name, 0)
        self.require(op, op.operands[:deciding], "branch")
        for region in op.regions:
            carried = region.arguments[1:] if op.name == "scf.for" else region.arguments
            self.move(op.operands[deciding:], carried)
            self.block(region)
        if op.name == "scf.while":
            before, after = op.regions
            self.require(op, before.results[:1], "branch")
            self.move(before.results[1:], after.arguments)
            self.move(before.results[1:], op.results)
            self.move(after.results, before.arguments)
            return
        for region in op.regions:
            self.move(region.results, op.results)
            if op.name == "scf.for":
                self.move(region.results, region.arguments[1:])

    def graph(self, graph: Graph) -> None:
        waits = _waits(graph)
        for number, block in enumerate(graph.blocks):
            for op in _flat(block.ops):
                self.straight(op)
            branch = block.branch
            if branch.condition is not None and number not in waits:
                self.require(branch.op, [branch.condition], "branch")
            for edge in branch.edges:
                self.move((move.source for move in edge.moves), (move.target for move in edge.moves))


def _flat(ops: Iterable[Any]) -> Iterator[Any]:
    for op in ops:
        if isinstance(op, Batch):
            yield from op.ops
        else:
            yield op


def _waits(graph: Graph) -> set[int]:
    """The blocks of loops that only compute and poll, and that all leave for one place."""
    found: set[int] = set()
    for block in graph.blocks:
        for edge in block.branch.edges:
            inside = edge.loop.blocks if edge.loop is not None else frozenset()
            exits = {out.target for at in inside for out in graph.blocks[at].branch.edges if out.target not in inside}
            if inside and len(exits) == 1 and not any(graph.blocks[at].acts for at in inside):
                found |= inside
    return found
