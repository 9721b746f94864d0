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
         If sums are promoted, each K step is summed from zero, and the sum is added once it is done:
           scf.for %i … iter_args(%c = %zero, %r, %rp) {
             %full, %a, %b = sm.consumer_wait %ring[%r, %rp]
             %c2, %retired = sm.wgmma_promote tn %a, %b into %c
             sm.consumer_release %ring, %full after %retired; advance }
         With scales, their loads into fragments come first in the loop:
             %sa = sm.load_scales row_scale %A[%m, %k]; %sb = sm.load_scales column_block_scale %B[%n, %k]
             %c2, %retired = sm.wgmma_promote tn %a, %b into %c scaled(%sa, %sb)
         Staged scales are loaded from their buffers of the slot, after the wait for it:
             %full, %a, %b, %as, %bs = sm.consumer_wait %ring[%r, %rp]
             %sa = sm.load_scales row_scale %as[0, 0]
             %sb = sm.load_scales column_block_scale %bs[%n mod 128, %k mod 2048]
         Packed weights are A, and threads convert them in registers. Scales and zero points of groups are loaded two
         steps ahead, and the loop carries them:
             %s2 = sm.load_global (tile.view per_row %scales[min(%i + 2, last) / …, %m])
             %full, %a, %b = sm.consumer_wait %ring[%r, %rp];  %w = sm.load_shared %a
             %p = sm.wgmma tn (sm.unpack_weights %w at 0 of si4), %b, %zero;  %q, %retired = sm.mma_wait 0, %p
             sm.consumer_release %ring, %full after %retired;  %c2 = sm.map %q, %c, %s { math.fma };  advance
         An A of tf32 with M contiguous is loaded to registers, which transposes it. No group is in flight while the
         registers are written:
             %full, %a, %b = sm.consumer_wait %ring[%r, %rp];  %fa = sm.load_shared %a at [0, 0] by "ld.shared.4" trans
             %p = sm.wgmma tn %fa, %b, %c;  %c2, %retired = sm.mma_wait 0, %p
             sm.consumer_release %ring, %full after %retired;  advance
         Layouts nn, nt and tt likewise. Blocks of 64 rows of M go round-robin to the warpgroups: with n warpgroups,
         each takes every n-th block.
Needs    level atoms, roles; a schedule whose mma is wgmma.
Refuses  an atom that the target lacks; a tile that the tiled mma does not divide; a loop of another form.
Test     test/lit/passes/atoms/bind-wgmma.mlir, bind-wgmma-{promote,tail,weights,held,invalid}.mlir,
         test/interpreter/test_weights_wgmma.py, test_tf32.py
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import gemm_layout, operand_kind
from lowtide.dialects.levels import Level
from lowtide.dialects.sm.timing import keep_timing
from lowtide.dialects.tile import GemmLayout
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.agents.atoms import fragment_type, mma_atom_name, tiled_mma, tiled_mma_attr, with_held_a
from lowtide.passes.support.ir.builder import Builder, constant_of
from lowtide.passes.support.ir.rewriting import before, defining_op, erase, erase_if_unused, ops_in, uses
from lowtide.passes.support.problem.kernels import kernels_by_issuer, main_loop, problem_of, schedule_of
from lowtide.passes.support.problem.matrix_layouts import k_is_last
from lowtide.passes.support.problem.operand_kinds import SCALES
from lowtide.passes.support.streams.operand_loads import operand_load
from lowtide.passes.support.streams.promotion import add_promoted, load_factors
from lowtide.passes.support.streams.weight_loads import load_zero_points, weight_load
from lowtide.passes.support.work.partial_sums import bind_shares, bind_sums
from lowtide.targets import Target, TiledMma

_STEPS_AHEAD = 2


@dataclass(frozen=True)
class BindWgmma(Pass):
    """Replaces tile.mma by wgmma."""

    name: ClassVar[str] = "bind-wgmma"
    needs: ClassVar[Level] = Level.ATOMS
    gives: ClassVar[Level] = Level.ATOMS

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in kernels_by_issuer(module, warpgroups=True):
            schedule = schedule_of(kernel)
            for mma in walk(kernel, tile.MmaOp):
                problem = problem_of(kernel)
                try:
                    target.mma(mma_atom_name(schedule, problem))
                    with mma.operation.location:
                        _bind(mma, tiled_mma(schedule, problem))
                        bind_shares(kernel, tiled_mma(schedule, problem))
                except (ScheduleError, TargetError) as error:
                    raise Refusal(mma, str(error)) from error


