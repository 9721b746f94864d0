"""The sm dialect: asynchronous products by wgmma, one agent per warpgroup.

A group's operands stay open for reading until a wait covers it. Its registers follow the PTX ISA (`hardware.py`), not
the fragment's thread-value layout.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.dialects.tile import GemmLayout
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import hardware
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.barriers import together
from lowtide.interpreter.machine.ordered_memory import OpenRead
from lowtide.interpreter.machine.pending import Pending, PendingRows, hand_to
from lowtide.interpreter.machine.shared_buffers import SharedBuffer
from lowtide.interpreter.numbers.tensor_cores import WGMMA
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import Fragment, PendingType

OPS = OpTable(by_warp=True)

Values = NDArray[Any]

_ATOM = re.compile(r"wgmma\.m64n(\d+)k(\d+)\.(\w+)\.(\w+)(?:\.(\w+))?")
_M = 64


@dataclass(frozen=True)
class _Plan:
    """The part of one warpgroup: atoms along M and N, columns and K of an atom, distribution of atoms to warpgroups.

    `transposed` says for A and B whether K is their rows.
    """

    atoms: tuple[int, int]
    n: int
    k: int
    warpgroups: tuple[int, int]
    dtype: str
    transposed: tuple[bool, bool]

    def rows(self, group: int) -> NDArray[np.int64]:
        """The rows of A that a warpgroup multiplies: every `warpgroups[0]`-th block of 64."""
        return _blocks(_M, self.atoms[0], self.warpgroups[0], group % self.warpgroups[0])

    def columns(self, group: int) -> NDArray[np.int64]:
        """The rows of B that a warpgroup multiplies, which are columns of D."""
        return _blocks(self.n, self.atoms[1], self.warpgroups[1], group // self.warpgroups[0])


def _blocks(size: int, count: int, step: int, first: int) -> NDArray[np.int64]:
    return ((first + step * np.arange(count))[:, None] * size + np.arange(size)).reshape(-1)


def _fragment(type: Any) -> Fragment:
    return type.fragment if isinstance(type, PendingType) else type


def _prepare_wgmma(op: DecodedOp, program: Program) -> Any:
    attribute = op.source.attributes["mma"]
    match = _ATOM.fullmatch(attribute.atom)
    if match is None:
        raise InterpreterError(
            f"{op.describe()}: unknown atom {attribute.atom}; known are wgmma.m64nNk8, m64nNk16 and m64nNk32"
            " [wgmma-atom-known]"
        )
    n, k = int(match[1]), int(match[2])
    hardware.wgmma_accumulator(n)
    warpgroups_m, warpgroups_n, warpgroups_k = attribute.atoms
    if warpgroups_k != 1:
        raise InterpreterError(
            f"{op.describe()}: {warpgroups_k} warpgroups along K need a reduction; use 1 [wgmma-along-k]"
        )
    letters = GemmLayout(op.attributes["layout"]).name
    transposed = letters[0] == "n", letters[1] == "t"
    shapes = [type.shape for type in op.operand_types[:2]]
    (rows, depth), (columns, _) = (
        reversed(shape) if swap else shape for shape, swap in zip(shapes, transposed, strict=True)
    )
    fragment = _fragment(op.result_types[0])
    atoms = rows // (_M * warpgroups_m), columns // (n * warpgroups_n)
    if (atoms[0] * _M * warpgroups_m, atoms[1] * n * warpgroups_n) != (rows, columns) or depth % k:
        raise InterpreterError(
            f"{op.describe()}: {rows}x{columns}x{depth} are not whole atoms {attribute.atom} on "
            f"{warpgroups_m}x{warpgroups_n} warpgroups [wgmma-whole-atoms]"
        )
    held = atoms[0] * atoms[1] * n // 2
    if fragment.tv.values != held:
        raise InterpreterError(
            f"{op.describe()}: a thread holds {fragment.tv.values} values of {fragment.shape}, {attribute.atom} on "
            f"{warpgroups_m}x{warpgroups_n} warpgroups takes {held} [wgmma-values-held]"
        )
    first = op.operand_types[0]
    if isinstance(first, Fragment) and first.tv.values != rows * depth // (128 * warpgroups_m):
        raise InterpreterError(
            f"{op.describe()}: a thread holds {first.tv.values} values of A, {first.shape} [wgmma-a-held]"
        )
    return _Plan(atoms, n, k, (warpgroups_m, warpgroups_n), fragment.element.name, transposed)


@OPS.implements("sm.wgmma", prepare=_prepare_wgmma)
def wgmma(state: AgentState, op: DecodedOp) -> None:
    """The part of one warpgroup; values count atom registers first, then atoms along M, then along N."""
    acc = state.values[op.operands[2]]
    if isinstance(acc, Pending):
        hand_to(state, op, acc)
    registers, before = acc.registers if isinstance(acc, Pending) else acc, len(state.mmas)
    product = _product(state, op, registers)
    groups = tuple(state.mmas[before:])
    state.values[op.results[0]] = (
        PendingRows(product, groups=groups) if "row_groups" in op.attributes else Pending(product)
    )


@OPS.implements("sm.wgmma_promote", prepare=_prepare_wgmma)
def wgmma_promote(state: AgentState, op: DecodedOp) -> None:
    """The product, summed from zero, is scaled if there are scales, and added; nothing is in flight afterwards."""
    total, *scales = (state.values[slot] for slot in op.operands[2:])
    domain, dtype = state.machine.domain, op.data.dtype
    partial = _product(state, op, np.zeros((1, 1), total.dtype))
    retire(state, 0)
    if scales:
        state.values[op.results[0]] = domain.fma(partial, domain.multiply(scales[0], scales[1], dtype), total, dtype)
    else:
        state.values[op.results[0]] = domain.sum(partial, total, dtype)
    state.values[op.results[1]] = True


def _product(state: AgentState, op: DecodedOp, registers: Values) -> Values:
    """registers + A · B, for one warpgroup, with open reads: as one group, or one group for each block of rows.

    Groups complete in order, so the last one has the reads of B.
    """
    together(state, op)
    plan: _Plan = op.data
    team = state.team.members
    if len(team) != plan.warpgroups[0] * plan.warpgroups[1] or len(state.lanes) != 128:
        raise state.violation(
            op,
            f"for {plan.warpgroups[0]}x{plan.warpgroups[1]} warpgroups, and {len(team)} execute it together; run it in "
            "a consumer role of as many [wgmma-warpgroups]",
        )
    group = team.index(state.warp)
    a, b = (state.values[slot] for slot in op.operands[:2])
    first, second = op.operand_types[:2]
    right, read_b = _open(state, op, b, plan.columns(group), plan.transposed[1])
    in_groups = plan.atoms[0] if "row_groups" in op.attributes else 1
    reads: list[list[OpenRead]] = [[] for _ in range(in_groups)]
    reads[-1].append(read_b)
    if isinstance(first, Fragment):
        left = _held(a, plan)
    else:
        blocks = np.split(plan.rows(group), in_groups)
        opened = [_open(state, op, a, rows, plan.transposed[0]) for rows in blocks]
        left = np.concatenate([payload for payload, _ in opened])
        for own, (_, read) in zip(reads, opened, strict=True):
            own.append(read)
    rows, columns = hardware.wgmma_accumulator(plan.n)
    atoms_m, atoms_n = plan.atoms
    matrix = np.empty((atoms_m, _M, atoms_n, plan.n), registers.dtype)
    held = np.broadcast_to(registers, (len(state.lanes), atoms_n * atoms_m * plan.n // 2))
    matrix[:, rows, :, columns] = held.reshape(len(state.lanes), atoms_n, atoms_m, -1).transpose(0, 3, 2, 1)
    operands = first.element.name, second.element.name
    flat = matrix.reshape(atoms_m * _M, atoms_n * plan.n)
    result = state.machine.domain.mma(left, right, flat, operands, plan.dtype, plan.k, WGMMA)
    taken = result.reshape(matrix.shape)[:, rows, :, columns]
    state.mmas.extend(reads)
    return taken.transpose(0, 3, 2, 1).reshape(len(state.lanes), -1)


def _held(a: Values, plan: _Plan) -> Values:
    """A in registers, (rows, K): values count those of an atom first, then atoms along M, then along K."""
    rows, columns = hardware.wgmma_operand(plan.k)
    each = plan.k // 2  # values of an atom
    warps = 16 * np.arange(4)[:, None, None] + rows
    matrix = np.empty((plan.atoms[0], _M, a.shape[1] // (each * plan.atoms[0]), plan.k), a.dtype)
    by_atom = a.reshape(4, 32, -1, plan.atoms[0], each)
    matrix[:, warps, :, columns] = by_atom.transpose(0, 1, 4, 3, 2)
    return matrix.reshape(plan.atoms[0] * _M, -1)


def _open(
    state: AgentState, op: DecodedOp, buffer: SharedBuffer, rows: NDArray[np.int64], transposed: bool
) -> tuple[Values, OpenRead]:
    """Rows along M or N of a buffer, (rows, K), which stay open for reading; its columns if it is transposed."""
    buffer.check(state, op, "read")
    starts, length = buffer.chunks()
    table = starts.reshape(buffer.type.shape[0] or 0, -1)
    # Rows are whole blocks; a block has at least one row for each element of a run.
    addresses = (table[:, rows[::length] // length] if transposed else table[rows]).reshape(-1)
    name = buffer.type.element.name
    unwritten = state.machine.domain.unwritten(name)
    payload, read = state.cta.shared.open_read(state.access(op), addresses, name, length, unwritten)
    return (payload.reshape(-1, len(rows)).T if transposed else payload.reshape(len(rows), -1)), read


@OPS.implements("sm.mma_wait")
def mma_wait(state: AgentState, op: DecodedOp) -> None:
    together(state, op)
    acc, pending = state.values[op.operands[0]], op.attributes["pending"]
    retire(state, pending)
    if isinstance(op.result_types[0], PendingType):
        state.values[op.results[0]] = acc
    else:
        hand_to(state, op, acc)
        state.values[op.results[0]] = acc.registers
    state.values[op.results[1]] = True


@OPS.implements("sm.mma_wait_rows")
def mma_wait_rows(state: AgentState, op: DecodedOp) -> None:
    """The first rows become readable; the groups that write them must be complete."""
    together(state, op)
    acc, (rows, all_rows) = state.values[op.operands[0]], (_fragment(type).shape[0] for type in op.result_types)
    retire(state, op.attributes["pending"])
    assert isinstance(acc, PendingRows)  # the op's verifier
    count = -(-len(acc.groups) * rows // all_rows)
    in_flight = sum(group is other for group in acc.groups[:count] for other in state.mmas)
    if in_flight:
        raise state.violation(
            op, f"passes on rows that {in_flight} groups in flight may still write; wait for these [rows-in-flight]"
        )
    hand_to(state, op, acc)
    state.values[op.results[0]] = acc.registers[:, : acc.registers.shape[1] * rows // all_rows]
    state.values[op.results[1]] = PendingRows(acc.registers, groups=acc.groups)


def retire(state: AgentState, pending: int) -> None:
    """All groups except the `pending` youngest are complete (PTX ISA, "wgmma.wait_group")."""
    done = state.mmas[: max(0, len(state.mmas) - pending)]
    state.mmas = state.mmas[len(done) :]
    shared = state.cta.shared
    shared.close_reads(state.warp, [read for group in done for read in group], shared.clocks.epoch(state.warp))
