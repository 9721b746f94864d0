"""swap-operands: compute Dᵀ = Bᵀ · Aᵀ in place of D = A · B, where the schedule says so.

Before   tile.gemm tt %a, %b into %d acc(f32) operands(per_column %bias : …) schedule(<grid = <operands = swapped, …>>)
           : memref<MxKxT>, memref<KxNxT>, memref<MxNxT, strided<[1, ?]>>
After    tile.gemm nn %b, %a into %d swapped acc(f32) operands(per_row %bias : …) schedule(…)
           : memref<KxNxT>, memref<MxKxT>, memref<NxMxT, strided<[?, 1]>>
         No element moves: B, as it lies, is the A of the product, and full results and operands are seen with their
         dimensions exchanged, by the function's arguments; the batch stays first. tn and nt stay, tt and nn change
         places; per_row and per_column change places; the region, which is of single elements, stays. The schedule
         is of the new product. If D lies by rows, the kernel sees it by columns (strided<[1, ?]>). Packed weights
         become A.
Needs    level problem, with a complete schedule; full results and full operands are arguments of the function.
Refuses  a full result, or a full operand, that is no argument of its function, or that another op reads.
Test     test/lit/passes/problem/swap-operands.mlir, swap-operands-invalid.mlir, test/interpreter/test_swapped.py
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import tile
from lowtide.dialects.enums import gemm_layout, operand_kinds, result_kinds, whole_results
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import OperandKind, OperandsKind
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.rewriting import before, erase
from lowtide.passes.support.problem.attributes import keep_asked
from lowtide.passes.support.problem.kernels import schedule_if_any
from lowtide.passes.support.problem.matrix_layouts import swapped_layout
from lowtide.passes.support.problem.operand_kinds import swapped_kind, swapped_result
from lowtide.targets import Target


@dataclass(frozen=True)
class SwapOperands(Pass):
    """Exchanges A and B of each tile.gemm whose schedule asks for it and that is not swapped yet."""

    name: ClassVar[str] = "swap-operands"
    needs: ClassVar[Level] = Level.PROBLEM
    gives: ClassVar[Level] = Level.PROBLEM

    def run(self, module: ir.Module, target: Target) -> None:
        for gemm in walk(module, tile.GemmOp):
            schedule = schedule_if_any(gemm)
            if schedule is not None and schedule.grid.operands is OperandsKind.swapped and not gemm.swapped:
                _swap(gemm)


def _swap(gemm: tile.GemmOp) -> None:
    keep_asked(gemm)
    kinds = operand_kinds(gemm)
    full = [value for value, kind in zip(gemm.epilogue_operands, kinds, strict=True) if kind is OperandKind.full]
    for matrix in dict.fromkeys([*whole_results(gemm), *full]):
        _transpose(gemm, matrix)
    with before(gemm), gemm.operation.location:
        swapped = tile.GemmOp(
            swapped_layout(gemm_layout(gemm)),
            gemm.b,
            gemm.a,
            list(gemm.outs),
            [swapped_result(kind) for kind in result_kinds(gemm)],
            gemm.acc,
            list(gemm.epilogue_operands),
            kinds=[swapped_kind(kind) for kind in kinds],
            schedule=gemm.schedule,
            swapped=True,
            fast=gemm.fast,
            precision=gemm.precision,
            weights=gemm.weights,
            group=gemm.group,
        )
    gemm.epilogue.blocks[0].append_to(swapped.epilogue)
    erase(gemm)


def _transpose(gemm: tile.GemmOp, matrix: ir.Value) -> None:
    """Give an argument of the function the type of the same matrix with its dimensions exchanged."""
    block = matrix.owner
    if not isinstance(block, ir.Block) or any(use.owner != gemm.operation for use in matrix.uses):
        raise Refusal(
            gemm,
            "exchanges the dimensions of D and of full operands, which must be arguments that it alone reads"
            " [swapped-arguments]",
        )
    type_ = ir.MemRefType(matrix.type)
    strides, offset = type_.get_strides_and_offset()
    *batch, rows, columns = range(type_.rank)
    shape, strides = ([values[dim] for dim in (*batch, columns, rows)] for values in (type_.shape, strides))
    layout = ir.StridedLayoutAttr.get(offset, strides)
    matrix.set_type(ir.MemRefType.get(shape, type_.element_type, layout))
    types = [argument.type for argument in block.arguments]
    block.owner.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