def _bind(mma: tile.MmaOp, tiled: TiledMma) -> None:
    found = _Loop.match(mma)
    loop = found.loop
    shape = tuple(mma.acc.type.shape)
    fragment = fragment_type(tiled.tv("c", shape), shape, mma.acc.type.element_type)
    attribute = tiled_mma_attr(tiled)
    bind_sums(loop.results[0], fragment)
    with before(loop):
        zero = sm.SplatOp(fragment, found.splat.value).result
        if mma.weights:
            results = _converted(found, zero, with_held_a(tiled))
        elif tiled.atom.holds_a(k_is_last(gemm_layout(mma))):
            results = _loaded(found, zero, with_held_a(tiled))
        else:
            results = _promoted(found, zero, attribute) if found.promote else _overlapped(found, zero, attribute)
    for old, value in zip(loop.results, results, strict=True):
        old.replace_all_uses_with(value)
    erase(loop)
    erase_if_unused(found.splat)


@dataclass(frozen=True)
class _Loop:
    """A consumer's loop over K as pipeline-mainloop leaves it."""

    loop: scf.ForOp
    mma: tile.MmaOp
    promote: tile.PromoteOp | None
    splat: tile.SplatOp
    wait: sm.ConsumerWaitOp
    prefixes: dict[ir.Value, sm.PrefixOp]
    windows: list[ir.OpView]  # those of scales and zero points, and where they begin

    @classmethod
    def match(cls, mma: tile.MmaOp) -> "_Loop":
        loop = main_loop(mma)
        windows = [op for op in ops_in(loop.body) if _is_of_window(op)]
        body = [op for op in ops_in(loop.body) if not _is_of_window(op)]
        prefixes = {op.source: op for op in body if isinstance(op, sm.PrefixOp)}
        promote = next((op for op in body if isinstance(op, tile.PromoteOp)), None)
        multiply = [tile.MmaOp] if promote is None else [tile.MmaOp, tile.PromoteOp]
        forms = [sm.ConsumerWaitOp, *multiply, sm.ConsumerReleaseOp, sm.RingAdvanceOp]
        if [type(op) for op in body if not isinstance(op, sm.PrefixOp)] != forms or len(loop.initArgs) != 3:
            raise Refusal(loop, "must wait, multiply, release and advance, as pipeline-mainloop leaves it [wgmma-loop]")
        if constant_of(loop.lowerBound) != 0 or constant_of(loop.step) != 1:
            raise Refusal(loop, "must count its K steps from 0 by 1: the first is taken out of it [wgmma-steps]")
        splat = defining_op(loop.initArgs[0])
        if not isinstance(splat, tile.SplatOp) or splat.value.value:
            raise Refusal(loop, "must start from tile.splat 0.0: wgmma clears its accumulators [wgmma-clears]")
        if promote is not None and (mma.acc != splat.result or promote.partial != mma.result):
            raise Refusal(promote, "must add a sum that starts from zero, the loop's [wgmma-sum]")
        return cls(loop, mma, promote, splat, body[0], prefixes, windows)

    def wait_for(self, slot: ir.Value, phase: ir.Value) -> sm.ConsumerWaitOp:
        """The loop's wait, for another slot."""
        return sm.ConsumerWaitOp(self.wait.ring, slot, phase, loc=self.wait.operation.location)

    def release(self, slot: ir.Value, retired: ir.Value) -> None:
        """The loop's release, of another slot, after the products that read it."""
        release = next(op for op in ops_in(self.loop.body) if isinstance(op, sm.ConsumerReleaseOp))
        sm.ConsumerReleaseOp(self.wait.ring, slot, retired=retired, loc=release.operation.location)

    def operands(self, slot: sm.ConsumerWaitOp) -> list[ir.Value]:
        """What is read of a slot: A's and B's buffers, then those of staged scales, or prefixes of them."""
        found = []
        for own, buffer in zip(self.wait.buffers, slot.buffers, strict=True):
            prefix = self.prefixes.get(own)
            found.append(buffer if prefix is None else sm.PrefixOp(prefix.result.type, buffer).result)
        return found

    def windows_at(self, step: ir.Value) -> dict[ir.Value, ir.Value]:
        """The windows of another K step, by those of the loop's; of scales of blocks where they begin."""
        moved = {self.loop.induction_variable: step}
        for op in self.windows:
            if isinstance(op, tile.ViewOp) and operand_kind(op) in SCALES:
                continue
            clone = op.operation.clone()
            for number, operand in enumerate(clone.operands):
                clone.operands[number] = moved.get(operand, operand)
            moved[op.operation.results[0]] = clone.results[0]
        return moved

    def _in_slot(self, op: ir.OpView) -> bool:
        """Whether an op is a window of scales in a slot's buffer."""
        return isinstance(op, tile.ViewOp) and op.source in self._read_of(self.wait.buffers)

    @property
    def stages_scales(self) -> bool:
        """Whether scales lie in the slots."""
        return any(map(self._in_slot, self.windows))

    def scales(
        self, step: ir.Value, type_: sm.FragmentType, buffers: Sequence[ir.Value] | None = None
    ) -> list[ir.Value]:
        """The loads of the scales of rows and of columns of a K step, from a slot's `buffers` or, without them, from
        global memory; none if they lie in the other."""
        if self.promote is None or self.promote.rows is None or self.stages_scales != (buffers is not None):
            return []
        held = {} if buffers is None else dict(zip(self._read_of(self.wait.buffers), buffers, strict=True))
        moved, found = self.windows_at(step), []
        for window in (self.promote.rows, self.promote.columns):
            view = defining_op(window)
            if not isinstance(view, tile.ViewOp) or (held and view.source not in held):
                raise Refusal(
                    self.promote,
                    "one scale is a window of the slot's buffers and the other is not; take both from the slot"
                    " [scales-of-slot]",
                )
            source, offsets = held.get(view.source, view.source), (moved.get(offset, offset) for offset in view.offsets)
            found.append(
                sm.LoadScalesOp(type_, operand_kind(view), source, *offsets, loc=view.operation.location).result
            )
        return found

    def _read_of(self, buffers: Iterable[ir.Value]) -> list[ir.Value]:
        """What the loop reads of its slot's buffers: these, or prefixes of them."""
        return [self.prefixes[buffer].result if buffer in self.prefixes else buffer for buffer in buffers]


