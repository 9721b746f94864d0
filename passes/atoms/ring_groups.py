"""A ring that one agent fills and reads: groups of cp.async and barriers of its threads, and the depths of waits."""

from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.tile.work import carried_by
from lowtide.passes.atoms.ring_slots import carry_slots, take_slot
from lowtide.passes.base import Refusal, walk
from lowtide.passes.support.ir.builder import constant_of
from lowtide.passes.support.ir.rewriting import before, erase, ops_in


def bind_to_groups(kernel: tile.KernelOp) -> None:
    """Replaces the verbs of the kernel's ring.

    A slot may be refilled once all threads have read it. The barrier before the acquire ensures this, so releases need
    no instruction.
    """
    cursor = _Cursor()
    for block in _blocks_with_verbs(kernel):
        cursor.visit(block)
    acquires = walk(kernel, sm.ProducerAcquireOp)
    unordered = [acquire for acquire in acquires if not _barrier_since_release(acquire)]
    grouped = _has_groups(kernel)
    for release in walk(kernel, sm.ConsumerReleaseOp):
        erase(release)
    for loop in walk(kernel, scf.ForOp):
        carry_slots(loop, as_index=False)
    for acquire in unordered:
        with before(acquire), acquire.operation.location:
            sm.BarrierOp()
    for wait, depth in zip(walk(kernel, sm.ConsumerWaitOp), cursor.depths, strict=True):
        _wait(wait, depth if grouped else None)
        take_slot(wait)
    for commit in walk(kernel, sm.ProducerCommitOp):
        if grouped:
            with before(commit), commit.operation.location:
                sm.CpAsyncCommitOp()
        erase(commit)
    for acquire in acquires:
        take_slot(acquire)
    for tail in walk(kernel, sm.ProducerTailOp):
        _wait(tail, 0 if grouped else None)
        erase(tail)


def _has_groups(kernel: tile.KernelOp) -> bool:
    """Whether copies are groups of cp.async; if not, every copy is a store of registers."""
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
    """The value at the first tile, if work tiles carry the value."""
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

    The slot acquired in a round was released in the round before. No slot is used before the main loop.
    """
    body = ops_in(acquire.operation.block)
    releases = [i for i, op in enumerate(body) if isinstance(op, sm.ConsumerReleaseOp)]
    if not releases:
        return True
    here = body.index(acquire)
    between = body[releases[-1] :] + body[:here]
    return any(isinstance(op, (sm.ConsumerWaitOp, sm.ProducerTailOp, sm.BarrierOp)) for op in between)


def _wait(op: ir.OpView, depth: int | None) -> None:
    """Waits before the op for all but the `depth` latest groups of each thread; `depth` is None without groups."""
    with before(op), op.operation.location:
        if depth is not None:
            sm.CpAsyncWaitOp(depth)
        sm.BarrierOp()
