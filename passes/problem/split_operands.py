"""split-operands: a product of wide numbers becomes the product of their pieces, side by side along K.

Before   tile.gemm nt %a, %b into %d acc(f32 by tf32x3) : memref<KxMxf32>, memref<KxNxf32>, memref<MxNxf32>
After    %0 = tile.pack %a transposed pieces(left of tf32x3) align(16) : memref<KxMxf32> to memref<MxK'xtf32>
         %1 = tile.pack %b transposed pieces(right of tf32x3) align(16) : memref<KxNxf32> to memref<NxK'xtf32>
         tile.gemm tn %0, %1 into %d acc(f32 by tf32x3) : memref<MxK'xtf32>, memref<NxK'xtf32>, …
         K' is that of all products of pieces, one behind the other. Pieces lie with K contiguous, in whatever layout
         the elements do. What follows is a product as any other, whose sums are promoted.
Needs    level problem. A tile.gemm whose operands have the type of pieces already is left alone.
Refuses  operands of another type than that whose products the sum is of.
Test     test/lit/passes/problem/split-operands.mlir, split-operands-invalid.mlir, test/interpreter/test_split.py
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.decompositions import UNIT_BYTES, Decomposition
from lowtide.dialects import tile
from lowtide.dialects.enums import gemm_layout, operand_kinds
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import GemmLayout, Side
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.rewriting import before, erase
from lowtide.passes.support.problem.attributes import keep_asked
from lowtide.passes.support.problem.element_types import element_name
from lowtide.passes.support.problem.matrix_layouts import a_is_mk, b_is_nk
from lowtide.passes.support.problem.problem import decomposition_of
from lowtide.passes.support.streams.workspaces import pack
from lowtide.targets import Target


@dataclass(frozen=True)
class SplitOperands(Pass):
    """Puts tile.pack before each tile.gemm that is computed by products of pieces."""

    name: ClassVar[str] = "split-operands"
    needs: ClassVar[Level] = Level.PROBLEM
    gives: ClassVar[Level] = Level.PROBLEM

    def run(self, module: ir.Module, target: Target) -> None:
        for gemm in walk(module, tile.GemmOp):
            if gemm.precision is not None:
                _split(gemm, decomposition_of(gemm.precision))


def _split(gemm: tile.GemmOp, row: Decomposition) -> None:
    found = [element_name(ir.MemRefType(matrix.type).element_type) for matrix in (gemm.a, gemm.b)]
    if found == [row.piece] * 2:
        return
    if found != [row.whole] * 2:
        raise Refusal(gemm, f"by {row.name} is a product of {row.whole}, not of {' by '.join(found)} [split-types]")
    keep_asked(gemm)
    layout = gemm_layout(gemm)
    with before(gemm), gemm.operation.location:
        split = tile.GemmOp(
            GemmLayout.tn,
            pack(gemm.a, UNIT_BYTES, transposed=not a_is_mk(layout), pieces=(Side.left, row)),
            pack(gemm.b, UNIT_BYTES, transposed=not b_is_nk(layout), pieces=(Side.right, row)),
            list(gemm.outs),
            gemm.out_kinds,
            gemm.acc,
            list(gemm.epilogue_operands),
            kinds=operand_kinds(gemm),
            schedule=gemm.schedule,
            swapped=gemm.swapped,
            fast=gemm.fast,
            precision=gemm.precision,
        )
    gemm.epilogue.blocks[0].append_to(split.epilogue)
    erase(gemm)
