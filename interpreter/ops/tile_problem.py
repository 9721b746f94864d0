"""tile.gemm: results = epilogue(A · B, operands…), of whole matrices."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.dialects.tile import GemmLayout, OperandKind, ResultKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.interpreter.machine import maxima
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.matrices import Matrix, Window, load_window
from lowtide.interpreter.machine.weights import unpacked
from lowtide.interpreter.ops.tile_epilogue import (
    Place,
    epilogue_whole,
    is_window,
    result_kinds,
    result_of_part,
    targets_at,
)
from lowtide.interpreter.ops.tile_operands import (
    ARRIVALS,
    IN_THE_SUM,
    NOT_OF_EPILOGUE,
    SCALED_TOGETHER,
    SCALES,
    SENDS,
    WHOLE,
    as_mk,
    as_nk,
    await_shard,
    groups_of_k,
    groups_of_rows,
    matrix_at,
    part_of,
    rows_of_matrices,
    scale_and_add,
    turn_of,
    weights_of,
    window_at,
)
from lowtide.interpreter.ops.tile_sends import send_shard
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable

OPS = OpTable()
_OF_ROWS = (OperandKind.full, OperandKind.per_row, OperandKind.target)
_OF_COLUMNS = (
    OperandKind.per_column,
    OperandKind.group_scale,
    OperandKind.group_zero,
    OperandKind.column_scale,
    OperandKind.column_block_scale,
)


@OPS.implements("tile.gemm")
def gemm(state: AgentState, op: DecodedOp) -> Steps:
    (a,), (b,), results, operands = ([state.values[slot] for slot in slots] for slots in op.operand_groups())
    by_kind = [(OperandKind(kind), x) for kind, x in zip(op.attributes.get("kinds", ()), operands, strict=True)]
    for index in (operand for kind, operand in by_kind if kind is OperandKind.a_rows):
        a = a.taken_at(index)
    for index in (operand for kind, operand in by_kind if kind is OperandKind.d_rows):
        kinds = zip(results, result_kinds(op), strict=True)
        results = [x.taken_at(index) if is_window(kind) else x for x, kind in kinds]
    full = [result for result, kind in zip(results, result_kinds(op), strict=True) if is_window(kind)]
    for result, kind in zip(results, result_kinds(op), strict=True):
        if kind is ResultKind.amax:
            maxima.clear(state, op, result.address)
    by_group = [operand for kind, operand in by_kind if kind is OperandKind.ends]
    if by_group and len(full[0].shape) == 3 and len(a.shape) == 2:
        yield from _of_groups_of_k(state, op, (a, b), (results, by_kind), by_group[0])
        return
    if by_group and len(a.shape) == 2:
        rows_of_a = a.shape[0 if _lies_by_rows(op) else 1]
        for number, rows in enumerate(groups_of_rows(state, op, by_group[0], rows_of_a)):
            own = [(kind, part_of(state, op, x, kind, number) if kind in _OF_COLUMNS else x) for kind, x in by_kind]
            yield from _of_rows(state, op, (a, matrix_at(state, op, b, number)), (results, own), rows)
        return
    if len(a.shape) == 2:
        yield from _product(state, op, (a, b), results, by_kind)
        return
    if any(other.shape[0] != a.shape[0] for other in (b, *full)):
        shapes = [other.shape for other in full]
        raise state.violation(op, f"A {a.shape}, B {b.shape} and {shapes} do not agree on the batch [gemm-batch]")
    spans = rows_of_matrices(state, op, by_group[0], full[0].shape[1]) if by_group else None
    arriving = [operand for kind, operand in by_kind if kind in ARRIVALS]
    first = turn_of(state, op, arriving[1])[0] if arriving else 0
    sending = [operand for kind, operand in by_kind if kind in SENDS]
    if sending and "schedule" in op.attributes and Schedule.parse(op.attributes["schedule"]).sends:
        yield from send_shard(state, op, (a, sending[0], arriving[1], sending[1]))
    for number in ((first + each) % a.shape[0] for each in range(a.shape[0])):
        if arriving and (yield from await_shard(state, op, number, arriving)):
            return
        parts = [result_of_part(state, op, *each, number) for each in zip(results, result_kinds(op), strict=True)]
        own = [(kind, part_of(state, op, x, kind, number) if kind not in WHOLE else x) for kind, x in by_kind]
        factors = matrix_at(state, op, a, number), matrix_at(state, op, b, number)
        if spans is None:
            yield from _product(state, op, factors, parts, own, joins=number != first)
        else:
            yield from _of_rows(state, op, factors, (parts, own), spans[number])


def _of_groups_of_k(
    state: AgentState,
    op: DecodedOp,
    factors: tuple[Matrix, Matrix],
    others: tuple[list[Matrix], list[tuple[OperandKind, Any]]],
    ends: Matrix,
) -> Steps:
    """The products of all groups of K. Each multiplies rows of A and B, or columns if K is contiguous, and takes the
    scales of its blocks of K."""
    (a, b), (results, operands), lies_by_k = factors, others, _lies_by_rows(op)
    is_scaled = any(kind in SCALES for kind, _ in operands)
    spans = groups_of_k(state, op, ends, a.shape[1 if lies_by_k else 0], SCALED_TOGETHER if is_scaled else 1)
    for number, (first, end) in enumerate(spans):
        blocks = first // SCALED_TOGETHER, -(-end // SCALED_TOGETHER)
        parts = [result_of_part(state, op, *each, number) for each in zip(results, result_kinds(op), strict=True)]
        own = []
        for kind, x in operands:
            if kind in SCALES:
                own.append((kind, x.rows(*blocks) if SCALES[kind][2] == 0 else x.columns(*blocks)))
            else:
                own.append((kind, part_of(state, op, x, kind, number) if kind not in NOT_OF_EPILOGUE else x))
        both = (x.columns(first, end) if lies_by_k else x.rows(first, end) for x in (a, b))
        yield from _product(state, op, (next(both), next(both)), parts, own, joins=number > 0)


def _of_rows(
    state: AgentState,
    op: DecodedOp,
    factors: tuple[Matrix, Matrix],
    others: tuple[list[Matrix], list[tuple[OperandKind, Any]]],
    rows: tuple[int, int],
) -> Steps:
    """The product of one group. `rows`: the range of its rows in A, in full results, in reductions of rows, and in
    operands of rows. Nothing is computed for an empty range."""
    ((a, b), (results, operands)), (first, end) = (factors, others), rows
    if first == end:
        return
    own = [(kind, _rows_of_operand(kind, x, rows)) for kind, x in operands]
    kinds = zip(results, result_kinds(op), strict=True)
    parts = [x.rows(*rows) if kind is ResultKind.full or kind.name.startswith("row_") else x for x, kind in kinds]
    yield from _product(state, op, (a.rows(*rows) if _lies_by_rows(op) else a.columns(*rows), b), parts, own)


def _lies_by_rows(op: DecodedOp) -> bool:
    """Whether A is (M, K)."""
    return GemmLayout(op.attributes["layout"]).name[0] == "t"


def _rows_of_operand(kind: OperandKind, operand: Any, rows: tuple[int, int]) -> Any:
    """The part of an operand for a range of rows of D. In a `row_scale` (blocks of K, M), these are columns."""
    if kind is OperandKind.row_scale:
        return operand.columns(*rows)
    return operand.rows(*rows) if kind in _OF_ROWS else operand


def _product(
    state: AgentState,
    op: DecodedOp,
    matrices: tuple[Matrix, Matrix],
    results: list[Matrix],
    operands: list[tuple[OperandKind, Any]],
    joins: bool = False,
) -> Steps:
    """Results = epilogue(A · B, operands…), of whole matrices. `joins`: reductions of all elements add to those of an
    earlier product."""
    a, b = matrices
    layout, domain, acc = GemmLayout(op.attributes["layout"]).name, state.machine.domain, str(op.attributes["acc"])
    in_the_sum = {kind: operand for kind, operand in operands if kind in IN_THE_SUM}
    left, right = (load_window(state, op, _whole(state, op, x)) for x in (a, b))
    left, right = as_mk(left, layout), as_nk(right, layout)
    is_swapped = "swapped" in op.attributes
    if "weights" in op.attributes:
        of_groups = _zeros_of(state, op, in_the_sum.get(OperandKind.group_zero))
        packed, dtype = (left, b.element.name) if is_swapped else (right, a.element.name)
        found = unpacked(packed, weights_of(op), domain, dtype, of_groups)
        left, right = (found, right) if is_swapped else (left, found)
    m, n = len(left), len(right) // (2 if "pairs" in op.attributes else 1)
    targets = targets_at(op, results, (0, 0), (m, n), [operand for _, operand in operands], joins)
    full = [target.matrix.shape for target in targets if isinstance(target, Window)]
    if left.shape[1] != right.shape[1] or any(shape != (m, n) for shape in full):
        raise state.violation(
            op, f"layout {layout}: A {a.shape}, B {b.shape} and D {full} do not agree on M, N, K [gemm-extents]"
        )
    zero = domain.full((m, len(right)), 0, acc)
    scales = {kind: operand for kind, operand in in_the_sum.items() if kind in SCALES}
    if "group" in op.attributes and is_swapped:  # the scales are those of the rows
        product = _by_groups(state, op, (right, left), zero.T, in_the_sum[OperandKind.group_scale]).T
    elif "group" in op.attributes:
        product = _by_groups(state, op, (left, right), zero, in_the_sum[OperandKind.group_scale])
    elif scales:
        product = _scaled_product(state, op, (left, right), scales, acc)
    else:
        product = domain.dot(left, right, zero, acc)
    of_epilogue = [operand for kind, operand in operands if kind not in NOT_OF_EPILOGUE]
    yield from epilogue_whole(state, op, product, Place(0, 0, (m, n), (m, n)), targets, of_epilogue)


def _whole(state: AgentState, op: DecodedOp, matrix: Matrix) -> Window:
    """The window of a whole matrix, or of the rows of two."""
    *two, rows, columns = matrix.shape
    if not two:
        return Window(matrix, 0, 0, (rows, columns))
    first, second = (matrix_at(state, op, matrix, number) for number in range(2))
    return Window(first, 0, 0, (2 * rows, columns), second=second)


def _zeros_of(state: AgentState, op: DecodedOp, zeros: Matrix | None) -> NDArray[Any] | None:
    """The zero point of each of B's rows (N, K); None without zero points."""
    if zeros is None:
        return None
    points = load_window(state, op, Window(zeros, 0, 0, (zeros.shape[0], zeros.shape[1])))
    return np.repeat(points, op.attributes["group"], axis=0).T


