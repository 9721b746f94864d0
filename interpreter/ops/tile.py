"""The tile dialect: the host and launches, work tiles, windows and products."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from mlir import ir
from numpy.typing import NDArray

from lowtide.dialects.tile import (
    Coordinate,
    GemmLayout,
    KDivisionKind,
    OperandKind,
    RasterKind,
    SchedulerKind,
    WorkPart,
)
from lowtide.dialects.tile.division import KDivision
from lowtide.dialects.tile.work import coordinates_with
from lowtide.interpreter.machine import arrivals, waves
from lowtide.interpreter.machine.agents import AgentState, LaunchRequest, Steps
from lowtide.interpreter.machine.barriers import together
from lowtide.interpreter.machine.clusters import clusters_at_a_time
from lowtide.interpreter.machine.execution import run_block
from lowtide.interpreter.machine.matrices import (
    Matrix,
    Window,
    load_window,
)
from lowtide.interpreter.machine.shared_buffers import SharedBuffer, load_buffer
from lowtide.interpreter.machine.staged_scales import SharedScales
from lowtide.interpreter.machine.traces import row_of
from lowtide.interpreter.machine.weights import unpacked
from lowtide.interpreter.machine.work_order import WorkItem, WorkOrder
from lowtide.interpreter.numbers.integers import INTEGERS
from lowtide.interpreter.numbers.storage import in_memory
from lowtide.interpreter.ops.tile_operands import (
    RANKS,
    as_mk,
    as_nk,
    await_shard,
    groups_of_rows,
    matrix_at,
    rows_of_matrices,
    scale_and_add,
    staged_window,
    turn_of,
    weights_of,
    window_at,
)
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program

OPS = OpTable()

# The host -------------------------------------------------------------------------------------------------------------


@OPS.implements("tile.sm_count")
def sm_count(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.machine.options.sms


@OPS.implements("tile.workspace")
def workspace(state: AgentState, op: DecodedOp) -> None:
    type, (size,) = op.result_types[0], (state.values[slot] for slot in op.operands)
    if size < 0:
        raise state.violation(op, f"a workspace of {size} elements [workspace-size]")
    machine, dtype, is_zeroed = state.machine, in_memory(type.element.name), "zeroed" in op.attributes
    name = f"workspace {len(machine.memory.buffers)}"
    zeros = np.zeros((1, size), machine.domain.payload) if is_zeroed else None
    address = machine.memory.allocate(name, 1, size, size, dtype, zeros)
    if is_zeroed:
        state.cta.at_end.append(lambda end: _check_zero(end, op, name))
    state.values[op.results[0]] = Matrix(name, address, (size,), (), type.element)


def _check_zero(state: AgentState, op: DecodedOp, name: str) -> None:
    """Raises InterpreterError if a launch has not left a zeroed workspace zero."""
    left = np.flatnonzero(state.machine.memory.contents(name)[0] != 0)
    if left.size:
        raise state.violation(
            op,
            f"element {left[0]} is not zero after the launches, but the next call needs zero: reset it at the end"
            " [workspace-not-reset]",
        )


@OPS.implements("tile.cluster_count")
def cluster_count(state: AgentState, op: DecodedOp) -> None:
    """The number of clusters that run at a time, at least one."""
    state.values[op.results[0]] = clusters_at_a_time(state.machine.options.sms, op.attributes["cluster"])


@OPS.effects("tile.launch")
def launch(state: AgentState, op: DecodedOp, grid: Any, *arguments: Any) -> Steps:
    start = state.machine.launch
    if start is None:
        raise state.violation(op, "a kernel launches nothing; launch from the host function [kernel-launches]")
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
    turns = start(request, op)
    if turns is not None:  # other devices take turns with this one
        yield from turns


# The kernel -----------------------------------------------------------------------------------------------------------


@OPS.implements("tile.grid_dependency_wait")
def grid_dependency_wait(state: AgentState, op: DecodedOp) -> None:
    together(state, op)
    state.machine.memory.earlier_kernels_ended(state.cta.index, state.warp)


@OPS.implements("tile.launch_dependents")
def launch_dependents(state: AgentState, op: DecodedOp) -> None:
    """A next kernel that starts early waits for this one before it accesses memory, so its start changes nothing."""


_SAID = ("part", "k_division", "k_parts")


def work_order(op: Any) -> WorkOrder:
    """The work order of a tile.work_tiles. Raises InterpreterError for an unknown word."""
    order = op.attributes["order"]
    scheduler = SchedulerKind(ir.IntegerAttr(op.attributes["scheduler"]).value)
    said = {name: ir.IntegerAttr(op.attributes[name]).value for name in _SAID if name in op.attributes}
    division = KDivision(KDivisionKind(said["k_division"]), said.get("k_parts", 0)) if "k_division" in said else None
    return WorkOrder(
        scheduler,
        RasterKind[order.kind],
        order.group,
        order.columns,
        part=WorkPart(said["part"]) if "part" in said else WorkPart.all,
        division=division,
    )


def _prepare_work_tiles(op: DecodedOp, program: Program) -> Any:
    following = [inner for inner in op.regions[0].ops if inner.name == "tile.next_work_tile"]
    _, _, batches, _, ends, _, depth, _ = op.operand_groups()
    names = coordinates_with(batch=bool(batches), groups=bool(ends), division=bool(depth))
    return work_order(op.source), names, [(inner.attributes.get("ahead", 1), inner.results) for inner in following]


@OPS.implements("tile.next_work_tile")
def next_work_tile(state: AgentState, op: DecodedOp) -> None:
    """The surrounding work tiles set its results."""


@OPS.implements("tile.work_tiles", prepare=_prepare_work_tiles)
def work_tiles(state: AgentState, op: DecodedOp) -> Steps:
    (rows,), (columns,), batches, first, ends, matrices, depth, inits = (
        [state.values[slot] for slot in group] for group in op.operand_groups()
    )
    machine, cta, (order, names, readers_of_next) = state.machine, state.cta.index, op.data
    height, width = op.attributes["tile"]
    cluster = tuple(op.attributes.get("cluster", (1, 1)))
    if cluster != machine.cluster:
        launched = list(machine.cluster)
        raise state.violation(
            op,
            f"gives tiles to clusters of {list(cluster)}, the launch has clusters of {launched} [work-tiles-cluster]",
        )
    turn, turns = _turn(state, op)
    trace = machine.observers.trace
    noted = None if trace is None else trace.begin_work(cta, state.name, (turn, turns))
    spans = _spans(state, op, rows, batches, ends)
    matrix = _matrix_of(state, op, len(spans), first)
    spans = [spans[matrix(number)] for number in range(len(spans))]
    widths = [columns] * len(spans)
    for each in matrices:
        widths = [matrix_at(state, op, each, matrix(number)).shape[1] for number in range(len(spans))]
    grids = [
        (-(-(end - first) // (height * order.pieces)), -(-own // width))
        for (first, end), own in zip(spans, widths, strict=True)
    ]
    state.work_tiles = order.count_of(machine.grid, grids, cluster)
    step = op.attributes.get("k_step", 1)
    if depth and depth[0] < 1:
        raise state.violation(
            op,
            f"divides K = {depth[0]}: each item needs at least one step, even if its elements are zeros [work-k-empty]",
        )
    steps = -(-depth[0] // step) if depth else 1
    items = order.items_of(cta, machine.grid, grids, steps, cluster)
    furthest = max((ahead for ahead, _ in readers_of_next), default=0)

    def place_of(item: WorkItem) -> dict[Coordinate, int]:
        first, end = spans[item.grid]
        return {
            Coordinate.m: first + item.place[0] * height,
            Coordinate.n: item.place[1] * width,
            Coordinate.batch: matrix(item.grid),
            Coordinate.group: matrix(item.grid),
            Coordinate.rows_end: end,
            Coordinate.k0: item.begin * step,
            Coordinate.k1: min([item.end * step, *depth]),
            Coordinate.part: item.part,
            Coordinate.parts: item.parts,
            Coordinate.slot: item.slot,
        }

    carried = inits
    for item, *later in _with_later(islice(items, turn, None, turns), furthest):
        place = place_of(item)
        for ahead, results in readers_of_next:
            after = place_of(later[ahead - 1] if ahead <= len(later) else item)
            wanted = [Coordinate.batch, Coordinate.m, Coordinate.n][-len(results) :]
            for slot, each in zip(results, wanted, strict=True):
                state.values[slot] = after[each]
        # Part 0 stores the tile, or every part stores a share of it. A half, a share, or a tile of a super-tile stores
        # nothing if it is past the edge.
        m, n = place[Coordinate.m], place[Coordinate.n]
        stores = item.part == 0 or (order.division is not None and order.division.is_scattered)
        if noted is not None and m < rows and n + item.part * width // item.parts < widths[item.grid] and stores:
            noted.append((row_of(matrix(item.grid), m, rows) if batches else m, n, height, width))
        for slot, value in zip(op.regions[0].arguments, [*map(place.get, names), *carried], strict=True):
            state.values[slot] = value
        carried = yield from run_block(state, op.regions[0])
    for slot, value in zip(op.results, carried, strict=True):
        state.values[slot] = value


def _spans(state: AgentState, op: DecodedOp, rows: int, batches: list[int], ends: list[Any]) -> list[tuple[int, int]]:
    """For each matrix, or group, its first row and the row after its last. Raises InterpreterError if a batch does not
    have an end for each matrix."""
    if not ends:
        return [(0, rows)] * (batches[0] if batches else 1)
    spans = (rows_of_matrices if batches else groups_of_rows)(state, op, ends[0], rows)
    if batches and len(spans) != batches[0]:
        raise state.violation(
            op, f"has {len(spans)} ends for a batch of {batches[0]}: give one for each matrix [work-ends-batch]"
        )
    return spans


def _matrix_of(state: AgentState, op: DecodedOp, count: int, first: list[int]) -> Callable[[int], int]:
    """A function from the number of a grid of tiles to the number of its matrix, or group. Grids are in the order of
    the matrices, from matrix `first` on; matrix 0 follows the last one. Raises InterpreterError unless `first` is one
    of them."""
    start = first[0] if first else 0
    if not 0 <= start < max(count, 1):
        raise state.violation(op, f"begins with matrix {start} of {count}; take one of them [work-first-matrix]")
    return lambda number: (start + number) % count


def _with_later(items: Iterable[WorkItem], most: int) -> Iterator[tuple[WorkItem, ...]]:
    """Each item, followed by the next `most` items, or fewer at the end."""
    ahead = iter(items)
    window = deque(islice(ahead, most + 1))
    while window:
        yield tuple(window)
        window.popleft()
        window.extend(islice(ahead, 1))


def _turn(state: AgentState, op: DecodedOp) -> tuple[int, int]:
    """The agent's number among the instances of a role that take the tiles of the CTA in turn, and their number."""
    if "in_turn" not in op.attributes:
        return 0, 1
    if state.seat.role is None:
        raise state.violation(
            op, "the instances of a role take tiles in turn; write it inside sm.roles [turns-in-roles]"
        )
    return state.seat.instance, state.machine.roles[state.seat.role].instances


