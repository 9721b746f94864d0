"""The tile dialect: whole matrices, work tiles, windows, products and the epilogue."""

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import islice, tee
from math import prod
from typing import Any

import numpy as np
from mlir import ir
from numpy.typing import NDArray

from lowtide.dialects.tile import GemmLayout, KDivisionKind, OperandKind, RasterKind, SchedulerKind, WorkPart
from lowtide.interpreter.machine import splits, waves
from lowtide.interpreter.machine.agents import AgentState, LaunchRequest, Steps
from lowtide.interpreter.machine.barriers import together
from lowtide.interpreter.machine.clusters import clusters_at_a_time
from lowtide.interpreter.machine.execution import run_block, violation
from lowtide.interpreter.machine.matrices import (
    Matrix,
    Window,
    load_elements,
    load_inside,
    load_window,
    store_elements,
    store_inside,
)
from lowtide.interpreter.machine.shared_buffers import load_buffer
from lowtide.interpreter.machine.traces import row_of
from lowtide.interpreter.machine.weights import unpacked
from lowtide.interpreter.machine.work_order import WorkItem, WorkOrder
from lowtide.interpreter.numbers.storage import in_memory
from lowtide.interpreter.program.ir_types import Fragment, MemRef, Scalar, Tile, View
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedBlock, DecodedOp, Program

OPS = OpTable()

#: Of a scale: whether it is of rows, how many of them share one, and which of its dimensions counts blocks of K
_SCALES = {
    OperandKind.row_scale: (True, 1, 0),
    OperandKind.column_scale: (False, 1, 0),
    OperandKind.row_block_scale: (True, 128, 1),
    OperandKind.column_block_scale: (False, 128, 1),
}
_IN_THE_SUM = (OperandKind.group_scale, OperandKind.group_zero, *_SCALES)
_SCALED_TOGETHER = 128  # of K

#: Dimensions of an operand without a batch
_RANKS = {OperandKind.full: 2, OperandKind.per_row: 1, OperandKind.per_column: 1, OperandKind.scalar: 0}
_RANKS |= dict.fromkeys(_SCALES, 2)

# The problem ----------------------------------------------------------------------------------------------------------


@OPS.implements("tile.gemm")
def gemm(state: AgentState, op: DecodedOp) -> Steps:
    a, b, d, *operands = (state.values[slot] for slot in op.operands)
    if len(d.shape) == 2:
        yield from _product(state, op, a, b, d, operands)
        return
    if not a.shape[0] == b.shape[0] == d.shape[0]:
        raise violation(state, op, f"A {a.shape}, B {b.shape} and D {d.shape} do not agree on the batch")
    kinds = [OperandKind(kind) for kind in op.attributes.get("kinds", ())]
    for number in range(d.shape[0]):
        own = [_part(state, op, each, kind, number) for each, kind in zip(operands, kinds, strict=True)]
        yield from _product(state, op, a.part(number), b.part(number), d.part(number), own)


def _part(state: AgentState, op: DecodedOp, operand: Any, kind: OperandKind, number: int) -> Any:
    """What one product of a batch has of an operand of the epilogue: its part, or all of one that is shared."""
    if kind is OperandKind.scalar or len(operand.shape) == _RANKS.get(kind):
        return operand
    return matrix_at(state, op, operand, number)


