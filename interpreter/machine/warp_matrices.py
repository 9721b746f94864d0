"""Matrices that the lanes of a warp hold together: ldmatrix, stmatrix, mma.sync (PTX ISA, "ldmatrix", …)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine import hardware
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.hardware import MmaFragments
from lowtide.interpreter.machine.lanes import by_lane, disjoint, whole_warp
from lowtide.interpreter.numbers.cells import ZERO_TYPE, Described
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.packed import Packed, unpack
from lowtide.interpreter.program.batches import Batch, NotTogether

Values = NDArray[Any]


def ldmatrix(state: AgentState, op: Described, address: Any, num: int, trans: bool) -> tuple[Packed, ...]:
    """Each of the first 8 · num lanes gives the address of a row; all lanes together read it."""
    whole_warp(state, op)
    rows = by_lane(address)[: 8 * num]
    payload, dtype = state.cta.shared.load_any(state.access(op), rows, 2, 8)
    received = hardware.ldmatrix(payload, num, trans)
    return tuple(Packed(received[:, matrix], dtype) for matrix in range(num))


def ldmatrix_together(
    state: AgentState, batch: Batch, addresses: Sequence[Any], num: int, trans: bool
) -> list[tuple[Packed, ...]]:
    """As `ldmatrix`, for ops that run as one: what each receives. Raises NotTogether where it differs."""
    if state.mask is not None:
        raise NotTogether
    rows = np.concatenate([by_lane(address)[: 8 * num] for address in addresses])
    access = state.access(batch.ops[0])
    access.ops = batch.ops
    payload, dtype = state.cta.shared.load_any(access, rows, 2, 8)
    if dtype == ZERO_TYPE:
        raise NotTogether
    received = hardware.ldmatrix(payload, num * len(addresses), trans).swapaxes(0, 1)
    registers = [Packed(each, dtype) for each in received]
    return [tuple(registers[at : at + num]) for at in range(0, len(registers), num)]


def stmatrix(state: AgentState, op: Described, address: Any, registers: Sequence[Any], trans: bool) -> None:
    """Lanes 8 j to 8 j + 7 give the addresses of the rows of matrix j, each of 16 bytes."""
    whole_warp(state, op)
    packed = [register.dtype for register in registers if isinstance(register, Packed) and register.dtype != ZERO_TYPE]
    if not packed and any(not isinstance(register, Packed) and np.any(register) for register in registers):
        raise violation(
            state, op, "registers of plain integers; cast vectors of two 16-bit floats to i32 (llvm.bitcast)"
        )
    dtype = packed[0] if packed else ZERO_TYPE
    domain, count = state.machine.domain, len(registers)
    values = np.empty((32, count, 2), domain.payload)
    for index, register in enumerate(registers):
        values[:, index] = unpack(register, dtype, domain)
    lanes = np.arange(8 * count)
    written = hardware.stmatrix(values, count, trans)
    state.cta.shared.store(state.access(op, lanes), by_lane(address)[lanes], written, dtype, 8)


def stmatrix_together(
    state: AgentState, batch: Batch, addresses: Sequence[Any], registers: Sequence[Sequence[Any]], trans: bool
) -> None:
    """As `stmatrix`, for ops that run as one: of the registers of each. Raises NotTogether where it differs."""
    together = [register for each in registers for register in each]
    dtype = together[0].dtype if isinstance(together[0], Packed) else ZERO_TYPE
    if state.mask is not None or dtype == ZERO_TYPE:
        raise NotTogether
    if any(not isinstance(register, Packed) or register.dtype != dtype for register in together):
        raise NotTogether
    domain, count = state.machine.domain, len(registers[0])
    values = np.empty((32, len(together), 2), domain.payload)
    for index, register in enumerate(together):
        values[:, index] = register.payload
    lanes = np.arange(8 * count)
    rows = np.concatenate([by_lane(address)[: 8 * count] for address in addresses])
    access = state.access(batch.ops[0], np.concatenate([lanes] * len(addresses)))
    access.ops = batch.ops
    shared = state.cta.shared
    disjoint(shared, access, rows, 16)
    shared.store(access, rows, hardware.stmatrix(values, len(together), trans), dtype, 8)


def multiply(
    state: AgentState,
    op: Described,
    fragments: MmaFragments,
    types: tuple[str, str],
    registers: tuple[Sequence[Any], Sequence[Any], Sequence[Any]],
) -> Values:
    """D = A · B + C by the warp: the accumulators (32, values) of D.

    `types` are those of the operands and of the accumulator; `registers` those of A, B and C in the instruction's
    order: packed where two numbers share one, else a payload.
    """
    whole_warp(state, op)
    domain = state.machine.domain
    parts = []
    for each, place, dtype in zip(registers, (fragments.a, fragments.b, fragments.c), (types[0], *types), strict=True):
        if len(each) * 2 == place[0].shape[1]:
            parts.append(_side_by_side([unpack(register, dtype, domain) for register in each]))
        else:
            columns = np.empty((32, len(each)), domain.payload)
            for index, register in enumerate(each):
                columns[:, index] = register
            parts.append(columns)
    a, b, c = parts
    return hardware.mma(fragments, a, b, c, domain, (types[0], types[0]), types[1])


@dataclass(frozen=True)
class Products:
    """Products that run as one: the slots of their operands, each fragment once, and which fragments each takes."""

    a: tuple[tuple[int, ...], ...]
    b: tuple[tuple[int, ...], ...]
    c: tuple[int, ...]
    of_a: NDArray[np.int64]
    of_b: NDArray[np.int64]

    @classmethod
    def of(cls, slots: Sequence[tuple[tuple[int, ...], ...]]) -> "Products":
        """From the slots of A, B and C of each."""
        a, b, c = zip(*slots, strict=True)
        places_a, places_b = ({each: at for at, each in enumerate(dict.fromkeys(side))} for side in (a, b))
        of_a, of_b = np.array([places_a[each] for each in a]), np.array([places_b[each] for each in b])
        return cls(tuple(places_a), tuple(places_b), tuple(chain.from_iterable(c)), of_a, of_b)


def multiply_together(
    state: AgentState, products: Products, columns: Sequence[Any], fragments: MmaFragments, types: tuple[str, str]
) -> list[Values]:
    """As `multiply`, for products of packed operands and accumulators `columns`: the columns (32,) of D of each."""
    if state.mask is not None:
        raise NotTogether
    values, domain, (m, n, k) = state.values, state.machine.domain, fragments.shape
    a, b = (_fragments(values, side, types[0], domain) for side in (products.a, products.b))
    left, right = np.empty((len(a), m, k), a.dtype), np.empty((len(b), k, n), b.dtype)
    left[:, fragments.a[0], fragments.a[1]] = a
    right[:, fragments.b[0], fragments.b[1]] = b
    c = np.empty((len(columns), 32), domain.payload)
    for at, column in enumerate(columns):
        c[at] = column
    accumulators = np.empty((len(products.of_a), m, n), domain.payload)
    accumulators[:, fragments.c[0], fragments.c[1]] = c.reshape(len(accumulators), -1, 32).swapaxes(1, 2)
    rows_of_b, operands = right[products.of_b].swapaxes(1, 2), (types[0], types[0])
    d = domain.mma(left[products.of_a], rows_of_b, accumulators, operands, types[1], k)
    return list(np.ascontiguousarray(d[:, fragments.c[0], fragments.c[1]].swapaxes(1, 2)).reshape(-1, 32))


def _fragments(values: list[Any], side: Sequence[tuple[int, ...]], dtype: str, domain: Domain) -> Values:
    """Packed operands: array (fragments, 32, values)."""
    registers = [unpack(values[slot], dtype, domain) for slots in side for slot in slots]
    if any(len(register) != 32 for register in registers):
        registers = [np.broadcast_to(register, (32, 2)) for register in registers]
    joined = np.concatenate(registers).reshape(len(side), -1, 32, 2)
    return joined.swapaxes(1, 2).reshape(len(side), 32, -1)


def _side_by_side(registers: list[Any]) -> Any:
    """Two values per register: array (32, values)."""
    if any(len(register) != 32 for register in registers):
        registers = [np.broadcast_to(register, (32, 2)) for register in registers]
    return np.concatenate(registers, axis=1)
