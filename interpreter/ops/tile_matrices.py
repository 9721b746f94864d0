"""tile's ops that copy, transpose or split whole matrices: as values of the host, and by the CTAs of a launch."""

from collections.abc import Iterator
from math import prod

from lowtide.interpreter.machine import maxima, splits
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.matrices import Matrix, Window, load_window, store_inside
from lowtide.interpreter.numbers.storage import in_memory
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.types import MemRef

OPS = OpTable()


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


def _runs(
    source: Matrix, target: Matrix, rows: tuple[int, int], length: int
) -> Iterator[tuple[Matrix, Matrix, tuple[int, int]]]:
    """The rows from the first to the last, which is left out, as runs of rows of one matrix of the batch each: its
    source and target, the first row of the run and the row after its last; `length`: the rows of one matrix."""
    first, end = rows
    while first < end:
        number, row = divmod(first, length)
        following = min(length, row + end - first)
        one, other = (x.part(number) if len(x.shape) > 2 else x for x in (source, target))
        yield one, other, (row, following)
        first += following - row


def _own_rows(state: AgentState, all_rows: int) -> tuple[int, int]:
    """The CTA's share of the rows of all matrices."""
    first, end = (all_rows * number // state.machine.grid for number in (state.cta.index, state.cta.index + 1))
    return first, end


def _write_transpose(state: AgentState, op: DecodedOp, source: Matrix, target: Matrix, rows: tuple[int, int]) -> None:
    """The rows of the target from the first to the last, which is left out; in a batch those of all its matrices."""
    length, columns = target.shape[-2:]
    for one, other, (row, end) in _runs(source, target, rows, length):
        turned = load_window(state, op, Window(one, 0, row, (columns, end - row))).T
        store_inside(state, op, Window(other, row, 0, (end - row, columns)), turned)


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


@OPS.implements("tile.copy_matrix")
def copy_matrix(state: AgentState, op: DecodedOp) -> None:
    """Each CTA copies a run of rows, in a batch those of one matrix after the other."""
    source, target = (state.values[slot] for slot in op.operands)
    if source.shape != target.shape:
        raise violation(state, op, f"copies a matrix of {source.shape} to one of {target.shape} [copied-shape]")
    rows, columns = source.shape[-2:]
    for one, other, (row, end) in _runs(source, target, _own_rows(state, prod(source.shape[:-1])), rows):
        size = (end - row, columns)
        store_inside(state, op, Window(other, row, 0, size), load_window(state, op, Window(one, row, 0, size)))


@OPS.implements("tile.transpose_matrix")
def transpose_matrix(state: AgentState, op: DecodedOp) -> None:
    """Each CTA writes a run of rows of the target."""
    source, target = (state.values[slot] for slot in op.operands)
    *batch, rows, columns = source.shape
    if target.shape != (*batch, columns, rows):
        raise violation(
            state, op, f"writes the transpose of a matrix of {source.shape} to one of {target.shape} [transposed-shape]"
        )
    _write_transpose(state, op, source, target, _own_rows(state, prod(batch) * columns))


@OPS.implements("tile.split_matrix")
def split_matrix(state: AgentState, op: DecodedOp) -> None:
    """Each CTA makes a run of rows of pieces, in a batch those of one matrix after the other."""
    source, target = (state.values[slot] for slot in op.operands)
    for one, other, rows in _runs(source, target, _own_rows(state, prod(target.shape[:-1])), target.shape[-2]):
        splits.split(state, op, one, other, rows)


@OPS.implements("tile.clear")
def clear(state: AgentState, op: DecodedOp) -> None:
    """By one agent of the launch's one CTA."""
    if state.warp == state.team.members[0]:
        maxima.clear(state, op, state.values[op.operands[0]].address)
