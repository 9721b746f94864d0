"""bind-ring-to-cp-async: bind the ring's verbs to cp.async groups and barriers, and derive the wait depth.

Before   %full, %a, %b = sm.consumer_wait %ring[%r, %rp];  sm.consumer_release %ring, %full
         %slot, %a, %b = sm.producer_acquire %ring[%w, %wp];  sm.producer_commit %ring, %slot
         sm.producer_tail %ring
After    sm.cp_async_wait 1;  sm.barrier;  %a, %b = sm.ring_slot %ring[%r]       (the release is removed)
         %a, %b = sm.ring_slot %ring[%w];  sm.cp_async_commit
         sm.cp_async_wait 0;  sm.barrier
         A group is one commit. The wait depth is the number of groups committed after the one that is waited for,
         counted over the program (`_Cursor`): cp.async.wait_group n returns when at most the n latest are pending.
         Copies through registers (sm.store_shared) are done when their threads reach the barrier: a ring that is filled
         by them alone has no groups, so no commits and no waits but the barriers.
         A slot may be refilled if there is a barrier between its release and the acquire. The barrier of a wait
         counts; if there is none, one is inserted.
Needs    level atoms; one prologue with a constant trip count, one main loop with as many commits as waits.
Refuses  loops for which no constant depth exists; a wait for what was never committed; a second ring.
Test     test/lit/passes/atoms/bind-ring-to-cp-async.mlir, bind-ring-to-cp-async-invalid.mlir
"""

from dataclasses import dataclass, field
from typing import ClassVar

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.work import carried_by
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.builder import constant_of
from lowtide.passes.support.ir.rewriting import before, erase, ops_in, rebuild_loop, uses
from lowtide.targets import Target


@dataclass(frozen=True)
class BindRingToCpAsync(Pass):
    """Replaces the verbs of every ring."""

    name: ClassVar[str] = "bind-ring-to-cp-async"
    needs: ClassVar[Level] = Level.ATOMS
    gives: ClassVar[Level] = Level.ATOMS

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in walk(module, tile.KernelOp):
            rings = walk(kernel, sm.RingOp)
            if len(rings) > 1:
                raise Refusal(
                    rings[1],
                    "is the second ring of its kernel; the groups of cp.async are counted for one [second-ring]",
                )
            cursor = _Cursor()
            for block in _blocks_with_verbs(kernel):
                cursor.visit(block)
            ordered = [_barrier_since_release(acquire) for acquire in walk(kernel, sm.ProducerAcquireOp)]
            for loop in walk(kernel, scf.ForOp):
                _drop_carried_slots(loop)
            grouped = _has_groups(kernel)
            for acquire, is_ordered in zip(walk(kernel, sm.ProducerAcquireOp), ordered, strict=True):
                _bind_acquire(acquire, is_ordered, grouped)
            for wait, depth in zip(walk(kernel, sm.ConsumerWaitOp), cursor.depths, strict=True):
                _bind_wait(wait, depth if grouped else None)
            for tail in walk(kernel, sm.ProducerTailOp):
                with before(tail), tail.operation.location:
                    _wait_for_all(0 if grouped else None)
                erase(tail)


def _has_groups(kernel: tile.KernelOp) -> bool:
    """Whether copies come in groups of cp.async: not if every copy is a store of registers."""
    return bool(walk(kernel, sm.CpAsyncOp)) or not walk(kernel, sm.StoreSharedOp)


def _blocks_with_verbs(kernel: tile.KernelOp) -> list[ir.Block]:
    """The outermost blocks that hold verbs or loops with verbs: a work tile's body, or the kernel's."""
    tiles = walk(kernel, tile.WorkTilesOp)
    return [work.body.blocks[0] for work in tiles] or [kernel.body.blocks[0]]


@dataclass
class _Cursor:
    """Counts commits and waits in program order; the difference at a wait is its depth."""

    commits: int = 0
    waits: int = 0
    depths: list[int] = field(default_factory=list)  # groups that may be pending at each wait, in program order

    def visit(self, block: ir.Block) -> None:
        for op in block.operations:
            if isinstance(op, sm.ProducerCommitOp):
                self.commits += 1
            elif isinstance(op, sm.ConsumerWaitOp):
                self.waits += 1
                self._record(op, self.commits - self.waits)
            elif isinstance(op, sm.ProducerTailOp):
                self.commits = self.waits = 0
            elif isinstance(op, scf.ForOp):
                self._visit_loop(op)

    def _visit_loop(self, loop: scf.ForOp) -> None:
        commits, waits = self.commits, self.waits
        self.visit(loop.body)
        added, waited = self.commits - commits, self.waits - waits
        if added == waited:
            return  # every round finds the same difference
        trips = _constant_trips(loop)
        if trips is None or waited:
            raise Refusal(
                loop,
                f"commits {added} and waits for {waited} slots per round, so its waits have no constant depth; "
                "only a prologue of constant length may differ [constant-wait]",
            )
        self.commits = commits + added * trips

    def _record(self, wait: sm.ConsumerWaitOp, depth: int) -> None:
        if depth < 0:
            raise Refusal(wait, "waits for a slot before it is committed [wait-before-commit]")
        self.depths.append(depth)


