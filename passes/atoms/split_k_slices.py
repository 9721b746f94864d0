"""split-k-slices: split every mma along K into steps of one atom, each with its own fragments.

Before   %fa = sm.ldmatrix %a[0, 0] … to !sm.fragment<128x32xbf16, #tv>; %fb = …
         %c2 = sm.mma_sync %fa, %fb, %c by #tiled_mma
After    %fa0 = sm.ldmatrix %a[0, 0] … to !sm.fragment<128x16xbf16, #tv2>; %fb0 = …
         %c1 = sm.mma_sync %fa0, %fb0, %c by #tiled_mma
         %fa1 = sm.ldmatrix %a[0, 16] …; %fb1 = …
         %c2 = sm.mma_sync %fa1, %fb1, %c1 by #tiled_mma
         so that a fragment is in registers for one slice only. Packed weights come in blocks of two slices:
         %p = sm.load_shared %b at [0, 0] … to !sm.fragment<64x32xui8, #tv3>
         %fb0 = sm.unpack_weights %p at 0 of si4 …; %fb1 = sm.unpack_weights %p at 16 of si4 …
Needs    level atoms: operands that come from sm.ldmatrix or sm.load_shared, or by sm.load_global from a tile.view.
Refuses  an mma.sync whose operands do not; a K that is not whole slices.
Test     test/lit/passes/atoms/split-k-slices.mlir, split-k-slices-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.atoms import tiled_mma_of
from lowtide.passes.support.builder import Builder
from lowtide.passes.support.operand_loads import global_operand_load, is_operand_load, operand_load
from lowtide.passes.support.rewriting import before, defining_op, erase_if_unused, replace
from lowtide.passes.support.weight_loads import WeightSlices, is_weight_load
from lowtide.targets import Target, TiledMma
from lowtide.targets.atoms import Operand


@dataclass(frozen=True)
class SplitKSlices(Pass):
    """Splits each sm.mma_sync into one for each k-slice."""

    name: ClassVar[str] = "split-k-slices"
    needs: ClassVar[Level] = Level.ATOMS
    gives: ClassVar[Level] = Level.ATOMS

    def run(self, module: ir.Module, target: Target) -> None:
        for mma in walk(module, sm.MmaSyncOp):
            loads = [defining_op(operand) for operand in (mma.a, mma.b)]
            for name, load in zip("AB", loads, strict=True):
                if not (is_operand_load(load) or is_weight_load(load) or isinstance(load, sm.LoadGlobalOp)):
                    raise Refusal(
                        mma,
                        f"operand {name} must come from sm.ldmatrix, sm.load_shared or sm.load_global [sliced-operand]",
                    )
            try:
                with mma.operation.location:
                    _split(mma, loads[0], loads[1])
            except (ScheduleError, TargetError) as error:
                raise Refusal(mma, str(error)) from error


def _split(mma: sm.MmaSyncOp, load_a: ir.OpView, load_b: ir.OpView) -> None:
    tiled = tiled_mma_of(mma.mma)
    depth, step = mma.a.type.shape[1], tiled.tile_mnk[2]
    if depth == step:
        return
    if depth % step:
        raise Refusal(mma, f"K = {depth} is not a multiple of {step}, one step of the tiled mma [slice-depth]")
    acc = mma.acc
    weights = WeightSlices(load_b, tiled) if is_weight_load(load_b) else None
    with before(mma):
        for k in range(0, depth, step):
            fa = _slice(load_a, "a", tiled, k, step)
            fb = _slice(load_b, "b", tiled, k, step) if weights is None else weights.slice(k, step)
            acc = sm.MmaSyncOp(fa, fb, acc, mma.mma).result
    replace(mma, [acc])
    erase_if_unused(load_a)
    erase_if_unused(load_b)
    if weights is not None:
        erase_if_unused(weights.load)


def _slice(load: ir.OpView, operand: Operand, tiled: TiledMma, k: int, step: int) -> ir.Value:
    """The load of K columns [k, k + step) of the fragment."""
    trans = bool(load.trans)
    rows = load.result.type.shape[0]
    if isinstance(load, sm.LoadGlobalOp):
        return global_operand_load(_narrowed(load, k, step), load.atom.value, tiled, operand, (rows, step), trans)
    row0, column0 = load.offsets
    offsets = [row0 + k, column0] if trans else [row0, column0 + k]
    return operand_load(load.source, offsets, tiled, operand, (rows, step), trans)


def _narrowed(load: sm.LoadGlobalOp, k: int, step: int) -> ir.Value:
    """The part of a load's window that has `step` of K from `k` on."""
    view = defining_op(load.source)
    if not isinstance(view, tile.ViewOp):
        raise Refusal(load, "must read a window of tile.view [sliced-window]")
    dim = -2 if load.trans else -1  # behind the number of the matrix in a batch
    offsets, shape = list(view.offsets), list(view.result.type.shape)
    offsets[dim], shape[dim] = Builder.index().add(offsets[dim], k), step
    window = tile.ViewType.get(shape, view.result.type.element_type)
    return tile.ViewOp(window, view.source, offsets).result
