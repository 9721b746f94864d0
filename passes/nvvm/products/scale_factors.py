"""The factors of products of wgmma as they are added: a row's scale times a column's."""

from mlir import ir
from mlir.dialects import arith, llvm, vector

from lowtide.dialects import sm
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.values import Repeated, vector_type


def scale_factors(context: Context, op: sm.WgmmaPromoteOp, width: int, in_flight: int | None = None) -> list[ir.Value]:
    """The product of a row's and a column's scale for each value, in vectors; each pair is multiplied once. There are
    none without scales. With `in_flight` groups of wgmmas they are computed here, and not where they are read."""
    if op.rows is None:
        return []
    rows, columns = context.get(op.rows), context.get(op.columns)
    if not isinstance(rows, Repeated) or not isinstance(columns, Repeated):
        raise Refusal(op, "a scale must be a load of scales; take it from sm.load_scales [scales-loaded]")
    pairs = list(zip(rows.places, columns.places, strict=True))
    different = list(dict.fromkeys(pairs))
    products = [arith.mulf(rows.registers[row], columns.registers[column]) for row, column in different]
    if in_flight is not None:
        products = _computed_here(products, in_flight)
    of = dict(zip(different, products, strict=True))
    groups = [tuple(pairs[first : first + width]) for first in range(0, len(pairs), width)]
    type_ = vector_type(width, rows.type.element_type)
    vectors = {
        group: vector.FromElementsOp(type_, [of[pair] for pair in group]).result for group in dict.fromkeys(groups)
    }
    return [vectors[group] for group in groups]


def _computed_here(values: list[ir.Value], in_flight: int) -> list[ir.Value]:
    """The values through a wait that `in_flight` groups satisfy at once.

    LLVM then computes them before it. Else it would do so where they are read, after the wait for the products, and
    keep the scales until then, beside those of the next step.
    """
    type_ = values[0].type
    struct = llvm.UndefOp(llvm.StructType.get_literal([type_] * len(values))).res
    for place, value in enumerate(values):
        struct = llvm.InsertValueOp(struct, value, [place]).res
    done = sm.PtxWgmmaWaitOp(in_flight, struct).result
    return [llvm.ExtractValueOp(type_, done, [place]).result for place in range(len(values))]
