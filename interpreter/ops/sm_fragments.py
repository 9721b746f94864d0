"""The sm dialect, registers: fragments by thread-value layout, their loads, stores and products.

The place of an element follows from the fragment's TV layout; the effect of an instruction on registers follows from
the PTX ISA (`hardware.py`). So a wrong TV layout shows as a wrong number.
"""

import re
from typing import Any

import numpy as np
from mlir import ir
from numpy.typing import NDArray

from lowtide.dialects.tile import OperandKind, ResultKind
from lowtide.elements import element_of_ir
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import hardware, maxima, reductions
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.barriers import barrier, by_warp, together
from lowtide.interpreter.machine.matrices import Matrix, Window, is_inside, load_elements, store_elements
from lowtide.interpreter.machine.shared_buffers import SharedBuffer
from lowtide.interpreter.machine.weights import fields_as_numbers, placed
from lowtide.interpreter.ops.tile_epilogue import apply_block, reduced_lines
from lowtide.interpreter.ops.tile_operands import staged_window, weights_of, window_at
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.ir_types import decode_type
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import Fragment
from lowtide.reductions import Reduction

OPS = OpTable(by_warp=True)

Values = NDArray[Any]
Ints = NDArray[np.int64]

_MMA_ATOM = re.compile(r"(mma|fma)\.m(\d+)n(\d+)k(\d+)\.(\w+)\.(\w+)(?:\.(\w+))?")


@OPS.implements("sm.splat")
def splat(state: AgentState, op: DecodedOp) -> None:
    type, domain = op.result_types[0], state.machine.domain
    shape = len(state.lanes), type.tv.values
    state.values[op.results[0]] = domain.full(shape, op.attributes["value"], type.element.name)


# ldmatrix and mma.sync ------------------------------------------------------------------------------------------------


