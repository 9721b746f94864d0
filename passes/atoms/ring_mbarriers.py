"""A ring that one agent fills and others read: mbarriers, and TMA loads of the operands that no thread copies."""

from dataclasses import dataclass
from functools import partial, reduce

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.sm import ClusterLine
from lowtide.dialects.tile import CacheHint
from lowtide.dialects.tile.lists import is_list
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.atoms.last_boxes import Boxes, LastBoxes
from lowtide.passes.atoms.ring_slots import carry_slots, index_of, take_slot
from lowtide.passes.base import Refusal, walk
from lowtide.passes.support.agents.atoms import TMA_RANKS
from lowtide.passes.support.agents.clusters import OPERANDS, Lines, sharing
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import after, before, erase, uses
from lowtide.passes.support.problem.kernels import bytes_of, role_of, schedule_of
from lowtide.passes.support.streams.cache_hints import written
from lowtide.passes.support.streams.ragged import mark_ragged
from lowtide.passes.support.streams.slots import threads_read_slots
from lowtide.passes.support.streams.tensor_map_arguments import TensorMapArguments, launch_of
from lowtide.passes.support.work.groups_of_k import whole_of
from lowtide.targets.atoms import WARPGROUP_THREADS, WARPGROUP_WARPS, Operand


def bind_to_mbarriers(module: ir.Module, kernel: tile.KernelOp, ring: sm.RingOp, roles: sm.RolesOp, warps: int) -> None:
    """Replaces the verbs and copies of a ring that one role fills and `warps` warps of others read."""
    schedule, barriers = schedule_of(kernel), sm.MbarriersType.get(ring.result.type.stages)
    lines = Lines.of(schedule.cluster)
    maps = TensorMapArguments(kernel, launch_of(module, kernel)) if walk(kernel, sm.CopyAsyncOp) else None
    by_warp = threads_read_slots([kernel])
    with before(roles):
        full = sm.MbarriersOp(barriers, 1).result
        arrivals = warps if by_warp else warps // WARPGROUP_WARPS
        empty = sm.MbarriersOp(barriers, arrivals * lines.receivers).result
        if lines.cross is not None:
            sm.ClusterBarrierOp()
    if lines.cross is not None:
        with after(roles):
            sm.ClusterBarrierOp()
    has_scales = len(sm.RingType(ring.result.type).buffers) > len(OPERANDS)
    boxes = None if maps is None else LastBoxes(maps, has_scales)
    between = _Between(schedule, full, empty, lines, boxes, by_warp, by_wgmma=not walk(kernel, sm.MmaSyncOp))
    releases = walk(kernel, sm.ConsumerReleaseOp)
    for release in releases if between.by_wgmma else ():
        if release.retired is None:
            raise Refusal(
                release, "releases a slot without the proof (`after`) that its reads are done [release-proof]"
            )
    for loop in walk(kernel, scf.ForOp):
        carry_slots(loop, as_index=True)
    for release in walk(kernel, sm.ConsumerReleaseOp):
        between.release(release)
    arriving = max((between.fill(acquire) for acquire in walk(kernel, sm.ProducerAcquireOp)), default=1)
    full.owner.attributes["arrivals"] = ir.IntegerAttr.get(full.owner.attributes["arrivals"].type, arriving)
    for wait in walk(kernel, sm.ConsumerWaitOp):
        with before(wait), wait.operation.location:
            sm.MbarrierWaitOp(full, wait.index, wait.phase)
            if arriving > 1 and between.by_wgmma:
                sm.FenceProxyAsyncOp()  # threads wrote the slot, and the async proxy reads it
        take_slot(wait)
    if boxes is not None:
        if by_warp:
            with before(full.owner.opview):
                boxes.zero_rows(ring.result)
        boxes.maps.finish()


