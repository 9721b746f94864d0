"""Runs a launch in several orders of agents, if one run does not speak for all (interleavings.py).

Actions that do not ask give the same result in every order. So orders differ only in the result of an *ask* (a poll
that is not a wait, an atomic operation whose result is used): in the *changes* of its word or mbarrier that precede it.
Agents stop before each ask and each change, and the scheduler chooses which one continues. Changes by the same
commutative operation, such as arrivals, may change places, and so may asks. Two steps of different agents that may not,
and that nothing orders, are a conflict: then the other order is tried too. Orders that differ in no conflict are tried
once (dynamic partial order reduction: Flanagan, Godefroid, POPL 2005; sleep sets: Godefroid, 1996).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import ASK, Agent, AgentState, Steps, Wait
from lowtide.interpreter.machine.interleavings import Past, join
from lowtide.interpreter.program.batches import Batch, flat
from lowtide.interpreter.program.dependence import Classify, waits
from lowtide.interpreter.program.graphs import Graph
from lowtide.interpreter.program.program import DecodedBlock, Program

_COMMUTE = frozenset({ASK, "arrive", "add", "min", "max", "and", "or", "xor"})

Touches: TypeAlias = dict[Any, set[str]]
"""By word or mbarrier, the action of a step: ask, or change by an operation."""


class _Steps(int):
    """In a past, for an agent: the number of finished steps when it last continued, as far as known."""

    __slots__ = ()


class Redundant(Exception):
    """An order that differs in no conflict from a tried one."""


@dataclass(eq=False)
class _Node:
    """A choice: the agents that could continue, the chosen one and its actions; the agents to try, and those tried.

    `asleep` holds agents, each with its next step, if that step leads to orders that were already tried.
    """

    able: tuple[int, ...]
    chosen: int
    asleep: dict[int, Touches]
    touches: Touches = field(default_factory=dict)
    wanted: set[int] = field(default_factory=set)
    tried: dict[int, Touches] = field(default_factory=dict)


@dataclass(frozen=True)
class Explored:
    """The number of orders that were run, whether these are all that differ, and the fault of the last one, if any.
    `timed`: the limit of the time ended them, not that of their number."""

    orders: int
    complete: bool
    fault: InterpreterError | None = None
    timed: bool = False

    @property
    def holds(self) -> bool:
        """Whether all orders are right."""
        return self.complete and self.fault is None

    def __str__(self) -> str:
        if self.fault is not None:
            return f"order {self.orders} of those that differ: {self.fault}"
        count = "1 order" if self.orders == 1 else f"{self.orders} orders"
        were = "was" if self.orders == 1 else "were"
        if self.complete:
            return f"for every order of agents: {count} {were} run, and no others differ in what a poll finds"
        limit = "the limit of the time" if self.timed else "the limit of their number"
        return (
            f"{count} of agents {were} run, and there are more; {limit} was reached: try a smaller launch, or raise it"
        )


class Explorer:
    """Chooses the agent that continues; given to successive runs of the same launches."""

    def __init__(self) -> None:
        self.path: list[_Node] = []
        self.current = 0
        self.is_asking = False
        self._begin()

    def launch(self) -> None:
        """A launch begins: the preceding ones have ended."""
        self._close()
        self._last.clear()
        self._seen.clear()
        self._known.clear()

    def restart(self) -> None:
        """The same order runs again from its beginning."""
        self._begin()

    def _begin(self) -> None:
        self._depth = -1  # of the current step
        self._is_open = False
        self._before: Past = {}
        self._numbers: dict[int, int] = {}  # of agents, in the order in which they are first seen
        self._agents: list[Agent] = []
        self._last: dict[int, int] = {}  # the last step of each
        self._seen: dict[Any, list[tuple[int, int, str]]] = {}  # by word: step, agent, action
        self._known: dict[Any, dict[str, Past]] = {}  # by word and action: the steps before it

    def choose(self, able: list[Agent]) -> Agent:
        """The agent that continues, among those that can. Raises Redundant if each choice leads to an order already
        tried."""
        self._close()
        numbers = tuple(self._number(agent) for agent in able)
        self._depth += 1
        if self._depth == len(self.path):
            self.path.append(self._fresh(numbers))
        node = self.path[self._depth]
        assert node.able == numbers, "a launch that runs the same steps has other agents"
        node.touches, self._is_open = {}, True
        self.current = node.chosen
        self._last[self.current] = self._depth
        past = self._past(self.current)
        self._before = dict(past)
        past[_Steps(self.current)] = self._depth + 1
        return self._agents[self.current]

    def _number(self, agent: Agent) -> int:
        if id(agent) not in self._numbers:
            self._numbers[id(agent)] = len(self._agents)
            self._agents.append(agent)
        return self._numbers[id(agent)]

    def _fresh(self, numbers: tuple[int, ...]) -> _Node:
        before = self.path[-1] if self.path else None
        asleep = {}
        if before is not None:
            others = {**before.asleep, **before.tried}
            asleep = {number: t for number, t in others.items() if number != before.chosen}
            asleep = {number: t for number, t in asleep.items() if not _conflict(t, before.touches)}
        awake = [number for number in numbers if number not in asleep]
        if not awake:
            for number in numbers:
                self._race(number, asleep[number], self._past(number))
            raise Redundant
        return _Node(numbers, min(awake, key=lambda number: self._last.get(number, -1)), asleep)

    def _close(self) -> None:
        """The last step has ended."""
        if self._is_open:
            node = self.path[self._depth]
            self._race(node.chosen, node.touches, self._before)
            self._note(node)
            self._is_open = False

    def touch(self, what: Any, how: str) -> None:
        """The running agent asks for a word or an mbarrier, or changes it. Asks of a wait do not count."""
        if how != ASK or self.is_asking:
            self.path[self._depth].touches.setdefault(what, set()).add(how)

    # Conflicts

    def _past(self, number: int) -> Past:
        """The events before the agent's present in any order; for a copy, which is not an agent, none are known."""
        state = self._agents[number].state
        order = state.machine.order
        return {} if order is None or state.doing else order.of(state.key)

    def _race(self, number: int, touches: Touches, past: Past) -> None:
        """If the step of an agent conflicts with an earlier one that is not in its past, try it in that one's place.
        The past is the one before the step, which may itself acquire."""
        for what, hows in touches.items():
            for step, other, how in self._seen.get(what, ()):
                is_before = past.get(_Steps(other), 0) > step
                if other != number and not is_before and any(not _commute(how, mine) for mine in hows):
                    self._want(step, number, past)

    def _want(self, step: int, number: int, past: Past) -> None:
        node = self.path[step]
        if number in node.able:
            node.wanted.add(number)
            return
        leading = {each for each in node.able if past.get(_Steps(each), 0) > step}
        if not leading:
            node.wanted.update(node.able)
        elif not leading & node.wanted:
            node.wanted.add(min(leading))

    def _note(self, node: _Node) -> None:
        past = self._past(node.chosen)
        for what, hows in node.touches.items():
            known = self._known.setdefault(what, {})
            for how in hows:
                for other, steps in known.items():
                    if not _commute(how, other):
                        join(past, steps)
            for how in hows:
                join(known.setdefault(how, {}), {key: value for key, value in past.items() if isinstance(key, _Steps)})
                self._seen.setdefault(what, []).append((self._depth, node.chosen, how))

    def next(self) -> bool:
        """Prepare the next order; False if all have been run."""
        while self.path:
            node = self.path[-1]
            node.tried[node.chosen] = node.touches
            left = node.wanted - node.tried.keys() - node.asleep.keys()
            if left:
                node.chosen = min(left)
                self._begin()
                return True
            self.path.pop()
        return False

    def finish(self) -> None:
        """A run has ended."""
        self._close()


