"""A function of several blocks as plain data: blocks, their branches, reconvergence points, loops.

Decoders of any language make it (`Graph.of`) and machine/branches.py runs it; it needs no MLIR. A block runs its ops,
then its branch takes one edge for each lane. An edge moves values between slots in parallel, for the block arguments of
the LLVM dialect; with plain registers, as in PTX, it moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from lowtide.interpreter.program.dominators import immediate_post_dominators, natural_loop, retreating

EXIT = -1
"""The number after the last block: an edge to it returns from the function."""


class Instruction(Protocol):
    """An element of a block: a DecodedOp, or an instruction of another decoder."""

    handler: Any
    resumable: bool
    operands: tuple[int, ...]  # slots that it reads
    results: tuple[int, ...]  # slots that it writes

    def describe(self) -> str: ...


@dataclass(frozen=True)
class Move:
    """A value for a slot of the edge's target. `dtype` is numpy's for integers, None for others."""

    source: int
    target: int
    dtype: Any = None


@dataclass(eq=False, slots=True)
class Edge:
    """An edge to block `target`, or EXIT. `loop`: the loop that it closes, if it is a back edge (set by `Graph.of`)."""

    target: int
    moves: tuple[Move, ...] = ()
    loop: Loop | None = None


@dataclass(eq=False)
class Loop:
    """The blocks of a loop, and the slots that they write."""

    blocks: frozenset[int]
    slots: tuple[int, ...]


@dataclass(eq=False)
class Branch:
    """The end of a block: a lane takes the edge that `cases` gives for its value of `condition`, else the last.

    `condition` is a slot; None if there is one edge. A conditional branch has {True: 0} and two edges. `op` is for
    messages.
    """

    edges: tuple[Edge, ...]
    condition: int | None = None
    cases: Mapping[int, int] = field(default_factory=dict)
    op: Any = None


LiveBefore: TypeAlias = "Callable[[Block, int, frozenset[int]], frozenset[int]]"
"""The slots that may be read before op `index` of a block, if those of the last argument may be read after it."""


@dataclass(eq=False)
class Block:
    """`acts`: it does more than compute registers and poll, so repeating it is more than waiting. `gathers`: it is one
    instruction that waits for all lanes of its warp, which may come to it, or to another one, apart."""

    ops: tuple[Any, ...]
    branch: Branch
    acts: bool = True
    gathers: bool = False

    def count(self, index: int) -> int:
        """The number of instructions from op `index` on, with the branch."""
        if not index:
            return self._length
        return sum(len(getattr(op, "ops", (op,))) for op in self.ops[index:]) + (self.branch.op is not None)

    @cached_property
    def _length(self) -> int:
        return sum(len(getattr(op, "ops", (op,))) for op in self.ops) + (self.branch.op is not None)


@dataclass(eq=False)
class Graph:
    """Blocks, starting with the entry.

    `meets`: for each block, the reconvergence point of lanes that leave it by different edges, its immediate
    post-dominator. `kept`: slots whose values in lanes that do not run an op may still be read, so that it must keep
    them. `regions`: for a block, the blocks up to its reconvergence point, or None if convoys cannot run them together
    (machine/convoy_branches.py); filled as needed.
    """

    blocks: tuple[Block, ...]
    meets: tuple[int, ...]
    kept: frozenset[int]
    regions: dict[int, frozenset[int] | None] = field(default_factory=dict)
    _live: dict[tuple[int, int], frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, blocks: Sequence[Block], registers: bool = False) -> Graph:
        """The graph of these blocks. `registers`: slots may be written at several places (no SSA)."""
        successors = [[edge.target for edge in block.branch.edges] for block in blocks]
        for block, edge_number in retreating(successors):
            edge = blocks[block].branch.edges[edge_number]
            inside = natural_loop(successors, block, edge.target)
            edge.loop = Loop(inside, tuple(sorted({slot for at in inside for slot in _written(blocks[at])})))
        looping = {at for block in blocks for edge in block.branch.edges if edge.loop for at in edge.loop.blocks}
        kept = _crossing(blocks, range(len(blocks)) if registers else looping)
        return cls(tuple(blocks), immediate_post_dominators(successors), frozenset(kept))

    @cached_property
    def stopping(self) -> frozenset[int]:
        """The blocks that stop the kernel by a trap, or only lead to one."""
        found = {
            at for at, block in enumerate(self.blocks) if any(getattr(op, "name", "") == "trap" for op in block.ops)
        }
        for at in reversed(range(len(self.blocks))):
            block = self.blocks[at]
            if not block.ops and len(block.branch.edges) == 1 and block.branch.edges[0].target in found:
                found.add(at)
        return frozenset(found)

    @cached_property
    def all_written(self) -> frozenset[int]:
        """The slots that any block writes."""
        return frozenset(slot for block in self.blocks for slot in _written(block))

    def live_at(self, block: int, index: int) -> frozenset[int]:
        """The slots whose values may still be read before op `index` of a block."""
        if not self._live:
            self._live.update({(at, 0): live for at, live in enumerate(_live_at_entries(self.blocks))})
        if (block, index) not in self._live:
            after = (edge.target for edge in self.blocks[block].branch.edges if edge.target != EXIT)
            live = frozenset().union(*(self._live[target, 0] for target in after))
            self._live[block, index] = _live_before(self.blocks[block], index, live)
        return self._live[block, index]

    @cached_property
    def unset(self) -> frozenset[int]:
        """The slots that may be used before they are written, because a path or a guard leaves out what writes them."""
        return _live_at_entries(self.blocks, _used_before)[0]

    def written(self, number: int) -> tuple[int, ...]:
        """The slots that a block and its edges write."""
        return tuple(_written(self.blocks[number]))

    def read_before(self, number: int) -> frozenset[int]:
        """The slots that a block reads before it writes them."""
        return frozenset(_read_before(self.blocks[number]))


def _written(block: Block) -> Iterable[int]:
    yield from (slot for op in block.ops for slot in op.results)
    yield from (move.target for edge in block.branch.edges for move in edge.moves)


def _live_at_entries(blocks: Sequence[Block], before: LiveBefore | None = None) -> list[frozenset[int]]:
    """By block, the slots that may be read at its start or later; `before` says so of a block."""
    before = before or _live_before
    live: list[frozenset[int]] = [frozenset()] * len(blocks)
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(blocks))):
            after = (edge.target for edge in blocks[number].branch.edges if edge.target != EXIT)
            found = before(blocks[number], 0, frozenset().union(*(live[target] for target in after)))
            changed |= found != live[number]
            live[number] = found
    return live


def _live_before(block: Block, index: int, after: frozenset[int]) -> frozenset[int]:
    """The slots that may be read before op `index` of a block, if those of `after` may be read after its edges."""
    live = set(after)
    for edge in block.branch.edges:
        live.difference_update(move.target for move in edge.moves)
        live.update(move.source for move in edge.moves)
    if block.branch.condition is not None:
        live.add(block.branch.condition)
    for op in reversed(block.ops[index:]):
        live.difference_update(op.results)
        live.update(op.operands)
        if op.has_places:  # its results are read before
            live.update(op.results)
    return frozenset(live)


def _used_before(block: Block, index: int, after: frozenset[int]) -> frozenset[int]:
    """As `_live_before`, but an op does not use the results that it keeps: with a guard, or accumulators."""
    live = set(after)
    if block.branch.condition is not None:
        live.add(block.branch.condition)
    for op in reversed([one for each in block.ops[index:] for one in getattr(each, "ops", (each,))]):
        guard = getattr(op, "guard", None)
        if guard is None:
            live.difference_update(op.results)
        live.update(op.sources if guard is None else (*op.sources, guard))
    return frozenset(live)


def _crossing(blocks: Sequence[Block], among: Iterable[int]) -> set[int]:
    """Slots that ops of these blocks write and that are read in another block, or in this one before they are
    written."""
    read = {slot for block in blocks for slot in _read_before(block)}
    return read & {slot for number in among for op in blocks[number].ops for slot in op.results}


def _read_before(block: Block) -> Iterable[int]:
    """Slots that a block reads before it writes them."""
    written: set[int] = set()
    for op in block.ops:
        yield from (slot for slot in op.operands if slot not in written)
        written.update(op.results)
    last = [move.source for edge in block.branch.edges for move in edge.moves]
    if block.branch.condition is not None:
        last.append(block.branch.condition)
    yield from (slot for slot in last if slot not in written)
