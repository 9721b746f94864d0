"""Ops of one kind that run as one: loads, stores, copies and products in a stretch of straight-line code.

Between two ops that wait, order accesses or have regions (a *stretch*), ops that only compute may run in any order that
respects their operands. So `batched` groups consecutive accesses of one kind, whose addresses it computes first, and
products whose operands are ready. Accesses of different kinds keep their order. A batch that breaks a rule, or cannot
run as one, changes nothing and is run again op by op, so that the message names the op.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lowtide.errors import InterpreterError


class NotTogether(Exception):
    """These ops cannot run as one now; nothing has changed."""


@dataclass(frozen=True)
class Bulk:
    """How ops of a kind run as one: `run(state, batch)`, for ops with equal `key`.

    `accesses`: they access memory, and keep their order among accesses of other kinds. `chained`: each may take the
    result of the one before it. `is_masked`: they may have guards, and run in a part of the lanes. `takes`: whether an
    op of the kind may be one of these ops. `prepare` computes what does not depend on values, for `batch.data`.
    """

    run: Callable[..., None]
    key: Callable[[Any], Hashable]
    accesses: bool = True
    prepare: Callable[[Sequence[Any]], Any] = lambda ops: None
    chained: bool = False
    is_masked: bool = False
    takes: Callable[[Any], bool] = lambda op: True


class Instruction(Protocol):
    """An op that can be batched: `operands` and `results` are slots, `acts` says that it does more than compute."""

    handler: Callable[..., Any]
    resumable: bool
    acts: bool
    bulk: Bulk | None
    operands: tuple[int, ...]
    results: tuple[int, ...]
    regions: tuple[Any, ...]


class Batch:
    """Ops that run as one; a block runs it as an op."""

    __slots__ = (
        *("acts", "bulk", "data", "has_places", "is_wide", "name", "operands", "ops", "regions", "results"),
        *("by_convoy", "in_cta", "is_maskable", "is_single", "resumable", "signals", "unset"),
    )

    def __init__(self, ops: tuple[Any, ...], bulk: Bulk) -> None:
        self.name = f"{len(ops)} × {ops[0].name}"
        self.ops = ops
        self.bulk = bulk
        self.operands = tuple(dict.fromkeys(slot for op in ops for slot in op.operands))
        self.results = tuple(slot for op in ops for slot in op.results)
        self.acts = any(op.acts for op in ops)
        self.by_convoy = None
        self.resumable = self.has_places = self.signals = self.is_single = False
        self.is_maskable = all(getattr(op, "is_maskable", False) for op in ops)
        self.in_cta = any(getattr(op, "in_cta", False) for op in ops)
        self.is_wide = all(getattr(op, "is_wide", False) for op in ops)
        self.regions: tuple[Any, ...] = ()
        self.unset: tuple[int, ...] = ()
        self.data = bulk.prepare(ops)

    def handler(self, state: Any, op: Any) -> None:
        """Run the ops as one, or one after the other."""
        try:
            self.bulk.run(state, self)
        except (NotTogether, InterpreterError, ArithmeticError, ValueError, IndexError, TypeError, KeyError):
            for each in self.ops:
                state.op = each
                each.handler(state, each)

    def describe(self) -> str:
        return str(self.ops[0].describe())


def batched(ops: Sequence[Any]) -> tuple[Any, ...]:
    """The ops of a block, with ops of one kind grouped."""
    result: list[Any] = []
    stretch: list[Any] = []
    for op in ops:
        if op.resumable or (op.bulk is None and (op.regions or op.acts)):
            result += (*_of_stretch(stretch), op)
            stretch = []
        else:
            stretch.append(op)
    return (*result, *_of_stretch(stretch))


def _of_stretch(ops: Sequence[Any]) -> Sequence[Any]:
    special = [number for number, op in enumerate(ops) if op.bulk is not None]
    if len(special) < 2:
        return ops
    waiting, following = _dependences(ops)
    able = deque(number for number, op in enumerate(ops) if op.bulk is None and not waiting[number])
    result: list[Any] = []

    def release(number: int) -> None:
        for later in following[number]:
            waiting[later] -= 1
            if not waiting[later] and ops[later].bulk is None:
                able.append(later)

    while special or able:
        while able:
            number = able.popleft()
            result.append(ops[number])
            release(number)
        if special:
            chosen = _together(ops, special, waiting, following)
            together = tuple(ops[number] for number in chosen)
            result.append(together[0] if len(chosen) == 1 else Batch(together, together[0].bulk))
            taken = set(chosen)
            special = [number for number in special if number not in taken]
            for number in chosen:
                release(number)
    return result


def _together(ops: Sequence[Any], special: list[int], waiting: list[int], following: list[list[int]]) -> list[int]:
    """The first of the remaining ops, and those that may run with it."""
    able = [number for number in special if not waiting[number]]
    first = next((number for number in able if not ops[number].bulk.accesses), able[0])  # more accesses are able then
    bulk = ops[first].bulk
    key = bulk.key(ops[first])
    chosen: list[int] = []
    given: Counter[int] = Counter()  # for each op, the number of its predecessors that are chosen
    for number in special:
        other = ops[number].bulk
        if other is bulk and waiting[number] == given[number] and bulk.key(ops[number]) == key:
            chosen.append(number)
            if bulk.chained:
                given.update(following[number])
        elif bulk.accesses and other.accesses:
            break
    return chosen


def flat(ops: Iterable[Any]) -> Iterator[Any]:
    """Ops in the order of the IR, with the ops of a batch one by one."""
    for op in ops:
        if isinstance(op, Batch):
            yield from op.ops
        else:
            yield op


def _read_by(op: Any) -> Iterator[int]:
    """The slots that an op and its regions read."""
    yield from op.operands
    for region in op.regions:
        yield from region.results
        for inner in region.ops:
            yield from _read_by(inner)


def _dependences(ops: Sequence[Any]) -> tuple[list[int], list[list[int]]]:
    """The number of ops that each op must wait for, and the ops that wait for it: by slots written, read, written
    again."""
    waiting, following = [0] * len(ops), [[] for _ in ops]  # type: list[int], list[list[int]]
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for number, op in enumerate(ops):
        reads = op.operands if not op.regions else tuple(_read_by(op))
        before = {writer[slot] for slot in reads if slot in writer}
        for slot in reads:
            readers.setdefault(slot, []).append(number)
        for slot in op.results:
            before.update(readers.pop(slot, ()))
            if slot in writer:
                before.add(writer[slot])
            writer[slot] = number
        before.discard(number)
        waiting[number] = len(before)
        for earlier in before:
            following[earlier].append(number)
    return waiting, following
