"""Runs a function of several blocks (program/graphs.py) for a warp whose lanes may take different branches.

Divergence. Lanes that take different edges run one after the other, each under its mask, up to the immediate
post-dominator of the branch, and continue together there: a stack of (next block, block to stop at, mask). The PTX ISA
lets each thread proceed by itself, so neither the compiler nor the program may assume an order of the sides. None is
needed: each lane has its own registers, and accesses to memory by different lanes are unordered to the race checker,
whichever side runs first, so a program without races gives the same result in any order. At a barrier without .aligned
a side waits for the rest of its warp, and the others run (lane_paths.py). Of the order of sides remains:
- Lanes reconverge at the immediate post-dominator at the latest: the whole warp executes an `.aligned` instruction
  there, as ptxas arranges; a part of the warp that executes one before it is reported (lanes.whole_warp).
- A side that polls for another side of its warp runs before it, until no agent can continue; then the other sides run
  (lane_paths.py). A loop that counts such polls, or changes memory, goes on to the limit of instructions.

Polls. An instruction that reads a value that others change, and does not block (mbarrier.try_wait, ld.acquire,
ld.relaxed, atom), leaves a `Wait` in `state.polls`: ready once the answer would be another, with the reason why it is
not. At a back edge, if something was polled since the last one, the agent yields:
- If it has come the same way before, has done nothing since but compute and poll, and all registers that the loop
  writes are unchanged, all further iterations would be the same. It waits until a poll would have another answer. So a
  loop of try_wait, or of ld.acquire, is a blocking wait, and a deadlock lists it as one.
- Otherwise (a counter of polls runs, or memory was written) others may run, and it can continue at any time.

Decoders: `Block.acts` is False if a block only computes registers and polls. A handler writes its whole result, and
this runner keeps the old values of the other lanes if the mask is partial (`Graph.kept`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import undefined
from lowtide.interpreter.machine.agents import AgentState, Steps, Wait
from lowtide.interpreter.machine.awaited import tell_order
from lowtide.interpreter.machine.convoys import Again, Joinable, Start
from lowtide.interpreter.machine.execution import UNSET, count_steps
from lowtide.interpreter.machine.lane_paths import (
    Mask,
    Path,
    advance,
    fault,
    polls_aside,
    put_aside,
    resume,
    until_changed,
)
from lowtide.interpreter.machine.laps import close, is_due, leave, same
from lowtide.interpreter.numbers.blending import blend
from lowtide.interpreter.program.graphs import EXIT, Branch, Edge, Graph, Loop


@dataclass(slots=True, eq=False)
class Spin:
    """The last iteration of a loop with a poll: registers, and the number of blocks that had acted."""

    edge: Edge
    loop: Loop
    acted: int
    registers: list[Any]

    def is_same(self, other: "Spin | None") -> bool:
        return (
            other is not None
            and self.edge is other.edge
            and self.acted == other.acted
            and all(same(x, y) for x, y in zip(self.registers, other.registers, strict=True))
        )


def run_graph(state: AgentState, graph: Graph, start: Start | None = None) -> Steps:
    """Run the blocks from the entry, or from where a warp leaves a convoy, until all active lanes have returned."""
    outer, start = state.mask, start or Start()
    joins = state.machine.joins and outer is None
    if start.steps is not None:
        yield from _finished(state, start)
    elif joins and start.block == start.index == 0:
        yield _joinable(0, 0)
    paths, index = list(start.paths) or [Path(start.block, EXIT, outer, start.edge)], start.index
    spin: Spin | None = None
    acted = 0
    while paths:
        path = paths[-1]
        if path.waits:
            yield from advance(state, graph, paths)
            index, spin = 0, None
            continue
        is_quiet = path.edge is not None and path.edge.loop is not None and _is_quiet(state, path)
        if path.edge is not None and path.edge.loop is not None and state.polls:
            registers = [state.values[slot] for slot in path.edge.loop.slots]
            now = Spin(path.edge, path.edge.loop, acted + state.changes, registers)
            state.op = state.polls[-1].op or state.op
            yield _until_changed(state, paths) if now.is_same(spin) else again()
            spin = now
            state.polls = []
        elif is_quiet:
            yield again()
        if has_aside := any(each.aside is not None for each in paths):
            resume(graph, paths)
        if paths[-1] is not path:
            spin = None
            continue
        if path.block == path.until:
            paths.pop()
            if paths:
                paths[-1].edge = None
            continue
        if spin is not None and path.block not in spin.loop.blocks:
            spin = None
        leave(state, path.block)
        state.mask = path.mask
        block = graph.blocks[path.block]
        if state.undefined and path.mask is None and len(paths) == 1:
            undefined.prune(state, graph.live_at(path.block, index))
        if block.gathers and state.missing:
            path.waits = True
            continue
        acted += block.acts
        if (work := state.machine.observers.work) is not None:
            work.instructions += block.count(index)
        place = (path.block, index) if joins and path.mask is None else None
        try:
            yield from _run_ops(state, block.ops[index:] if index else block.ops, graph, place)
        except InterpreterError as error:
            if not has_aside:
                raise
            raise fault(paths, error) from None
        index = 0
        if state.asked is not None:
            _count_arrivals(state, path, graph)
        _follow(state, path, block.branch, graph, paths)
    state.mask = outer


def _is_quiet(state: AgentState, path: Path) -> bool:
    """All lanes of the warp close a lap of a loop: whether nothing has changed in it."""
    edge, present = path.edge, state.present
    lanes = path.mask if present is None or path.mask is None else path.mask | ~present
    if edge is None or edge.loop is None or (lanes is not None and not lanes.all()) or not is_due(state, edge):
        return False
    return close(state, edge, [state.values[slot] for slot in edge.loop.slots], state.polls)


def again() -> Wait:
    """Others may run; the agent can continue at any time."""
    return Again(lambda: True, lambda: "to poll again")


def _joinable(block: int, index: int) -> Wait:
    return Joinable(lambda: True, lambda: "to join other warps", place=(block, index))


def _finished(state: AgentState, start: Start) -> Steps:
    """Finish the op that a warp was in when it left a convoy."""
    if start.wait is not None and start.steps is not None:
        yield start.wait
        yield from start.steps
    if state.made_undefined:
        undefined.after(state, state.op, undefined.executing(state, state.op))


def _run_ops(state: AgentState, ops: tuple[Any, ...], graph: Graph, place: tuple[int, int] | None) -> Steps:
    """Run ops of a block. `place`: the numbers of the block and of the first op, if warps may join there."""
    count_steps(state, len(ops) + 1)
    values, kept = state.values, graph.kept
    for number, op in enumerate(ops, 1):
        if state.undefined and undefined.touches(state, op):
            yield from _run_undefined(state, op, kept)
            continue
        state.op = op
        saved = None if state.mask is None else [(slot, values[slot]) for slot in op.results if slot in kept]
        if op.resumable:
            yield from op.handler(state, op)
        else:
            op.handler(state, op)
        if saved and state.mask is not None:
            undefined.keep(state, op, saved, state.mask)
        if state.made_undefined:
            undefined.after(state, op, undefined.executing(state, op))
        if place is not None and op.resumable:
            if state.undefined:
                undefined.prune(state, graph.live_at(place[0], place[1] + number))
            yield _joinable(place[0], place[1] + number)


def _run_undefined(state: AgentState, batch: Any, kept: frozenset[int]) -> Steps:
    """As `_run_ops`, for one op, or those of a batch one by one, on registers that are undefined in some lanes."""
    for op in undefined.flatten(batch):
        state.op = op
        known = undefined.before(state, op)
        saved = [] if state.mask is None else [(slot, state.values[slot]) for slot in op.results if slot in kept]
        if op.resumable:
            yield from op.handler(state, op)
        else:
            op.handler(state, op)
        if saved and state.mask is not None:
            undefined.keep(state, op, saved, state.mask)
        undefined.after(state, op, *known)


def _count_arrivals(state: AgentState, path: Path, graph: Graph) -> None:
    """If a block only polls a semaphore until there are enough arrivals, tell the checks of the order their number."""
    asked, block = state.asked, graph.blocks[path.block]
    branch, condition = block.branch, block.branch.condition
    state.asked = None
    is_loop = any(edge.target == path.block for edge in branch.edges)
    if not is_loop or condition is None or block.acts or not any(op is asked.op for op in block.ops):
        return
    if graph.read_before(path.block) & {*graph.written(path.block)}:  # it counts its iterations
        return

    def ends() -> bool:
        value = state.values[condition]
        if isinstance(value, np.ndarray):
            return all(edge.target != path.block for edge, _ in parted(branch, value, path.mask))
        return branch.edges[branch.cases.get(value, -1)].target != path.block

    tell_order(state, asked, block, ends)


def _follow(state: AgentState, path: Path, branch: Branch, graph: Graph, paths: list[Path]) -> None:
    """Take the path's lanes along their edges; if they part, the path waits at the point of reconvergence."""
    if branch.op is not None:
        state.op = branch.op
    edge = branch.edges[-1]
    if branch.condition is not None:
        if state.undefined:
            undefined.check(state, branch.op, branch.condition)
        value = state.values[branch.condition]
        if isinstance(value, np.ndarray):
            taken = parted(branch, value, path.mask)
            if state.machine.observers.paths is not None:
                state.machine.observers.paths.edges(branch, [edge for edge, _ in taken])
            if len(taken) > 1:
                if graph.stopping:  # a failed assertion explains why lanes are missing elsewhere
                    taken.sort(key=lambda pair: pair[0].target not in graph.stopping)
                path.block, path.edge = graph.meets[path.block], None
                sources = [[state.values[move.source] for move in edge.moves] for edge, _ in taken]
                for (edge, mask), moved in zip(taken, sources, strict=True):
                    _move(state, edge, moved, mask)
                paths += [Path(edge.target, path.block, mask, edge) for edge, mask in reversed(taken)]
                for edge, mask in taken:
                    if edge.target == EXIT:
                        state.leave(mask)
                return
            edge = taken[0][0]
        else:
            if value is None and branch.op is not None:
                raise state.violation(branch.op, UNSET)
            edge = branch.edges[branch.cases.get(value, -1)]
            if state.machine.observers.paths is not None:
                state.machine.observers.paths.edges(branch, [edge])
    if edge.moves:
        _move(state, edge, [state.values[move.source] for move in edge.moves], path.mask)
    path.block, path.edge = edge.target, edge
    if edge.target == EXIT:
        state.leave(path.mask)


def parted(branch: Branch, value: NDArray[Any], mask: Mask) -> list[tuple[Edge, NDArray[np.bool_]]]:
    """The edges that active lanes take, with their lanes."""
    rest = np.ones(value.shape, np.bool_) if mask is None else mask
    taken = []
    for case, number in branch.cases.items():
        chosen = rest & (value == case)
        if chosen.any():
            taken.append((branch.edges[number], chosen))
            rest = rest & ~chosen
    if rest.any():
        taken.append((branch.edges[-1], rest))
    return taken


def _move(state: AgentState, edge: Edge, moved: Iterable[Any], mask: Mask) -> None:
    for move, new in zip(edge.moves, moved, strict=True):
        old = state.values[move.target]
        state.values[move.target] = new if mask is None else blend(mask, new, old, move.dtype)


def _until_changed(state: AgentState, paths: list[Path]) -> Wait:
    """Wait until a poll of the path on top, or of one that is put aside, has another answer. If no agent can continue,
    other paths run."""
    polls = [*state.polls]
    otherwise = partial(put_aside, state, paths, polls) if len(paths) > 1 else None
    return until_changed([*polls, *polls_aside(paths)], otherwise)
