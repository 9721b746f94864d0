"""bind-wgmma: bind every mma to wgmma on shared memory, one group in flight while the next is issued.

Before   scf.for %i … iter_args(%c, %r, %rp) {
           %full, %a, %b = sm.consumer_wait %ring[%r, %rp]
           %c2 = tile.mma tn %a, %b, %c; sm.consumer_release %ring, %full; advance }
After    %full0, %a0, %b0 = sm.consumer_wait %ring[%r, %rp]                    (the first K step, peeled)
         %p0 = sm.wgmma tn %a0, %b0, %zero
         %p, %held, … = scf.for %i = 1 … iter_args(%p = %p0, %held = %full0, …) {
           %full, %a, %b = sm.consumer_wait %ring[%r, %rp]
           %q = sm.wgmma tn %a, %b, %p
           %q2, %retired = sm.mma_wait 1, %q                                   (the group before this one is done)
           sm.consumer_release %ring, %held after %retired; advance }
         %acc, %last = sm.mma_wait 0, %p;  sm.consumer_release %ring, %held after %last
         Where sums are promoted, each K step is summed from zero, and added once it is done:
           scf.for %i … iter_args(%c = %zero, %r, %rp) {
             %full, %a, %b = sm.consumer_wait %ring[%r, %rp]
             %c2, %retired = sm.wgmma_promote tn %a, %b into %c
             sm.consumer_release %ring, %full after %retired; advance }
         With promote = overlapped, two steps at once: the last columns of the first are added while the second is
         multiplied. An odd step comes after, as above:
           scf.for %i = 0 to … step 2 iter_args(%c = %zero, %r, %rp) {
             %full, %a, %b = sm.consumer_wait %ring[%r, %rp]
             %p, %none = sm.wgmma_promote tn %a, %b into %c : … -> !sm.pending<…>;  advance
             %full2, %a2, %b2 = sm.consumer_wait %ring[%r2, %rp2]
             %q, %retired = sm.wgmma_promote tn %a2, %b2 into %p;  sm.consumer_release %ring, %full after %retired
             %c2, %last = sm.mma_wait 0, %q;  sm.consumer_release %ring, %full2 after %last;  advance }
         With scales, their loads into fragments come first in the loop:
             %sa = sm.load_global (tile.view row_scale …); %sb = sm.load_global (tile.view column_block_scale …)
             %c2, %retired = sm.wgmma_promote tn %a, %b into %c scaled(%sa, %sb)
         Staged scales are loaded from their buffers of the slot, after the wait for it:
             %full, %a, %b, %as, %bs = sm.consumer_wait %ring[%r, %rp]
             %sa = sm.load_scales row_scale %as[0, 0]
             %sb = sm.load_scales column_block_scale %bs[%n mod 128, %k mod 2048]
         Packed weights are A, which threads convert in registers. All have loaded theirs before one releases the slot.
         What groups have, scales and zero points, is loaded two steps ahead, and carried:
             %s2 = sm.load_global (tile.view per_row %scales[min(%i + 2, last) / …, %m])
             %full, %a, %b = sm.consumer_wait %ring[%r, %rp];  %w = sm.load_shared %a;  sm.barrier warpgroup
             %p = sm.wgmma tn (sm.unpack_weights %w at 0 of si4), %b, %zero;  %q, %retired = sm.mma_wait 0, %p
             sm.consumer_release %ring, %full after %retired;  %c2 = sm.map %q, %c, %s { math.fma };  advance
         Layouts nn, nt and tt likewise. Blocks of 64 rows of M go round-robin to the warpgroups: with n warpgroups,
         each takes every n-th block.
Needs    level atoms, roles; a schedule whose mma is wgmma.
Refuses  an atom that the target lacks; a tile that the tiled mma does not divide; a loop of another form.
Test     test/lit/passes/atoms/bind-wgmma.mlir, bind-wgmma-{tail,weights,invalid}.mlir,
         test/interpreter/test_weights_wgmma.py
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.atoms import fragment_type, mma_atom_name, tiled_mma, tiled_mma_attr
from lowtide.passes.support.builder import Builder
from lowtide.passes.support.kernels import kernels_of, problem_of, schedule_of
from lowtide.passes.support.partial_sums import bind_shares, bind_sums
from lowtide.passes.support.promotion import add_promoted, load_factors
from lowtide.passes.support.rewriting import after, before, erase, erase_if_unused, uses
from lowtide.passes.support.weight_loads import load_zero_points, weight_load
from lowtide.passes.support.weights import with_weights_as_a
from lowtide.passes.support.wgmma_loops import WgmmaLoop
from lowtide.targets import Target, TiledMma

_STEPS_AHEAD = 2
_STEPS_AT_ONCE = 2  # of overlapped sums; with three the chosen kernels spill


@dataclass(frozen=True)
class BindWgmma(Pass):
    """Replaces tile.mma by wgmma."""

    name: ClassVar[str] = "bind-wgmma"
    needs: ClassVar[Level] = Level.ATOMS
    gives: ClassVar[Level] = Level.ATOMS

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in kernels_of(module, roles=True):
            schedule = schedule_of(kernel)
            for mma in walk(kernel, tile.MmaOp):
                problem = problem_of(kernel)
                try:
                    target.mma(mma_atom_name(schedule, problem))
                    with mma.operation.location:
                        _bind(mma, tiled_mma(schedule, problem), _STEPS_AT_ONCE if schedule.overlaps_promotion else 1)
                        bind_shares(kernel, tiled_mma(schedule, problem))
                except (ScheduleError, TargetError) as error:
                    raise Refusal(mma, str(error)) from error


def _bind(mma: tile.MmaOp, tiled: TiledMma, at_once: int) -> None:
    found = WgmmaLoop.match(mma)
    loop = found.loop
    shape = tuple(mma.acc.type.shape)
    fragment = fragment_type(tiled.tv("c", shape), shape, mma.acc.type.element_type)
    attribute = tiled_mma_attr(tiled)
    bind_sums(loop.results[0], fragment)
    with before(loop):
        zero = sm.SplatOp(fragment, found.splat.value).result
        if mma.weights:
            results = _converted(found, zero, with_weights_as_a(tiled))
        else:
            results = (
                _promoted(found, zero, attribute, at_once) if found.promote else _overlapped(found, zero, attribute)
            )
    for old, value in zip(loop.results, results, strict=True):
        old.replace_all_uses_with(value)
    erase(loop)
    erase_if_unused(found.splat)


def _overlapped(found: WgmmaLoop, zero: ir.Value, attribute: sm.TiledMmaAttr) -> tuple[ir.Value, ...]:
    """One group in flight while the next is issued; the accumulator, slot and phase after the loop."""
    loop, ring, layout = found.loop, found.wait.ring, found.mma.layout
    pending = sm.PendingType.get(zero.type)
    slot, phase = loop.initArgs[1], loop.initArgs[2]
    first = sm.ConsumerWaitOp(ring, slot, phase)
    started = sm.WgmmaOp(pending, layout, *found.operands(first), zero, attribute).result
    after = sm.RingAdvanceOp(ring, slot, phase)
    inits = [started, first.slot, after.next_index, after.next_phase]
    new = scf.ForOp(Builder.index().constant(1), loop.upperBound, loop.step, inits)
    with ir.InsertionPoint(new.body):
        acc, held, slot, phase = new.inner_iter_args
        following = sm.ConsumerWaitOp(ring, slot, phase)
        issued = sm.WgmmaOp(pending, layout, *found.operands(following), acc, attribute).result
        waited = sm.MmaWaitOp(pending, sm.RetiredType.get(), 1, issued)
        sm.ConsumerReleaseOp(ring, held, retired=waited.retired)
        advance = sm.RingAdvanceOp(ring, slot, phase)
        scf.YieldOp([waited.result, following.slot, advance.next_index, advance.next_phase])
    acc, held, slot, phase = new.results
    with before(_first_reader(loop)):  # what is between runs while the last group is in flight
        done = sm.MmaWaitOp(zero.type, sm.RetiredType.get(), 0, acc)
        sm.ConsumerReleaseOp(ring, held, retired=done.retired)
    return done.result, slot, phase


def _promoted(found: WgmmaLoop, zero: ir.Value, attribute: sm.TiledMmaAttr, at_once: int) -> tuple[ir.Value, ...]:
    """Each K step is summed from zero, waited for and added; the sum, slot and phase after the loop.

    The tensor cores are not idle meanwhile: other consumers multiply. With several steps at once, all but the last of
    them leave a block of columns in flight.
    """
    loop = found.loop
    carried, rest = [zero, *list(loop.initArgs)[1:]], loop.lowerBound
    if at_once > 1:
        rest = Builder.index().mul(Builder.index().udiv(loop.upperBound, at_once), at_once)
        carried = _promoted_steps(found, carried, (loop.lowerBound, rest), at_once, attribute)
    return tuple(_promoted_steps(found, carried, (rest, loop.upperBound), 1, attribute))


def _promoted_steps(
    found: WgmmaLoop,
    carried: Sequence[ir.Value],
    steps: tuple[ir.Value, ir.Value],
    at_once: int,
    attribute: sm.TiledMmaAttr,
) -> list[ir.Value]:
    """A loop over K steps, `at_once` in its body: the sum, slot and phase after it.

    None is in flight from one body to the next: ptxas would not see that it has ended before its accumulators are read,
    and serialize all wgmmas (C7514).
    """
    ring, readable, retired = found.wait.ring, carried[0].type, sm.RetiredType.get()
    stride = found.loop.step if at_once == 1 else Builder.index().constant(at_once)
    new = scf.ForOp(*steps, stride, list(carried))
    with ir.InsertionPoint(new.body):
        total, slot, phase = new.inner_iter_args
        held = None
        for number in range(at_once):
            step = Builder.index().add(new.induction_variable, number)
            scales = found.scales(step, readable)  # in flight while the slot is waited for
            wait = sm.ConsumerWaitOp(ring, slot, phase)
            buffers = found.operands(wait)
            scales = scales or found.staged_scales(step, buffers, readable)
            named = dict(zip(("rows", "columns"), scales, strict=bool(scales)))
            type_ = readable if at_once == 1 else sm.PendingType.get(readable)
            added = sm.WgmmaPromoteOp(type_, retired, found.mma.layout, *buffers[:2], total, attribute, **named)
            if held is not None:
                sm.ConsumerReleaseOp(ring, held, retired=added.retired)
            total, held, last = added.result, wait.slot, added.retired
            if number + 1 < at_once:
                advance = sm.RingAdvanceOp(ring, slot, phase)
                slot, phase = advance.next_index, advance.next_phase
        if at_once > 1:
            done = sm.MmaWaitOp(readable, retired, 0, total)
            total, last = done.result, done.retired
        sm.ConsumerReleaseOp(ring, held, retired=last)
        advance = sm.RingAdvanceOp(ring, slot, phase)
        scf.YieldOp([total, advance.next_index, advance.next_phase])
    return list(new.results)


def _converted(found: WgmmaLoop, zero: ir.Value, tiled: TiledMma) -> tuple[ir.Value, ...]:
    """Each K step is summed from zero, of weights that the threads convert; the sum, slot and phase after the loop."""
    loop, ring, mma, promote = found.loop, found.wait.ring, found.mma, found.promote
    if promote is None:
        raise Refusal(mma, "multiplies packed weights, whose K steps are summed one by one: take promote = per_step")
    pending, attribute = sm.PendingType.get(zero.type), tiled_mma_attr(tiled)
    groups = _Groups(found, zero.type, tiled)
    first = [groups.at(Builder.index().constant(step)) for step in range(_STEPS_AHEAD)]
    carried = [value for each in first for value in each.values()]
    new = scf.ForOp(loop.lowerBound, loop.upperBound, loop.step, [zero, *list(loop.initArgs)[1:], *carried])
    with ir.InsertionPoint(new.body):
        total, slot, phase, *carried = new.inner_iter_args
        of_group = dict(zip(first[0], carried, strict=False))
        factors, zeros = of_group.get("factors"), of_group.get("zeros")
        carried = [
            *carried[len(of_group) :],
            *groups.at(Builder.index().add(new.induction_variable, _STEPS_AHEAD)).values(),
        ]
        wait = sm.ConsumerWaitOp(ring, slot, phase)
        a, b = found.operands(wait)
        converted = weight_load(a, mma.weights.value, zeros, tiled, "a")
        with after(converted.packed.owner.opview):
            sm.BarrierOp(warpgroup=True)
        issued = sm.WgmmaOp(pending, mma.layout, converted.result, b, zero, attribute).result
        done = sm.MmaWaitOp(zero.type, sm.RetiredType.get(), 0, issued)
        sm.ConsumerReleaseOp(ring, wait.slot, retired=done.retired)
        added = add_promoted(done.result, total, factors)
        advance = sm.RingAdvanceOp(ring, slot, phase)
        scf.YieldOp([added, advance.next_index, advance.next_phase, *carried])
    return tuple(new.results)[:3]


@dataclass(frozen=True)
class _Groups:
    """What groups of weights have: factors, zero points."""

    found: WgmmaLoop
    accumulators: sm.FragmentType
    tiled: TiledMma

    def at(self, step: ir.Value) -> dict[str, ir.Value]:
        """The loads of what the group of a K step has; beyond the last step, those of the last."""
        build, (mma, promote) = Builder.index(), (self.found.mma, self.found.promote)
        windows = self.found.windows_at(build.umin(step, build.sub(self.found.loop.upperBound, 1)))
        loads = {}
        if promote is not None and promote.scale is not None:
            loads["factors"] = load_factors(windows[promote.scale], self.accumulators)
        if mma.zeros is not None:
            zeros = load_zero_points(windows[mma.zeros], self.tiled, "a")
            assert zeros is not None
            loads["zeros"] = zeros
        return loads


def _first_reader(loop: scf.ForOp) -> ir.OpView:
    """The first op after the loop that reads its accumulators; the loop itself if none does."""
    readers = {reader.operation for reader in uses(loop.results[0])}
    block = loop.operation.block
    return next((op for op in block.operations if op.operation in readers), loop)
