"""The nvvm dialect as the sm_80 pipeline uses it: special registers, cp.async, barriers, ldmatrix, mma.sync."""

import re
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import hardware
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.barriers import barrier
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.lanes import active_rows, uniform, whole_warp
from lowtide.interpreter.numbers.packed import PACKED_TYPES, Packed, unpack
from lowtide.interpreter.program.ir_types import Struct, Vector
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp, Program

OPS = OpTable()

_PACKED_BITS = 16  # of the operands of nvvm.mma.sync here

# Special registers ----------------------------------------------------------------------------------------------------


@OPS.implements("nvvm.read.ptx.sreg.tid.x")
def tid_x(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.thread


@OPS.implements("nvvm.read.ptx.sreg.laneid")
def laneid(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.lanes


@OPS.implements("nvvm.read.ptx.sreg.warpid")
def warpid(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.warp


@OPS.implements("nvvm.read.ptx.sreg.ctaid.x")
def ctaid_x(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.cta.index


@OPS.implements("nvvm.read.ptx.sreg.nctaid.x")
def nctaid_x(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.machine.grid


@OPS.implements("nvvm.read.ptx.sreg.ntid.x")
def ntid_x(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.machine.threads


@OPS.implements(*(f"nvvm.read.ptx.sreg.{name}" for name in ("tid.y", "tid.z", "ctaid.y", "ctaid.z")))
def always_zero(state: AgentState, op: DecodedOp) -> None:
    """Launches have one dimension."""
    state.values[op.results[0]] = 0


@OPS.implements(*(f"nvvm.read.ptx.sreg.{name}" for name in ("ntid.y", "ntid.z", "nctaid.y", "nctaid.z")))
def always_one(state: AgentState, op: DecodedOp) -> None:
    """Launches have one dimension."""
    state.values[op.results[0]] = 1


@OPS.implements("nvvm.read.ptx.sreg.warpsize")
def warpsize(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = 32


# cp.async -------------------------------------------------------------------------------------------------------------


@OPS.implements("nvvm.cp.async.shared.global")
def cp_async(state: AgentState, op: DecodedOp) -> None:
    """`size` bytes, zero-filled after the first `cpSize` of them where given (PTX ISA, "cp.async")."""
    size = op.attributes["size"]
    destination, source, *cp_size = (_by_lane(state.values[slot]) for slot in op.operands)
    access, shared_rows = active_rows(state, op, destination)
    global_rows = source if state.mask is None else source[state.mask]
    used = None
    if cp_size:
        used = cp_size[0] if state.mask is None else cp_size[0][state.mask]
        if ((used < 0) | (used > size)).any():
            raise violation(state, op, f"src-size must be 0 … {size}, not {int(used[(used < 0) | (used > size)][0])}")
    state.cta.copies.start(state.machine.memory, access, shared_rows, global_rows, size, used)


def _by_lane(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else np.full(32, value, np.int64)


@OPS.implements("nvvm.cp.async.commit.group")
def cp_async_commit(state: AgentState, op: DecodedOp) -> None:
    state.cta.copies.commit(state.warp, state.mask)


@OPS.implements("nvvm.cp.async.wait.group")
def cp_async_wait(state: AgentState, op: DecodedOp) -> None:
    state.cta.copies.wait(state.warp, op.attributes["n"], state.mask)


# Barriers -------------------------------------------------------------------------------------------------------------


@OPS.implements("nvvm.barrier0")
def barrier0(state: AgentState, op: DecodedOp) -> Steps:
    yield from barrier(state, op)


@OPS.implements("nvvm.barrier")
def named_barrier(state: AgentState, op: DecodedOp) -> Steps:
    """bar.sync, of all threads or of the number that the op gives; its reductions are not interpreted."""
    identifier, threads, reduction = op.operand_groups()
    if reduction:
        raise violation(state, op, "a barrier with a reduction is not interpreted; use a plain one")
    name = uniform(state, op, state.values[identifier[0]]) if identifier else 0
    count = uniform(state, op, state.values[threads[0]]) if threads else None
    if not 0 <= name < 16:
        raise violation(state, op, f"barrier {name}: a CTA has the barriers 0 … 15")
    if count is not None and (count <= 0 or count % 32 or count > state.machine.threads):
        limit = f"a multiple of 32, at most the CTA's {state.machine.threads}"
        raise violation(state, op, f"a barrier of {count} threads: give {limit}")
    yield from barrier(state, op, name, None if count is None else count // 32)


@OPS.implements("nvvm.bar.warp.sync")
def bar_warp_sync(state: AgentState, op: DecodedOp) -> None:
    """Orders the lanes of a warp; interpreted for all 32 together only."""
    whole_warp(state, op)
    mask = uniform(state, op, state.values[op.operands[0]]) & 0xFFFFFFFF
    if mask != 0xFFFFFFFF:
        raise violation(state, op, f"member mask {mask:#x}: only that of the whole warp, 0xffffffff, is interpreted")
    state.cta.shared.warp_sync(state.warp)


# Matrices -------------------------------------------------------------------------------------------------------------


def _prepare_ldmatrix(op: DecodedOp, program: Program) -> None:
    shape = op.attributes.get("shape", "m = 8, n = 8")
    if [int(number) for number in re.findall(r"= (\d+)", shape)] != [8, 8]:
        raise InterpreterError(f"{op.describe()}: only 8x8 matrices of 16-bit elements are interpreted")
    op.data = op.attributes["num"], "col" in op.attributes["layout"]


@OPS.implements("nvvm.ldmatrix", prepare=_prepare_ldmatrix)
def ldmatrix(state: AgentState, op: DecodedOp) -> None:
    """Each of the first 8 · num lanes gives the address of a row; all lanes together read it (PTX ISA, "ldmatrix")."""
    whole_warp(state, op)
    num, trans = op.data
    rows = _by_lane(state.values[op.operands[0]])[: 8 * num]
    payload, dtype = state.cta.shared.load_any(state.access(op), rows, 2, 8)
    received = hardware.ldmatrix(payload, num, trans)
    registers = tuple(Packed(received[:, matrix], dtype) for matrix in range(num))
    state.values[op.results[0]] = registers if num > 1 else registers[0]


def _prepare_mma(op: DecodedOp, program: Program) -> None:
    """(fragments, operand type, accumulator type, slots of A, B and C)."""
    shape = tuple(int(number) for number in re.findall(r"= (\d+)", op.attributes["shape"]))
    fragments = hardware.fragments_of(shape, _PACKED_BITS)  # type: ignore[arg-type]
    layouts = op.attributes["layoutA"], op.attributes["layoutB"]
    if "row" not in layouts[0] or "col" not in layouts[1]:
        raise InterpreterError(
            f"{op.describe()}: mma.sync takes A by rows and B by columns, not {' and '.join(layouts)}"
        )
    types = [re.sub(r".*<(\w+)>.*", r"\1", op.attributes[f"multiplicand{side}PtxType"]) for side in "AB"]
    if types[0] != types[1] or types[0] not in PACKED_TYPES:
        raise InterpreterError(
            f"{op.describe()}: mma.sync of {types[0]} and {types[1]}; take one of {' and '.join(PACKED_TYPES)} for both"
        )
    result = op.result_types[0]
    assert isinstance(result, Struct)
    accumulator = "f16" if isinstance(result.elements[0], Vector) else "f32"
    op.data = fragments, types[0], accumulator, op.operand_groups()


@OPS.implements("nvvm.mma.sync", prepare=_prepare_mma)
def mma_sync(state: AgentState, op: DecodedOp) -> None:
    """D = A · B + C by the warp (PTX ISA, "mma"); registers in the order of the instruction."""
    whole_warp(state, op)
    fragments, dtype, accumulator, (a_slots, b_slots, c_slots) = op.data
    values, domain = state.values, state.machine.domain
    a, b = (_fragment([unpack(values[slot], dtype, domain) for slot in slots]) for slots in (a_slots, b_slots))
    if accumulator == "f32":
        c = np.empty((32, len(c_slots)), domain.payload)
        for index, slot in enumerate(c_slots):
            c[:, index] = values[slot]
        d = hardware.mma(fragments, a, b, c, domain, accumulator)
        state.values[op.results[0]] = tuple(d.T)
    else:
        c = _fragment([unpack(values[slot], accumulator, domain) for slot in c_slots])
        d = hardware.mma(fragments, a, b, c, domain, accumulator)
        state.values[op.results[0]] = tuple(d[:, at : at + 2] for at in range(0, 4, 2))


def _fragment(registers: list[Any]) -> Any:
    """Two values per register, side by side: array (32, values)."""
    if any(len(register) != 32 for register in registers):
        registers = [np.broadcast_to(register, (32, 2)) for register in registers]
    return np.concatenate(registers, axis=1)