def _by_groups(
    state: AgentState, op: DecodedOp, sides: tuple[NDArray[Any], NDArray[Any]], zero: NDArray[Any], scales: Matrix
) -> NDArray[Any]:
    """The sums of groups of K, each scaled, added in order."""
    (left, right), group, domain = sides, op.attributes["group"], state.machine.domain
    acc, total, count = str(op.attributes["acc"]), zero, left.shape[1] // group
    if left.shape[1] % group or scales.shape != (count, zero.shape[1]):
        raise state.violation(
            op, f"scales {scales.shape} do not fit K = {left.shape[1]} in groups of {group} [gemm-groups]"
        )
    factors = load_window(state, op, Window(scales, 0, 0, (scales.shape[0], scales.shape[1])))
    for number in range(count):
        own = slice(number * group, (number + 1) * group)
        partial = domain.dot(left[:, own], right[:, own], zero, acc)
        total = domain.fma(partial, factors[number][None, :], total, acc)
    return total


def _scaled_product(
    state: AgentState,
    op: DecodedOp,
    factors: tuple[NDArray[Any], NDArray[Any]],
    scales: dict[OperandKind, Matrix],
    acc: str,
) -> NDArray[Any]:
    """A · B; the sum of each block of K is multiplied by its scales."""
    domain, (left, right) = state.machine.domain, factors
    (m, depth), n = left.shape, right.shape[0]
    total = domain.full((m, n), 0, acc)
    for k in range(0, depth, SCALED_TOGETHER):
        inside = slice(k, k + SCALED_TOGETHER)
        partial = domain.dot(left[:, inside], right[:, inside], domain.full((m, n), 0, acc), acc)
        of_rows_first = sorted(scales, key=lambda kind: not SCALES[kind][0])
        windows = (window_at(scales[kind], kind, [0, k], (m, n)) for kind in of_rows_first)
        total = scale_and_add(state, partial, total, [load_window(state, op, each) for each in windows], acc)
    return total