@dataclass(frozen=True)
class _Between:
    """The mbarriers of a kernel's ring; how it is filled (`boxes`, if by TMA), and how it is read."""

    schedule: Schedule
    full: ir.Value
    empty: ir.Value
    lines: Lines
    boxes: LastBoxes | None
    by_warp: bool
    by_wgmma: bool

    def release(self, release: sm.ConsumerReleaseOp) -> None:
        """One arrival of each warpgroup, or warp, that reads."""
        with before(release), release.operation.location:
            if self.by_warp and self.boxes is not None:
                # Threads have read the slot, and the async proxy writes it next.
                sm.FenceProxyAsyncOp()
            sm.MbarrierArriveOp(
                self.empty,
                index_of(release.slot),
                receivers=self.lines.cross,
                retired=release.retired,
                each_warp=self.by_warp or None,
            )
        erase(release)

    def fill(self, acquire: sm.ProducerAcquireOp) -> int:
        """Binds the copies into a slot and the arrivals of a phase. Returns the number of arrivals. It is 1, unless
        all copies by threads are cp.async: then each thread arrives when its copies have landed, and if TMA copies,
        too, one more arrival expects its bytes."""
        index, commit = acquire.index, _commit_of(acquire)
        filled = [_filled(buffer) for buffer in acquire.buffers]
        names: list[Operand | None] = [*OPERANDS, *[None] * (len(filled) - len(OPERANDS))]  # None: scales
        copies = [(use, number) for number, buffer in enumerate(filled) for use in uses(buffer)]
        for copy, _ in copies:
            if not isinstance(copy, (sm.CopyAsyncOp, sm.CpAsyncOp, sm.StoreSharedOp)):
                raise Refusal(copy, "uses a slot that is being filled; only copies to it may [slot-being-filled]")
        by_threads = [copy for copy, _ in copies if not isinstance(copy, sm.CopyAsyncOp)]
        by_tma = [self._load_of(copy, names[at], at) for copy, at in copies if isinstance(copy, sm.CopyAsyncOp)]
        others = {copy.destination for copy in by_threads} | {
            load.copy.destination for load in by_tma if load.boxes.rows
        }
        size = sum(bytes_of(acquire, buffer.type) for buffer in filled if buffer not in others)
        arrive = partial(self._arrive, index, size, [load.boxes.bytes for load in by_tma if load.boxes.rows])
        lands = bool(by_threads) and all(isinstance(copy, sm.CpAsyncOp) for copy in by_threads)
        arrivals = _threads_around(acquire) + bool(by_tma) if lands else 1
        with before(acquire), acquire.operation.location:
            # Every slot is empty in the first round: a wait for the parity before the first phase passes at once.
            sm.MbarrierWaitOp(self.empty, index, Builder.index().xor(acquire.phase, 1))
            if not by_threads or (lands and by_tma):
                arrive()
        with before(commit), commit.operation.location:
            if lands:
                sm.CpAsyncArriveOp(self.full, index)
            elif by_threads:
                self._show_stores(by_threads)
                arrive()
        erase(commit)
        take_slot(acquire)
        for load in by_tma:
            with before(load.copy), load.copy.operation.location:
                load.start(self.full, index)
            erase(load.copy)
        return arrivals

    def _arrive(self, index: ir.Value, size: int, of_rows: list[ir.Value]) -> None:
        """The arrival of one thread. It expects `size` bytes and `of_rows`, the bytes of loads with `rows`."""
        more = reduce(Builder.index().add, of_rows) if of_rows else None
        sm.MbarrierArriveOp(self.full, index, bytes=size if size or of_rows else None, more=more)

    def _show_stores(self, copies: list[ir.OpView]) -> None:
        """Before one thread arrives, the writes of all threads are complete and visible to wgmma's async proxy.

        The same arrival expects the bytes of TMA, so the phase cannot complete before it.
        """
        if any(isinstance(copy, sm.CpAsyncOp) for copy in copies):
            sm.CpAsyncCommitOp()
            sm.CpAsyncWaitOp(0)
        if self.by_wgmma:
            sm.FenceProxyAsyncOp()
        sm.BarrierOp()

    def _load_of(self, copy: sm.CopyAsyncOp, name: Operand | None, number: int) -> "_Load":
        """The load of a tile, or of the CTA's share of it if a row or a column of the cluster shares the tile; or of
        scales (`name` is None), which no other CTA shares. `number`: of the buffer in a slot."""
        assert self.boxes is not None
        view, buffer = copy.source.owner.opview, copy.destination
        if name is None:
            return _Load(copy, Boxes(self.boxes.maps.map_for(copy, view.source, buffer.type)))
        operand, (line, parties) = self.schedule.mainloop.operand(name), sharing(name, self.schedule.cluster)
        if name in self.schedule.copied_by_threads:
            raise Refusal(
                copy, f"{name}.copy = {operand.copy} is by threads; run bind-copy-atoms first [copy-by-threads]"
            )
        rows, (matrix, end) = ir.MemRefType(buffer.type).shape[0], whole_of(view.source)
        if rows % parties:
            raise Refusal(
                copy,
                f"fills {rows} rows, which {parties} CTAs cannot share; take another grid.cluster [multicast-rows]",
            )
        hint = written(operand.cache)
        share, rank = rows // parties if parties > 1 else None, TMA_RANKS.get(str(operand.copy), 2)
        if view.halves and (parties > 1 or rank > 2):
            raise Refusal(
                copy,
                f"loads a window of halves by {operand.copy} for {parties} CTAs; such a window is loaded by tma for "
                f"one CTA: take tma, and a grid.cluster that does not share {name.upper()} [halves-shared]",
            )
        if is_list(matrix.type):
            return _Load(copy, Boxes(self.boxes.maps.listed_map(copy, matrix, view.offsets[0], buffer.type)), hint=hint)
        boxes = self.boxes.of(copy, number) if rank == 2 and not view.halves else None
        if boxes is None:
            of, is_ragged, halves = self.boxes.maps.map_for, end is not None, bool(view.halves)
            boxes = Boxes(of(copy, matrix, buffer.type, rows=share, rank=rank, is_ragged=is_ragged, halves=halves))
        return _Load(copy, boxes, line, hint, end)


