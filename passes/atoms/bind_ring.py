"""bind-ring: bind the ring's verbs to instructions; the agents that fill and read it decide which.

Before   %slot, %a, %b = sm.producer_acquire %ring[%w, %wp];  copies;  sm.producer_commit %ring, %slot
         %full, %a, %b = sm.consumer_wait %ring[%r, %rp];  …;  sm.consumer_release %ring, %full
After, if one agent fills and reads the ring (ring_groups.py): groups of cp.async, and barriers.
         %a, %b = sm.ring_slot %ring[%w];  sm.cp_async_commit
         sm.cp_async_wait 1;  sm.barrier;  %a, %b = sm.ring_slot %ring[%r]       (the release is removed)
         The wait depth is the number of groups committed after the one that is waited for. If only stores of registers
         fill the ring, there are no groups, and barriers are enough. Before a slot is refilled, a barrier must lie
         between its release and the acquire: that of a wait, or one that is inserted. sm.producer_tail waits for all
         groups.
After, if one agent fills it and others read it (ring_mbarriers.py): mbarriers; TMA loads all that no thread copies.
         host    %map = sm.tensor_map %a : … to !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
                 tile.launch @k … args(%a, %b, %d, %map, %map2)
         device  %full = sm.mbarriers arrivals(1);  %empty = sm.mbarriers arrivals(2)
                 sm.mbarrier_wait %empty[%w, %wp ^ 1];  sm.mbarrier_arrive %full[%w] expects 49152
                 %a, %b = sm.ring_slot %ring[%w];  sm.tma_load %map[%m, %k] to %a signals %full[%w]; …
                 sm.mbarrier_wait %full[%r, %rp];  %a, %b = sm.ring_slot %ring[%r]
                 sm.mbarrier_arrive %empty[%slot] after %retired
         If the last tile may be narrower than the others, its boxes have only the rows that exist (last_boxes.py):
         host    %last = sm.tensor_map %a rows(%rest) : … to !sm.tensor_map<128x64xbf16, swizzle<3,3,3>>
         device  %rows = minui(%dim - %m, %c128);  %box = arith.select (%rows < %c128), %last, %map    (once for a tile)
                 sm.mbarrier_arrive %full[%w] expects 32768 plus %bytes
                 sm.tma_load %box[%m, %k] rows(%rows) to %a signals %full[%w]
         Nothing is stored in the other rows of a slot. wgmma may read any number there: it only counts for rows or
         columns of D that do not exist.
         The full barrier has one arrival, by the filler; the empty barrier has one per warpgroup of the readers. If
         threads copy by cp.async, each of them arrives when its copies have landed, beside the arrival that expects the
         bytes of TMA, if there are any. So copies into several slots can be in flight. After the wait, a fence makes
         the copies visible to wgmma, which reads by the async proxy:
                 %full = sm.mbarriers arrivals(129)
                 sm.mbarrier_wait %empty[%w, %wp ^ 1];  sm.mbarrier_arrive %full[%w] expects 16384
                 sm.cp_async (tile.view %A[%m, %k]) to %a by #tiled_copy;  sm.tma_load %map2[%n, %k] to %b …
                 sm.cp_async_arrive %full[%w]
                 sm.mbarrier_wait %full[%r, %rp];  sm.fence_proxy_async
         If threads store registers, the one arrival follows the stores of all of them:
                 sm.store_shared …;  sm.fence_proxy_async;  sm.barrier;  sm.mbarrier_arrive %full[%w] expects 16384
         The expected bytes are those of the copies between acquire and commit. A box is one panel of the buffer. With
         copy = tma.3d, tma.4d or tma.5d the map has 3, 4 or 5 dimensions, a box is all panels, and the host asserts
         that panels divide the matrix. The map of a batch has one more, the outermost. A copy to a prefix of a slot's
         buffer has a box of its own. a.cache and b.cache become hints on the loads of A and B. Staged scales are
         further buffers of a slot, which each CTA loads for itself.
         If threads read a slot (scales, packed weights, fragments for mma.sync), threads first store zeros in the rows
         that last boxes do not fill: sm.zero_rows %ring from(%rest, %c256) and sm.barrier, before the mbarriers. Each
         warp releases the slot: %empty = sm.mbarriers arrivals(8). A fence orders their loads before the next TMA write
         of the slot, which goes through another proxy (PTX ISA, "Async proxy"). Without it, sums of mma.sync were wrong
         on an H100:
                 sm.fence_proxy_async;  sm.mbarrier_arrive %empty[%slot] each_warp after %retired
         The loads for mma.sync are over when the warp arrives: there is no `after`.
         The rows of a matrix up to the end of a group of K have a ragged map: each load says where they end, and reads
         zeros from there on (passes/support/streams/ragged.py):
         host    %map = sm.tensor_map %a {ragged} : … to !sm.tensor_map<1x1x64x64xbf16, swizzle<3,3,3>>
         device  sm.tma_load %map[%end, %k, %m] to %a signals %full[%w] {ragged}
         With grid.cluster = [2, 1] the two CTAs share B: each loads half and sends it to both. A slot is free
         when the consumers of all CTAs that its loads write to have released it:
                 sm.tma_load %map2[%n, %k] to %b signals %full[%w] multicast(column)
                 %empty = sm.mbarriers arrivals(4);  sm.mbarrier_arrive %empty[%slot] to(column) after %retired
                 sm.cluster_barrier before and after the roles
Needs    level atoms. Within one agent: one prologue with a constant trip count, one main loop with as many commits as
         waits.
Refuses  a second ring; a ring that two agents fill. Within one agent: loops without a constant depth; a wait for a slot
         that was never committed. Between agents: copies from a matrix that is not a kernel argument; a release without
         the proof that a wgmma that reads the slot is done; a slot that is not committed exactly once; a kernel without
         exactly one launch.
Test     test/lit/passes/atoms/bind-ring.mlir, bind-ring-invalid.mlir,
         bind-ring-mbarriers{,-copiers,-tail,-cluster,-batch,-panels,-ragged,-scales,-one-matrix,-invalid}.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import sm
from lowtide.dialects.levels import Level
from lowtide.passes.atoms.ring_groups import bind_to_groups
from lowtide.passes.atoms.ring_mbarriers import bind_to_mbarriers
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.problem.kernels import gemm_kernels, role_of
from lowtide.targets import Target


@dataclass(frozen=True)
class BindRing(Pass):
    """Replaces the verbs of each kernel's ring, and its copies by TMA."""

    name: ClassVar[str] = "bind-ring"
    needs: ClassVar[Level] = Level.ATOMS
    gives: ClassVar[Level] = Level.ATOMS

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in gemm_kernels(module):
            rings = walk(kernel, sm.RingOp)
            if len(rings) > 1:
                raise Refusal(rings[1], "is the second ring of its kernel; its slots are counted for one [second-ring]")
            if not rings:
                continue
            roles = walk(kernel, sm.RolesOp)
            fillers = {_agent(op) for op in walk(kernel, sm.ProducerAcquireOp)}
            readers = {_agent(op) for op in walk(kernel, sm.ConsumerWaitOp)}
            if len(fillers | readers) <= 1 and (fillers == readers or not roles):
                bind_to_groups(kernel)
            elif (
                len(fillers) == 1 and len(roles) == 1 and fillers.isdisjoint(readers) and None not in fillers | readers
            ):
                warps = sum(int(roles[0].warps[reader]) for reader in readers)
                with rings[0].operation.location:
                    bind_to_mbarriers(module, kernel, rings[0], roles[0], warps)
            else:
                raise Refusal(
                    rings[0],
                    "must be filled and read by one agent, or filled by one role and read by others [ring-agents]",
                )


def _agent(op: ir.OpView) -> int | None:
    """The position of the role that runs the op; None for an agent without roles."""
    role = role_of(op)
    return None if role is None else role[1]
