"""Matrices held by the lanes of a warp: ldmatrix, stmatrix, mma.sync (PTX ISA, "ldmatrix", …)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine import hardware
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.hardware import MmaFragments
from lowtide.interpreter.machine.lanes import by_lane, disjoint, whole_warp
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.machine.thread_stores import store_by_threads
from lowtide.interpreter.numbers.accesses import Access, Described, Ints
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES, ZERO_TYPE
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.integers import INTEGERS
from lowtide.interpreter.numbers.packed import PACKED_TYPES, Packed
from lowtide.interpreter.numbers.registers import Number, is_raw, number, numbers_of, raw, types_of
from lowtide.interpreter.numbers.storage import cut, in_memory, is_cut
from lowtide.interpreter.program.batches import NotTogether

Values = NDArray[Any]

_ROW_BYTES = 16  # of a matrix
_WORD_BYTES = 4  # of a register
SMALL: Mapping[str, tuple[int, int]] = MappingProxyType({"s4": (4, 1), "u4": (4, 0), "b1": (1, 0)})
"""Integers of less than a byte, by PTX name: their bits, and whether they are signed."""


def ldmatrix(
    state: AgentState, ops: Sequence[Described], addresses: Sequence[Any], num: int, trans: bool
) -> list[tuple[Any, ...]]:
    """The results of each op; the ops run as one. Each of the first 8 · num lanes gives the address of a row, and all
    lanes together read it."""
    whole_warp(state, ops[0])
    lanes = len(state.lanes)
    given = np.stack([by_lane(address, lanes) for address in addresses]).reshape(len(ops), -1, WARP)[..., : 8 * num]
    payload, dtype = _rows(state, state.access_by_warps(ops, 8 * num), given.reshape(-1), trans)
    held = hardware.ldmatrix(payload, given.size // 8, trans)
    held = held.reshape(WARP, len(ops), -1, num, held.shape[-1]).transpose(2, 0, 1, 3, 4)  # warp, lane, op, matrix
    registers = _received(held.reshape(lanes, num * len(ops), -1), dtype)
    return [registers[at : at + num] for at in range(0, len(registers), num)]


def _rows(state: AgentState, access: Access, rows: Ints, trans: bool) -> tuple[Values, str]:
    """The 16 bytes at each address, and the type of their elements: of one or two bytes, or f32. Wider ones, and f32 if
    units of 16 bits are transposed, are read as bits."""
    shared, domain = state.cta.shared, state.machine.domain
    found = shared.dtypes_at(access, rows)
    is_of_bytes = any(name in INTEGERS or ELEMENT_BYTES[name] == 1 for name in found)
    width = 1 if is_of_bytes else max((ELEMENT_BYTES[name] for name in found), default=2)
    payload, dtype = shared.load_any(access, rows, width, _ROW_BYTES // width)
    if width <= 2 or (width == _WORD_BYTES and not trans):
        return payload, dtype
    return np.ascontiguousarray(domain.to_bits(payload, dtype)).view(np.int8), "i8"


def _received(registers: Values, dtype: str) -> tuple[Any, ...]:
    """Registers (32, num, elements): f32, packed, or the bits of integers."""
    if dtype in INTEGERS and INTEGERS[dtype].itemsize == 1:
        return tuple(np.ascontiguousarray(registers.astype(np.int8)).view(np.int32)[..., 0].T)
    if registers.shape[-1] == 1:
        return tuple(Number(each, dtype) for each in registers[..., 0].T)
    return tuple(Packed(registers[:, matrix], dtype) for matrix in range(registers.shape[1]))


def stmatrix(
    state: AgentState, ops: Sequence[Described], addresses: Sequence[Any], given: Sequence[Sequence[Any]], trans: bool
) -> None:
    """Lanes 8 j to 8 j + 7 give the addresses of the rows of matrix j, each of 16 bytes. `given`: the registers of each
    op; the ops run as one. Raises NotTogether if the registers hold different types."""
    whole_warp(state, ops[0])
    domain, shared = state.machine.domain, state.cta.shared
    # Reads of bits as numbers are possible where registers have no types; elsewhere bits are those of a type.
    of_bits = PACKED_TYPES[0] if shared.numbers_of_bits is None else "i16"
    types = {_type_of_halves(registers, of_bits) for registers in given}
    if len(types) > 1:
        raise NotTogether
    (dtype,) = types
    together, lanes = [register for registers in given for register in registers], np.arange(8 * len(given[0]))
    if dtype != ZERO_TYPE and ELEMENT_BYTES[dtype] > (2 if trans else _WORD_BYTES):
        dtype = "i16"  # bits
    width = 2 if dtype == ZERO_TYPE else ELEMENT_BYTES[dtype]
    values = np.zeros((32, len(together), _WORD_BYTES // width), domain.payload)
    for index, register in enumerate(together):
        if dtype == "i16":
            values[:, index] = _words(register, domain)
        elif dtype != ZERO_TYPE:
            values[:, index] = numbers_of(register, _WORD_BYTES * 8, dtype, domain)
    rows = np.concatenate([by_lane(address)[lanes] for address in addresses])
    access = state.access_of(ops, np.concatenate([lanes] * len(ops)))
    disjoint(shared, access, rows, _ROW_BYTES)
    stored = hardware.stmatrix(values, len(together), trans)
    store_by_threads(shared, access, rows, stored, dtype, state.machine.observers.relied)


def transposed(state: AgentState, op: Described, register: Any) -> Any:
    """movmatrix: an 8x8 matrix of 16-bit elements, one row of a register in each four lanes, transposed."""
    whole_warp(state, op)
    domain = state.machine.domain
    dtype = next(iter(types_of(register)), "f32")
    if ELEMENT_BYTES[dtype] <= 2:
        payload = np.broadcast_to(numbers_of(register, 32, dtype, domain), (32, _WORD_BYTES // ELEMENT_BYTES[dtype]))
        return Packed(payload.reshape(8, 8, -1).swapaxes(0, 1).reshape(payload.shape), dtype)
    return np.ascontiguousarray(_words(register, domain).reshape(8, 8).T).reshape(32, 2).view(np.int32)[:, 0]


def _words(register: Any, domain: Domain) -> NDArray[np.int16]:
    """The low and high half of a register as integers: (32, 2)."""
    return np.ascontiguousarray(by_lane(raw(register, 32, domain)).astype(np.int32)[:, None]).view(np.int16)


def _type_of_halves(registers: Sequence[Any], of_bits: str) -> str:
    """The type of the numbers that registers hold in pairs; `of_bits` if there are only bits, which have no type."""
    for register in registers:
        for dtype in types_of(register):
            return dtype
    has_bits = any(is_raw(register) and np.any(register) for register in registers)
    return of_bits if has_bits else ZERO_TYPE


def elements_of(registers: Sequence[Any], dtype: str, domain: Domain, lanes: int = WARP) -> Values:
    """The elements of a type in registers of some lanes, one register after the other: (lanes, values)."""
    return _side_by_side([_numbers(register, dtype, domain) for register in registers], lanes)


@dataclass(frozen=True)
class Product:
    """How a product differs from a plain one: the type of D if it is not that of C, `saturates`: sums are clamped to 32
    bits, `is_xor`: bits are compared and not multiplied."""

    result: str = ""
    saturates: bool = False
    is_xor: bool = False


PLAIN = Product()


def multiply(
    state: AgentState,
    op: Described,
    fragments: MmaFragments,
    types: tuple[str, str, str],
    registers: tuple[Sequence[Any], Sequence[Any], Sequence[Any]],
    how: Product = PLAIN,
) -> Values:
    """D = A · B + C by the warp: the accumulators (32, values) of D.

    `types` are those of A, of B and of the accumulator; `registers` those of A, B and C in the instruction's order.
    """
    whole_warp(state, op)
    domain = state.machine.domain
    a, b, c = (elements_of(each, dtype, domain) for each, dtype in zip(registers, types, strict=True))
    dtype = how.result or types[2]
    if how.is_xor:  # of bits: a place adds one if they differ, and one less two if the signs that stand for them do
        signs = hardware.mma(fragments, 1 - 2 * a, 1 - 2 * b, np.zeros_like(c), domain, types[:2], dtype)
        return np.asarray((fragments.shape[2] - signs) // 2 + c)
    if how.saturates:
        exact = hardware.mma(fragments, a, b, c.astype(np.int64), domain, types[:2], "i64")
        limits = np.iinfo(np.int32)
        return np.clip(exact, limits.min, limits.max).astype(np.int32)
    return hardware.mma(fragments, a, b, c, domain, types[:2], dtype)


@dataclass(frozen=True)
class Products:
    """Products that run as one: the slots of A and B, each fragment once, and the fragments of each product."""

    a: tuple[tuple[int, ...], ...]
    b: tuple[tuple[int, ...], ...]
    of_a: NDArray[np.int64]
    of_b: NDArray[np.int64]

    @classmethod
    def of(cls, slots: Sequence[tuple[tuple[int, ...], ...]]) -> "Products":
        """From the slots of A and B of each."""
        a, b = zip(*slots, strict=True)
        places_a, places_b = ({each: at for at, each in enumerate(dict.fromkeys(side))} for side in (a, b))
        of_a, of_b = np.array([places_a[each] for each in a]), np.array([places_b[each] for each in b])
        return cls(tuple(places_a), tuple(places_b), of_a, of_b)


def multiply_together(
    state: AgentState, products: Products, columns: Sequence[Any], fragments: MmaFragments, types: tuple[str, str, str]
) -> list[Values]:
    """As `multiply`, for products of packed operands and accumulators. `columns`: the columns (32,) of D of each
    accumulator. If there are several warps, each multiplies its own operands."""
    if state.mask is not None:
        raise NotTogether
    domain, (m, n, k), lanes = state.machine.domain, fragments.shape, len(state.lanes)
    sides = zip((products.a, products.b), types[:2], strict=True)
    a, b = (_fragments(state, side, dtype) for side, dtype in sides)
    left, right = np.empty((*a.shape[:2], m, k), a.dtype), np.empty((*b.shape[:2], k, n), b.dtype)
    left[..., fragments.a[0], fragments.a[1]] = a
    right[..., fragments.b[0], fragments.b[1]] = b
    c = domain.full((len(columns), lanes), 0, types[2])
    for at, column in enumerate(columns):
        c[at] = column
    count = len(products.of_a)
    accumulators = np.empty((count, lanes // WARP, m, n), c.dtype)
    held = c.reshape(count, -1, lanes // WARP, WARP).transpose(0, 2, 3, 1)
    accumulators[..., fragments.c[0], fragments.c[1]] = held
    rows_of_b = right[products.of_b].swapaxes(2, 3).reshape(-1, n, k)
    rows_of_a = left[products.of_a].reshape(-1, m, k)
    d = domain.mma(rows_of_a, rows_of_b, accumulators.reshape(-1, m, n), types[:2], types[2], k)
    found = d[:, fragments.c[0], fragments.c[1]].reshape(count, -1, *held.shape[2:]).transpose(0, 3, 1, 2)
    return list(np.ascontiguousarray(found).reshape(-1, lanes))


def _fragments(state: AgentState, side: Sequence[tuple[int, ...]], dtype: str) -> Values:
    """Packed operands: array (fragments, warps, 32, values)."""
    lanes, domain = len(state.lanes), state.machine.domain
    registers = [_numbers(state.values[slot], dtype, domain) for slots in side for slot in slots]
    each = registers[0].shape[1]
    if any(len(register) != lanes for register in registers):
        registers = [np.broadcast_to(register, (lanes, each)) for register in registers]
    joined = np.concatenate(registers).reshape(len(side), -1, lanes, each)
    return joined.swapaxes(1, 2).reshape(len(side), lanes // WARP, WARP, -1)


def _numbers(register: Any, dtype: str, domain: Domain) -> Values:
    """The contents of an operand's register: array (32 or 1, elements). A vector has as many elements."""
    if dtype in SMALL:
        bits, is_signed = SMALL[dtype]
        words = np.atleast_1d(np.asarray(raw(register, 32, domain), np.int64))[:, None]
        parts = words >> bits * np.arange(32 // bits) & (1 << bits) - 1
        return np.where(parts >> bits - 1 & is_signed, parts - (1 << bits), parts).astype(np.int32)
    if is_cut(dtype):
        return cut(np.atleast_1d(number(register, in_memory(dtype), domain)), dtype)[:, None]
    if isinstance(register, np.ndarray) and register.ndim == 2:
        return register
    if dtype in INTEGERS:
        words = np.atleast_1d(np.asarray(raw(register, 32, domain), np.int32))
        return np.ascontiguousarray(words[:, None]).view(INTEGERS[dtype])
    count = max(1, _WORD_BYTES // ELEMENT_BYTES[dtype])
    if isinstance(register, Packed):
        payload = register.unpack(dtype)
        return payload if register.dtype == dtype else payload[..., :1].repeat(count, -1)  # zeros
    return numbers_of(register, count * 8 * ELEMENT_BYTES[dtype], dtype, domain)


def _side_by_side(registers: list[Any], lanes: int) -> Any:
    """Several values per register: array (lanes, values)."""
    if any(len(register) != lanes for register in registers):
        registers = [np.broadcast_to(register, (lanes, register.shape[1])) for register in registers]
    return np.concatenate(registers, axis=1)
