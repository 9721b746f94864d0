"""The nvvm dialect: wgmma, four warps of a warpgroup at a time, each with its quarter of the rows.

A group is done once all four warps have committed it and one waits for it. Until then its accumulators may be passed to
the next wgmma and through loops, but not read. They become readable as results of a wait (`sm.ptx_wgmma_wait`, or the
assembly that it becomes): without this data dependence the compiler may move a read above the wait. They may have only
one such user: for a second one the compiler would copy registers that a wgmma may still write.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import hardware
from lowtide.interpreter.machine.agents import AgentState, Steps, Wait
from lowtide.interpreter.machine.clusters import window
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.hardware import MatrixDescriptor
from lowtide.interpreter.machine.lanes import uniform, whole_warp
from lowtide.interpreter.machine.memory import OpenRead
from lowtide.interpreter.machine.pending import PendingRegister, PendingRegisters, hand_to
from lowtide.interpreter.machine.teams import WARPGROUP
from lowtide.interpreter.machine.warpgroups import meet
from lowtide.interpreter.numbers.cells import ELEMENT_BYTES
from lowtide.interpreter.numbers.packed import PACKED_TYPES
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp, Program

OPS = OpTable()

Values = NDArray[Any]
Ints = NDArray[np.int64]

_ASSEMBLY = re.compile(r"wgmma\.wait_group\.sync\.aligned (\d+);")
_ROWS = 16  # of the accumulators that one warp holds


@dataclass(eq=False)
class Warpgroup:
    """What four warps do together: groups committed by each, and the open reads of each group.

    `reader` and `clock` are those of its asynchronous reads; an epoch is a group.
    """

    reader: int
    clock: int
    committed: list[int] = field(default_factory=lambda: [0] * WARPGROUP)
    reads: dict[int, list[OpenRead]] = field(default_factory=dict)


def _warpgroup(state: AgentState, op: DecodedOp, *operands: Any) -> tuple[Warpgroup, int]:
    """The agent's warpgroup, which executes the op together, and which of its warps it is."""
    number, warp = meet(state, op, *operands)
    found = state.cta.warpgroups
    if number not in found:
        found[number] = Warpgroup(*state.cta.shared.add_reader(f"wgmma of warpgroup {number}"))
    group: Warpgroup = found[number]
    return group, warp


# Products -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    n: int
    k: int
    dtype: str
    accumulator: str
    k_major: tuple[bool, bool]
    is_scaled: bool
    rows: Ints  # of each thread's each accumulator in the 64xN tile: (128, values)
    columns: Ints


def _prepare_mma(op: DecodedOp, program: Program) -> None:
    attributes = op.attributes
    m, n, k = (int(number) for number in re.findall(r"= (\d+)", attributes["shape"]))
    types = [_word(attributes[f"type{side}"]) for side in "ABD"]
    scales = [_word(attributes[f"scale{side}"]) for side in "AB"]
    if (m, k) != (64, 16) or types[0] != types[1] or types[0] not in PACKED_TYPES or types[2] not in ("f32", "f16"):
        raise InterpreterError(
            f"{op.describe()}: wgmma m{m}n{n}k{k} of {', '.join(types)}; m64nNk16 of "
            f"{' or '.join(PACKED_TYPES)} is interpreted"
        )
    if scales != ["one", "one"]:
        raise InterpreterError(f"{op.describe()}: operands that are negated are not interpreted")
    op.data = _Plan(
        n,
        k,
        types[0],
        types[2],
        ("row" in attributes["layoutA"], "col" in attributes["layoutB"]),
        _word(attributes["scaleD"]) == "one",
        *np.broadcast_arrays(*hardware.wgmma_accumulator(n)),
    )


def _word(attribute: str) -> str:
    """The keyword of an enum attribute: bf16 of #nvvm.wgmma_type<bf16>."""
    return re.sub(r".*<(\w+)>.*", r"\1", attribute)


@OPS.implements("nvvm.wgmma.fence.aligned")
def fence(state: AgentState, op: DecodedOp) -> None:
    """Orders what the warp did to registers before a wgmma that uses them."""
    meet(state, op)
    state.fenced = True


