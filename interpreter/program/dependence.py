"""Dependence of a program's control flow on data: the premise under which one run speaks for all.

Values *vary* if they come from memory, or depend on the timing of instructions: the results of loads, atomic operations
and polls, and everything computed from them. All other values follow from the kernel's parameters, constants and the
position of a thread. The premise holds if no branch, loop, address or operand of an instruction that orders, waits or
copies varies; matrix elements may vary as long as they are only computed with and stored. The check is made on the
program, not on the path of a run: a value that may vary somewhere varies everywhere.
Two kinds of branches may depend on varying values:
- A branch of a *wait*: a loop that only polls and computes, keeps nothing between iterations and has one exit.
- A branch that decides *nothing*: up to the point where its sides meet again there are only computations, polls that
  order nothing, and loops with a bound. Values written there vary from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from lowtide.interpreter.program.batches import flat
from lowtide.interpreter.program.graphs import EXIT, Branch, Edge, Graph
from lowtide.interpreter.program.program import DecodedBlock, Program


@dataclass(frozen=True)
class Use:
    """How an instruction uses its operands.

    `varies`: its result comes from memory or timing. `orders`: it accesses memory or orders accesses, so its operands
    must not vary, except those in the slots `data`. `asks`: it is a poll that orders nothing. `meets`: it reads or
    changes a word or an mbarrier, so its order among other such accesses may matter. `patterned`: what it orders
    depends on the accesses of others to the same word, so that a wait may end with one of several views. `steps`: it
    adds 1 to its result, or subtracts it. `ends`: slots of numbers; its result is false once one of them is zero.
    `inside` is the graph that it runs, if any.
    """

    varies: bool = False
    orders: bool = False
    data: frozenset[int] = frozenset()
    asks: bool = False
    meets: bool = False
    patterned: bool = False
    steps: bool = False
    ends: frozenset[int] = frozenset()
    inside: Inside | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether its execution makes no difference to others."""
        return self.asks or not (self.orders or self.inside)


@dataclass(frozen=True)
class Inside:
    """A graph that an instruction runs: its instructions, and pairs of slots for its inputs and outputs."""

    graph: Graph
    classify: Classify
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]


Classify: TypeAlias = Callable[[Any], Use]


@dataclass(frozen=True)
class Dependence:
    """A violation of the premise: `op` depends on the result of `source`. Both are texts, with locations."""

    op: str
    source: str
    what: str = "operand"

    def __str__(self) -> str:
        return f"the {self.what} of {self.op} depends on {self.source}"


def dependences(program: Program, classify: Classify) -> list[Dependence]:
    """All violations of the premise in a program; empty if it holds."""
    flow = _Flow(classify)
    while flow.changed:
        flow.changed = False
        if program.graph is None:
            flow.block(program.block)
        else:
            flow.graph(program.graph)
    ops = [op for block in program.graph.blocks for op in flat(block.ops)] if program.graph is not None else []
    described = cache(lambda op: op.describe())  # one op may be the source of many
    found = [Dependence(described(op), described(source), what) for op, source, what in flow.found.values()]
    patterned = [Dependence(described(op), "the accesses of others", "effect") for op in ops if classify(op).patterned]
    return list(dict.fromkeys([*found, *patterned]))