@dataclass(frozen=True)
class _Load:
    """A copy, and the TMA load that replaces it. `end`: where the rows of the matrix end, if they end with a group."""

    copy: sm.CopyAsyncOp
    boxes: Boxes
    line: ClusterLine | None = None
    hint: CacheHint | None = None
    end: ir.Value | None = None

    def start(self, full: ir.Value, index: ir.Value) -> None:
        view = self.copy.source.owner.opview
        *batch, row, column = list(view.offsets)[1:] if is_list(view.source.type) else view.offsets
        load = sm.TmaLoadOp(
            self.boxes.tensor_map,
            row,
            column,
            self.copy.destination,
            full,
            index,
            batch=batch[-1] if batch else self.end,
            rows=self.boxes.rows,
            multicast=self.line,
            cache=self.hint,
        )
        if self.end is not None:
            mark_ragged(load)


def _threads_around(op: ir.OpView) -> int:
    """The threads of the role that executes the op."""
    role = role_of(op)
    assert role is not None  # one role fills the ring
    return int(role[0].warps[role[1]]) * WARPGROUP_THREADS // WARPGROUP_WARPS


def _commit_of(acquire: sm.ProducerAcquireOp) -> sm.ProducerCommitOp:
    commits = list(uses(acquire.slot))
    if len(commits) != 1 or not isinstance(commits[0], sm.ProducerCommitOp):
        raise Refusal(
            acquire, "must give its slot to one sm.producer_commit: what lies between fills the slot [one-commit]"
        )
    return commits[0]


def _filled(buffer: ir.Value) -> ir.Value:
    """The part of a slot's buffer that copies fill: all of it, or the one prefix that is used."""
    users = list(uses(buffer))
    return users[0].result if len(users) == 1 and isinstance(users[0], sm.PrefixOp) else buffer
