"""Runs a function of several blocks for the warps of a convoy (convoys.py), as branches.py does for one warp.

Where lanes take different edges, the warps separate, unless both sides only compute, load and store up to the point of
reconvergence. Such a *region* runs for all warps at once: one side after the other, each under its mask.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import undefined
from lowtide.interpreter.machine.agents import Steps
from lowtide.interpreter.machine.branches import Spin, again, parted
from lowtide.interpreter.machine.convoys import Convoy, Start
from lowtide.interpreter.machine.execution import OF_PYTHON, count_steps
from lowtide.interpreter.machine.joined_values import by_warp
from lowtide.interpreter.machine.lane_paths import Path
from lowtide.interpreter.machine.laps import close, is_due, leave
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.program.batches import NotTogether
from lowtide.interpreter.program.graphs import EXIT, Branch, Edge, Graph

Partial: TypeAlias = dict[int, Any]
"""For each register that no warp had written before a region: a mask, (warps,) bool, of those that have now."""


def run_convoy(convoy: Convoy, graph: Graph, block: int, index: int) -> Steps:
    """Run the blocks from a place, until the warps of a convoy separate or have returned."""
    spin: Spin | None = None
    acted, known = 0, convoy.undefined_registers
    while True:
        for state in convoy.states:
            leave(state, block)
        ops = graph.blocks[block].ops
        count_steps(convoy, len(ops) - index + 1)
        if (work := convoy.machine.observers.work) is not None:
            work.instructions += graph.blocks[block].count(index) * len(convoy.states)
        for number in range(index, len(ops)):
            op, waiting = ops[number], {}
            touches = known and convoy.touches_undefined(op)
            if (op.signals and convoy.signals(op)) or (touches and op.resumable):
                _part(convoy, graph, Start(block, number))
                return
            if op.resumable:
                waiting = convoy.wait(op)
                if known:
                    convoy.prune(graph.live_at(block, number + 1))
            elif touches:
                convoy.run_undefined(op)
            elif convoy.run(op):
                continue
            if waiting:
                _part(convoy, graph, Start(block, number + 1), waiting, op.results)
                return
            known = convoy.undefined_registers
        acted += graph.blocks[block].acts
        edge = _common_edge(convoy, graph.blocks[block].branch)
        if edge is None and (region := _region(convoy, graph, block)) is not None:
            if not _run_region(convoy, graph, block, region):
                return
            block, index = graph.meets[block], 0
            acted += any(graph.blocks[number].acts for number in region)
            spin = None if spin is None or block not in spin.loop.blocks else spin
            continue
        if edge is None:
            _part(convoy, graph, Start(block, len(ops)))
            return
        if edge.target == EXIT:
            convoy.end()
            return
        if spin is not None and edge.target not in spin.loop.blocks:
            spin = None
        is_quiet = edge.loop is not None and _is_quiet(convoy, edge)
        if edge.loop is not None and any(state.polls for state in convoy.states):
            registers = [convoy.values[slot] for slot in edge.loop.slots]
            changes = sum(state.changes for state in convoy.states)
            now = Spin(edge, edge.loop, acted + changes, registers)
            if now.is_same(spin) or not convoy.apart.isdisjoint(edge.loop.slots):
                _part(convoy, graph, Start(edge.target, 0, edge))
                return
            yield again()
            spin = now
            for state in convoy.states:
                state.polls = []
        elif is_quiet:
            yield again()
        block, index = edge.target, 0


def _is_quiet(convoy: Convoy, edge: Edge) -> bool:
    """The warps close a lap of a loop: whether nothing has changed in it (laps.py)."""
    if edge.loop is None or not all([is_due(state, edge) for state in convoy.states]):
        return False
    if not convoy.apart.isdisjoint(edge.loop.slots):
        return False
    values = [by_warp(convoy.values[slot], len(convoy.states), WARP) for slot in edge.loop.slots]
    rows = zip(*values, strict=True) if values else [()] * len(convoy.states)
    return all([close(state, edge, [*row], state.polls) for state, row in zip(convoy.states, rows, strict=True)])


def _common_edge(convoy: Convoy, branch: Branch) -> Edge | None:
    """The edge that all lanes of all warps take; None if there is none, or if a warp must take it by itself."""
    if any(state.asked is not None for state in convoy.states):
        return None
    if branch.op is not None:
        convoy.op = branch.op
    edge = branch.edges[-1]
    if branch.condition is not None:
        if branch.condition in convoy.apart:
            convoy.gather([branch.condition])
        value = convoy.values[branch.condition]
        if branch.condition in convoy.apart or value is None or convoy.is_undefined(branch.condition):
            return None
        if isinstance(value, np.ndarray):
            if np.count_nonzero(value != value[0]):
                return None
            value = value[0].item()
        edge = branch.edges[branch.cases.get(value, -1)]
        if not edge.moves and convoy.machine.observers.paths is not None:
            convoy.machine.observers.paths.edges(branch, [edge])
    return None if edge.moves else edge


def _part(
    convoy: Convoy,
    graph: Graph,
    at: Start,
    waiting: Mapping[int, Start] = MappingProxyType({}),
    known: Collection[int] = (),
) -> None:
    """Let each crew, or each warp, continue alone from a place; a warp of `waiting` first finishes its op. Each gets
    the registers that may still be read; it already has those of `known`."""
    if (work := convoy.machine.observers.work) is not None and at.edge is None:  # the warps count the rest themselves
        work.instructions -= graph.blocks[at.block].count(at.index) * len(convoy.states)
    if convoy.crews and not waiting and not any(state.undefined for state in convoy.states):
        convoy.divide(graph.live_at(at.block, at.index), at)
        return
    convoy.scatter(slot for slot in graph.live_at(at.block, at.index) if slot not in known)
    starts = [waiting.get(number, Start()) for number in range(len(convoy.states))]
    convoy.end([replace(at, steps=start.steps, wait=start.wait) for start in starts])


# Regions --------------------------------------------------------------------------------------------------------------


def _region(convoy: Convoy, graph: Graph, block: int) -> frozenset[int] | None:
    """The blocks between a branch and its point of reconvergence, if they only compute, load and store; otherwise None.
    Also None if a warp has polled, because it must then take the branch by itself."""
    if any(state.polls or state.asked is not None for state in convoy.states):
        return None
    if block not in graph.regions:
        graph.regions[block] = _found_region(graph, block)
    found = graph.regions[block]
    is_for_crews = bool(convoy.crews) and any(op.in_cta for number in found or () for op in graph.blocks[number].ops)
    return None if is_for_crews else found


def _found_region(graph: Graph, block: int) -> frozenset[int] | None:
    found: set[int] = set()
    waiting = [block]
    while waiting:
        number = waiting.pop()
        for edge in graph.blocks[number].branch.edges:
            if edge.target == EXIT or edge.moves:
                return None
            if edge.target != graph.meets[block] and edge.target not in found:
                found.add(edge.target)
                waiting.append(edge.target)
    is_plain = block not in found and all(op.is_maskable for number in found for op in graph.blocks[number].ops)
    return frozenset(found) if is_plain else None


def _run_region(convoy: Convoy, graph: Graph, block: int, region: Collection[int]) -> bool:
    """Run the sides of a branch up to their point of reconvergence. If an op cannot run for all warps at once, the
    convoy separates before it, and the result is false."""
    paths = [Path(block, EXIT, None)]
    partial: Partial = {}
    work, number = convoy.machine.observers.work, 0
    while True:
        path = paths[-1]
        if path.block == path.until:
            paths.pop()
            continue
        if path.mask is None and path.block not in region and path.block != block:
            convoy.mask = None
            _keep_unwritten(convoy, partial)
            return True
        here, active = graph.blocks[path.block], len(convoy.states)
        if path.mask is not None:
            active = int(np.count_nonzero(path.mask.reshape(-1, WARP).any(axis=1)))
            count_steps(convoy, len(here.ops) + 1)
            if work is not None:
                work.instructions += here.count(0) * active
            convoy.mask = path.mask
            for number, op in enumerate(here.ops):
                if not _run_masked(convoy, op, graph.kept, partial):
                    if work is not None:
                        work.instructions -= here.count(number) * active
                    _leave(convoy, graph, paths, number, partial)
                    return False
        if not _follow(convoy, path, here.branch, graph, paths):
            if work is not None:
                work.instructions -= here.count(len(here.ops)) * active
            _leave(convoy, graph, paths, len(here.ops), partial)
            return False


def _run_masked(convoy: Convoy, op: Any, kept: frozenset[int], partial: Partial) -> bool:
    """Run an op in the lanes of the convoy's mask. If it cannot run for all warps at once, nothing changes, and the
    result is false."""
    slots = (*op.operands, *op.results)
    if not convoy.apart.isdisjoint(slots):
        convoy.gather([slot for slot in slots if slot in convoy.apart])
        if not convoy.apart.isdisjoint(slots):
            return False
    values, mask, convoy.op = convoy.values, convoy.mask, op
    assert mask is not None
    before = [values[slot] for slot in op.results]
    is_noted = bool(partial) or any(old is None for old in before)
    active = mask.reshape(-1, WARP).any(axis=1) if is_noted else None
    if any(values[slot] is None for slot in getattr(op, "unset", ())) or convoy.touches_undefined(op):
        return False
    if partial and any((active & ~partial[slot]).any() for slot in op.operands if slot in partial):
        return False
    try:
        convoy.compute(op)
        undefined.keep(convoy, op, [each for each in zip(op.results, before, strict=True) if each[0] in kept], mask)
    except (NotTogether, InterpreterError, *OF_PYTHON):
        for slot, old in zip(op.results, before, strict=True):
            values[slot] = old
        convoy.mask = mask
        return False
    if active is not None:
        for slot, old in zip(op.results, before, strict=True):
            if old is None or slot in partial:
                partial[slot] = partial.get(slot, False) | active
    return convoy.apart.isdisjoint(op.results)


def _keep_unwritten(convoy: Convoy, partial: Partial) -> None:
    """Make registers unwritten again in the warps that have not written them in the region."""
    for slot, written in partial.items():
        if not written.all():
            convoy.scatter([slot])
            convoy.apart.add(slot)
            for number in np.flatnonzero(~written).tolist():
                convoy.states[number].values[slot] = None


def _follow(convoy: Convoy, path: Path, branch: Branch, graph: Graph, paths: list[Path]) -> bool:
    """Move the path's lanes along their edges. The result is false if the convoy has no single value of the
    condition."""
    edge = branch.edges[-1]
    if branch.op is not None:
        convoy.op = branch.op
    if branch.condition is not None:
        if branch.condition in convoy.apart:
            convoy.gather([branch.condition])
        value = convoy.values[branch.condition]
        if branch.condition in convoy.apart or value is None or convoy.is_undefined(branch.condition):
            return False
        if isinstance(value, np.ndarray):
            taken = parted(branch, value, path.mask)
            edges = [edge for edge, _ in taken]
        else:
            taken, edges = [], [branch.edges[branch.cases.get(value, -1)]]
        if convoy.machine.observers.paths is not None:
            convoy.machine.observers.paths.edges(branch, edges)
        if len(taken) > 1:
            path.block = graph.meets[path.block]
            paths += [Path(edge.target, path.block, mask) for edge, mask in reversed(taken)]
            return True
        edge = edges[0]
    path.block = edge.target
    return True


def _leave(convoy: Convoy, graph: Graph, paths: list[Path], number: int, partial: Partial) -> None:
    """Let each warp continue alone, with its lanes on their paths. On the last path, it continues at op `number`."""
    convoy.mask = None
    live = graph.live_at(paths[-1].block, number).union(*(graph.live_at(path.block, 0) for path in paths[:-1]))
    convoy.scatter(live)
    _keep_unwritten(convoy, partial)
    starts = []
    for at in range(len(convoy.states)):
        own: list[Path] = []
        for path in paths:
            mask = None if path.mask is None else path.mask[at * WARP : (at + 1) * WARP]
            if mask is None or mask.any():
                own.append(replace(path, mask=None if mask is None or mask.all() else mask))
        is_last = paths[-1].mask is None or paths[-1].mask[at * WARP : (at + 1) * WARP].any()
        starts.append(Start(own[-1].block, number if is_last else 0, paths=tuple(own)))
    convoy.end(starts)