@OPS.implements("nvvm.wgmma.mma_async", prepare=_prepare_mma)
def mma_async(state: AgentState, op: DecodedOp) -> None:
    plan: _Plan = op.data
    whole_warp(state, op)
    acc = state.values[op.operands[0]]
    bits = [uniform(state, op, state.values[slot]) for slot in op.operands[1:3]]
    warpgroup, warp = _warpgroup(state, op, *bits)
    if not isinstance(acc, PendingRegisters) and not state.fenced:
        raise violation(
            state,
            op,
            "registers that other instructions wrote are handed to wgmma; put nvvm.wgmma.fence.aligned before it",
        )
    if isinstance(acc, PendingRegisters):
        hand_to(state, op, acc)
    rows = np.arange(_ROWS * warp, _ROWS * (warp + 1))
    left = _open(state, op, warpgroup, bits[0], rows, plan.k_major[0])
    right = _open(state, op, warpgroup, bits[1], np.arange(plan.n), plan.k_major[1])
    lanes = slice(32 * warp, 32 * (warp + 1))
    row, column = plan.rows[lanes] - _ROWS * warp, plan.columns[lanes]
    matrix = np.zeros((_ROWS, plan.n), left.dtype)
    if plan.is_scaled:
        matrix[row, column] = _registers(acc, plan.n // 2)
    product = state.machine.domain.dot(left, right, matrix, plan.accumulator)
    group = warpgroup.committed[warp]
    state.values[op.results[0]] = PendingRegisters(product[row, column], group=group)
    if not state.mmas or state.mmas[-1] != group:
        state.mmas.append(group)


def _registers(acc: Any, count: int) -> Values:
    """Accumulators as an array (32, values)."""
    if isinstance(acc, PendingRegisters):
        return acc.registers
    columns = [np.broadcast_to(register, 32) for register in acc]
    if len(columns) != count:
        raise ValueError(f"{len(columns)} accumulators per thread, the instruction has {count}")
    return np.stack(columns, axis=1)


def _open(state: AgentState, op: DecodedOp, warpgroup: Warpgroup, bits: int, rows: Ints, k_major: bool) -> Values:
    """Rows of an operand (rows, k), by its descriptor; they stay open for reading until a wait covers the group."""
    plan: _Plan = op.data
    descriptor = MatrixDescriptor.decode(bits)
    if descriptor.base_offset:
        raise violation(
            state, op, f"base offset {descriptor.base_offset}: let the operand begin where its swizzle does"
        )
    if descriptor.span and descriptor.start % (8 * descriptor.span) >= descriptor.span:
        raise violation(
            state,
            op,
            f"an operand that starts at shared memory address {descriptor.start:#x}, inside a swizzle's pattern, with "
            f"base offset 0; let its rows begin at a multiple of {8 * descriptor.span}",
        )
    width = ELEMENT_BYTES[plan.dtype]
    run = 16 // width
    depth = np.arange(plan.k)
    chunks = (rows, depth[::run]) if k_major else (rows[::run], depth)
    # A descriptor has no room for the CTA's rank in its cluster: it names the CTA's own shared memory.
    addresses = descriptor.addresses(*chunks, width, k_major) + window(state.cta.rank)
    shared, group = state.cta.shared, warpgroup.committed[state.warp % WARPGROUP]
    payload, read = shared.open_read(state.access(op), addresses.reshape(-1), plan.dtype, run, warpgroup.reader)
    warpgroup.reads.setdefault(group, []).append(read)
    if k_major:
        return payload.reshape(len(rows), plan.k)
    return payload.reshape(len(rows) // run, plan.k, run).swapaxes(1, 2).reshape(len(rows), plan.k)


# Groups ---------------------------------------------------------------------------------------------------------------


@OPS.implements("nvvm.wgmma.commit.group.sync.aligned")
def commit(state: AgentState, op: DecodedOp) -> None:
    warpgroup, warp = _warpgroup(state, op)
    warpgroup.committed[warp] += 1


@OPS.implements("nvvm.wgmma.wait.group.sync.aligned")
def wait_group(state: AgentState, op: DecodedOp) -> Steps:
    yield from _wait(state, op, op.attributes["group"])


@OPS.implements("sm.ptx_wgmma_wait")
def ptx_wgmma_wait(state: AgentState, op: DecodedOp) -> Steps:
    yield from _wait(state, op, op.attributes["pending"])
    acc = state.values[op.operands[0]]
    if isinstance(acc, PendingRegisters):
        hand_to(state, op, acc)
        _check_done(state, op, acc.group)
        acc = tuple(acc.registers.T)
    state.values[op.results[0]] = acc


@OPS.implements("llvm.inline_asm")
def inline_asm(state: AgentState, op: DecodedOp) -> Steps:
    """The wait for wgmma that accumulators pass through; no other assembly is interpreted."""
    match = _ASSEMBLY.fullmatch(op.attributes["asm_string"])
    if match is None:
        raise violation(state, op, "this assembly is not interpreted; interpret the level before")
    yield from _wait(state, op, int(match[1]))
    registers = [state.values[slot] for slot in op.operands]
    pending = [register for register in registers if isinstance(register, PendingRegister)]
    for owner in {id(register.owner): register.owner for register in pending}.values():
        hand_to(state, op, owner)
        _check_done(state, op, owner.group)
    ready = tuple(each.payload if isinstance(each, PendingRegister) else each for each in registers)
    state.values[op.results[0]] = ready


def _wait(state: AgentState, op: DecodedOp, pending: int) -> Steps:
    """All groups but the `pending` youngest are done (PTX ISA, "wgmma.wait_group")."""
    warpgroup, warp = _warpgroup(state, op)
    done = max(0, warpgroup.committed[warp] - pending)

    def why() -> str:
        first = state.warp - warp
        late = [f"warp {first + other}" for other in range(WARPGROUP) if warpgroup.committed[other] < done]
        return f"for wgmma group {done - 1}, which {', '.join(late)} has not committed"

    if min(warpgroup.committed) < done:
        yield Wait(lambda: min(warpgroup.committed) >= done, why)
    shared = state.cta.shared
    for group in sorted(group for group in warpgroup.reads if group < done):
        shared.close_reads(warpgroup.reader, warpgroup.reads.pop(group), group)
    known = shared.clocks.known
    known[state.warp, warpgroup.clock] = max(known[state.warp, warpgroup.clock], done)
    state.mmas = [group for group in state.mmas if group >= done]
    state.fenced = False


def _check_done(state: AgentState, op: DecodedOp, group: int) -> None:
    if group in state.mmas:
        raise violation(
            state, op, f"hands on accumulators that wgmma group {group} may still write; wait until none is in flight"
        )