def _product(state: AgentState, op: DecodedOp, a: Matrix, b: Matrix, d: Matrix, operands: list[Any]) -> Steps:
    """D = epilogue(A · B, operands…), of whole matrices."""
    layout = GemmLayout(op.attributes["layout"]).name
    m, n = d.shape
    left, right = (load_window(state, op, Window(x, 0, 0, (x.shape[0], x.shape[1]))) for x in (a, b))
    left, right = _as_mk(left, layout), _as_nk(right, layout)
    kinds = list(map(OperandKind, op.attributes.get("kinds", ())))
    if "weights" in op.attributes:
        of_groups = _zeros_of(state, op, dict(zip(kinds, operands, strict=True)).get(OperandKind.group_zero))
        right = unpacked(right, weights_of(op), state.machine.domain, a.element.name, of_groups)
    if left.shape[1] != right.shape[1] or (left.shape[0], right.shape[0]) != (m, n):
        raise violation(state, op, f"layout {layout}: A {a.shape}, B {b.shape} and D {d.shape} do not agree on M, N, K")
    domain, acc = state.machine.domain, str(op.attributes["acc"])
    zero = domain.full((m, n), 0, acc)
    kinds = [OperandKind(kind) for kind in op.attributes.get("kinds", ())]
    by_kind = dict(zip(kinds, operands, strict=True))
    scales = {kind: operand for kind, operand in by_kind.items() if kind in _SCALES}
    operands = [one for one, kind in zip(operands, kinds, strict=True) if kind not in _IN_THE_SUM]
    if "group" in op.attributes:
        product = _by_groups(state, op, (left, right), zero, by_kind[OperandKind.group_scale])
    elif scales:
        product = _scaled_product(state, op, (left, right), scales, acc)
    else:
        product = domain.dot(left, right, zero, acc)
    yield from _epilogue_whole(state, op, product, Window(d, 0, 0, (m, n)), operands)


def _zeros_of(state: AgentState, op: DecodedOp, zeros: Matrix | None) -> NDArray[Any] | None:
    """The zero point of each of B's rows (N, K); None where there are none."""
    if zeros is None:
        return None
    points = load_window(state, op, Window(zeros, 0, 0, (zeros.shape[0], zeros.shape[1])))
    return np.repeat(points, op.attributes["group"], axis=0).T


def _by_groups(
    state: AgentState, op: DecodedOp, sides: tuple[NDArray[Any], NDArray[Any]], zero: NDArray[Any], scales: Matrix
) -> NDArray[Any]:
    """The sums of groups of K, each scaled, added in their order."""
    (left, right), group, domain = sides, op.attributes["group"], state.machine.domain
    acc, total, count = str(op.attributes["acc"]), zero, left.shape[1] // group
    if left.shape[1] % group or scales.shape != (count, zero.shape[1]):
        raise violation(state, op, f"scales {scales.shape} are none of K = {left.shape[1]} in groups of {group}")
    factors = load_window(state, op, Window(scales, 0, 0, (scales.shape[0], scales.shape[1])))
    for number in range(count):
        own = slice(number * group, (number + 1) * group)
        partial = domain.dot(left[:, own], right[:, own], zero, acc)
        total = domain.fma(partial, factors[number][None, :], total, acc)
    return total


def weights_of(op: DecodedOp) -> str:
    """The MLIR type of the packed weights that an op converts."""
    return str(ir.TypeAttr(op.source.attributes["weights"]).value)


def _scaled_product(
    state: AgentState,
    op: DecodedOp,
    factors: tuple[NDArray[Any], NDArray[Any]],
    scales: dict[OperandKind, Matrix],
    acc: str,
) -> NDArray[Any]:
    """A · B, of which the sum of each block of K is multiplied by its scales."""
    domain, (left, right) = state.machine.domain, factors
    (m, depth), n = left.shape, right.shape[0]
    total = domain.full((m, n), 0, acc)
    for k in range(0, depth, _SCALED_TOGETHER):
        inside = slice(k, k + _SCALED_TOGETHER)
        partial = domain.dot(left[:, inside], right[:, inside], domain.full((m, n), 0, acc), acc)
        of_rows, of_columns = _in_order(scales)
        windows = (window_at(scales[kind], kind, [0, k], (m, n)) for kind in (of_rows, of_columns))
        total = _scale_and_add(state, partial, total, [load_window(state, op, each) for each in windows], acc)
    return total


def _in_order(scales: dict[OperandKind, Matrix]) -> list[OperandKind]:
    """The kind of the scales of rows, then that of columns."""
    return sorted(scales, key=lambda kind: not _SCALES[kind][0])


def _scale_and_add(
    state: AgentState, partial: NDArray[Any], total: NDArray[Any], scales: list[NDArray[Any]], dtype: str
) -> NDArray[Any]:
    """partial · (row scale · column scale) + total: the product of the scales is rounded, and then the sum."""
    domain = state.machine.domain
    return domain.fma(partial, domain.multiply(scales[0], scales[1], dtype), total, dtype)


