"""specialize-roles: split the K loop into a producer that copies and consumers that multiply, joined by a ring.

Before   tile.work_tiles (%m, %n) of … persistent {
           scf.for %k … { sm.copy %at to %as; sm.copy %bt to %bs; sm.barrier; tile.mma tn %as, %bs, %c; sm.barrier }
           tile.store %acc into %d[%m, %n] … }
After    %ring = sm.ring : !sm.ring<4 x [A, B]>
         sm.roles {
           producer warps(4) registers(40) {
             tile.work_tiles … iter_args(%w, %wp) { scf.for … { acquire; copy_async ×2; commit; advance } } }
           consumer warps(8) registers(232) {
             tile.work_tiles … iter_args(%r, %rp) {
               scf.for … { sm.consumer_wait; tile.mma; sm.consumer_release; advance }
               tile.store … } } }
         Each role has its own work-tile loop; the ring and its cursors continue from one tile to the next. A kernel
         may have several such loops in sequence; cursors also continue from loop to loop. The slots have the size of
         the first loop's buffers, and a later loop with smaller ones uses a prefix of each (`sm.prefix`).
         What follows the K loop, such as the exchange of partial sums, goes to the consumer.
         With copies by threads (a.copy = staged.2) the first role is `copiers`, and all its threads run. Otherwise it
         is `producer`, and one thread runs.
         A tile.promote stays behind the tile.mma whose product it adds, and the loop carries the sums.
         A tile.await_wave at the start of a work tile becomes the producer's.
         With k_order = serpentine the producer takes the K steps of every second work tile from the last to the first:
           tile.work_tiles … iter_args(%w, %wp, %back = 0) {
             scf.for %i … { … %step = select(%back == 0, %i, %steps - 1 - %i); copy_async of step %step … }
             yield …, %back xor 1 }
         Consumers add products in the order in which they find them in the ring.
         With roles = pingpong(2) the consumer role has two instances, which take the work tiles in turn:
           %turn = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
           consumer warps(4) instances(2) registers(232) {
             %instance = sm.role_instance; %r, %rp = sm.ring_advance %ring[0, 0] by %instance · %steps
             tile.work_tiles … in_turn iter_args(%r, %rp, %tp) {
               sm.mbarrier_wait %turn[%instance, %tp];  sm.barrier               (all its warps have taken the turn)
               scf.for … { … }
               sm.mbarrier_arrive %turn[%instance + 1 mod 2]                    (after a sm.barrier, if warps multiply)
               sm.ring_advance %ring[…] by %steps                               (the K steps of the other's tile)
               tile.store … } }
         One instance stores its tile while the other multiplies, but only one at a time reads the ring: otherwise
         their wgmmas would compete, and an mbarrier's parity, which tells a slot's fill only from the one before and
         the one after, could be that of a fill for the other instance.
Needs    level pipelined, a kernel that pipeline-mainloop left unchanged; the schedule's `roles` and `stages`. Without
         `registers` the roles keep the registers at entry.
Refuses  a kernel of another form; a later loop whose buffers are larger than the first's, or one beside instances that
         take turns; a schedule without stages.
Test     test/lit/passes/pipelined/specialize-roles.mlir, specialize-roles-{pingpong,tail,waves,k-order,invalid}.mlir
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.pipelined.role_work import Work, zero
from lowtide.passes.support.ir.rewriting import before, erase
from lowtide.passes.support.problem.kernels import COPIERS, PRODUCER, kernels_with_producer, schedule_of
from lowtide.targets import Target


@dataclass(frozen=True)
class SpecializeRoles(Pass):
    """Gives every kernel a producer and a consumer role."""

    name: ClassVar[str] = "specialize-roles"
    needs: ClassVar[Level] = Level.PIPELINED
    gives: ClassVar[Level] = Level.PIPELINED

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in kernels_with_producer(module):
            schedule = schedule_of(kernel, "mainloop.stages")
            loops = [Work.match(work) for work in walk(kernel, tile.WorkTilesOp)]
            if loops:
                with loops[0].work.operation.location:
                    _specialize(loops, schedule)


def _specialize(loops: Sequence[Work], schedule: Schedule) -> None:
    """The roles in place of the loops, which they run one after the other."""
    assert schedule.mainloop.stages is not None
    registers, turns = schedule.agents.registers, schedule.agents.consumer.turns
    if turns > 1 and len(loops) > 1:
        raise Refusal(
            loops[1].work,
            "is a second loop over work tiles, in which turns would begin anew; take one loop [roles-second-loop]",
        )
    producer = COPIERS if schedule.copied_by_threads else PRODUCER
    with before(loops[-1].work):  # what any of them reads stands above it
        ring = loops[0].staged.make_ring(schedule.mainloop.stages)
        roles = sm.RolesOp(
            ir.ArrayAttr.get([ir.StringAttr.get(producer), ir.StringAttr.get("consumer")]),
            ir.DenseI64ArrayAttr.get([schedule.agents.producer.warps, schedule.agents.consumer.warps]),
            ir.DenseI64ArrayAttr.get(list(registers)),
            2,
            instances=ir.DenseI64ArrayAttr.get([1, turns]) if turns > 1 else None,
        )
    # For each instance of the consumer an mbarrier, at which the one before it in turn arrives.
    with before(roles):
        turn = sm.MbarriersOp(sm.MbarriersType.get(turns), 1).result if turns > 1 else None
    filling, consumer = (region.blocks.append() for region in roles.bodies)
    with ir.InsertionPoint(filling):
        carried = [zero()] * (3 if schedule.turns_k_around else 2)
        for loop in loops:
            carried = loop.emit_work(carried, partial(loop.emit_producer, ring))
        tile.YieldOp([])
    with ir.InsertionPoint(consumer):
        if turn is not None:
            loops[0].emit_turns(
                ring, turn, by_warpgroups=schedule.multiply.atom is None or schedule.multiply.by_warpgroups
            )
        else:
            cursor = [zero()] * 2
            for loop in loops:
                cursor = loop.emit_work(cursor, partial(loop.emit_consumer, ring))
        tile.YieldOp([])
    buffers = [buffer for loop in loops for buffer in loop.staged.buffers]
    for loop in loops:
        erase(loop.work)
    for buffer in buffers:
        erase(buffer.owner.opview)