class _Flow:
    """Slots that vary, with the sources of the variation; grown until nothing changes."""

    def __init__(self, classify: Classify) -> None:
        self.classify = classify
        self.varying: dict[int, Any] = {}
        self.found: dict[tuple[int, int, str], tuple[Any, Any, str]] = {}  # by ids: op, source, and what depends
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
        """Check that these slots do not vary."""
        for slot in slots:
            if slot in self.varying:
                source = self.varying[slot]
                self.found.setdefault((id(op), id(source), what), (op, source, what))

    def block(self, block: DecodedBlock) -> None:
        for op in flat((*block.invariant, *block.ops)):
            if op.regions:
                self.structured(op)
            else:
                self.straight(op)

    def straight(self, op: Any) -> None:
        use = self.classify(op)
        if use.inside is not None:
            self.within(use.inside)
            return
        if use.orders:
            self.require(op, (slot for slot in op.operands if slot not in use.data), "operand")
        if use.varies:
            self.mark(op.results, op)
        source = next((self.varying[slot] for slot in op.operands if slot in self.varying), None)
        if source is not None:
            self.mark(op.results, source)

    def within(self, inside: Inside) -> None:
        self.move(*zip(*inside.inputs, strict=True) if inside.inputs else ((), ()))
        outer, self.classify = self.classify, inside.classify
        self.graph(inside.graph)
        self.classify = outer
        self.move(*zip(*inside.outputs, strict=True) if inside.outputs else ((), ()))

    def structured(self, op: Any) -> None:
        """scf.for, scf.if, scf.while and ops that run one region unchanged."""
        deciding = {"scf.for": 3, "scf.if": 1}.get(op.name, 0)
        if op.name == "scf.if" and op.operands[0] in self.varying and self.is_quiet(op):
            self.mark(op.results, self.varying[op.operands[0]])
        else:
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

    def is_quiet(self, op: Any) -> bool:
        """Whether the side of an scf.if that is taken makes no difference to others."""
        inner = [each for region in op.regions for each in flat(region.ops)]
        return all(
            self.is_quiet(each) if each.name == "scf.if" else not each.regions and self.classify(each).is_quiet
            for each in inner
        )

    def graph(self, graph: Graph) -> None:
        exempt = waits(graph)
        for number, block in enumerate(graph.blocks):
            for op in flat(block.ops):
                self.straight(op)
            branch = block.branch
            if branch.condition in self.varying:
                self.depend(graph, number, branch, branch.condition, number in exempt)
            for edge in branch.edges:
                self.move((move.source for move in edge.moves), (move.target for move in edge.moves))

    def depend(self, graph: Graph, number: int, branch: Branch, condition: int, is_wait: bool) -> None:
        """A varying branch: it must belong to a wait, or decide nothing."""
        between = _between(graph, number)
        if not is_wait and not self.decides_nothing(graph, between):
            self.require(branch.op, [condition], "branch")
            return
        moved = [move.target for edge in branch.edges for move in edge.moves]
        written = [slot for at in between for slot in graph.written(at)]
        self.mark((*moved, *written), self.varying[condition])

    def decides_nothing(self, graph: Graph, between: frozenset[int]) -> bool:
        """Whether running these blocks, any number of times, makes no difference to others."""
        ops = (op for at in between for op in flat(graph.blocks[at].ops))
        return all(self.classify(op).is_quiet for op in ops) and all(
            self.is_bounded(graph, at, edge)
            for at in between
            for edge in graph.blocks[at].branch.edges
            if edge.loop is not None
        )

    def is_bounded(self, graph: Graph, number: int, edge: Edge) -> bool:
        """Whether the loop of a back edge ends by itself: it continues only while a number is not zero, which each
        iteration increments or decrements at the same place."""
        block, branch = graph.blocks[number], graph.blocks[number].branch
        if branch.condition is None or edge is not branch.edges[branch.cases.get(True, -1)] or edge.loop is None:
            return False
        here = list(flat(block.ops))
        deciding = [op for op in here if branch.condition in op.results][-1:]
        ends = self.classify(deciding[0]).ends if deciding else frozenset()
        for slot in ends:
            writers = [op for at in edge.loop.blocks for op in flat(graph.blocks[at].ops) if slot in op.results]
            if len(writers) == 1 and writers[0] in here and self.classify(writers[0]).steps:
                return True
        return False


def _between(graph: Graph, number: int) -> frozenset[int]:
    """The blocks between a branch and the point where its sides meet again."""
    end, found = graph.meets[number], set()
    waiting = [edge.target for edge in graph.blocks[number].branch.edges]
    while waiting:
        block = waiting.pop()
        if block not in (end, EXIT) and block not in found:
            found.add(block)
            waiting += [edge.target for edge in graph.blocks[block].branch.edges]
    return frozenset(found)


def waits(graph: Graph) -> set[int]:
    """The blocks of loops that only compute and poll, have one exit, and keep nothing between iterations, so that only
    a poll ends them."""
    found: set[int] = set()
    for block in graph.blocks:
        for edge in block.branch.edges:
            if edge.loop is None:
                continue
            inside, written = edge.loop.blocks, frozenset(edge.loop.slots)
            exits = {out.target for at in inside for out in graph.blocks[at].branch.edges if out.target not in inside}
            acts = any(op.acts for at in inside for op in graph.blocks[at].ops)
            if len(exits) == 1 and not acts and not any(graph.read_before(at) & written for at in inside):
                found |= inside
    return found
