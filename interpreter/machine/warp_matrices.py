"""Matrices that the lanes of a warp hold together: ldmatrix, stmatrix, mma.sync (PTX ISA, "ldmatrix", …)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine import hardware
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.hardware import MmaFragments
from lowtide.interpreter.machine.lanes import by_lane, whole_warp
from lowtide.interpreter.numbers.cells import ZERO_TYPE
from lowtide.interpreter.numbers.packed import Packed, unpack
from lowtide.interpreter.program.program import DecodedOp

Values = NDArray[Any]


def ldmatrix(state: AgentState, op: DecodedOp, address: Any, num: int, trans: bool) -> tuple[Packed, ...]:
    """Each of the first 8 · num lanes gives the address of a row; all lanes together read it."""
    whole_warp(state, op)
    rows = by_lane(address)[: 8 * num]
    payload, dtype = state.cta.shared.load_any(state.access(op), rows, 2, 8)
    received = hardware.ldmatrix(payload, num, trans)
    return tuple(Packed(received[:, matrix], dtype) for matrix in range(num))


def stmatrix(state: AgentState, op: DecodedOp, address: Any, registers: Sequence[Any], trans: bool) -> None:
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


def multiply(
    state: AgentState,
    op: DecodedOp,
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
    return hardware.mma(fragments, a, b, c, domain, types[1])


def _side_by_side(registers: list[Any]) -> Any:
    """Two values per register: array (32, values)."""
    if any(len(register) != 32 for register in registers):
        registers = [np.broadcast_to(register, (32, 2)) for register in registers]
    return np.concatenate(registers, axis=1)
