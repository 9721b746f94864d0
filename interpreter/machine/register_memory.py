"""Loads and stores between untyped registers and memory with typed cells.

A load takes the type of the element at its address. A store into a matrix writes elements of its type; a store
elsewhere writes the type of the numbers in the registers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError, NotInterpreted
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import active_rows, by_lane, disjoint, rows_together, spread
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.machine.thread_stores import store_by_threads
from lowtide.interpreter.machine.unwritten import load_any
from lowtide.interpreter.machine.watched_loads import watched
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.accesses import Ints
from lowtide.interpreter.numbers.blending import blend
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES, ZERO_TYPE
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.packed import PACKED_TYPES, Packed
from lowtide.interpreter.numbers.registers import SIGNED, Number, Pair
from lowtide.interpreter.numbers.storage import in_memory, is_cut
from lowtide.interpreter.program.batches import NotTogether

Values = NDArray[Any]


def load(
    state: AgentState, ops: Sequence[Any], cells: Cells, addresses: Sequence[Any], width: int, count: int
) -> list[tuple[Any, ...]]:
    """For each op, `count` registers of `width` bytes from each active lane's address. The ops run as one.

    Raises InterpreterError as Cells.load, and NotTogether if the elements of several ops differ in type.
    """
    if len(ops) > 1:
        access, rows = rows_together(state, ops, addresses)
    else:
        access, rows = active_rows(state, ops[0], addresses[0])
    found = cells.dtypes_at(access, rows)
    if len(ops) > 1 and len(found) != 1:
        raise NotTogether
    dtype = max(found, key=lambda name: ELEMENT_BYTES[name]) if found else ZERO_TYPE
    size = ELEMENT_BYTES.get(dtype, width)
    if size == 2 * width and count % 2 == 0:  # both halves of each element
        whole, domain = load(state, ops, cells, addresses, size, count // 2), state.machine.domain
        return [tuple(half for each in held for half in registers.split(each, 8 * size, domain)) for held in whole]
    size = min(width, size)
    try:
        with watched(state, ops, cells, access, rows) as (access, rows):
            payload, dtype = load_any(state, ops, cells, access, rows, (size, width, count))
    except InterpreterError as error:
        is_alone = len(ops) == 1 and access.warps is None
        is_mixed = is_alone and error.code == "wrong-type"
        apart = _load_apart(state, ops[0], cells, addresses[0], width, count) if is_mixed else None
        if apart is None:
            raise
        return [apart]
    if access.lanes is None:  # the same for all warps of a CTA
        is_one = access.crews is None or cells is state.machine.memory
        payload = payload[:1] if is_one else np.repeat(payload, WARP, axis=0)
    if dtype == ZERO_TYPE:
        return [(0,) * count] * len(ops)
    each = width // size
    return [
        tuple(_register(part[:, at : at + each], dtype, width) for at in range(0, each * count, each))
        for part in spread(state, payload.reshape(len(ops), -1, payload.shape[1]))
    ]


def _load_apart(
    state: AgentState, op: Any, cells: Cells, address: Any, width: int, count: int
) -> tuple[Any, ...] | None:
    """The registers of a load that finds numbers of several types: each register, and then the lanes of each type, by
    themselves. None if there is nothing to part."""
    if count > 1:
        found = [load(state, (op,), cells, (address + at * width,), width, 1)[0] for at in range(count)]
        return tuple(register for (register,) in found)
    outer, result = state.mask, None
    active = np.ones(len(state.lanes), np.bool_) if outer is None else outer
    types = cells.codes[np.where(active, by_lane(address) - cells.origin, 0)]
    kinds = np.unique(types[active]).tolist()
    try:
        for kind in kinds if len(kinds) > 1 else ():
            state.mask = active & (types == kind)
            ((register,),) = load(state, (op,), cells, (address,), width, 1)
            result = register if result is None else blend(state.mask, register, result)
    finally:
        state.mask = outer
    return None if result is None else (result,)


def _register(payload: Values, dtype: str, width: int) -> Any:
    """A register of `width` bytes, from its elements in a row (n, elements), n = 1 if uniform."""
    size = ELEMENT_BYTES[dtype]
    if dtype[0] not in "fb":
        return _of_integers(payload, 8 * size, width)
    if size == width:
        return Number(payload[:, 0] if len(payload) > 1 else payload[0, 0], dtype)
    if width <= 4:
        return Packed(payload, dtype)
    half = payload.shape[1] // 2
    return Pair(_register(payload[:, :half], dtype, 4), _register(payload[:, half:], dtype, 4))


def _of_integers(payload: Values, bits: int, width: int) -> Any:
    words = np.ascontiguousarray(payload.astype(SIGNED[bits] if bits > 8 else np.int8))
    words = words.view(SIGNED[8 * width])[:, 0]
    return words if len(words) > 1 else int(words[0])


def store(
    state: AgentState,
    ops: Sequence[Any],
    cells: Cells,
    addresses: Sequence[Any],
    values: Sequence[Sequence[Any]],
    width: int,
) -> None:
    """For each op, store registers of `width` bytes to each active lane's address. The ops run together.

    Raises InterpreterError as Cells.store, NotInterpreted for a part of an element, and NotTogether if several ops
    overlap.
    """
    if any(value is None for each in values for value in each):
        raise state.violation(ops[0], "stores a register that was never written [register-unwritten-stored]")
    access, rows = rows_together(state, ops, addresses)
    starts, domain = rows[:: len(rows) // len(ops)], state.machine.domain
    types_of_ops = [_stored_type(cells, starts[at : at + 1], each, width) for at, each in enumerate(values)]
    types = sorted(set(types_of_ops))
    size = width * len(values[0])
    if len(types) > 1:
        disjoint(cells, access, rows, size, min(16, size))  # then their order does not matter
        for dtype in types:
            chosen = [at for at, each in enumerate(types_of_ops) if each == dtype]
            some, places, held = ([part[at] for at in chosen] for part in (ops, addresses, values))
            store(state, some, cells, places, held, width)
        return
    (dtype,) = types
    if dtype != ZERO_TYPE and size < ELEMENT_BYTES[dtype]:
        rule = f"stores {size} bytes into an array of {dtype}; declare narrower elements, or u8 [store-narrower]"
        raise state.violation(ops[0], rule, NotInterpreted)
    values, (width, *_) = zip(*(_whole(each, dtype, width, domain) for each in values), strict=True)
    if dtype == ZERO_TYPE:
        payload = np.zeros((1, size // 2), domain.payload)
    else:
        count = size // ELEMENT_BYTES[dtype]
        payload = np.empty((len(ops), len(state.lanes), count), domain.payload)
        for at, each in enumerate(values):
            own = count // len(each)
            for place, value in enumerate(each):
                payload[at, :, place * own : (place + 1) * own] = _elements(value, dtype, width, domain)
        payload = (payload if state.mask is None else payload[:, state.mask]).reshape(-1, count)
    disjoint(cells, access, rows, size, min(16, size))
    store_by_threads(cells, access, rows, payload, dtype, state.machine.observers.relied)


def _whole(values: Sequence[Any], dtype: str, width: int, domain: Domain) -> tuple[Sequence[Any], int]:
    """Registers of `width` bytes, with halves of numbers of a type joined; and their number of bytes."""
    while width < ELEMENT_BYTES.get(dtype, 0) and len(values) % 2 == 0:
        pairs = zip(values[::2], values[1::2], strict=True)
        values, width = [registers.join(low, high, 8 * width, domain) for low, high in pairs], 2 * width
    return values, width


def _stored_type(cells: Cells, rows: Ints, values: Sequence[Any], width: int) -> str:
    """The type of the elements that a store writes."""
    held = set().union(*(registers.types_of(value) for value in values))
    return type_there(cells, rows) or (min(held) if held else _plain(values, width))


def type_there(cells: Cells, rows: Ints) -> str | None:
    """The type of the matrix or workspace at the first address, in the form of registers."""
    place = int(rows[0]) - cells.origin if len(rows) else -1
    found = next((each.dtype for each in cells.buffers if each.dtype and each.start <= place < each.end), None)
    return in_memory(found) if found is not None and is_cut(found) else found


def _plain(values: Sequence[Any], width: int) -> str:
    """The type of raw bits: zeros of any type, or integers of at most four bytes."""
    is_zero = width > 1 and not any(np.any(value) for value in values)
    return ZERO_TYPE if is_zero else f"i{8 * min(width, 4)}"  # a float64 payload cannot hold 64 bits


def _elements(value: Any, dtype: str, width: int, domain: Domain) -> Values:
    """A register's elements of a type: (32 or 1, elements)."""
    size = ELEMENT_BYTES[dtype]
    if dtype in PACKED_TYPES and width == 4:
        return registers.halves(value, dtype, domain)
    if width > size:
        low, high = registers.split(value, 8 * width, domain)
        return np.concatenate(
            np.broadcast_arrays(*(_elements(each, dtype, width // 2, domain) for each in (low, high))), axis=1
        )
    if dtype[0] in "fb":
        if width > size or 8 * ELEMENT_BYTES[dtype] != 8 * width:
            raise ValueError(f"a register of {width} bytes is stored as {dtype}")
        found = registers.number(value, dtype, domain)
    else:
        found = registers.raw(value, 8 * width, domain)
    return np.atleast_1d(np.asarray(found))[:, None]


def widened(value: Any, bits: int, to: int, is_signed: bool, domain: Domain) -> Any:
    """A loaded value, in a wider register."""
    if is_signed:
        return registers.canonical(registers.raw(value, bits, domain), to)
    return registers.extended(value, bits, to, domain)


def narrowed(value: Any, bits: int, domain: Domain) -> Any:
    """The low bits of a register, to be stored; a register of that width unchanged."""
    if registers.is_raw(value):
        return registers.canonical(value, bits)
    wide = registers.width_of(value, bits) if isinstance(value, Packed) else 64 if isinstance(value, Pair) else bits
    return registers.truncated(value, wide, bits, domain) if wide > bits else registers.readable(value)