def _prepare_ldmatrix(op: DecodedOp, program: Program) -> Any:
    """The byte offset in the buffer of the row that each lane addresses: array (warps, instructions, 8 · matrices).

    The r-th of the eight lanes that address matrix j points at the element that the instruction puts first into row r:
    value 2 · j of thread 4 · r, or with .trans value 2 · j + r % 2 of thread r / 2 (PTX ISA, "ldmatrix").
    """
    fragment, source, attributes = op.result_types[0], op.operand_types[0], op.attributes
    matrices, trans = int(attributes["atom"].split(".")[1][1:]), bool(attributes.get("trans", False))
    threads, values = fragment.tv.threads, fragment.tv.values
    each = 4 // source.element.bytes  # elements of a register
    if values % (each * matrices) or threads % 32:
        raise InterpreterError(
            f"{op.describe()}: {threads} threads with {values} values are not whole warps of {attributes['atom']}'s "
            f"{each * matrices} values [ldmatrix-warps]"
        )
    rows, columns = (
        part.reshape(threads // 32, 32, -1, matrices, each) for part in fragment.tv.coordinates(fragment.shape[0])
    )
    row = np.arange(8)
    lane, half = (row // 2, row % 2) if trans else (4 * row, 0 * row)
    held = [np.moveaxis(part[:, lane, :, :, half], 0, -1) for part in (rows, columns)]  # (warps, groups, matrices, 8)
    if trans:
        held.reverse()
    first, second = (part + offset for part, offset in zip(held, attributes["offsets"], strict=True))
    offsets = source.layout.table[first, second] * source.element.bytes
    return (offsets.reshape(threads // 32, -1, 8 * matrices), matrices, trans, 16 // source.element.bytes)


@OPS.effects("sm.ldmatrix", prepare=_prepare_ldmatrix, check=together)
def ldmatrix(state: AgentState, op: DecodedOp, buffer: SharedBuffer) -> Values:
    by_warp(state, op)
    buffer.check(state, op, "read")
    offsets, matrices, trans, run = op.data
    offsets = offsets[state.thread[0] // len(state.lanes)]
    addresses = buffer.address + offsets.reshape(-1)
    rows = state.cta.shared.load(state.access(op), addresses, buffer.type.element.name, run)
    groups = [hardware.ldmatrix(group, matrices, trans) for group in rows.reshape(len(offsets), -1, run)]
    return np.stack(groups, axis=1).reshape(len(state.lanes), -1)


def _prepare_mma(op: DecodedOp, program: Program) -> Any:
    attribute = op.source.attributes["mma"]
    match = _MMA_ATOM.fullmatch(attribute.atom)
    if match is None:
        raise InterpreterError(
            f"{op.describe()}: unknown mma atom {attribute.atom}; known are mma.m16n8k16.f32.bf16, "
            "fma.m1n1k1.f32.f32 and the like [mma-atom-known]"
        )
    m, n, k = (int(extent) for extent in match.groups()[1:4])
    warps_m, warps_n, warps_k = attribute.atoms
    (rows_m, depth), (rows_n, _) = (type.shape for type in op.operand_types[:2])
    rests = (rows_m // (m * warps_m), rows_n // (n * warps_n), depth // (k * warps_k))
    bits = op.operand_types[0].element.bits
    fragments = None if match[1] == "fma" else hardware.fragments_of((m, n, k), bits)
    held = (1, 1, 1) if fragments is None else (part[0].shape[1] for part in (fragments.a, fragments.b, fragments.c))
    for type, values, (x, y) in zip(op.operand_types, held, ((0, 2), (1, 2), (0, 1)), strict=True):
        needed = values * rests[x] * rests[y]
        if type.tv.values != needed:
            raise InterpreterError(
                f"{op.describe()}: a thread holds {type.tv.values} values of {type.shape}, "
                f"{attribute.atom}, {warps_m}x{warps_n} of them side by side, takes {needed} [mma-values-held]"
            )
    return (fragments, rests)


def _prepare_unpack_weights(op: DecodedOp, program: Program) -> Any:
    """For each thread and value of the result, the thread's byte that it comes from, and the number of bits by which it
    is shifted: (threads, values) each. Raises InterpreterError if a thread does not hold it."""
    packed, result = op.operand_types[0], op.result_types[0]
    row = element_of_ir(weights_of(op))
    assert row is not None
    rows, ks = result.tv.coordinates(result.shape[0])
    byte_row = rows if row.per_byte == 1 else rows // 16 * 8 + rows % 8
    shifts = np.zeros_like(rows) if row.per_byte == 1 else rows // 8 % 2 * row.bits
    wanted = byte_row + placed(ks + op.attributes["offset"]) * packed.shape[0]
    found = [{place: value for value, place in enumerate(own)} for own in packed.tv.table.tolist()]
    if len(found) != len(wanted) or any(
        not own.keys() >= {*each} for own, each in zip(found, wanted.tolist(), strict=True)
    ):
        raise InterpreterError(
            f"{op.describe()}: a thread does not hold the weights of its fragment [weight-values-held]"
        )
    values = [[own[place] for place in each] for own, each in zip(found, wanted.tolist(), strict=True)]
    return np.array(values), shifts, row, _zeros_held(op, rows) if len(op.operand_types) > 1 else None


def _zeros_held(op: DecodedOp, rows: Ints) -> Ints:
    """For each thread and value of the result, the thread's zero point of its row: (threads, values)."""
    zeros = op.operand_types[1]
    held = zeros.tv.coordinates(zeros.shape[0])[0]
    same = held[:, None, :] == rows[:, :, None]
    if len(held) != len(rows) or not same.any(axis=2).all():
        raise InterpreterError(
            f"{op.describe()}: a thread does not hold the zero points of its rows [zero-values-held]"
        )
    return np.argmax(same, axis=2)


@OPS.effects("sm.unpack_weights", prepare=_prepare_unpack_weights)
def unpack_weights(state: AgentState, op: DecodedOp, packed: Any, zeros: Any = None) -> Values:
    values, shifts, row, of_zeros = op.data
    held, dtype = np.asarray(packed).astype(np.int64), op.result_types[0].element.name
    fields = np.take_along_axis(held, values[state.thread], axis=1) >> shifts[state.thread] & (1 << row.bits) - 1
    if of_zeros is not None:
        zeros = np.take_along_axis(np.asarray(zeros), of_zeros[state.thread], axis=1)
    return fields_as_numbers(fields, row.ir, state.machine.domain, dtype, zeros)


@OPS.effects("sm.mma_sync", prepare=_prepare_mma, check=together)
def mma_sync(state: AgentState, op: DecodedOp, a: Any, b: Any, c: Any) -> Any:
    """Each warp's atoms, k outermost; values count atom registers first, then atoms along rows, then along columns."""
    by_warp(state, op)
    fragments, (atoms_m, atoms_n, atoms_k) = op.data
    if fragments is None:
        return _fma(state, op, a, b, c)
    m, n, k = fragments.shape
    lanes = len(state.lanes)
    registers_a = a.reshape(lanes, atoms_k, atoms_m, -1)
    registers_b = b.reshape(lanes, atoms_k, atoms_n, -1)
    registers_c = c.reshape(lanes, atoms_n, atoms_m, -1)
    # All atoms of one k step at once: atom (i, j) multiplies rows i of the stacked A by rows j of the stacked B.
    matrix_c = np.empty((atoms_m, m, atoms_n, n), c.dtype)
    matrix_c[:, fragments.c[0], :, fragments.c[1]] = registers_c.transpose(0, 3, 2, 1)
    result = matrix_c.reshape(atoms_m * m, atoms_n * n)
    first, second, dtype = (type.element.name for type in (*op.operand_types[:2], op.result_types[0]))
    operands = first, second
    for step in range(atoms_k):
        matrix_a = np.empty((atoms_m, m, k), a.dtype)
        matrix_b = np.empty((atoms_n, n, k), b.dtype)
        matrix_a[:, fragments.a[0], fragments.a[1]] = registers_a[:, step].transpose(1, 0, 2)
        matrix_b[:, fragments.b[1], fragments.b[0]] = registers_b[:, step].transpose(1, 0, 2)
        flat_a, flat_b = matrix_a.reshape(-1, k), matrix_b.reshape(-1, k)
        result = state.machine.domain.mma(flat_a, flat_b, result, operands, dtype, k)
    tiles = result.reshape(atoms_m, m, atoms_n, n)
    taken = tiles[:, fragments.c[0], :, fragments.c[1]]  # (lanes, values, atoms_m, atoms_n)
    return taken.transpose(0, 3, 2, 1).reshape(lanes, -1)


def _fma(state: AgentState, op: DecodedOp, a: Values, b: Values, c: Values) -> Values:
    """Each thread's own products, one after the other along K, each sum rounded once (PTX ISA, "fma")."""
    lanes, (_, (atoms_m, atoms_n, atoms_k)) = len(state.lanes), op.data
    dtype = op.result_types[0].element.name
    result = c.reshape(lanes, atoms_n, atoms_m)
    for step in range(atoms_k):
        x = a.reshape(lanes, atoms_k, 1, atoms_m)[:, step]
        y = b.reshape(lanes, atoms_k, atoms_n, 1)[:, step]
        result = state.machine.domain.fma(x, y, result, dtype)
    return result.reshape(lanes, -1)


@OPS.effects("sm.sum_over_k", check=together)
def sum_over_k(state: AgentState, op: DecodedOp, own_sums: Any) -> Steps:
    """The accumulators of the warps along K, the slowest of a CTA, added in order; each thread takes its own."""
    by_warp(state, op)
    partial, result = op.operand_types[0], op.result_types[0]
    count = op.source.attributes["mma"].atoms[2]
    given = state.cta.exchanged
    given[state.warp] = own_sums
    yield from barrier(state, op, "of sm.sum_over_k")
    values = np.concatenate([given[warp] for warp in sorted(given)])
    held, threads, domain = partial.tv.table, len(values) // count, state.machine.domain
    total = domain.full(result.shape[0] * result.shape[1], 0, result.element.name)
    for place in range(count):
        own = slice(place * threads, (place + 1) * threads)
        part = np.zeros_like(total)
        part[held[own]] = values[own]
        total = part if place == 0 else domain.sum(total, part, result.element.name)
    yield from barrier(state, op, "of sm.sum_over_k")  # before any agent gives something else
    return total[result.tv.table[state.thread]]


@OPS.effects("sm.stack")
def stack(state: AgentState, op: DecodedOp, registers: Any) -> Any:
    """The same registers; their thread-value layout determines the tile."""
    return registers


# Elementwise ----------------------------------------------------------------------------------------------------------


def _prepare_extract(op: DecodedOp, program: Program) -> Any:
    """For each thread and value of the result, the number of the thread's source value."""
    source, result = op.operand_types[0], op.result_types[0]
    rows, columns = result.tv.coordinates(result.shape[0])
    wanted = rows + op.attributes["offsets"][0] + (columns + op.attributes["offsets"][1]) * source.shape[0]
    held = source.tv.table
    if held.shape[0] != wanted.shape[0]:
        raise InterpreterError(
            f"{op.describe()}: {wanted.shape[0]} threads take parts of the values of {held.shape[0]}; use as many"
            " [extract-threads]"
        )
    order = np.argsort(held, axis=1)
    chosen = np.empty_like(wanted)
    for thread in range(len(held)):
        ranked = held[thread, order[thread]]
        place = np.minimum(np.searchsorted(ranked, wanted[thread]), len(ranked) - 1)
        missing = np.flatnonzero(ranked[place] != wanted[thread])
        if missing.size:
            value = int(missing[0])
            raise InterpreterError(
                f"{op.describe()}: thread {thread} does not hold element ({rows[thread, value]}, "
                f"{columns[thread, value]}) of the part; every thread must hold its own [extract-held]"
            )
        chosen[thread] = order[thread][place]
    return chosen


@OPS.effects("sm.extract", prepare=_prepare_extract)
def extract(state: AgentState, op: DecodedOp, values: Any) -> Values:
    return np.take_along_axis(values, op.data[state.thread], axis=1)


@OPS.effects("sm.map")
def map_(state: AgentState, op: DecodedOp, *elements: Any) -> Steps:
    shape = (len(state.lanes), op.result_types[0].tv.values)
    results = yield from apply_block(state, op.regions[0], elements, shape)
    return results if len(results) > 1 else results[0]


@OPS.effects("sm.max_abs")
def max_abs(state: AgentState, op: DecodedOp, values: Any, window: Any, most: Any) -> Any:
    """The largest absolute value of each lane; elements past the edge count as zero."""
    rows, columns = _coordinates(state, op.operand_types[0])
    inside = np.where(is_inside(window, rows, columns), values, state.machine.domain.constant(0, "f32"))
    own = maxima.largest(state, inside)[:, None]
    return state.machine.domain.maximum(most, own)


@OPS.effects("sm.raise_max")
def raise_max(state: AgentState, op: DecodedOp, most: Any, target: Any) -> None:
    maxima.lift(state, op, target.address, most)


@OPS.effects("sm.reduce")
def reduce_(state: AgentState, op: DecodedOp, *operands: Any) -> Any:
    """Partial results of each lane's lines; of a logsumexp, a maximum and a sum for each line."""
    reduction, domain = _reduction(op), state.machine.domain
    (value,), (window,), wanted, before = (list(map(state.values.__getitem__, slots)) for slots in op.operand_groups())
    partial = reduced_lines(state, op, reduction, (value, window, next(iter(wanted), None)), op.operand_types[0])
    if before:
        partial = reductions.combined(domain, reduction, _as_partial(reduction, before[0]), partial)
    return np.stack(partial, axis=-1).reshape(len(value), -1)


def _prepare_store_reduced(op: DecodedOp, program: Program) -> Any:
    return decode_type(ir.TypeAttr(op.source.attributes["layout"]).value)


@OPS.effects("sm.store_reduced", prepare=_prepare_store_reduced)
def store_reduced(
    state: AgentState, op: DecodedOp, value: Any, target: Any, slot: int, first: int, *batch: int
) -> None:
    """The first of the lanes that hold the same lines stores the partial result of all of them."""
    reduction, domain = _reduction(op), state.machine.domain
    held = reductions.held_lines(reduction, op.data)
    lines, ranks = held.lines[state.thread], held.ranks[state.thread]
    partial = reductions.exchanged(domain, reduction, lines, _as_partial(reduction, value))
    chosen = np.broadcast_to(reductions.first_lanes(lines)[:, None], lines.shape)
    slots = reductions.Slots(target.part(batch[0]) if batch else target, slot, held.sharing, first)
    lanes = np.broadcast_to(state.lanes[:, None], lines.shape)[chosen]
    of_warp = np.broadcast_to(ranks[:, None], lines.shape)[chosen]
    reductions.write(state, op, slots, of_warp, lines[chosen], tuple(x[chosen] for x in partial), lanes)


def _as_partial(reduction: Reduction, values: Values) -> reductions.Partial:
    """The values of a fragment of partial results."""
    return (values[:, 0::2], values[:, 1::2]) if reduction.is_pair else (values,)


def _reduction(op: DecodedOp) -> Reduction:
    found = reductions.reduction_of(ResultKind(op.attributes["kind"]))
    assert found is not None
    return found


# Loads and stores -----------------------------------------------------------------------------------------------------


def _coordinates(state: AgentState, type: Fragment) -> tuple[Ints, Ints]:
    rows, columns = type.tv.coordinates(type.shape[0])
    return rows[state.thread], columns[state.thread]


def _active(state: AgentState, addresses: Ints) -> tuple[Any, Ints]:
    """The lanes that take part, and the lane of each of their addresses."""
    chosen: Any = slice(None) if state.mask is None else state.mask
    return chosen, np.repeat(state.lanes[chosen], addresses.shape[1])


@OPS.effects("sm.store_shared")
def store_shared(state: AgentState, op: DecodedOp, value: Any, buffer: Any) -> None:
    buffer.check(state, op, "write")
    addresses = buffer.addresses(*_coordinates(state, op.operand_types[0]))
    chosen, lanes = _active(state, addresses)
    state.cta.shared.store(
        state.access(op, lanes), addresses[chosen].reshape(-1), value[chosen].reshape(-1, 1), buffer.type.element.name
    )


@OPS.effects("sm.load_shared")
def load_shared(state: AgentState, op: DecodedOp, buffer: SharedBuffer) -> Values:
    row, column = op.attributes.get("offsets", (0, 0))
    rows, columns = _coordinates(state, op.result_types[0])[:: -1 if op.attributes.get("trans", False) else 1]
    return _loaded(state, op, buffer, rows + row, columns + column)


def _loaded(state: AgentState, op: DecodedOp, buffer: SharedBuffer, rows: Ints, columns: Ints) -> Values:
    """Each active lane reads its elements of a buffer."""
    buffer.check(state, op, "read")
    addresses = buffer.addresses(rows, columns)
    chosen, lanes = _active(state, addresses)
    result = np.zeros(addresses.shape, state.machine.domain.payload)
    loaded = state.cta.shared.load(state.access(op, lanes), addresses[chosen].reshape(-1), buffer.type.element.name)
    result[chosen] = loaded.reshape(-1, addresses.shape[1])
    return result


@OPS.effects("sm.load_scales")
def load_scales(state: AgentState, op: DecodedOp, source: Any, *offsets: Any) -> Values:
    """Each lane reads the scales of its elements, from a matrix or from a buffer with a part of it."""
    type, kind = op.result_types[0], OperandKind(op.attributes["kind"])
    place = _coordinates(state, type)
    if isinstance(source, Matrix):
        return load_elements(state, op, window_at(source, kind, offsets, type.shape), *place)
    return _loaded(state, op, source, *staged_window(source, kind, offsets, type.shape).places(op, *place))


@OPS.effects("sm.load_global")
def load_global(state: AgentState, op: DecodedOp, window: Window) -> Values:
    rows, columns = _coordinates(state, op.result_types[0])[:: -1 if op.attributes.get("trans", False) else 1]
    if op.attributes.get("aligned", False):
        _check_aligned(op, window.matrix, "loads")
    return load_elements(state, op, window, rows, columns)


def _check_aligned(op: DecodedOp, matrix: Matrix, accesses: str) -> None:
    """Check that base and row stride are aligned for vectors of the atom (PTX ISA, "Addresses as Operands")."""
    size = int(op.attributes["atom"].rpartition(".")[2])
    if (matrix.address | matrix.row_stride * matrix.element.bytes) % size:
        raise InterpreterError(
            f"{op.describe()}: {matrix.name} begins at {matrix.address:#x}, its rows "
            f"{matrix.row_stride * matrix.element.bytes} bytes apart: misaligned for {accesses} of {size} bytes"
            " [access-misaligned]"
        )


@OPS.effects("sm.store_global")
def store_global(state: AgentState, op: DecodedOp, value: Any, window: Any) -> None:
    rows, columns = _coordinates(state, op.operand_types[0])
    _check_aligned(op, window.matrix, "stores")
    store_elements(state, op, window, rows, columns, value)
