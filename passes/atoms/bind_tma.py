"""bind-tma: bind the copies of a ring between roles to TMA loads, or to copies by threads, and its verbs to mbarriers.

Before   host    tile.launch @k … args(%a, %b, %d)
         device  %slot, %a, %b = sm.producer_acquire %ring[%w, %wp];  sm.copy_async (tile.view %A[%m, %k]) to %a; …
                 sm.producer_commit %ring, %slot
                 %full, %a, %b = sm.consumer_wait %ring[%r, %rp];  sm.consumer_release %ring, %full after %retired
After    host    %map = sm.tensor_map %a : … to !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
                 tile.launch @k … args(%a, %b, %d, %map, %map2)
         device  %full = sm.mbarriers arrivals(1);  %empty = sm.mbarriers arrivals(2)
                 sm.mbarrier_wait %empty[%w, %wp ^ 1];  sm.mbarrier_arrive %full[%w] expects 49152
                 %a, %b = sm.ring_slot %ring[%w];  sm.tma_load %map[%m, %k] to %a signals %full[%w]; …
                 sm.mbarrier_wait %full[%r, %rp];  %a, %b = sm.ring_slot %ring[%r]
                 sm.mbarrier_arrive %empty[%slot] after %retired
         The expected bytes are those of the copies between acquire and commit. The full barrier has one arrival, the
         producer's; the empty barrier has one per consumer warpgroup. A box is one panel of the buffer. With copy =
         tma.3d, tma.4d or tma.5d the map has 3, 4 or 5 dimensions, a box is all panels, and the host asserts that
         panels divide the matrix. The map of a batch has one more, the outermost. A copy to a prefix of a slot's buffer
         has a box of its own. a.cache and b.cache become hints on the loads of A and B.
         An operand with a.copy = cp.async.4, staged.2, realigned.16 … is copied by the threads of the copiers, to the
         panels that TMA would fill. Only when the writes of all are visible to wgmma, which reads through the async
         proxy, one arrives, and expects what TMA brings of the other operand:
                 sm.mbarrier_wait %empty[%w, %wp ^ 1];  %a, %b = sm.ring_slot %ring[%w]
                 sm.cp_async (tile.view %A[%m, %k]) to %a by #tiled_copy;  sm.tma_load %map2[%n, %k] to %b …
                 sm.cp_async_commit;  sm.cp_async_wait 0;  sm.fence_proxy_async;  sm.barrier
                 sm.mbarrier_arrive %full[%w] expects 16384
         Staged scales are further buffers of a slot, which a CTA loads by itself:
                 sm.mbarrier_arrive %full[%w] expects 41600;  %a, %b, %as, %bs = sm.ring_slot %ring[%w]
                 sm.tma_load %map3[%k / 128, %m] to %as signals %full[%w]; …
         If threads read a slot, each warp releases it: %empty = sm.mbarriers arrivals(8). They read scales, packed
         weights, and fragments for mma.sync. A fence orders their loads before the next TMA write of the slot, which
         is of another proxy (PTX ISA, "Async proxy"). Without it an H100 gave wrong sums of mma.sync:
                 sm.fence_proxy_async;  sm.mbarrier_arrive %empty[%slot] each_warp after %retired
         The loads for mma.sync are over when the warp arrives: there is no `after`.
         With grid.cluster = [2, 1] the two CTAs share B: each loads half and sends it to both. A slot is free
         when the consumers of all CTAs that its loads write to have released it:
                 sm.tma_load %map2[%n, %k] to %b signals %full[%w] multicast(column)
                 %empty = sm.mbarriers arrivals(4);  sm.mbarrier_arrive %empty[%slot] to(column) after %retired
                 sm.cluster_barrier before and after the roles
Needs    level atoms, roles.
Refuses  copies from a matrix that is not a kernel argument; a release without the proof that a wgmma that reads the
         slot is done; a slot that is not committed exactly once; roles other than one producer (or copiers) and one
         consumer; more or fewer than one ring; a kernel without exactly one launch.
Test     test/lit/passes/atoms/bind-tma.mlir, bind-tma-{copiers,tail,invalid}.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.agents.atoms import (
    CP_ASYNC_COPIES,
    TMA_RANKS,
    copy_through_registers,
    fill_copy,
    tiled_copy_attr,
)
from lowtide.passes.support.agents.clusters import OPERANDS, Lines, sharing
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import after, before, erase, rebuild_loop, uses
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.problem.kernels import COPIERS, PRODUCER, bytes_of, kernels_with_producer, schedule_of
from lowtide.passes.support.streams.cache_hints import written
from lowtide.passes.support.streams.slot_reads import threads_read_slots
from lowtide.passes.support.streams.tensor_map_arguments import TensorMapArguments, launch_of
from lowtide.targets import Target
from lowtide.targets.atoms import WARPGROUP_THREADS, WARPGROUP_WARPS, Operand


@dataclass(frozen=True)
class BindTma(Pass):
    """Replaces the copies and verbs of the ring that joins the roles of each kernel."""

    name: ClassVar[str] = "bind-tma"
    needs: ClassVar[Level] = Level.ATOMS
    gives: ClassVar[Level] = Level.ATOMS

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in kernels_with_producer(module):
            launch = launch_of(module, kernel)
            with kernel.operation.location:
                _bind(kernel, launch, schedule_of(kernel))


def _bind(kernel: tile.KernelOp, launch: tile.LaunchOp, schedule: Schedule) -> None:
    roles = walk(kernel, sm.RolesOp)
    if len(roles) != 1:
        raise Refusal(
            kernel, f"has {len(roles)} sm.roles; TMA is bound for a producer and its consumers [tma-one-roles]"
        )
    consumers = _consumer_warpgroups(roles[0])
    maps = TensorMapArguments(kernel, launch)
    lines = Lines.of(schedule.cluster)
    with before(roles[0]):
        barriers = sm.MbarriersType.get(_ring(kernel).stages)
        full = sm.MbarriersOp(barriers, 1).result
        each = WARPGROUP_WARPS if threads_read_slots([kernel]) else 1
        empty = sm.MbarriersOp(barriers, each * consumers * lines.receivers).result
        if lines.cross is not None:
            sm.ClusterBarrierOp()
    if lines.cross is not None:
        with after(roles[0]):
            sm.ClusterBarrierOp()
    by_warps = walk(kernel, sm.MmaSyncOp)
    for release in () if by_warps else walk(kernel, sm.ConsumerReleaseOp):
        if release.retired is None:
            raise Refusal(
                release, "releases a slot without the proof (`after`) that what reads it is done [release-proof]"
            )
    for loop in walk(kernel, scf.ForOp):
        _carry_index(loop)
    for release in walk(kernel, sm.ConsumerReleaseOp):
        _bind_release(release, empty, lines, each > 1)
    for acquire in walk(kernel, sm.ProducerAcquireOp):
        _bind_producer(acquire, full, empty, maps, schedule)
    for wait in walk(kernel, sm.ConsumerWaitOp):
        _bind_consumer(wait, full)
    maps.finish()


def _ring(kernel: tile.KernelOp) -> sm.RingType:
    rings = walk(kernel, sm.RingOp)
    if len(rings) != 1:
        raise Refusal(
            kernel,
            f"has {len(rings)} rings; TMA is bound for the one between its roles: run pipeline-mainloop first"
            " [tma-one-ring]",
        )
    return rings[0].result.type


def _consumer_warpgroups(roles: sm.RolesOp) -> int:
    names = [ir.StringAttr(name).value for name in roles.names]
    if names not in ([PRODUCER, "consumer"], [COPIERS, "consumer"]):
        raise Refusal(
            roles,
            f"has the roles {', '.join(names)}; TMA is bound for one producer and one consumer role [tma-two-roles]",
        )
    return int(roles.warps[1]) // WARPGROUP_WARPS


def _carry_index(loop: scf.ForOp) -> None:
    """A carried slot becomes its index; a release then takes the index."""
    if not any(isinstance(init.type, sm.SlotType) for init in loop.initArgs):
        return
    inits = [_index_of(init) for init in loop.initArgs]
    new = rebuild_loop(loop, inits, lambda carried: carried, lambda yielded: [_index_of(value) for value in yielded])
    for old, value in zip(loop.results, new.results, strict=True):
        old.replace_all_uses_with(value)
    erase(loop)


def _index_of(slot: ir.Value) -> ir.Value:
    """The index of a slot from a wait. Any other value, such as a loop argument, is returned as is."""
    return slot.owner.opview.index if isinstance(slot.type, sm.SlotType) else slot


def _bind_producer(
    acquire: sm.ProducerAcquireOp, full: ir.Value, empty: ir.Value, maps: TensorMapArguments, schedule: Schedule
) -> None:
    commits = list(uses(acquire.slot))
    if len(commits) != 1 or not isinstance(commits[0], sm.ProducerCommitOp):
        raise Refusal(
            acquire, "must give its slot to one sm.producer_commit: what lies between fills the slot [one-commit]"
        )
    filled = [_filled(buffer) for buffer in acquire.buffers]
    names: list[Operand | None] = [*OPERANDS, *[None] * (len(filled) - len(OPERANDS))]  # None: scales
    copies = [(use, name) for buffer, name in zip(filled, names, strict=True) for use in uses(buffer)]
    for copy, _ in copies:
        if not isinstance(copy, sm.CopyAsyncOp):
            raise Refusal(copy, "uses a slot that is being filled; only sm.copy_async may [slot-being-filled]")
    by_threads = schedule.copied_by_threads
    by_tma = [buffer for buffer, name in zip(filled, names, strict=True) if name not in by_threads]
    size = sum(bytes_of(acquire, buffer.type) for buffer in by_tma) or None
    with before(acquire), acquire.operation.location:
        # The first round finds every slot empty: the parity before the first passes at once.
        sm.MbarrierWaitOp(empty, acquire.index, Builder.index().xor(acquire.phase, 1))
        if not by_threads:
            sm.MbarrierArriveOp(full, acquire.index, bytes=size)
        slot = sm.RingSlotOp(acquire.ring, acquire.index)
    for old, new in zip(acquire.buffers, slot.buffers, strict=True):
        old.replace_all_uses_with(new)
    for copy, name in copies:
        with before(copy), copy.operation.location:
            if name is None:
                _bind_scales(copy, full, acquire.index, maps)
            elif name in by_threads:
                _copy_by_threads(copy, str(schedule.mainloop.operand(name).copy))
            else:
                _bind_copy(copy, name, full, acquire.index, maps, schedule)
        erase(copy)
    if by_threads:
        with before(commits[0]), commits[0].operation.location:
            _arrive_with_copies(schedule, full, acquire.index, size)
    erase(commits[0])
    erase(acquire)


def _copy_by_threads(copy: sm.CopyAsyncOp, atom: str) -> None:
    """The copy of a tile by the threads of the copiers' warpgroup."""
    view = copy.source.type
    tiled = fill_copy(atom, tuple(view.shape), WARPGROUP_THREADS, element_bits(view.element_type))
    if tiled.atom.is_staged:
        copy_through_registers(copy.source, copy.destination, tiled)
    else:
        sm.CpAsyncOp(copy.source, copy.destination, tiled_copy_attr(tiled))