def _is_of_window(op: ir.OpView) -> bool:
    return isinstance(op, tile.ViewOp) or op.operation.name.startswith("arith.")


def _overlapped(found: _Loop, zero: ir.Value, attribute: sm.TiledMmaAttr) -> tuple[ir.Value, ...]:
    """One group in flight while the next is issued; the accumulator, slot and phase after the loop."""
    loop, ring, layout = found.loop, found.wait.ring, found.mma.layout
    pending = sm.PendingType.get(zero.type)
    slot, phase = loop.initArgs[1], loop.initArgs[2]
    first = found.wait_for(slot, phase)
    started = sm.WgmmaOp(pending, layout, *found.operands(first), zero, attribute).result
    after = sm.RingAdvanceOp(ring, slot, phase)
    inits = [started, first.slot, after.next_index, after.next_phase]
    new = scf.ForOp(Builder.index().constant(1), loop.upperBound, loop.step, inits)
    keep_timing(loop, new)
    with ir.InsertionPoint(new.body):
        acc, held, slot, phase = new.inner_iter_args
        following = found.wait_for(slot, phase)
        issued = sm.WgmmaOp(pending, layout, *found.operands(following), acc, attribute).result
        waited = sm.MmaWaitOp(pending, sm.RetiredType.get(), 1, issued)
        found.release(held, waited.retired)
        advance = sm.RingAdvanceOp(ring, slot, phase)
        scf.YieldOp([waited.result, following.slot, advance.next_index, advance.next_phase])
    acc, held, slot, phase = new.results
    with before(_first_reader(loop)):  # what is between runs while the last group is in flight
        done = sm.MmaWaitOp(zero.type, sm.RetiredType.get(), 0, acc)
        found.release(held, done.retired)
    return done.result, slot, phase


