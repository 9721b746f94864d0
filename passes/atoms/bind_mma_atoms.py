"""bind-mma-atoms: bind every mma to the tiled mma of the schedule, and its operands to ldmatrix or ld.shared.

Before   %c2 = tile.mma tn %a, %b, %c : memref<…>, memref<…>, !tile.tile<128x128xf32>
After    %fa = sm.ldmatrix %a[0, 0] by "ldmatrix.x4" : memref<128x32xbf16, …> to !sm.fragment<128x32xbf16, #tv>
         %fb = sm.ldmatrix %b[0, 0] by "ldmatrix.x4" : memref<128x32xbf16, …> to !sm.fragment<128x32xbf16, #tv1>
         %c2 = sm.mma_sync %fa, %fb, %c by #sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 2, 1], …>
         The accumulator becomes a fragment wherever it goes: splat, loop, store. ldmatrix moves 16-bit elements; others
         come by sm.load_shared, in the widest loads for which a thread holds neighbours.
Needs    level pipelined; a complete schedule.
Refuses  an accumulator that does not start from tile.splat or end in tile.store; an atom that the target lacks.
Test     test/lit/passes/atoms/bind-mma-atoms.mlir, bind-mma-atoms-invalid.mlir
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
from lowtide.passes.support.atoms import (
    fragment_type,
    is_transposed,
    mma_atom_name,
    operand_load,
    tiled_mma,
    tiled_mma_attr,
)
from lowtide.passes.support.kernels import kernels_of, main_loop, problem_of, schedule_of
from lowtide.passes.support.partial_sums import bind_shares, bind_sums
from lowtide.passes.support.problem import Problem
from lowtide.passes.support.rewriting import before, defining_op, erase_if_unused, rebuild_loop, replace
from lowtide.targets import Target, TiledMma
from lowtide.targets.atoms import Operand


@dataclass(frozen=True)
class BindMmaAtoms(Pass):
    """Replaces tile.mma by loads of fragments and mma.sync."""

    name: ClassVar[str] = "bind-mma-atoms"
    needs: ClassVar[Level] = Level.PIPELINED
    gives: ClassVar[Level] = Level.ATOMS

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in kernels_of(module, roles=False):
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
    position = _carried_position(mma, loop)
    splat = defining_op(loop.initArgs[position])
    if not isinstance(splat, tile.SplatOp):
        raise Refusal(mma, "needs an accumulator that starts from tile.splat")
    with before(splat):
        zero = sm.SplatOp(accumulator, splat.value).result
    bind_sums(loop.results[position], accumulator)
    inits = [zero if i == position else init for i, init in enumerate(loop.initArgs)]
    new_loop = rebuild_loop(loop, inits, lambda carried: carried, lambda yielded: yielded)
    replace(loop, list(new_loop.results))
    _emit_fragments(mma, tiled, problem, new_loop.inner_iter_args[position])
    erase_if_unused(splat)


def _carried_position(mma: tile.MmaOp, loop: scf.ForOp) -> int:
    for position, argument in enumerate(loop.inner_iter_args):
        if argument == mma.acc:
            return position
    raise Refusal(mma, "needs an accumulator that its loop carries")


def _emit_fragments(mma: tile.MmaOp, tiled: TiledMma, problem: Problem, acc: ir.Value) -> None:
    """The loads of both operands, whole, and the mma.sync, in place of the tile.mma."""
    fragments = []
    operands: tuple[tuple[Operand, ir.Value], ...] = (("a", mma.a), ("b", mma.b))
    with before(mma):
        for operand, buffer in operands:
            stored = ir.MemRefType(buffer.type).shape
            trans = is_transposed(operand, problem.layout)
            shape = (stored[1], stored[0]) if trans else (stored[0], stored[1])
            fragments.append(operand_load(buffer, [0, 0], tiled, operand, shape, trans))
        product = sm.MmaSyncOp(*fragments, acc, tiled_mma_attr(tiled)).result
    replace(mma, [product])