def _as_mk(a: NDArray[Any], layout: str) -> NDArray[Any]:
    return {"t": a, "n": a.T}[layout[0]]


def _as_nk(b: NDArray[Any], layout: str) -> NDArray[Any]:
    return {"n": b, "t": b.T}[layout[1]]


@OPS.implements("tile.pack")
def pack(state: AgentState, op: DecodedOp) -> None:
    """The matrix itself, wherever it lies: nothing of this level needs alignment."""
    state.values[op.results[0]] = state.values[op.operands[0]]


@OPS.implements("tile.pack_transposed")
def pack_transposed(state: AgentState, op: DecodedOp) -> None:
    """A matrix of its own, as nothing else turns the elements around at this level."""
    source, type = state.values[op.operands[0]], op.result_types[0]
    assert isinstance(type, MemRef)
    *batch, rows, columns = source.shape
    shape, memory = (*batch, columns, rows), state.machine.memory
    name = f"transpose {len(memory.buffers)}"
    address = memory.allocate(name, prod(batch) * columns, rows, rows, in_memory(type.element.name))
    strides = (columns * rows, rows)[-len(shape) + 1 :]
    target = Matrix(name, address, shape, strides, type.element)
    _write_transpose(state, op, source, target, (0, prod(batch) * columns))
    state.values[op.results[0]] = target


def _write_transpose(state: AgentState, op: DecodedOp, source: Matrix, target: Matrix, rows: tuple[int, int]) -> None:
    """The rows of the target from the first to the last, which is left out; in a batch those of all its matrices."""
    *batch, length, columns = target.shape
    first, end = rows
    while first < end:
        number, row = divmod(first, length)
        count = min(length - row, end - first)
        one, other = (x.part(number) if batch else x for x in (source, target))
        turned = load_window(state, op, Window(one, 0, row, (columns, count))).T
        store_inside(state, op, Window(other, row, 0, (count, columns)), turned)
        first += count


@OPS.implements("tile.unpack")
def unpack(state: AgentState, op: DecodedOp) -> None:
    """Nothing: what was packed is the matrix itself."""


@OPS.implements("tile.split")
def split(state: AgentState, op: DecodedOp) -> None:
    """Pieces in memory of their own."""
    source, type_ = state.values[op.operands[0]], op.result_types[0]
    assert isinstance(type_, MemRef)
    row, machine = splits.decomposition(op), state.machine
    *outer, rows, k = source.shape
    rows, k = (k, rows) if "k_first" in op.attributes else (rows, k)
    columns = row.depth(k)
    shared = bool(outer) and source.strides[0] == 0
    count = 1 if shared else prod(outer)
    name = f"pieces {len(machine.memory.buffers)}"
    address = machine.memory.allocate(name, count * rows, columns, columns, type_.element.name)
    strides = (*([0 if shared else rows * columns] * len(outer)), columns)
    target = Matrix(name, address, (*outer, rows, columns), strides, type_.element)
    for number in range(count):
        one, other = (x.part(number) if outer else x for x in (source, target))
        splits.split(state, op, one, other, (0, rows))
    state.values[op.results[0]] = target


# The host -------------------------------------------------------------------------------------------------------------


