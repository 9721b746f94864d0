"""Loads of packed weights from a stage, and their conversion to the fragment of an mma's A or B."""

from typing import TypeGuard

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.elements import WEIGHT_BLOCK, element_of_ir
from lowtide.passes.support.atoms import fragment_type
from lowtide.passes.support.rewriting import defining_op
from lowtide.passes.support.weights import WEIGHT_LOAD, packed_tv
from lowtide.targets import TiledMma
from lowtide.targets.atoms import Operand


def per_byte_of(weights: ir.Type) -> int:
    """How many packed weights of an MLIR type a byte holds."""
    row = element_of_ir(weights)
    assert row is not None
    return row.per_byte


def weight_load(
    buffer: ir.Value, weights: ir.Type, zeros: ir.Value | None, tiled: TiledMma, operand: Operand
) -> sm.UnpackWeightsOp:
    """The fragment of a whole stage of packed weights, A or B of a tiled mma: its bytes, converted.

    `zeros`: the zero points, as `load_zero_points` gives them. Raises ScheduleError where the tiled mma does not give a
    thread both weights of a byte.
    """
    held, depth = ir.MemRefType(buffer.type).shape
    rows = held * per_byte_of(weights)
    packed = packed_load(buffer, 0, depth, tiled, operand, weights)
    result = fragment_type(tiled.tv(operand, (rows, depth)), (rows, depth), tiled.atom.dtype(operand))
    return sm.UnpackWeightsOp(result, packed, 0, weights, zeros=zeros)


def load_zero_points(window: ir.Value | None, tiled: TiledMma, operand: Operand) -> ir.Value | None:
    """The zero points of the rows that each thread has, for one step of a tiled mma along K; None without a window."""
    if window is None:
        return None
    view, rows, depth = window.owner.opview, window.type.shape[0], tiled.tile_mnk[2]
    element = window.type.element_type
    step = tile.ViewOp(tile.ViewType.get((rows, depth), element), view.source, list(view.offsets), kind=view.kind)
    held = fragment_type(tiled.tv(operand, (rows, depth)), (rows, depth), element)
    return sm.LoadGlobalOp(held, step.result, "ld.global.1").result


def packed_load(buffer: ir.Value, k: int, depth: int, tiled: TiledMma, operand: Operand, weights: ir.Type) -> ir.Value:
    """The bytes of `depth` of K, whole blocks, from `k` on."""
    held, per_byte = ir.MemRefType(buffer.type).shape[0], per_byte_of(weights)
    tv = packed_tv(tiled, operand, held * per_byte, per_byte, depth)
    packed = fragment_type(tv, (held, depth), ir.MemRefType(buffer.type).element_type)
    return sm.LoadSharedOp(packed, buffer, WEIGHT_LOAD, offsets=[0, k]).result


def is_weight_load(op: object) -> TypeGuard[sm.UnpackWeightsOp]:
    """Whether an op converts weights that come from a stage, whole, as `weight_load` makes it."""
    return isinstance(op, sm.UnpackWeightsOp) and isinstance(defining_op(op.packed), sm.LoadSharedOp)


class WeightSlices:
    """The slices along K of a fragment of packed weights, B of an mma: the bytes of a block are loaded once."""

    def __init__(self, whole: sm.UnpackWeightsOp, tiled: TiledMma) -> None:
        self.whole, self.tiled, self.weights = whole, tiled, ir.TypeAttr(whole.weights).value
        self.load = whole.packed.owner.opview
        self.blocks: dict[int, ir.Value] = {}

    def slice(self, k: int, step: int) -> ir.Value:
        """The fragment of K columns [k, k + step)."""
        first = k // WEIGHT_BLOCK * WEIGHT_BLOCK
        if first not in self.blocks:
            self.blocks[first] = packed_load(self.load.source, first, WEIGHT_BLOCK, self.tiled, "b", self.weights)
        rows, element = self.whole.result.type.shape[0], self.whole.result.type.element_type
        result = fragment_type(self.tiled.tv("b", (rows, step)), (rows, step), element)
        zeros = self.whole.zeros
        return sm.UnpackWeightsOp(result, self.blocks[first], k - first, self.weights, zeros=zeros).result
