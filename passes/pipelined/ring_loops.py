"""Loops over K steps that fill the slots of a ring, and loops that read them.

    scf.for %s = 0 to %trips iter_args(%w, %wp) { acquire %ring[%w, %wp]; copy_async …; commit; advance }
    scf.for %i = 0 to %steps iter_args(%c, %r, %rp) { wait %ring[%r, %rp]; tile.mma …; release; advance }

The second one also fills a slot in each round if the agent that reads the ring fills it.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm
from lowtide.dialects.sm.timing import Timing, keep_timing
from lowtide.passes.pipelined.staged_loop import Cursor, StagedLoop
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import copy_ops, replace

Fill: TypeAlias = Callable[[Cursor, ir.Value], None]  # copies the K step with a number to the slot at a cursor


def start(count: int = 2) -> list[ir.Value]:
    """The cursor of the first slot: `count` zeros."""
    return [Builder.index().constant(0)] * count


def advanced(ring: ir.Value, cursor: Cursor, count: ir.Value | None = None) -> list[ir.Value]:
    """The cursor `count` slots further on, by default one."""
    advance = sm.RingAdvanceOp(ring, *cursor, count=count)
    return [advance.next_index, advance.next_phase]


def fill_slots(
    staged: StagedLoop, ring: ir.Value, trips: ir.Value, cursor: Cursor, fill: Fill | None = None
) -> list[ir.Value]:
    """Fills slots with the K steps from 0 to `trips` of this tile, or by `fill`; returns the cursor after them."""
    build, fill = Builder.index(), fill or partial(staged.fill, ring)
    loop = scf.ForOp(build.constant(0), trips, build.constant(1), list(cursor))
    Timing(steps=Timing.of(staged.loop).steps).write(loop)
    with ir.InsertionPoint(loop.body):
        fill(loop.inner_iter_args, loop.induction_variable)
        scf.YieldOp(advanced(ring, loop.inner_iter_args))
    return list(loop.results)


def read_slots(
    staged: StagedLoop, ring: ir.Value, steps: ir.Value, cursor: Cursor, filled: Cursor = (), fill: Fill | None = None
) -> list[ir.Value]:
    """Replaces the loop by one that reads a slot in each of `steps` rounds; returns the cursor after them.

    With `fill`, each round also fills the slot at the cursor `filled`. The result is then both cursors.
    """
    build, old = Builder.index(), staged.loop
    loop = scf.ForOp(build.constant(0), steps, build.constant(1), [*old.initArgs, *cursor, *filled])
    keep_timing(old, loop)
    count, reads = len(old.initArgs), staged.reads
    with ir.InsertionPoint(loop.body):
        carried, read, write = (list(loop.inner_iter_args)[part] for part in _parts(count))
        values = dict(zip(old.inner_iter_args, carried, strict=True))
        if any(old.induction_variable in op.operands for op in reads):
            values[old.induction_variable] = staged.place(loop.induction_variable)
        if fill is None:  # an agent that only reads has time for these before the wait
            copy_ops(staged.direct_windows, values)
        with staged.barrier(0):
            wait = sm.ConsumerWaitOp(ring, *read)
        values.update(zip(staged.buffers, staged.within(wait.buffers), strict=True))
        if fill is not None:
            fill(write, loop.induction_variable)
        copy_ops([op for op in reads if op.results[0] not in values], values)
        with staged.barrier(-1):
            sm.ConsumerReleaseOp(ring, wait.slot)
        yielded = [values.get(value, value) for value in list(old.body.operations)[-1].operands]
        scf.YieldOp([*yielded, *advanced(ring, read), *(advanced(ring, write) if write else ())])
    replace(old, list(loop.results)[:count])
    return list(loop.results)[count:]


def _parts(count: int) -> tuple[slice, slice, slice]:
    """The parts of the carried values: those of the replaced loop, the cursor that reads, the cursor that fills."""
    return slice(count), slice(count, count + 2), slice(count + 2, None)
