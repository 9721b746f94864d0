"""The attribute `#tile.problem`, by which kernels and host functions carry the problem of their `tile.gemm`."""

from collections.abc import Sequence

from mlir import ir

from lowtide.dialects import tile
from lowtide.dialects.enums import gemm_layout, operand_kinds, result_kinds, whole_results
from lowtide.dialects.tile import GemmLayout, OperandKind, ResultKind
from lowtide.passes.support.problem.matrix_layouts import a_is_mk, b_is_nk, is_column_major
from lowtide.passes.support.problem.operand_kinds import ROW_INDICES


def problem_attribute(gemm: tile.GemmOp) -> tile.ProblemAttr:
    """`#tile.problem` of a tile.gemm."""
    a, b = _types_given(gemm)
    pairs = {"pairs": True, "interleaved": bool(gemm.interleaved)} if gemm.pairs else {}
    return tile.ProblemAttr.get(
        layout=gemm_layout(gemm),
        a=a,
        b=b,
        acc=ir.TypeAttr(gemm.acc).value,
        result_kinds=result_kinds(gemm),
        results=[_element(result.type) for result in gemm.outs],
        kinds=operand_kinds(gemm),
        operands=[_element(operand.type) for operand in gemm.epilogue_operands],
        empty=[letter for letter in "mnk" if letter in empty_extents(gemm)],
        swapped=bool(gemm.swapped),
        fast=bool(gemm.fast),
        by_columns=any(is_column_major(result.type) for result in whole_results(gemm)),
        group=int(gemm.group) if gemm.group else 0,
        precision=gemm.precision,
        **pairs,
        context=gemm.context,
    )


def problem_in_kernel(problem: tile.ProblemAttr, kinds: Sequence[ResultKind]) -> tile.ProblemAttr:
    """`#tile.problem` of a kernel whose results have these kinds; those of pairs of columns are the same."""
    if [str(kind) for kind in kinds] == list(problem.result_kinds):
        return problem
    names = ("a", "b", "acc", "results", "operands", "empty", "swapped", "fast", "by_columns", "group", "precision")
    same = {name: getattr(problem, name) for name in names}
    return tile.ProblemAttr.get(
        layout=GemmLayout[problem.layout],
        result_kinds=list(kinds),
        kinds=[OperandKind[kind] for kind in problem.kinds],
        context=problem.context,
        **same,
    )


def keep_asked(gemm: tile.GemmOp) -> None:
    """Records the problem that was asked for on the host function, unless it has one. A pass that changes the product
    calls this first."""
    function = gemm.operation.parent
    if "tile.problem" not in function.attributes:
        function.attributes["tile.problem"] = problem_attribute(gemm)


def empty_extents(gemm: tile.GemmOp) -> set[str]:
    """The extents among "m", "n" and "k" that are known to be 0."""
    layout, kinds = gemm_layout(gemm), operand_kinds(gemm)
    letters = (
        (gemm.a, "mk" if a_is_mk(layout) else "km"),
        (gemm.b, "nk" if b_is_nk(layout) else "kn"),
        *((result, "_n" if OperandKind.d_rows in kinds else "mn") for result in whole_results(gemm)),
        *((index, "m") for index, kind in zip(gemm.epilogue_operands, kinds, strict=True) if kind in ROW_INDICES),
    )
    return {
        letter
        for value, dims in letters
        for extent, letter in zip(ir.MemRefType(value.type).shape[-2:], dims, strict=True)
        if extent == 0 and letter in "mnk"
    }


def _types_given(gemm: tile.GemmOp) -> tuple[ir.Type, ir.Type]:
    """The element types of A and of B in memory. For packed weights: the type of a weight, not of its bytes."""
    a, b = _element(gemm.a.type), _element(gemm.b.type)
    if not gemm.weights:
        return a, b
    weights = ir.TypeAttr(gemm.weights).value
    return (weights, b) if gemm.swapped else (a, weights)


def _element(type_: ir.Type) -> ir.Type:
    """The element type of a matrix or a window; any other type is returned unchanged."""
    return type_.element_type if isinstance(type_, ir.MemRefType | tile.ViewType) else type_
