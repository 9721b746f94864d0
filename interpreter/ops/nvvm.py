"""The nvvm dialect as the sm_80 pipeline uses it: special registers, cp.async, barriers, ldmatrix, mma.sync."""

import re

import numpy as np

from lowtide.elements import element_of_ir
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import cp_async as cp_async_copies
from lowtide.interpreter.machine import hardware, warp_matrices
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.barriers import barrier, named_barrier, warp_barrier
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.lanes import uniform, whole_warp
from lowtide.interpreter.numbers.packed import PACKED_TYPES, narrowed_pair, widened_pair
from lowtide.interpreter.program.batches import Batch, Bulk
from lowtide.interpreter.program.ir_types import Scalar, Struct, Vector
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp, Program

OPS = OpTable()

_WHOLE_WARP = 0xFFFFFFFF

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


def _copies(state: AgentState, batch: Batch) -> None:
    values = state.values
    destinations, sources, *used = ([values[slot] for slot in slots] for slots in batch.data)
    size = batch.ops[0].attributes["size"]
    cp_async_copies.start_together(state, batch, destinations, sources, size, used[0] if used else None)


_COPIES = Bulk(
    _copies,
    key=lambda op: (op.attributes["size"], len(op.operands)),
    prepare=lambda ops: list(zip(*(op.operands for op in ops), strict=True)),
)


@OPS.implements("nvvm.cp.async.shared.global", bulk=_COPIES)
def cp_async(state: AgentState, op: DecodedOp) -> None:
    """`size` bytes, zero-filled after the first `cpSize` of them where given (PTX ISA, "cp.async")."""
    destination, source, *used = (state.values[slot] for slot in op.operands)
    cp_async_copies.start(state, op, destination, source, op.attributes["size"], used[0] if used else None)


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
def nvvm_barrier(state: AgentState, op: DecodedOp) -> Steps:
    """bar.sync, of all threads or of the number that the op gives; its reductions are not interpreted."""
    identifier, threads, reduction = op.operand_groups()
    if reduction:
        raise violation(state, op, "a barrier with a reduction is not interpreted; use a plain one")
    name = state.values[identifier[0]] if identifier else 0
    yield from named_barrier(state, op, name, state.values[threads[0]] if threads else None)


@OPS.implements("nvvm.bar.warp.sync")
def bar_warp_sync(state: AgentState, op: DecodedOp) -> None:
    warp_barrier(state, op, state.values[op.operands[0]])


# Lanes ----------------------------------------------------------------------------------------------------------------


def _prepare_shfl(op: DecodedOp, program: Program) -> None:
    if "idx" not in op.attributes["kind"]:
        raise InterpreterError(f"{op.describe()}: only kind idx is interpreted")


@OPS.implements("nvvm.shfl.sync", prepare=_prepare_shfl)
def shfl_idx(state: AgentState, op: DecodedOp) -> None:
    """All lanes read the register of one (PTX ISA, "shfl.sync")."""
    whole_warp(state, op)
    members, value, lane, clamp = (state.values[slot] for slot in op.operands)
    if uniform(state, op, members) & _WHOLE_WARP != _WHOLE_WARP or uniform(state, op, clamp) != 31:
        raise violation(state, op, "only the whole warp as one segment is interpreted: mask -1 and clamp 31")
    source = uniform(state, op, lane) & 31
    state.values[op.results[0]] = int(value[source]) if isinstance(value, np.ndarray) else value


# Matrices -------------------------------------------------------------------------------------------------------------


def _prepare_ldmatrix(op: DecodedOp, program: Program) -> None:
    shape = op.attributes.get("shape", "m = 8, n = 8")
    if [int(number) for number in re.findall(r"= (\d+)", shape)] != [8, 8]:
        raise InterpreterError(f"{op.describe()}: only 8x8 matrices of 16-bit elements are interpreted")
    op.data = op.attributes["num"], "col" in op.attributes["layout"]


def _ldmatrices(state: AgentState, batch: Batch) -> None:
    values, (num, trans) = state.values, batch.ops[0].data
    addresses = [values[op.operands[0]] for op in batch.ops]
    received = warp_matrices.ldmatrix_together(state, batch, addresses, num, trans)
    for op, registers in zip(batch.ops, received, strict=True):
        values[op.results[0]] = registers if num > 1 else registers[0]