def explore(
    run: Callable[[Explorer], None],
    most: int,
    seconds: float = float("inf"),
    on_order: Callable[[int], None] = lambda order: None,
) -> Explored:
    """Run orders until all that differ have been run, one is wrong, or the limit of orders or time is reached.

    `run` runs the same launches in the order that an explorer chooses, and raises InterpreterError if it is wrong.
    `on_order` is told the number of each order before it runs.
    """
    explorer, orders, started = Explorer(), 0, time.perf_counter()
    while True:
        try:
            orders += 1
            on_order(orders)
            run(explorer)
            explorer.finish()
        except Redundant:
            orders -= 1
        except InterpreterError as error:
            return Explored(orders, False, error)
        if not explorer.next():
            return Explored(orders, True)
        if orders >= most or time.perf_counter() - started > seconds:
            return Explored(orders, False, timed=orders < most)


def _commute(one: str, other: str) -> bool:
    return one == other and one in _COMMUTE


def _conflict(one: Touches, other: Touches) -> bool:
    return any(
        not _commute(how, another) for what in one.keys() & other.keys() for how in one[what] for another in other[what]
    )


# Where agents stop ----------------------------------------------------------------------------------------------------


def pause(program: Program, classify: Classify) -> None:
    """Let agents stop before each op that asks for a word or an mbarrier, or changes it."""
    if program.graph is not None:
        _pause_graph(program.graph, classify)
    for op in _ops_of(program.block):
        _pause_op(op, classify)


def _pause_graph(graph: Graph, classify: Classify) -> None:
    is_patterned = any(classify(op).patterned for block in graph.blocks for op in flat(block.ops))
    exempt = set() if is_patterned else waits(graph)
    for number, block in enumerate(graph.blocks):
        if number not in exempt:
            for op in block.ops:
                _pause_op(op, classify)


def _ops_of(block: DecodedBlock) -> Iterator[Any]:
    for op in (*block.invariant, *block.ops):
        yield op
        for region in op.regions:
            yield from _ops_of(region)


def _pause_op(op: Any, classify: Classify) -> None:
    if isinstance(op, Batch):  # has no such op
        return
    use = classify(op)
    if use.inside is not None:
        _pause_graph(use.inside.graph, use.inside.classify)
    elif use.meets:
        op.handler, op.resumable = _pausing(op.handler, op.resumable), True


def _pausing(handler: Callable[..., Any], resumable: bool) -> Callable[..., Steps]:
    def run(state: AgentState, op: Any) -> Steps:
        explorer = state.machine.observers.explorer
        yield Wait(lambda: True, lambda: "to be chosen")
        if resumable:
            yield from handler(state, op)
            return
        explorer.is_asking = True
        try:
            handler(state, op)
        finally:
            explorer.is_asking = False

    return run