@OPS.implements("tile.await_wave")
def await_wave(state: AgentState, op: DecodedOp) -> Steps:
    counter = state.values[op.operands[0]]
    yield from waves.begin(state, op, int(counter.addresses(0, 0)), state.work_tiles)


@OPS.implements("tile.await_arrival")
def await_arrival(state: AgentState, op: DecodedOp) -> Steps:
    shard, *arriving = (state.values[slot] for slot in op.operands)
    late = yield from await_shard(state, op, shard, arriving)
    state.values[op.results[0]] = turn_of(state, op, arriving[1])[0] if late else shard


@OPS.implements("tile.is_late")
def is_late(state: AgentState, op: DecodedOp) -> None:
    (status,) = (state.values[slot] for slot in op.operands)
    state.values[op.results[0]] = arrivals.is_late(state, op, int(status.addresses(0, 0)))


@OPS.implements("tile.splat")
def splat(state: AgentState, op: DecodedOp) -> None:
    type, domain = op.result_types[0], state.machine.domain
    state.values[op.results[0]] = domain.full(type.shape, op.attributes["value"], type.element.name)


@OPS.effects("tile.view")
def view(state: AgentState, op: DecodedOp, matrix: Any, *offsets: Any) -> Any:
    type = op.result_types[0]
    kind = OperandKind(op.attributes.get("kind", 0))
    if isinstance(matrix, SharedBuffer):
        return staged_window(matrix, kind, offsets, type.shape)
    if "halves" in op.attributes:
        first, second = (matrix_at(state, op, matrix, offsets[0] + number) for number in range(2))
        if len(first.shape) > RANKS[kind]:  # of two batches
            first, second = (matrix_at(state, op, batch, offsets[1]) for batch in (first, second))
        return replace(window_at(first, kind, offsets[-2:], type.shape), second=second)
    if len(offsets) > RANKS[kind]:
        matrix, offsets = matrix_at(state, op, matrix, offsets[0]), offsets[1:]
    return window_at(matrix, kind, offsets, type.shape)