@OPS.implements("nvvm.ldmatrix", prepare=_prepare_ldmatrix, bulk=Bulk(_ldmatrices, key=lambda op: op.data))
def ldmatrix(state: AgentState, op: DecodedOp) -> None:
    num, trans = op.data
    registers = warp_matrices.ldmatrix(state, op, state.values[op.operands[0]], num, trans)
    state.values[op.results[0]] = registers if num > 1 else registers[0]


def _prepare_convert(op: DecodedOp, program: Program) -> None:
    match = re.search(r"f8\w+", str(op.attributes["dstTy"]))
    row = None if match is None else element_of_ir(match[0])
    if row is None or "satfinite" not in op.attributes.get("sat", ""):
        raise InterpreterError(f"{op.describe()}: a conversion to {op.attributes['dstTy']} that clamps is interpreted")
    op.data = row


@OPS.implements("nvvm.convert.f32x2.to.f8x2", prepare=_prepare_convert)
def convert_to_f8(state: AgentState, op: DecodedOp) -> None:
    """Two floats of 8 bits, clamped, in 16: the first in the upper half (PTX ISA, "cvt", .satfinite)."""
    high, low = (np.atleast_1d(np.asarray(state.values[slot])) for slot in op.operands)
    pair = np.stack(np.broadcast_arrays(low, high), axis=1)
    state.values[op.results[0]] = narrowed_pair(pair, op.data, state.machine.domain)


def _prepare_widening(op: DecodedOp, program: Program) -> None:
    row = element_of_ir(str(op.attributes["srcType"]))
    if row is None:
        raise InterpreterError(f"{op.describe()}: a conversion of {op.attributes['srcType']} is not interpreted")
    op.data = row


@OPS.implements("nvvm.convert.f8x2.to.f16x2", prepare=_prepare_widening)
def convert_from_f8(state: AgentState, op: DecodedOp) -> None:
    """Two floats of 8 bits as two of 16, the lower one first (PTX ISA, "cvt")."""
    state.values[op.results[0]] = widened_pair(state.values[op.operands[0]], op.data, state.machine.domain)


def _prepare_mma(op: DecodedOp, program: Program) -> None:
    """(fragments, types of A, B and the accumulator, slots of A, B and C)."""
    shape = tuple(int(number) for number in re.findall(r"= (\d+)", op.attributes["shape"]))
    layouts = op.attributes["layoutA"], op.attributes["layoutB"]
    if "row" not in layouts[0] or "col" not in layouts[1]:
        raise InterpreterError(
            f"{op.describe()}: mma.sync takes A by rows and B by columns, not {' and '.join(layouts)}"
        )
    types = [re.sub(r".*<(\w+)>.*", r"\1", op.attributes[f"multiplicand{side}PtxType"]) for side in "AB"]
    rows = hardware.operands_of_mma(*types)
    fragments = hardware.fragments_of(shape, rows[0].bits)  # type: ignore[arg-type]
    result = op.result_types[0]
    assert isinstance(result, Struct)
    first = result.elements[0]
    accumulator = first.element if isinstance(first, Vector) else first
    assert isinstance(accumulator, Scalar)
    names = (*(row.ir for row in rows), accumulator.name)
    op.data = fragments, names, tuple(op.operand_groups())


def _products(state: AgentState, batch: Batch) -> None:
    fragments, types, _ = batch.ops[0].data
    before = [state.values[slot] for slot in batch.data.c]
    columns = warp_matrices.multiply_together(state, batch.data, before, fragments, types)
    count = len(columns) // len(batch.ops)
    for at, op in enumerate(batch.ops):
        state.values[op.results[0]] = tuple(columns[at * count : (at + 1) * count])


_PRODUCTS = Bulk(
    _products,
    key=lambda op: op.data[:2] if op.data[1][2] not in PACKED_TYPES else op,
    accesses=False,
    prepare=lambda ops: warp_matrices.Products.of([op.data[2] for op in ops]),
)


@OPS.implements("nvvm.mma.sync", prepare=_prepare_mma, bulk=_PRODUCTS)
def mma_sync(state: AgentState, op: DecodedOp) -> None:
    """D = A · B + C by the warp (PTX ISA, "mma"); registers in the order of the instruction."""
    fragments, types, groups = op.data
    a, b, c = ([state.values[slot] for slot in slots] for slots in groups)
    d = warp_matrices.multiply(state, op, fragments, types, (a, b, c))
    if types[2] not in PACKED_TYPES:
        state.values[op.results[0]] = tuple(d.T)
    else:
        state.values[op.results[0]] = tuple(d[:, at : at + 2] for at in range(0, 4, 2))