def _arrive_with_copies(schedule: Schedule, full: ir.Value, slot: ir.Value, size: int | None) -> None:
    """What threads wrote is there, and visible to wgmma, which reads through the async proxy, before one arrives.

    The bytes that TMA brings are expected by the same arrival: until then the phase cannot complete.
    """
    if any(schedule.mainloop.operand(name).copy in CP_ASYNC_COPIES for name in OPERANDS):
        sm.CpAsyncCommitOp()
        sm.CpAsyncWaitOp(0)
    sm.FenceProxyAsyncOp()
    sm.BarrierOp()
    sm.MbarrierArriveOp(full, slot, bytes=size)


def _filled(buffer: ir.Value) -> ir.Value:
    """What copies fill of a slot's buffer: the buffer, or the one prefix of it that is used."""
    users = list(uses(buffer))
    return users[0].result if len(users) == 1 and isinstance(users[0], sm.PrefixOp) else buffer


def _bind_copy(
    copy: sm.CopyAsyncOp, name: Operand, full: ir.Value, slot: ir.Value, maps: TensorMapArguments, schedule: Schedule
) -> None:
    """The load of a tile, or of the CTA's share of it if a row or a column of the cluster shares the tile."""
    view, buffer, operand = copy.source.owner.opview, copy.destination, schedule.mainloop.operand(name)
    line, parties = sharing(name, schedule.cluster)
    rows = ir.MemRefType(buffer.type).shape[0]
    if rows % parties:
        raise Refusal(
            copy, f"fills {rows} rows, which {parties} CTAs cannot share; take another grid.cluster [multicast-rows]"
        )
    share = rows // parties if parties > 1 else None
    tensor_map = maps.map_for(copy, view.source, buffer.type, rows=share, rank=TMA_RANKS.get(str(operand.copy), 2))
    hint, (*batch, row, column) = written(operand.cache), view.offsets
    matrix = batch[0] if batch else None
    sm.TmaLoadOp(tensor_map, row, column, buffer, full, slot, batch=matrix, multicast=line, cache=hint)


def _bind_scales(copy: sm.CopyAsyncOp, full: ir.Value, slot: ir.Value, maps: TensorMapArguments) -> None:
    """The load of a step's scales, which no other CTA shares."""
    view, buffer = copy.source.owner.opview, copy.destination
    sm.TmaLoadOp(maps.map_for(copy, view.source, buffer.type), *view.offsets, buffer, full, slot)


def _bind_consumer(wait: sm.ConsumerWaitOp, full: ir.Value) -> None:
    with before(wait), wait.operation.location:
        sm.MbarrierWaitOp(full, wait.index, wait.phase)
        slot = sm.RingSlotOp(wait.ring, wait.index)
    for old, new in zip(wait.buffers, slot.buffers, strict=True):
        old.replace_all_uses_with(new)
    erase(wait)


def _bind_release(release: sm.ConsumerReleaseOp, empty: ir.Value, lines: Lines, by_warp: bool) -> None:
    with before(release), release.operation.location:
        if by_warp:  # threads have read the slot, which the async proxy writes next
            sm.FenceProxyAsyncOp()
        sm.MbarrierArriveOp(
            empty, _index_of(release.slot), receivers=lines.cross, retired=release.retired, each_warp=by_warp or None
        )
    erase(release)
