"""tile's ops that prepare whole matrices: as values of the host, and by the CTAs of a launch."""

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from lowtide.dialects.tile import ResultKind, Side
from lowtide.interpreter.machine import maxima, reductions, splits
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.matrices import Matrix, Window, load_window, store_inside
from lowtide.interpreter.numbers.storage import in_memory
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable

OPS = OpTable()


@OPS.implements("tile.pack")
def pack(state: AgentState, op: DecodedOp) -> None:
    """A transpose, or pieces, in separate memory; otherwise the matrix itself: this level needs no alignment."""
    source, type_ = state.values[op.operands[0]], op.result_types[0]
    state.values[op.results[0]] = source
    if op.attributes.keys().isdisjoint(("transposed", "precision")):
        return
    memory, (rows, columns) = state.machine.memory, _prepared_shape(op, source)
    batch = source.shape[:-2]
    is_shared = bool(batch) and source.strides[0] == 0
    count = 1 if is_shared else prod(batch)
    name = f"prepared {len(memory.buffers)}"
    address = memory.allocate(name, count * rows, columns, columns, in_memory(type_.element.name))
    strides = (*([0 if is_shared else rows * columns] * len(batch)), columns)
    target = Matrix(name, address, (*batch, rows, columns), strides, type_.element)
    _write(state, op, source, target, (0, count * rows))
    state.values[op.results[0]] = target


@OPS.implements("tile.unpack")
def unpack(state: AgentState, op: DecodedOp) -> None:
    """Do nothing: the packed matrix is the matrix itself."""


@OPS.effects("tile.prepare")
def prepare(state: AgentState, op: DecodedOp, target: Any, *given: Any) -> None:
    """Each CTA writes a run of rows of the target, in a batch matrix after matrix. For zeros, one agent of the launch's
    only CTA writes."""
    if not given:
        if state.warp == state.team.members[0]:
            maxima.clear(state, op, target.address)
        return
    (source,) = given
    expected = (*source.shape[:-2], *_prepared_shape(op, source))
    if target.shape != expected:
        raise state.violation(
            op,
            f"makes a matrix of {expected} from one of {source.shape}, and writes to one of {target.shape}"
            " [prepared-extents]",
        )
    all_rows, cta, grid = prod(target.shape[:-1]), state.cta.index, state.machine.grid
    _write(state, op, source, target, (all_rows * cta // grid, all_rows * (cta + 1) // grid))


@OPS.effects("tile.finish")
def finish(state: AgentState, op: DecodedOp, target: Any, source: Any) -> None:
    """Each CTA reduces consecutive elements; the vectors of a batch follow each other. One agent of the CTA does
    this."""
    if state.warp != state.team.members[0]:
        return
    reduction, domain = reductions.reduction_of(ResultKind(op.attributes["kind"])), state.machine.domain
    assert reduction is not None
    length, each = target.shape[-1], 2 if "pairs" in op.attributes else 1
    whole, cta, grid = prod(target.shape), state.cta.index, state.machine.grid
    for index in range(whole * cta // grid, whole * (cta + 1) // grid):
        part, place = divmod(index, length)
        if len(source.shape) > len(target.shape):  # partial results are columns of a matrix
            to, addresses = target, source.addresses(np.arange(source.shape[0]), place)
            start = source
        else:
            to, start = (x.part(part) if len(x.shape) > 1 else x for x in (target, source))
            addresses = start.addresses(0, np.arange(place, start.shape[0], length))
        values = state.machine.memory.load(state.access(op), addresses, start.element.name)[:, 0]
        total = reductions.of_nothing(domain, reduction, ())
        for at in range(0, len(values), each):
            own = tuple(values[at : at + 2]) if each == 2 else reductions.of_values(domain, reduction, values[at])
            total = reductions.combined(domain, reduction, total, own)
        found = np.asarray(reductions.finished(domain, reduction, total)).reshape(1, 1)
        state.machine.memory.store(state.access(op), to.addresses(0, np.array([place])), found, to.element.name)


def _prepared_shape(op: DecodedOp, source: Matrix) -> tuple[int, int]:
    """Rows and columns of the result of an op on a matrix."""
    rows, columns = source.shape[-2:]
    if "transposed" in op.attributes:
        rows, columns = columns, rows
    return rows, splits.decomposition(op).depth(columns) if "precision" in op.attributes else columns


def _write(state: AgentState, op: DecodedOp, source: Matrix, target: Matrix, rows: tuple[int, int]) -> None:
    """Write a half-open range of rows of the target; in a batch, of the rows of all its matrices."""
    is_turned = "transposed" in op.attributes
    for one, other, (row, end) in _runs(source, target, rows):
        depth = one.shape[0 if is_turned else 1]
        place, shape = ((0, row), (depth, end - row)) if is_turned else ((row, 0), (end - row, depth))
        values = load_window(state, op, Window(one, *place, shape))
        values = values.T if is_turned else values
        if "precision" in op.attributes:
            side = 0 if op.attributes["side"] == Side.left else 1
            values = splits.blocks(values, splits.decomposition(op), side, state.machine.domain)
        store_inside(state, op, Window(other, row, 0, values.shape), values)


def _runs(source: Matrix, target: Matrix, rows: tuple[int, int]) -> Iterator[tuple[Matrix, Matrix, tuple[int, int]]]:
    """Rows of the target as runs within one matrix of the batch each: its source and target, and the half-open range
    of rows."""
    (first, end), length = rows, target.shape[-2]
    while first < end:
        number, row = divmod(first, length)
        following = min(length, row + end - first)
        one, other = (x.part(number) if len(x.shape) > 2 else x for x in (source, target))
        yield one, other, (row, following)
        first += following - row
