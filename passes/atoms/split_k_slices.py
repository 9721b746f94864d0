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

from lowtide.dialects import sm
from lowtide.dialects.levels import Level
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.agents.atoms import tiled_mma_of
from lowtide.passes.support.ir.rewriting import before, replace
from lowtide.passes.support.streams.operand_loads import erase_load, operand_slices
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
            try:
                with mma.operation.location:
                    _split(mma, tiled_mma_of(mma.mma))
            except (ScheduleError, TargetError) as error:
                raise Refusal(mma, str(error)) from error


def _split(mma: sm.MmaSyncOp, tiled: TiledMma) -> None:
    operands: tuple[tuple[Operand, ir.Value], ...] = (("a", mma.a), ("b", mma.b))
    slices = [operand_slices(value, name, tiled) for name, value in operands]
    depth, step = mma.a.type.shape[1], tiled.tile_mnk[2]
    for name, of in zip("AB", slices, strict=True):
        if of is None:
            raise Refusal(
                mma, f"operand {name} must come from sm.ldmatrix, sm.load_shared or sm.load_global [sliced-operand]"
            )
    if depth == step:
        return
    if depth % step:
        raise Refusal(mma, f"K = {depth} is not a multiple of {step}, one step of the tiled mma [slice-depth]")
    acc = mma.acc
    with before(mma):
        for k in range(0, depth, step):
            acc = sm.MmaSyncOp(*(of(k, step) for of in slices if of is not None), acc, mma.mma).result
    replace(mma, [acc])
    for _, value in operands:
        erase_load(value)
