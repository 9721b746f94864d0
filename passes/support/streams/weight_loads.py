"""Loads of packed weights from a stage, and their conversion to the fragment of an mma's A or B."""

from collections.abc import Callable
from typing import TypeGuard

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.elements import WEIGHT_BLOCK, element_of_ir
from lowtide.passes.support.agents.atoms import fragment_type
from lowtide.passes.support.ir.rewriting import defining_op
from lowtide.passes.support.streams.weights import WEIGHT_LOAD, packed_tv
from lowtide.targets import TiledMma
from lowtide.targets.atoms import Operand


def per_byte_of(weights: ir.Type) -> int:
    """The number of packed weights of an MLIR type in a byte."""
    row = element_of_ir(weights)
    assert row is not None
    return row.per_byte


def weight_load(
    buffer: ir.Value, weights: ir.Type, zeros: ir.Value | None, tiled: TiledMma, operand: Operand
) -> sm.UnpackWeightsOp:
    """The fragment of a whole stage of packed weights, A or B of a tiled mma: its bytes, converted.

    `zeros`: the zero points, from `load_zero_points`. Raises ScheduleError if the tiled mma does not give a thread both
    weights of a byte.
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
    with window.location:
        return sm.LoadGlobalOp(held, step.result, "ld.global.1").result


def packed_load(buffer: ir.Value, k: int, depth: int, tiled: TiledMma, operand: Operand, weights: ir.Type) -> ir.Value:
    """The load of the bytes of K from `k` to `k + depth`, in whole blocks."""
    held, per_byte = ir.MemRefType(buffer.type).shape[0], per_byte_of(weights)
    tv = packed_tv(tiled, operand, held * per_byte, per_byte, depth)
    packed = fragment_type(tv, (held, depth), ir.MemRefType(buffer.type).element_type)
    return sm.LoadSharedOp(packed, buffer, WEIGHT_LOAD, offsets=[0, k]).result


def is_weight_load(op: object) -> TypeGuard[sm.UnpackWeightsOp]:
    """Whether an op is the conversion of a whole stage of weights that `weight_load` makes."""
    return isinstance(op, sm.UnpackWeightsOp) and isinstance(defining_op(op.packed), sm.LoadSharedOp)


def weight_slices(whole: sm.UnpackWeightsOp, tiled: TiledMma) -> Callable[[int, int], ir.Value]:
    """The fragments of K columns [k, k + step) of packed weights, B of an mma: the bytes of a block are loaded once."""
    weights, buffer, type_ = ir.TypeAttr(whole.weights).value, whole.packed.owner.opview.source, whole.result.type
    blocks: dict[int, ir.Value] = {}

    def at(k: int, step: int) -> ir.Value:
        first = k // WEIGHT_BLOCK * WEIGHT_BLOCK
        if first not in blocks:
            blocks[first] = packed_load(buffer, first, WEIGHT_BLOCK, tiled, "b", weights)
        shape = (type_.shape[0], step)
        result = fragment_type(tiled.tv("b", shape), shape, type_.element_type)
        return sm.UnpackWeightsOp(result, blocks[first], k - first, weights, zeros=whole.zeros).result

    return at
