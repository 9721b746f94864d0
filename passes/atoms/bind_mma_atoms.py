"""bind-mma-atoms: bind every mma to the tiled mma of the schedule, and its operands to ldmatrix or ld.shared.

Before   %c2 = tile.mma tn %a, %b, %c : memref<…>, memref<…>, !tile.tile<128x128xf32>
After    %fa = sm.ldmatrix %a[0, 0] by "ldmatrix.x4" : memref<128x32xbf16, …> to !sm.fragment<128x32xbf16, #tv>
         %fb = sm.ldmatrix %b[0, 0] by "ldmatrix.x4" : memref<128x32xbf16, …> to !sm.fragment<128x32xbf16, #tv1>
         %c2 = sm.mma_sync %fa, %fb, %c by #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 2, 1], …>
         The accumulator becomes a fragment wherever it goes: splat, loop, store. ldmatrix moves 16-bit elements; others
         come by sm.load_shared, in the widest loads for which a thread holds neighbours. Windows of global memory come
         by sm.load_global, with the atom that the schedule names (a.copy = ld.global.16). Packed weights come as bytes,
         which sm.unpack_weights converts. Where sums are promoted, each K step starts from zero, and sm.map adds it:
           %s = sm.load_global %scales by "ld.global.2" : !tile.view<16x128xbf16> to !sm.fragment<16x128xbf16, #tv2>
           %p = sm.mma_sync %fa, %fb, %zero by …
           %c2 = sm.map %p, %c, %s { math.fma } : !sm.fragment<16x128xf32, #tv2>
         With several atoms along K (atoms = [2, 2, 2]) each multiplies its part of every K step, and sm.sum_over_k adds
         their accumulators after the loop.
Needs    level pipelined; a complete schedule.
Refuses  an accumulator that does not start from tile.splat or end in tile.store; an atom that the target lacks.
Test     test/lit/passes/atoms/bind-mma-atoms.mlir, bind-mma-atoms-{promote,weights,invalid}.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.schedules.facts.resources import multiplying_threads
from lowtide.passes.support.agents.atoms import (
    fragment_type,
    mma_atom_name,
    rows_of_part,
    tiled_mma,
    tiled_mma_attr,
)
from lowtide.passes.support.agents.clusters import OPERANDS
from lowtide.passes.support.ir.rewriting import after, before, defining_op, erase_if_unused, rebuild_loop, replace
from lowtide.passes.support.problem.kernels import kernels_by_issuer, main_loop, problem_of, schedule_of
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.operand_loads import load_operand
from lowtide.passes.support.streams.promotion import add_promoted, load_factors
from lowtide.passes.support.work.partial_sums import bind_shares, bind_sums
from lowtide.targets import Target, TiledMma


@dataclass(frozen=True)
class BindMmaAtoms(Pass):
    """Replaces tile.mma by loads of fragments and mma.sync."""

    name: ClassVar[str] = "bind-mma-atoms"
    needs: ClassVar[Level] = Level.PIPELINED
    gives: ClassVar[Level] = Level.ATOMS

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in kernels_by_issuer(module, warpgroups=False):
            schedule = schedule_of(kernel, "multiply.atom", "multiply.atoms", "multiply.permutation")
            for mma in walk(kernel, tile.MmaOp):
                problem = problem_of(kernel)
                try:
                    target.mma(mma_atom_name(schedule, problem))
                    with mma.operation.location:
                        _bind(mma, schedule, problem)
                        bind_shares(kernel, tiled_mma(schedule, problem))
                except (ScheduleError, TargetError) as error:
                    raise Refusal(mma, str(error)) from error


def _bind(mma: tile.MmaOp, schedule: Schedule, problem: Problem) -> None:
    tiled = tiled_mma(schedule, problem)
    rows, columns = mma.acc.type.shape
    accumulator = fragment_type(tiled.tv("c", (rows, columns)), (rows, columns), mma.acc.type.element_type)
    loop = main_loop(mma)
    promote = next((op for op in loop.body.operations if isinstance(op, tile.PromoteOp)), None)
    position = _carried_position(mma, promote, loop)
    splat = defining_op(loop.initArgs[position])
    if not isinstance(splat, tile.SplatOp):
        raise Refusal(mma, "needs an accumulator that starts from tile.splat [mma-starts-zero]")
    with before(splat):
        zero = sm.SplatOp(accumulator, splat.value).result
    bind_sums(loop.results[position], accumulator)
    inits = [zero if i == position else init for i, init in enumerate(loop.initArgs)]
    new_loop = rebuild_loop(loop, inits, lambda carried: carried, lambda yielded: yielded)
    results = list(new_loop.results)
    if tiled.atom_layout[2] > 1:
        with after(new_loop):
            results[position] = _sum_over_k(results[position], tiled, schedule, problem)
    replace(loop, results)
    total = new_loop.inner_iter_args[position]
    factors = None
    if promote is not None and promote.scale is not None:
        with before(mma):  # the products take the time that it takes to come
            factors = load_factors(promote.scale, accumulator)
    _emit_fragments(mma, tiled, schedule, problem, total if promote is None else zero)
    if promote is not None:
        with before(promote):
            added = add_promoted(promote.partial, total, factors)
        replace(promote, [added])
    erase_if_unused(splat)


def _sum_over_k(partial: ir.Value, tiled: TiledMma, schedule: Schedule, problem: Problem) -> ir.Value:
    """What the warps along K hold, added, in the rows in which the epilogue stores D."""
    shape = (partial.type.shape[0], partial.type.shape[1])
    rows = rows_of_part(shape, problem.acc, problem.widest, multiplying_threads(schedule), schedule.epilogue.store).rows
    result = fragment_type(rows.tv, shape, partial.type.element_type)
    return sm.SumOverKOp(result, partial, tiled_mma_attr(tiled)).result


def _carried_position(mma: tile.MmaOp, promote: tile.PromoteOp | None, loop: scf.ForOp) -> int:
    total = mma.acc if promote is None else promote.sum
    for position, argument in enumerate(loop.inner_iter_args):
        if argument == total:
            return position
    raise Refusal(mma, "needs an accumulator that its loop carries [mma-carried]")


def _emit_fragments(mma: tile.MmaOp, tiled: TiledMma, schedule: Schedule, problem: Problem, acc: ir.Value) -> None:
    """The loads of both operands, whole, and the mma.sync, in place of the tile.mma."""
    with before(mma):
        fragments = [
            load_operand(mma, name, tiled, problem.layout, str(schedule.mainloop.operand(name).copy))
            for name in OPERANDS
        ]
        product = sm.MmaSyncOp(*fragments, acc, tiled_mma_attr(tiled)).result
    replace(mma, [product])
