"""The tile dialect: whole matrices, work tiles, windows, products and the epilogue."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.agents import AgentState, LaunchRequest, Steps
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
from lowtide.interpreter.program.ir_types import Fragment, Tile, View
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedBlock, DecodedOp, Program

OPS = OpTable()

LAYOUTS = ("tn", "tt", "nn", "nt")
KINDS = ("full", "per_row", "per_column", "scalar")

# The words of tile.work_tiles' scheduler, by number.
_SCHEDULERS = ("one_shot", "persistent", "even_split")
RASTERS = ("row", "column", "grouped")


# The problem ----------------------------------------------------------------------------------------------------------


@OPS.implements("tile.gemm")
def gemm(state: AgentState, op: DecodedOp) -> Steps:
    a, b, d, *operands = (state.values[slot] for slot in op.operands)
    layout = LAYOUTS[op.attributes["layout"]]
    m, n = d.shape
    left, right = (load_window(state, op, Window(x, 0, 0, x.shape)) for x in (a, b))
    left, right = _as_mk(left, layout), _as_nk(right, layout)
    if left.shape[1] != right.shape[1] or (left.shape[0], right.shape[0]) != (m, n):
        raise violation(state, op, f"layout {layout}: A {a.shape}, B {b.shape} and D {d.shape} do not agree on M, N, K")
    domain, acc = state.machine.domain, str(op.attributes["acc"])
    product = domain.dot(left, right, np.zeros((m, n), domain.payload), acc)
    yield from _epilogue_whole(state, op, product, Window(d, 0, 0, (m, n)), operands)


def _as_mk(a: NDArray[Any], layout: str) -> NDArray[Any]:
    return a if layout[0] == "t" else a.T


def _as_nk(b: NDArray[Any], layout: str) -> NDArray[Any]:
    return b if layout[1] == "n" else b.T


# The host -------------------------------------------------------------------------------------------------------------


@OPS.implements("tile.sm_count")
def sm_count(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.machine.sms


@OPS.implements("tile.launch")
def launch(state: AgentState, op: DecodedOp) -> None:
    start = state.machine.launch
    if start is None:
        raise violation(state, op, "a kernel launches nothing; launch from the host function")
    grid, *arguments = (state.values[slot] for slot in op.operands)
    attributes = op.attributes
    request = LaunchRequest(
        attributes["kernel"], grid, attributes["threads"], attributes.get("shared_memory"), tuple(arguments)
    )
    start(request, op)


# The kernel -----------------------------------------------------------------------------------------------------------


def _prepare_work_tiles(op: DecodedOp, program: Program) -> None:
    order = op.source.attributes["order"]
    op.data = (order.kind, order.group, order.columns)


@OPS.implements("tile.work_tiles", prepare=_prepare_work_tiles)
def work_tiles(state: AgentState, op: DecodedOp) -> Steps:
    rows, columns, *carried = (state.values[slot] for slot in op.operands)
    tile = op.attributes["tile"]
    tiles_m, tiles_n = -(-rows // tile[0]), -(-columns // tile[1])
    total, grid, first = tiles_m * tiles_n, state.machine.grid, state.cta.index
    row, column, *following = op.regions[0].arguments
    for index in tiles_of_cta(_SCHEDULERS[op.attributes["scheduler"]], first, grid, total):
        m, n = work_tile(index, tiles_m, tiles_n, *op.data)
        state.values[row], state.values[column] = m * tile[0], n * tile[1]
        for slot, value in zip(following, carried, strict=True):
            state.values[slot] = value
        carried = yield from run_block(state, op.regions[0])
    for slot, value in zip(op.results, carried, strict=True):
        state.values[slot] = value


def tiles_of_cta(scheduler: str, cta: int, ctas: int, total: int) -> range:
    """The places in the rasterization order whose tiles a CTA of the launch computes, one after the other."""
    if scheduler == "one_shot":
        return range(cta, min(cta + 1, total))
    if scheduler == "persistent":
        return range(cta, total, ctas)
    longer = total % ctas  # the runs of the first CTAs are one tile longer
    starts = [index * (total // ctas) + min(index, longer) for index in (cta, cta + 1)]
    return range(*starts)


def work_tile(index: int, tiles_m: int, tiles_n: int, kind: str, rows: int, columns: int = 0) -> tuple[int, int]:
    """The tile (m, n) that comes at place `index` of a rasterization order, by its definition in `#tile.raster`."""
    if kind == "row":
        return index // tiles_n, index % tiles_n
    if kind == "column":
        return index % tiles_m, index // tiles_m
    top = index // (rows * tiles_n) * rows
    height = min(tiles_m - top, rows)
    within = index - top * tiles_n
    if kind == "grouped":
        return top + within % height, within // height
    left = within // (height * columns) * columns
    row, column = divmod(within - left * height, min(tiles_n - left, columns))
    return top + row, left + column


@OPS.implements("tile.splat")
def splat(state: AgentState, op: DecodedOp) -> None:
    type, domain = op.result_types[0], state.machine.domain
    assert isinstance(type, Tile)
    state.values[op.results[0]] = np.full(
        type.shape, domain.constant(op.attributes["value"], type.element.name), domain.payload
    )


@OPS.implements("tile.view")
def view(state: AgentState, op: DecodedOp) -> None:
    matrix, *offsets = (state.values[slot] for slot in op.operands)
    type = op.result_types[0]
    assert isinstance(type, View)
    state.values[op.results[0]] = window_at(matrix, KINDS[op.attributes.get("kind", 0)], offsets, type.shape)


def window_at(matrix: Matrix, kind: str, offsets: list[int], shape: tuple[int, int]) -> Window:
    """The window of a matrix, or of a vector by kind, at offsets (two, or a vector's one)."""
    if kind == "per_row":
        return Window(matrix, offsets[0], 0, shape, kind)
    if kind == "per_column":
        return Window(matrix, 0, offsets[0], shape, kind)
    return Window(matrix, offsets[0], offsets[1], shape, kind)


@OPS.implements("tile.mma")
def mma(state: AgentState, op: DecodedOp) -> None:
    a, b, acc = (state.values[slot] for slot in op.operands)
    layout, type = LAYOUTS[op.attributes["layout"]], op.result_types[0]
    assert isinstance(type, Tile)
    left, right = (_operand(state, op, x) for x in (a, b))
    state.values[op.results[0]] = state.machine.domain.dot(
        _as_mk(left, layout), _as_nk(right, layout), acc, type.element.name
    )


def _operand(state: AgentState, op: DecodedOp, operand: Any) -> NDArray[Any]:
    return load_window(state, op, operand) if isinstance(operand, Window) else load_buffer(state, op, operand)


# The epilogue ---------------------------------------------------------------------------------------------------------


@OPS.implements("tile.store")
def store(state: AgentState, op: DecodedOp) -> Steps:
    acc, d, row, column, *operands = (state.values[slot] for slot in op.operands)
    type = op.operand_types[0]
    assert isinstance(type, Tile | Fragment)
    window = Window(d, row, column, type.shape)
    if isinstance(type, Fragment):
        rows, columns = (part[state.thread] for part in type.tv.coordinates(type.shape[0]))
        yield from _epilogue_by_lane(state, op, acc, window, operands, rows, columns)
    else:
        yield from _epilogue_whole(state, op, acc, window, operands)


def _operand_windows(op: DecodedOp, window: Window, operands: list[Any]) -> Iterator[Any]:
    """The window of each epilogue operand that lies where `window` lies in D; a scalar as it is."""
    for operand, number in zip(operands, op.attributes.get("kinds", ()), strict=True):
        kind = KINDS[number]
        if kind == "scalar":
            yield operand
        else:
            offsets = {"per_row": [window.row], "per_column": [window.column]}.get(kind, [window.row, window.column])
            yield window_at(operand, kind, offsets, window.shape)


def _epilogue_whole(state: AgentState, op: DecodedOp, acc: NDArray[Any], window: Window, operands: list[Any]) -> Steps:
    rows, columns = window.inside
    elements: list[Any] = [acc[:rows, :columns]]
    for operand in _operand_windows(op, window, operands):
        elements.append(load_inside(state, op, operand) if isinstance(operand, Window) else operand)
    result = yield from apply_block(state, op.regions[0], elements, (rows, columns))
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
    for slot, value in zip(block.arguments, elements, strict=True):
        state.values[slot] = value
    (result,) = yield from run_block(state, block)
    return np.broadcast_to(result, shape)