def _loaded(found: _Loop, zero: ir.Value, tiled: TiledMma) -> tuple[ir.Value, ...]:
    """The accumulator, slot and phase after a loop that loads A to registers, which transposes it. The next K step of A
    is loaded when the products that read these registers are done. Meanwhile other consumers multiply."""
    loop, ring = found.loop, found.wait.ring

    def step(acc: ir.Value, slot: ir.Value, phase: ir.Value) -> list[ir.Value]:
        wait = found.wait_for(slot, phase)
        a, b = found.operands(wait)
        depth, rows = ir.MemRefType(a.type).shape
        held = operand_load(a, [0, 0], tiled, "a", (rows, depth), trans=True)
        pending, layout = sm.PendingType.get(zero.type), GemmLayout.tn  # a fragment is M×K
        issued = sm.WgmmaOp(pending, layout, held, b, acc, tiled_mma_attr(tiled)).result
        done = sm.MmaWaitOp(zero.type, sm.RetiredType.get(), 0, issued)
        found.release(wait.slot, done.retired)
        advance = sm.RingAdvanceOp(ring, slot, phase)
        return [done.result, advance.next_index, advance.next_phase]

    first = step(zero, *list(loop.initArgs)[1:])  # it clears the accumulators
    new = scf.ForOp(Builder.index().constant(1), loop.upperBound, loop.step, first)
    keep_timing(loop, new)
    with ir.InsertionPoint(new.body):
        scf.YieldOp(step(*new.inner_iter_args))
    return tuple(new.results)


def _promoted(found: _Loop, zero: ir.Value, attribute: sm.TiledMmaAttr) -> tuple[ir.Value, ...]:
    """Each K step is summed from zero, waited for and added; the sum, slot and phase after the loop.

    The tensor cores are not idle meanwhile: other consumers multiply.
    """
    loop, ring = found.loop, found.wait.ring
    new = scf.ForOp(loop.lowerBound, loop.upperBound, loop.step, [zero, *list(loop.initArgs)[1:]])
    keep_timing(loop, new)
    with ir.InsertionPoint(new.body):
        total, slot, phase = new.inner_iter_args
        scales = found.scales(new.induction_variable, zero.type)  # in flight while the slot is waited for
        wait = found.wait_for(slot, phase)
        buffers = found.operands(wait)
        scales = scales or found.scales(new.induction_variable, zero.type, buffers)
        named = dict(zip(("rows", "columns"), scales, strict=bool(scales)))
        added = sm.WgmmaPromoteOp(found.mma.layout, *buffers[:2], total, attribute, **named)
        found.release(wait.slot, added.retired)
        advance = sm.RingAdvanceOp(ring, slot, phase)
        scf.YieldOp([added.result, advance.next_index, advance.next_phase])
    return tuple(new.results)


def _converted(found: _Loop, zero: ir.Value, tiled: TiledMma) -> tuple[ir.Value, ...]:
    """Each K step is summed from zero, of weights that the threads convert; the sum, slot and phase after the loop."""
    loop, ring, mma, promote = found.loop, found.wait.ring, found.mma, found.promote
    if promote is None:
        raise Refusal(
            mma,
            "multiplies packed weights, whose K steps are summed one by one: take promote = per_step [weights-summed]",
        )
    pending, attribute = sm.PendingType.get(zero.type), tiled_mma_attr(tiled)
    groups = _Groups(found, zero.type, tiled)
    first = [groups.at(Builder.index().constant(step)) for step in range(_STEPS_AHEAD)]
    carried = [value for each in first for value in each.values()]
    new = scf.ForOp(loop.lowerBound, loop.upperBound, loop.step, [zero, *list(loop.initArgs)[1:], *carried])
    keep_timing(loop, new)
    with ir.InsertionPoint(new.body):
        total, slot, phase, *carried = new.inner_iter_args
        of_group = dict(zip(first[0], carried, strict=False))
        factors, zeros = of_group.get("factors"), of_group.get("zeros")
        carried = [
            *carried[len(of_group) :],
            *groups.at(Builder.index().add(new.induction_variable, _STEPS_AHEAD)).values(),
        ]
        wait = found.wait_for(slot, phase)
        a, b = found.operands(wait)
        converted = weight_load(a, mma.weights.value, zeros, tiled, "a")
        issued = sm.WgmmaOp(pending, mma.layout, converted.result, b, zero, attribute).result
        done = sm.MmaWaitOp(zero.type, sm.RetiredType.get(), 0, issued)
        found.release(wait.slot, done.retired)
        added = add_promoted(done.result, total, factors)
        advance = sm.RingAdvanceOp(ring, slot, phase)
        scf.YieldOp([added, advance.next_index, advance.next_phase, *carried])
    return tuple(new.results)[:3]


@dataclass(frozen=True)
class _Groups:
    """What groups of weights have: factors, zero points."""

    found: _Loop
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