@OPS.implements("tile.sm_count")
def sm_count(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.machine.sms


@OPS.implements("tile.workspace")
def workspace(state: AgentState, op: DecodedOp) -> None:
    type, (size,) = op.result_types[0], (state.values[slot] for slot in op.operands)
    assert isinstance(type, MemRef)
    if size < 0:
        raise violation(state, op, f"a workspace of {size} elements")
    machine, dtype, is_zeroed = state.machine, in_memory(type.element.name), "zeroed" in op.attributes
    name = f"workspace {len(machine.memory.buffers)}"
    zeros = np.zeros((1, size), machine.domain.payload) if is_zeroed else None
    address = machine.memory.allocate(name, 1, size, size, dtype, zeros)
    if is_zeroed:
        state.cta.at_end.append(lambda end: _check_zero(end, op, name))
    state.values[op.results[0]] = Matrix(name, address, (size,), (), type.element)


def _check_zero(state: AgentState, op: DecodedOp, name: str) -> None:
    """Raises where a launch has not left a zeroed workspace as it found it."""
    left = np.flatnonzero(state.machine.memory.contents(name)[0] != 0)
    if left.size:
        raise violation(
            state,
            op,
            f"element {left[0]} is not zero after the launches, as the next call needs it: reset it at the end",
        )


@OPS.implements("tile.cluster_count")
def cluster_count(state: AgentState, op: DecodedOp) -> None:
    """As many as run at a time, at least one."""
    state.values[op.results[0]] = clusters_at_a_time(state.machine.sms, op.attributes["cluster"])


@OPS.implements("tile.launch")
def launch(state: AgentState, op: DecodedOp) -> None:
    start = state.machine.launch
    if start is None:
        raise violation(state, op, "a kernel launches nothing; launch from the host function")
    grid, *arguments = (state.values[slot] for slot in op.operands)
    if grid == 0:
        return
    attributes = op.attributes
    request = LaunchRequest(
        attributes["kernel"],
        grid,
        attributes["threads"],
        attributes.get("shared_memory"),
        tuple(arguments),
        "programmatic" in attributes,
        "cooperative" in attributes,
        tuple(attributes.get("cluster", (1, 1))),
    )
    start(request, op)


# The kernel -----------------------------------------------------------------------------------------------------------


@OPS.implements("tile.grid_dependency_wait")
def grid_dependency_wait(state: AgentState, op: DecodedOp) -> None:
    together(state, op)
    state.machine.memory.earlier_kernels_ended(state.cta.index, state.warp)


@OPS.implements("tile.copy_matrix")
def copy_matrix(state: AgentState, op: DecodedOp) -> None:
    """Each CTA copies a run of rows, in a batch those of one matrix after the other."""
    source, target = (state.values[slot] for slot in op.operands)
    if source.shape != target.shape:
        raise violation(state, op, f"copies a matrix of {source.shape} to one of {target.shape}")
    *batch, rows, columns = source.shape
    all_rows = prod(batch) * rows
    first, end = (all_rows * number // state.machine.grid for number in (state.cta.index, state.cta.index + 1))
    while first < end:
        number, row = divmod(first, rows)
        size = (min(rows - row, end - first), columns)
        one, other = (x.part(number) if batch else x for x in (source, target))
        store_inside(state, op, Window(other, row, 0, size), load_window(state, op, Window(one, row, 0, size)))
        first += size[0]


@OPS.implements("tile.transpose_matrix")
def transpose_matrix(state: AgentState, op: DecodedOp) -> None:
    """Each CTA writes a run of rows of the target."""
    source, target = (state.values[slot] for slot in op.operands)
    *batch, rows, columns = source.shape
    if target.shape != (*batch, columns, rows):
        raise violation(state, op, f"writes the transpose of a matrix of {source.shape} to one of {target.shape}")
    all_rows = prod(batch) * columns
    first, end = (all_rows * number // state.machine.grid for number in (state.cta.index, state.cta.index + 1))
    _write_transpose(state, op, source, target, (first, end))


@OPS.implements("tile.split_matrix")
def split_matrix(state: AgentState, op: DecodedOp) -> None:
    """Each CTA makes a run of rows of pieces, in a batch those of one matrix after the other."""
    source, target = (state.values[slot] for slot in op.operands)
    *batch, rows, _ = target.shape
    all_rows = prod(batch) * rows
    first, end = (all_rows * number // state.machine.grid for number in (state.cta.index, state.cta.index + 1))
    while first < end:
        number, row = divmod(first, rows)
        following = min(rows, row + end - first)
        one, other = (x.part(number) if batch else x for x in (source, target))
        splits.split(state, op, one, other, (row, following))
        first += following - row


@OPS.implements("tile.launch_dependents")
def launch_dependents(state: AgentState, op: DecodedOp) -> None:
    """A next kernel that starts early waits for this one before it accesses memory, so that its start changes none."""


def work_order(op: Any) -> WorkOrder:
    """What a tile.work_tiles says of who computes which tile when. Raises InterpreterError for an unknown word."""
    order = op.attributes["order"]
    scheduler = SchedulerKind(ir.IntegerAttr(op.attributes["scheduler"]).value)
    words = ("part", "k_division", "k_parts")
    said = {name: ir.IntegerAttr(op.attributes[name]).value for name in words if name in op.attributes}
    return WorkOrder(
        scheduler,
        RasterKind[order.kind],
        order.group,
        order.columns,
        part=WorkPart(said["part"]) if "part" in said else WorkPart.all,
        division=KDivisionKind(said.get("k_division", 0)),
        parts=said.get("k_parts", 0),
    )


def _prepare_work_tiles(op: DecodedOp, program: Program) -> None:
    following = [inner for inner in op.regions[0].ops if inner.name == "tile.next_work_tile"]
    op.data = work_order(op.source), [inner.results for inner in following]


@OPS.implements("tile.next_work_tile")
def next_work_tile(state: AgentState, op: DecodedOp) -> None:
    """Its results are set by the work tiles that it stands in."""


@OPS.implements("tile.work_tiles", prepare=_prepare_work_tiles)
def work_tiles(state: AgentState, op: DecodedOp) -> Steps:
    batch, rows, columns, depth, inits = op.operand_groups()
    matrices = state.values[batch[0]] if batch else 1
    extents = [state.values[slot] for slot in (*rows, *columns, *depth)]
    carried = [state.values[slot] for slot in inits]
    machine, cta, (order, readers_of_next) = state.machine, state.cta.index, op.data
    height, width, *step = op.attributes["tile"]
    cluster = tuple(op.attributes.get("cluster", (1, 1)))
    if cluster != machine.cluster:
        launched = list(machine.cluster)
        raise violation(
            state, op, f"hands tiles to clusters of {list(cluster)}, but the launch has those of {launched}"
        )
    turn, turns = _turn(state, op)
    sides = [height * order.pieces, width, *step]
    noted = None if machine.trace is None else machine.trace.begin_work(cta, state.name, (turn, turns))
    counts = [-(-extent // side) for extent, side in zip(extents, sides, strict=True)]
    state.work_tiles = order.count_of(machine.grid, (counts[0], counts[1]), cluster, matrices)
    steps = counts[2] if depth else 1
    items = order.items_of(cta, machine.grid, (counts[0], counts[1]), steps, cluster, matrices)
    for item, after in _with_next(islice(items, turn, None, turns)):
        place = [item.place[0] * height, item.place[1] * width]
        for *matrix, row, column in readers_of_next:
            state.values[row], state.values[column] = after.place[0] * height, after.place[1] * width
            for slot in matrix:
                state.values[slot] = after.matrix
        # Part 0 stores the tile, or every part a share of it. A half or a share of a tile may lie past the edge, and so
        # may a tile of a super-tile.
        stores = item.part == 0 or order.division is KDivisionKind.scatter
        share = place[1] + item.part * width // item.parts
        if noted is not None and place[0] < extents[0] and share < extents[1] and stores:
            noted.append((row_of(item.matrix, place[0], extents[0]) if batch else place[0], place[1], height, width))
        if depth:
            place += [item.begin * step[0], min(item.end * step[0], extents[2]), item.part, item.parts, item.slot]
        place = [item.matrix, *place] if batch else place
        for slot, value in zip(op.regions[0].arguments, [*place, *carried], strict=True):
            state.values[slot] = value
        carried = yield from run_block(state, op.regions[0])
    for slot, value in zip(op.results, carried, strict=True):
        state.values[slot] = value


def _with_next(items: Iterable[WorkItem]) -> Iterator[tuple[WorkItem, WorkItem]]:
    """Each item with the one after it, the last with itself."""
    here, after = tee(items)
    next(after, None)
    for item in here:
        yield item, next(after, item)


def _turn(state: AgentState, op: DecodedOp) -> tuple[int, int]:
    """The agent's turn among those that share the CTA's tiles, and how many they are."""
    if "in_turn" not in op.attributes:
        return 0, 1
    if state.seat.role is None:
        raise violation(state, op, "the instances of a role take tiles in turn; write it inside sm.roles")
    return state.seat.instance, state.machine.roles[state.seat.role].instances


@OPS.implements("tile.await_wave")
def await_wave(state: AgentState, op: DecodedOp) -> Steps:
    counter = state.values[op.operands[0]]
    yield from waves.begin(state, op, int(counter.addresses(0, 0)), state.work_tiles)


@OPS.implements("tile.splat")
def splat(state: AgentState, op: DecodedOp) -> None:
    type, domain = op.result_types[0], state.machine.domain
    assert isinstance(type, Tile)
    state.values[op.results[0]] = domain.full(type.shape, op.attributes["value"], type.element.name)


@OPS.implements("tile.view")
def view(state: AgentState, op: DecodedOp) -> None:
    matrix, *offsets = (state.values[slot] for slot in op.operands)
    type = op.result_types[0]
    assert isinstance(type, View)
    kind = OperandKind(op.attributes.get("kind", 0))
    if len(offsets) > _RANKS[kind]:
        number, *offsets = offsets
        matrix = matrix_at(state, op, matrix, number)
    state.values[op.results[0]] = window_at(matrix, kind, offsets, type.shape)


def matrix_at(state: AgentState, op: DecodedOp, batch: Matrix, number: int) -> Matrix:
    """A matrix, or vector, of a batch. Raises InterpreterError for one that the batch does not have."""
    if not 0 <= number < batch.shape[0]:
        raise violation(state, op, f"matrix {number} of {batch.name}, a batch of {batch.shape[0]}")
    return batch.part(number)


def window_at(matrix: Matrix, kind: OperandKind, offsets: list[int], shape: tuple[int, int]) -> Window:
    """The window of a matrix, or of a vector by kind, at offsets (two, or a vector's one; of scales the row or column
    and K)."""
    if kind in _SCALES:
        return _scale_window(matrix, kind, (offsets[0], offsets[1]), shape)
    row, column = {
        OperandKind.full: lambda: (offsets[0], offsets[1]),
        OperandKind.per_row: lambda: (offsets[0], 0),
        OperandKind.per_column: lambda: (0, offsets[0]),
    }[kind]()
    return Window(matrix, row, column, shape, kind.name)


def _scale_window(matrix: Matrix, kind: OperandKind, offsets: tuple[int, int], shape: tuple[int, int]) -> Window:
    """A window of the vector that has the scales for one block of K."""
    (outer, k), (by_row, block, k_dim) = offsets, _SCALES[kind]
    number, stride = k // _SCALED_TOGETHER, matrix.row_stride
    apart, step = (stride, 1) if k_dim == 0 else (1, stride)
    address = matrix.address + number * apart * matrix.element.bytes
    vector = Matrix(matrix.name, address, (matrix.shape[1 - k_dim],), (), matrix.element)
    place = (outer, 0) if by_row else (0, outer)
    return Window(vector, *place, shape, "per_row" if by_row else "per_column", block, step)


@OPS.implements("tile.mma")
def mma(state: AgentState, op: DecodedOp) -> None:
    a, b, acc, *zeros = (state.values[slot] for slot in op.operands)
    layout, type = GemmLayout(op.attributes["layout"]).name, op.result_types[0]
    assert isinstance(type, Tile)
    left, right = (_operand(state, op, x) for x in (a, b))
    if "weights" in op.attributes:
        first = op.operand_types[0]
        assert isinstance(first, MemRef | View)
        points = load_window(state, op, zeros[0]) if zeros else None
        right = unpacked(right, weights_of(op), state.machine.domain, first.element.name, points)
    state.values[op.results[0]] = state.machine.domain.dot(
        _as_mk(left, layout), _as_nk(right, layout), acc, type.element.name
    )


@OPS.implements("tile.promote")
def promote(state: AgentState, op: DecodedOp) -> None:
    partial, total, *windows = (state.values[slot] for slot in op.operands)
    type, domain = op.result_types[0], state.machine.domain
    assert isinstance(type, Tile)
    scales, dtype = [load_window(state, op, window) for window in windows], type.element.name
    if len(scales) > 1:
        added = _scale_and_add(state, partial, total, scales, dtype)
    elif scales:
        added = domain.fma(partial, scales[0], total, dtype)
    else:
        added = domain.sum(partial, total, dtype)
    state.values[op.results[0]] = added


def _operand(state: AgentState, op: DecodedOp, operand: Any) -> NDArray[Any]:
    return load_window(state, op, operand) if isinstance(operand, Window) else load_buffer(state, op, operand)


# The epilogue ---------------------------------------------------------------------------------------------------------


@OPS.implements("tile.store")
def store(state: AgentState, op: DecodedOp) -> Steps:
    (value,), *of_parts, d_slot, matrix, row_slot, column_slot, others = op.operand_groups()
    acc, type = state.values[value], op.operand_types[0]
    d, row, column, *operands = (state.values[slot] for slot in (*d_slot, *row_slot, *column_slot, *others))
    assert isinstance(type, Tile | Fragment)
    if matrix:
        number, kinds = state.values[matrix[0]], op.attributes.get("kinds", ())
        d = matrix_at(state, op, d, number)
        operands = [_part(state, op, *each, number) for each in zip(operands, map(OperandKind, kinds), strict=True)]
    if of_parts[0]:
        part, parts, slot = (state.values[group[0]] for group in of_parts)
        known = state.machine.parts.setdefault(slot, {})
        known[part] = acc
        if len(known) < parts:
            return
        acc = reduce(lambda x, y: state.machine.domain.sum(x, y, type.element.name), (known[i] for i in range(parts)))
    window = Window(d, row, column, type.shape)
    if isinstance(type, Fragment):
        rows, columns = (part[state.thread] for part in type.tv.coordinates(type.shape[0]))
        yield from _epilogue_by_lane(state, op, acc, window, operands, rows, columns)
    else:
        yield from _epilogue_whole(state, op, acc, window, operands)


def _operand_windows(op: DecodedOp, window: Window, operands: list[Any]) -> Iterator[Any]:
    """The window of each epilogue operand that lies where `window` lies in D; a scalar as it is."""
    kinds = [kind for kind in map(OperandKind, op.attributes.get("kinds", ())) if kind not in _IN_THE_SUM]
    for operand, kind in zip(operands, kinds, strict=True):
        if kind == OperandKind.scalar:
            yield operand
        else:
            offsets = {
                OperandKind.full: [window.row, window.column],
                OperandKind.per_row: [window.row],
                OperandKind.per_column: [window.column],
            }[kind]
            yield window_at(operand, kind, offsets, window.shape)


def _epilogue_whole(state: AgentState, op: DecodedOp, acc: NDArray[Any], window: Window, operands: list[Any]) -> Steps:
    rows, columns = window.inside
    elements: list[Any] = [acc[:rows, :columns]]
    for operand in _operand_windows(op, window, operands):
        elements.append(load_inside(state, op, operand) if isinstance(operand, Window) else operand)
    result = yield from apply_block(state, op.regions[0], elements, (rows, columns))
    state.cta.shared.warp_sync(state.warp)  # all of it is read before any of it is written
    store_inside(state, op, window, result)


def _epilogue_by_lane(
    state: AgentState,
    op: DecodedOp,
    acc: NDArray[Any],
    window: Window,
    operands: list[Any],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
) -> Steps:
    elements: list[Any] = [acc]
    for operand in _operand_windows(op, window, operands):
        is_window = isinstance(operand, Window)
        elements.append(load_elements(state, op, operand, rows, columns) if is_window else operand)
    result = yield from apply_block(state, op.regions[0], elements, rows.shape)
    store_elements(state, op, window, rows, columns, result)


def apply_block(state: AgentState, block: DecodedBlock, elements: list[Any], shape: tuple[int, ...]) -> Steps:
    """A scalar region applied to arrays of elements; its one result, as an array of `shape`."""
    for slot, type, value in zip(block.arguments, block.argument_types, elements, strict=True):
        state.values[slot] = value
        if isinstance(type, Scalar) and not type.is_float:  # what was read past an edge is a zero of the domain
            state.values[slot] = np.asarray(value).astype(type.dtype)
    (result,) = yield from run_block(state, block)
    return np.broadcast_to(result, shape)
