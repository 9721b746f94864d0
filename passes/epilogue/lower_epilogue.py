"""lower-epilogue: split tile.store into epilogue arithmetic, a pass through shared memory, and wide stores.

Before   tile.store %acc into %d[%m, %n] operands(per_column %bias : …) { region } : !sm.fragment<…>, memref<…>
After    for each epilogue tile (here the whole CTA tile), with epilogue.math = registers:
           %part = sm.extract %acc[0, 0]
           %bias_n = sm.load_global (tile.view per_column %bias[%n]) : … to the accumulator's thread-value layout
           %y = sm.map %part, %bias_n { region }
           %scratch = sm.ring_reuse %ring (or sm.alloc, where the scratch is larger than the ring)
           sm.store_shared %y to %scratch; sm.barrier
           %rows = sm.load_shared %scratch : in rows of 16 bytes per thread
           sm.store_global %rows to (tile.view %d[%m, %n]); sm.barrier
         With epilogue.math = rows the accumulators go through shared memory, and operands are read and the region
         applied in rows; full operands are loaded epilogue.prefetch parts ahead. With epilogue.path = direct, %y is
         stored from the accumulator's layout, in the widest runs of columns that a thread holds (of rows, where D lies
         by columns), or of epilogue.store bytes, as rows are in the other case. With epilogue.path = tma the scratch is
         stored by TMA, through a tensor map of D that the host makes (epilogue/stores.py):
           sm.tma_store_wait read 1; sm.barrier warpgroup                     (this one of two scratch buffers is free)
           sm.store_shared %y to %scratch by "stmatrix.x4"; sm.fence_proxy_async; sm.barrier warpgroup
           sm.tma_store %scratch to %map[%m, %n]
         Full operands then come by TMA too (epilogue/staged_operands.py). Consumers load the first parts before the K
         loop; with one slot of buffers and mbarriers:
           sm.mbarrier_arrive %full[0] expects 8192; sm.tma_load %map_of_c[%m, %n] to %slot signals %full[0]
           …  (the K loop)
           sm.tma_store_wait read 1; sm.barrier warpgroup; sm.mbarrier_wait %full[0, 0]
           %c = sm.load_shared %slot by "ldmatrix.x4"; %y = sm.map %part, %c { region }
           sm.store_shared %y to %scratch by "stmatrix.x4"; sm.fence_proxy_async; sm.barrier warpgroup
           sm.tma_store %scratch to %map[%m, %n]
           sm.mbarrier_arrive %full[0] expects 8192; sm.tma_load … to %slot  (the next part: all have read this one)
         With groups of rows, a part is stored in this way if all of its rows belong to the group. If its last rows
         belong to the next group, threads store the other rows from their registers:
           scf.if (%m + 128 <= %rows_end) { as above } else { sm.tma_store_wait read 0; sm.store_global %y to (…) }
         If D lies by columns, the columns of the scratch are contiguous, and threads load and store runs of columns in
         place of rows. stmatrix transposes, and boxes of TMA have columns as their first dimension. If the stored value
         is the sum over the warps along K (sm.sum_over_k), each of them writes its part to its own tile of the scratch.
         Rows are read back from all of these tiles, and added in order. With several full results, the sm.map gives a
         fragment for each, and they are stored one after the other. If TMA stores them, there are scratch buffers for
         each of their types. With pairs of columns, a part has two fragments, from the first and the second half of the
         columns:
           %gate = sm.extract %acc[0, 0]; %up = sm.extract %acc[0, 128]; %y = sm.map %gate, %up, %bias_n { region }
         For an amax, it also gives the values whose largest magnitude is wanted:
           %y, %x = sm.map %part { region }
           %m1 = sm.max_abs %x in %window, %m0                                (for each part of the tile)
           sm.raise_max %m1 into %amax                                        (once for the tile)
         The region becomes one sm.map in every case, whatever it computes. epilogue.cache becomes cache(…) on the
         stores. Several tile.stores of a kernel share the scratch (epilogue/scratch.py).
Needs    level atoms, tile.store on a fragment, a drained ring; for epilogue.path = tma, roles.
Refuses  an epilogue tile that the tiled mma or the threads cannot divide evenly; a kernel without sm.mma_sync or
         sm.wgmma; epilogue.path = tma without roles, for a D that is no kernel argument, or with several launches; full
         operands for TMA in a kernel of several stores, or outside of roles.
Test     test/lit/passes/epilogue/lower-epilogue.mlir,
         lower-epilogue-{tma,operands,tail,columns,columns-scratch,invalid}.mlir
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import EpilogueMath, RepeatKind, SchedulerKind, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.epilogue.parts import Epilogue, Part, element_of
from lowtide.passes.epilogue.scratch import Scratch
from lowtide.passes.epilogue.stores import store_by_tma
from lowtide.passes.schedules.facts.resources import runs_ahead
from lowtide.passes.support.agents.atoms import fragment_type, stage_layout, tiled_mma_of
from lowtide.passes.support.agents.wgmmas import wgmmas
from lowtide.passes.support.ir.rewriting import before, erase
from lowtide.passes.support.problem.element_types import buffer_bytes, element_bits, element_name
from lowtide.passes.support.problem.kernels import gemm_kernels, schedule_of
from lowtide.passes.support.streams.buffers import buffer_type
from lowtide.passes.support.streams.tensor_map_arguments import TensorMapArguments, launch_of
from lowtide.targets import Target

# The fields of the schedule that the pass reads.
_FIELDS = (
    "grid.scheduler",
    "multiply.atoms",
    "epilogue.path",
    "epilogue.math",
    "epilogue.tile",
    "epilogue.swizzle",
)


@dataclass(frozen=True)
class LowerEpilogue(Pass):
    """Replaces every tile.store."""

    name: ClassVar[str] = "lower-epilogue"
    needs: ClassVar[Level] = Level.ATOMS
    gives: ClassVar[Level] = Level.EPILOGUE

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in gemm_kernels(module):
            schedule = schedule_of(kernel, *_FIELDS)
            by_tma = schedule.epilogue.path is StorePath.tma and bool(walk(kernel, tile.StoreOp))
            maps = TensorMapArguments(kernel, launch_of(module, kernel)) if by_tma else None
            scratch = Scratch(kernel)
            for store in walk(kernel, tile.StoreOp):
                if not isinstance(store.value.type, sm.FragmentType):
                    raise Refusal(
                        store, f"stores {store.value.type}, not a fragment; run bind-mma-atoms first [stores-fragment]"
                    )
                mmas = [*walk(kernel, sm.MmaSyncOp), *wgmmas(kernel)]
                if not mmas:
                    raise Refusal(
                        store,
                        "has no sm.mma_sync or sm.wgmma in its kernel that says how its fragment is held"
                        " [fragment-held]",
                    )
                with store.operation.location:
                    try:
                        _lower(Epilogue(kernel, store, schedule, tiled_mma_of(mmas[0].mma)), maps, scratch)
                    except (ScheduleError, TargetError) as error:
                        raise Refusal(store, str(error)) from error
            if maps is not None:
                maps.finish()


def _lower(epilogue: Epilogue, maps: TensorMapArguments | None, buffers: Scratch) -> None:
    """Replaces the store by stores of all parts of the tile. Raises ScheduleError for parts that do not fit."""
    with before(epilogue.store):
        if maps is not None:
            store_by_tma(epilogue, maps, buffers)
        elif epilogue.schedule.epilogue.path is StorePath.direct:
            for part in epilogue.parts():
                _store_direct(epilogue, part)
        else:
            scratch = _scratch(epilogue, buffers)
            _store_parts_through(epilogue, scratch)
            if _may_be_overtaken(epilogue.schedule):
                sm.BarrierOp()
    # TMA loads of operands may have replaced the work tiles, and moved the store to the block of the new ones.
    with before(epilogue.store):
        for largest in epilogue.maxima:
            largest.finish()
    partial = epilogue.partial
    erase(epilogue.store)
    if partial is not None:
        erase(partial)


def _may_be_overtaken(schedule: Schedule) -> bool:
    """Whether copies of the next work tile might write to the scratch while the store still reads it.

    With `prologue = once` the copies go to other buffers, and the K loop has a barrier before the next tile is stored.
    """
    return schedule.grid.scheduler is not SchedulerKind.one_shot and schedule.mainloop.prologue is not RepeatKind.once


def _scratch(epilogue: Epilogue, buffers: Scratch) -> ir.Value:
    """The scratch buffer: the storage of the drained ring if it is large enough, else a separate buffer.

    A ring that a producer fills ahead is never drained.
    """
    shape = epilogue.part_shape
    if epilogue.partial is not None:
        shape = epilogue.mma.atom_layout[2] * shape[0], shape[1]
    swizzle = epilogue.schedule.epilogue.swizzle
    assert swizzle is not None
    buffer = buffer_type(shape, epilogue.scratch_element, stage_layout(shape, epilogue.by_columns), swizzle)
    for ring in () if runs_ahead(epilogue.schedule) else walk(epilogue.kernel, sm.RingOp):
        if buffer_bytes(buffer) <= ring_size(ring.result.type):
            return sm.RingReuseOp(buffer, ring.result).result
    return buffers.take_one(buffer)


def _store_direct(epilogue: Epilogue, part: Part) -> None:
    for y, matrix in zip(epilogue.map(part.sums, part), epilogue.full, strict=True):
        epilogue.store_fragment(y, matrix, part.origin)


def _store_parts_through(epilogue: Epilogue, scratch: ir.Value) -> None:
    """Stores all parts, one after the other. Full operands are loaded some parts ahead, as the schedule says."""
    ahead = epilogue.schedule.epilogue.prefetch or 0
    waiting: deque[tuple[Part, list[ir.Value]]] = deque()
    for part in epilogue.parts():
        waiting.append((part, epilogue.full_operands(part) if ahead else []))
        if len(waiting) > ahead:
            _store_through(epilogue, scratch, *waiting.popleft())
    for each in waiting:
        _store_through(epilogue, scratch, *each)


def _store_through(epilogue: Epilogue, scratch: ir.Value, part: Part, loaded: Sequence[ir.Value]) -> None:
    """Stores a part. With math = registers, full results pass through the scratch in turn; with rows, the sums do."""
    in_registers = epilogue.schedule.epilogue.math is EpilogueMath.registers
    full, shape = epilogue.full, tuple(part.value.type.shape)
    values = epilogue.map(part.sums, part) if in_registers else [part.value]
    for number, value in enumerate(values):
        rows = _in_rows(epilogue, scratch, shape, value)
        stored = {full[number]: rows}
        if not in_registers:
            stored = dict(zip(full, epilogue.map([rows], part, loaded), strict=True))
        for matrix, each in stored.items():
            window = epilogue.window(matrix, shape, part.origin)
            atom = epilogue.rows_access(shape).store(element_name(element_of(matrix)))
            sm.StoreGlobalOp(each, window, atom, cache=epilogue.cache)
        if not part.is_last or number + 1 < len(values):
            sm.BarrierOp()


def _in_rows(epilogue: Epilogue, scratch: ir.Value, shape: tuple[int, int], value: ir.Value) -> ir.Value:
    """A part of this shape, written to the scratch and read back in rows; partial sums are added."""
    access, element = epilogue.rows_access(shape), epilogue.scratch_element
    bytes_of = element_bits(element) // 8
    atom = epilogue.scratch_store(value.type, access.widest * bytes_of)
    if epilogue.partial is not None:
        value = epilogue.stacked(value)
    sm.StoreSharedOp(value, scratch, atom)
    sm.BarrierOp()
    rows_type = fragment_type(access.rows.tv, shape, element)
    atom = f"ld.shared.{access.rows.vector * bytes_of}"
    if epilogue.partial is None:
        return sm.LoadSharedOp(rows_type, scratch, atom).result
    starts = range(0, scratch.type.shape[0], shape[0])
    return epilogue.added([sm.LoadSharedOp(rows_type, scratch, atom, offsets=[at, 0]).result for at in starts])


def ring_size(ring: sm.RingType) -> int:
    """Bytes of a ring's storage."""
    return ring.stages * sum(buffer_bytes(buffer) for buffer in ring.buffers)
