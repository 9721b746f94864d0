"""double-buffer-fragments: load the fragments of the next k-slice while this one is multiplied, also across K steps.

Before   scf.for … iter_args(%c, %r, …) {
           %full, %a, %b = sm.consumer_wait %ring[%r, %rp]
           acquire; cp_async …; commit
           load slice 0; mma slice 0; load slice 1; mma slice 1
           sm.consumer_release %ring, %full }
After    %full0, %a0, %b0 = sm.consumer_wait %ring[0, 0]; load slice 0 of it
         scf.for … iter_args(%c, %r, …, %full, %a, %b, %fa, %fb) {
           acquire; cp_async …; commit
           load slice 1; mma slice 0                       (each slice is loaded one mma ahead)
           sm.consumer_release %ring, %full
           %full2, %a2, %b2 = sm.consumer_wait %ring[next]; load slice 0 of it
           mma slice 1 }
         sm.consumer_release %ring, %full                  (the slot that was waited for last; zeros past K)
         In a role, whose slots another one fills, no slot is read ahead: slices are loaded ahead within a K step.
Needs    level atoms, after split-k-slices; the schedule's `fragment_buffers` = 2 (with 1 it does nothing).
Refuses  a loop of another form.
Test     test/lit/passes/atoms/double-buffer-fragments.mlir, double-buffer-fragments-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm
from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.rewriting import after, before, carry_more, defining_op, ops_in
from lowtide.passes.support.problem.kernels import gemm_kernels, main_loop, schedule_of
from lowtide.passes.support.streams.operand_loads import OperandLoad, is_operand_load, same_load
from lowtide.targets import Target

_BOUNDS = 3  # operands of an scf.for before those that it carries


@dataclass(frozen=True)
class DoubleBufferFragments(Pass):
    """Rotates the main loop by one k-slice."""

    name: ClassVar[str] = "double-buffer-fragments"
    needs: ClassVar[Level] = Level.ATOMS
    gives: ClassVar[Level] = Level.ATOMS

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in gemm_kernels(module):
            if schedule_of(kernel, "multiply.fragment_buffers").multiply.fragment_buffers != 2:
                continue
            reads_on = not walk(kernel, sm.RolesOp)
            for wait in walk(kernel, sm.ConsumerWaitOp):
                with wait.operation.location:
                    sliced = _SlicedLoop.match(main_loop(wait), wait)
                    _move_loads_ahead(sliced)
                    sliced.release.operation.move_before(sliced.mmas[-1].operation)
                    if reads_on:
                        _rotate(sliced)


@dataclass(frozen=True)
class _SlicedLoop:
    """The main loop as split-k-slices leaves it."""

    loop: scf.ForOp
    wait: sm.ConsumerWaitOp
    release: sm.ConsumerReleaseOp
    advance: sm.RingAdvanceOp  # of the read cursor
    loads: list[list[OperandLoad]]  # for each slice, of A and of B
    mmas: list[sm.MmaSyncOp]

    @classmethod
    def match(cls, loop: scf.ForOp, wait: sm.ConsumerWaitOp) -> "_SlicedLoop":
        body = ops_in(loop.body)
        mmas = [op for op in body if isinstance(op, sm.MmaSyncOp)]
        releases = [op for op in body if isinstance(op, sm.ConsumerReleaseOp)]
        advances = [op for op in body if isinstance(op, sm.RingAdvanceOp) and op.index == wait.index]
        if not mmas or len(releases) != 1 or len(advances) != 1:
            raise Refusal(
                loop, "must hold one wait, one release, one advance of the read cursor, and mma.sync [slices-loop]"
            )
        loads = []
        for mma in mmas:
            pair = [defining_op(operand) for operand in (mma.a, mma.b)]
            for load, buffer in zip(pair, wait.buffers, strict=True):
                if not is_operand_load(load) or load.source != buffer:
                    raise Refusal(
                        mma, "operands must be loaded from the slot that its loop waits for [slices-operands]"
                    )
            loads.append(pair)
        carried = list(loop.inner_iter_args)
        if wait.index not in carried or wait.phase not in carried:
            raise Refusal(wait, "must wait at a cursor that its loop carries [slices-cursor]")
        return cls(loop, wait, releases[0], advances[0], loads, mmas)


def _rotate(sliced: _SlicedLoop) -> None:
    """The first slice is loaded one round ahead. What it reads past the last K step are slots that the loop itself has
    filled with zeros."""
    loop, ring = sliced.loop, sliced.wait.ring
    cursor = [list(loop.inner_iter_args).index(value) for value in (sliced.wait.index, sliced.wait.phase)]
    with before(loop):
        first = sm.ConsumerWaitOp(ring, *(loop.initArgs[i] for i in cursor))
        first_fragments = [same_load(load, buffer) for load, buffer in zip(sliced.loads[0], first.buffers, strict=True)]
        start = sm.RingAdvanceOp(ring, first.index, first.phase)
    # At the loop's end: wait for the next slot and load its first slice, before the last mma.
    with before(sliced.mmas[-1]):
        following = sm.ConsumerWaitOp(ring, sliced.wait.index, sliced.wait.phase)
        next_fragments = [
            same_load(load, buffer) for load, buffer in zip(sliced.loads[0], following.buffers, strict=True)
        ]
    stale = [sliced.wait.slot, *sliced.wait.buffers, *(load.result for load in sliced.loads[0])]
    carried_next = [following.slot, *following.buffers, *next_fragments]
    # The read cursor runs one slot ahead now: it starts after the slot that is already waited for.
    for position, init in zip(cursor, (start.next_index, start.next_phase), strict=True):
        loop.operation.operands[_BOUNDS + position] = init
    count = len(loop.initArgs)

    def arguments(carried: list[ir.Value]) -> None:
        for old, new in zip(stale, carried, strict=True):
            old.replace_all_uses_with(new)

    new_loop = carry_more(loop, [first.slot, *first.buffers, *first_fragments], arguments, lambda yielded: carried_next)
    for op in (*sliced.loads[0], sliced.wait):
        op.operation.erase()
    with after(new_loop):
        sm.ConsumerReleaseOp(ring, new_loop.results[count])


def _move_loads_ahead(sliced: _SlicedLoop) -> None:
    """Each slice but the first is loaded before the mma of the slice ahead of it."""
    for loads, previous in zip(sliced.loads[1:], sliced.mmas, strict=False):
        for load in loads:
            load.operation.move_before(previous.operation)
