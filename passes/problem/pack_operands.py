"""pack-operands: matrices that may lie unaligned are read and written as matrices with aligned rows.

Before   tile.gemm tn %a, %b into %d …, schedule with mainloop.a.pack = rows and epilogue.pack = rows
After    %0 = tile.pack %a align(16)
         %1 = tile.pack %d align(16) uninitialized
         tile.gemm tn %0, %b into %1 …
         tile.unpack %1 into %d
         The alignment is what the schedule's copies need: 16 bytes for TMA. TMA stores whole 16 bytes, so with
         epilogue.path = tma D is packed where its rows are no multiple of 16 bytes long either (whole_rows).

Before   tile.gemm nn %a, %b into %d …, schedule with mainloop.a.pack = transposed
         : memref<KxMxT>, memref<NxKxT>, memref<MxNxT>
After    %0 = tile.pack %a transposed align(16) : memref<KxMxT> to memref<MxKxT>
         tile.gemm tn %0, %b into %d …

Before   tile.gemm tn %a, %b into %d row_scale(%sa : …) column_block_scale(%sb : …) …, schedule with scales = staged
After    %0 = tile.pack %sa align(16);  %1 = tile.pack %sb align(16)
         tile.gemm tn %a, %b into %d row_scale(%0 : …) column_block_scale(%1 : …) …
Needs    level problem, with a complete schedule. A matrix that is packed already, or split, is left alone, and so is
         one whose elements are as wide as the alignment, and one without elements.
Refuses  nothing: the rules of the schedule hold.
Test     test/lit/passes/problem/pack-operands.mlir, test/interpreter/test_packing.py, test_transposing.py
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import tile
from lowtide.dialects.enums import layout_attribute, result_kinds
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import ResultKind, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Pass, walk
from lowtide.passes.schedules.facts.alignment import (
    is_packed,
    is_packed_transposed,
    moved_alignment,
    multiplied,
)
from lowtide.passes.support.ir.rewriting import after, before, defining_op
from lowtide.passes.support.problem.attributes import keep_asked
from lowtide.passes.support.problem.element_types import element_bits, element_name
from lowtide.passes.support.problem.operand_kinds import SCALES
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.streams import ALIGNMENT
from lowtide.passes.support.streams.workspaces import pack
from lowtide.targets import Target


@dataclass(frozen=True)
class PackOperands(Pass):
    """Puts tile.pack before each tile.gemm, and tile.unpack behind it, where its schedule asks for it."""

    name: ClassVar[str] = "pack-operands"
    needs: ClassVar[Level] = Level.PROBLEM
    gives: ClassVar[Level] = Level.PROBLEM

    def run(self, module: ir.Module, target: Target) -> None:
        for gemm in walk(module, tile.GemmOp):
            if gemm.schedule is not None:
                with gemm.operation.location:
                    _pack(gemm, Schedule.of(gemm.schedule), Problem.of(gemm))


def _pack(gemm: tile.GemmOp, schedule: Schedule, problem: Problem) -> None:
    """Replaces operands of a tile.gemm: A and B, its results, and what its epilogue reads. A matrix is transposed if
    its K is not contiguous yet."""
    operands, wanted = gemm.operation.operands, multiplied(schedule, problem)
    if wanted.layout != problem.layout:
        keep_asked(gemm)
    for position, name in enumerate(("a", "b")):
        is_turned = name in (wanted.transposed or "") and name not in (problem.transposed or "")
        if is_turned or (is_packed(name, schedule) and not is_packed_transposed(name, schedule)):
            align = moved_alignment(name, schedule, problem)
            operands[position] = _packed(gemm, operands[position], align, transposed=is_turned)
    gemm.attributes["layout"] = layout_attribute(wanted.layout)
    if schedule.stages_scales:
        for position, operand_kind in enumerate(problem.kinds, 2 + len(gemm.outs)):
            if operand_kind in SCALES:
                operands[position] = _packed(gemm, operands[position], ALIGNMENT)
    if not is_packed("d", schedule):
        return
    whole_rows = schedule.epilogue.path is StorePath.tma
    for position, (result, kind) in enumerate(zip(list(gemm.outs), result_kinds(gemm), strict=True), 2):
        if kind is ResultKind.full:
            dtype = element_name(ir.MemRefType(result.type).element_type)
            align = moved_alignment("d", schedule, problem.of_result(dtype))
            operands[position] = output = _packed(gemm, result, align, whole_rows=whole_rows)
            if output != result:
                with after(gemm):
                    tile.UnpackOp(output, result)


def _packed(
    gemm: tile.GemmOp, matrix: ir.Value, align: int, *, transposed: bool = False, whole_rows: bool | None = None
) -> ir.Value:
    """The matrix that takes the place of one, made before the gemm; the matrix itself if a copy has no use.

    `whole_rows` is given for a matrix that is written: whether its rows must be of whole units.
    """
    type_ = ir.MemRefType(matrix.type)
    is_empty, element_bytes = 0 in type_.shape, element_bits(type_.element_type) // 8
    is_made = isinstance(defining_op(matrix), tile.PackOp)
    if not transposed and (is_empty or is_made or align <= element_bytes):
        return matrix
    with before(gemm):
        written = whole_rows is not None
        return pack(matrix, align, transposed=transposed, whole_rows=bool(whole_rows), uninitialized=written)