def _first_value(value: ir.Value) -> ir.Value:
    """Of a value that work tiles carry, the one at the first tile."""
    owner = value.owner
    if not isinstance(owner, ir.Block) or not isinstance(owner.owner.opview, tile.WorkTilesOp):
        return value
    return carried_by(owner.owner.opview).get(value, value)


def _constant_trips(loop: scf.ForOp) -> int | None:
    low, high, step = (constant_of(_first_value(value)) for value in (loop.lowerBound, loop.upperBound, loop.step))
    if low is None or high is None or step is None:
        return None
    return max(0, -(-(high - low) // step))


def _barrier_since_release(acquire: sm.ProducerAcquireOp) -> bool:
    """Whether a barrier (of a wait or tail) lies between the release of a slot in one round and its next acquire.

    The slot acquired in a round was released in the round before; before the main loop no slot has been used.
    """
    body = ops_in(acquire.operation.block)
    releases = [i for i, op in enumerate(body) if isinstance(op, sm.ConsumerReleaseOp)]
    if not releases:
        return True
    here = body.index(acquire)
    between = body[releases[-1] :] + body[:here]
    return any(isinstance(op, (sm.ConsumerWaitOp, sm.ProducerTailOp, sm.BarrierOp)) for op in between)


def _drop_carried_slots(loop: scf.ForOp) -> None:
    """Slots are tokens without data: bound loops do not carry them, and their releases are removed."""
    keep = [i for i, init in enumerate(loop.initArgs) if not isinstance(init.type, sm.SlotType)]
    if len(keep) == len(loop.initArgs):
        return
    slots = {i: init for i, init in enumerate(loop.initArgs) if i not in keep}
    for value in (value for i in slots for value in (loop.inner_iter_args[i], loop.results[i])):
        for use in list(uses(value)):
            if isinstance(use, sm.ConsumerReleaseOp):
                erase(use)

    def arguments(carried: list[ir.Value]) -> list[ir.Value]:
        values = iter(carried)
        return [slots[i] if i in slots else next(values) for i in range(len(loop.initArgs))]

    new = rebuild_loop(loop, [loop.initArgs[i] for i in keep], arguments, lambda y: [y[i] for i in keep])
    for i, result in zip(keep, new.results, strict=True):
        loop.results[i].replace_all_uses_with(result)
    erase(loop)


def _bind_acquire(acquire: sm.ProducerAcquireOp, ordered: bool, grouped: bool) -> None:
    with before(acquire), acquire.operation.location:
        if not ordered:
            sm.BarrierOp()
        _bind_slot(acquire, grouped)


def _bind_wait(wait: sm.ConsumerWaitOp, depth: int | None) -> None:
    with before(wait), wait.operation.location:
        _wait_for_all(depth)
        _bind_slot(wait, depth is not None)


def _wait_for_all(depth: int | None) -> None:
    """Every thread's copies but its `depth` latest groups have landed; None where there are no groups."""
    if depth is not None:
        sm.CpAsyncWaitOp(depth)
    sm.BarrierOp()


def _bind_slot(verb: sm.ProducerAcquireOp | sm.ConsumerWaitOp, grouped: bool) -> None:
    """The slot's buffers in place of the verb, and the instructions of the commit or release that takes its slot."""
    slot = sm.RingSlotOp(verb.ring, verb.index)
    for old, new in zip(verb.buffers, slot.buffers, strict=True):
        old.replace_all_uses_with(new)
    for use in list(uses(verb.slot)):
        _bind_end(use, grouped)
    erase(verb)


def _bind_end(verb: sm.ProducerCommitOp | sm.ConsumerReleaseOp, grouped: bool) -> None:
    """A commit closes a group, if there are any; a release needs no instruction."""
    if isinstance(verb, sm.ProducerCommitOp) and grouped:
        with before(verb), verb.operation.location:
            sm.CpAsyncCommitOp()
    erase(verb)