@OPS.effects("tile.take_rows")
def take_rows(state: AgentState, op: DecodedOp, matrix: Any, index: Any) -> Any:
    return matrix.taken_at(index)


@OPS.effects("tile.matrix_extent")
def matrix_extent(state: AgentState, op: DecodedOp, matrices: Any, number: Any) -> int:
    return int(matrix_at(state, op, matrices, number).shape[op.attributes["dim"]])


@OPS.effects("tile.mma")
def mma(state: AgentState, op: DecodedOp, a: Any, b: Any, acc: Any, *zeros: Any) -> Any:
    layout, type = GemmLayout(op.attributes["layout"]).name, op.result_types[0]
    left, right = (load_window(state, op, x) if isinstance(x, Window) else load_buffer(state, op, x) for x in (a, b))
    if "weights" in op.attributes:
        first, second = op.operand_types[:2]
        points = load_window(state, op, zeros[0]) if zeros else None
        if first.element.name in INTEGERS:
            left = unpacked(left, weights_of(op), state.machine.domain, second.element.name, points)
        else:
            right = unpacked(right, weights_of(op), state.machine.domain, first.element.name, points)
    return state.machine.domain.dot(as_mk(left, layout), as_nk(right, layout), acc, type.element.name)


@OPS.effects("tile.promote")
def promote(state: AgentState, op: DecodedOp, partial: Any, total: Any, *windows: Any) -> Any:
    type, domain = op.result_types[0], state.machine.domain
    scales, dtype = [_factors(state, op, window) for window in windows], type.element.name
    if len(scales) > 1:
        added = scale_and_add(state, partial, total, scales, dtype)
    elif scales:
        added = domain.fma(partial, scales[0], total, dtype)
    else:
        added = domain.sum(partial, total, dtype)
    return added


def _factors(state: AgentState, op: DecodedOp, window: Window | SharedScales) -> NDArray[Any]:
    return window.load(state, op) if isinstance(window, SharedScales) else load_window(state, op, window)
