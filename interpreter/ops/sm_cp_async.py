"""The sm dialect, cp.async: tiled copies into shared memory, in groups."""

from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.matrices import resolved
from lowtide.interpreter.machine.memory import start_copy
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.ir_types import decode_tv
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program

OPS = OpTable(by_warp=True)


def _prepare_cp_async(op: DecodedOp, program: Program) -> Any:
    """For each thread and each of its runs: row and column of the run's first element, and its offset in the buffer.

    Raises InterpreterError if the elements of one instruction are not contiguous in both memories.
    """
    attribute, type = op.source.attributes["copy"], op.operand_types[1]
    size = int(attribute.atom.rsplit(".", 1)[1])
    length = size // type.element.bytes
    rows, columns = decode_tv(attribute.tv).coordinates(type.layout.extents[0])
    if rows.shape[1] % length:
        raise InterpreterError(
            f"{op.describe()}: {rows.shape[1]} values per thread are not whole runs of {length} ({attribute.atom})"
            " [copy-runs]"
        )
    rows, columns = (part.reshape(len(part), -1, length) for part in (rows, columns))
    offsets = type.layout.table[rows, columns]
    step = np.arange(length)
    for what, places in (("global", columns), ("shared", offsets)):
        if not np.array_equal(places, places[..., :1] + step) or (rows != rows[..., :1]).any():
            raise InterpreterError(
                f"{op.describe()}: {length} elements of one {attribute.atom} are not contiguous in {what} memory"
                " [copy-contiguous]"
            )
    return (size, rows[..., 0], columns[..., 0], offsets[..., 0])


@OPS.effects("sm.cp_async", prepare=_prepare_cp_async)
def cp_async(state: AgentState, op: DecodedOp, window: Any, buffer: Any) -> None:
    if state.seat.role is not None and len(state.lanes) == WARP:
        raise state.violation(
            op, "all threads of a warpgroup copy; this role is one thread: copy by TMA [copy-by-warpgroup]"
        )
    size, all_rows, all_columns, all_offsets = op.data
    threads = state.thread[state.thread < len(all_rows)]
    if state.mask is not None:
        threads = threads[state.mask[threads % len(state.lanes)]]
    rows, columns, offsets = (part[threads].reshape(-1) for part in (all_rows, all_columns, all_offsets))
    lanes = np.repeat(threads % len(state.lanes), all_rows.shape[1])
    width, window = buffer.type.element.bytes, resolved(state, op, window)
    inside_rows, inside_columns = window.inside_of(rows)
    used = np.where(inside_rows, np.clip((inside_columns - columns) * width, 0, size), 0)
    access, memory, cta = state.access(op, lanes), state.machine.memory, state.cta
    source, destination = window.element_addresses(rows, columns), buffer.address + offsets * width
    if buffer.right is None:
        cta.copies.start(memory, access, destination, source, size, used)
    else:  # the ring's verbs are not bound yet: they say when the data land, not groups
        buffer.check(state, op, "write")
        buffer.right.stage.copies.append(start_copy(memory, cta.shared, access, destination, source, size, used))


@OPS.implements("sm.cp_async_commit")
def cp_async_commit(state: AgentState, op: DecodedOp) -> None:
    state.cta.copies.commit(state.warp, state.mask)


@OPS.implements("sm.cp_async_wait")
def cp_async_wait(state: AgentState, op: DecodedOp) -> None:
    state.cta.copies.wait(state.warp, op.attributes["pending"], state.mask)
