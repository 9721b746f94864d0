"""The lanes that execute an instruction together by its member mask (PTX ISA, "shfl.sync", "bar.warp.sync").

Each lane waits for those of its member mask that have not ended, and must be one of them; of bar.warp.sync and
elect.sync the PTX ISA does not say that ended lanes are not waited for. Lanes with different masks
may execute one instruction at a time, each group by itself.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import by_lane
from lowtide.interpreter.machine.reliances import ENDED_MEMBERS
from lowtide.interpreter.numbers.accesses import Described

ALL = 0xFFFFFFFF
_BITS = np.arange(32)

Groups: TypeAlias = NDArray[np.bool_] | None
"""For each lane those of its group: array (32, 32), False for lanes that do not take part. None: one group of 32."""


def groups_of(state: AgentState, op: Described, members: Any) -> Groups:
    """The groups of lanes that execute an instruction with these member masks. Raises InterpreterError."""
    if state.mask is None and not isinstance(members, np.ndarray) and int(members) & ALL == ALL:
        return None
    active = np.ones(32, np.bool_) if state.mask is None else state.mask
    masks = by_lane(members).astype(np.int64) & ALL
    wanted = (masks[:, None] >> _BITS & 1).astype(np.bool_)
    outside = active & ~wanted.diagonal()
    if outside.any():
        lane = int(np.argmax(outside))
        raise state.violation(
            op, f"member mask {masks[lane]:#x}: lane {lane} executes it and is no member, which is undefined "
            "[member-mask]",
        )  # fmt: skip
    present = np.ones(32, np.bool_) if state.present is None else state.present
    awaited = wanted & (present & ~active)[None, :] & active[:, None]
    if awaited.any():
        lane = int(np.argmax(awaited.any(axis=1)))
        raise state.violation(
            op,
            f"member mask {masks[lane]:#x}: waits for lanes {np.flatnonzero(awaited[lane]).tolist()}, which do not "
            "execute it with the others; take it out of the branch, or name only the lanes that come here"
            " [member-elsewhere]",
        )
    groups: NDArray[np.bool_] = wanted & active[None, :] & active[:, None]
    if (groups & (masks[:, None] != masks[None, :])).any():
        raise state.violation(op, "lanes that name each other give different member masks [members-differ]")
    return None if groups.all() else groups


def confirm_none_ended(state: AgentState, op: Described, members: Any) -> None:
    """For instructions that wait for all members, not only for those that have not ended. Hardware does not wait for
    these. Raises InterpreterError."""
    if state.present is None:
        return
    ended = (state.thread < state.machine.threads) & ~state.present
    masks = by_lane(members).astype(np.int64) & ALL
    masks = masks if state.mask is None else masks[state.mask]
    named = ended & (np.bitwise_or.reduce(masks) >> _BITS & 1).astype(np.bool_)
    if not named.any():
        return
    broken = state.violation(
        op, f"waits for lanes {np.flatnonzero(named).tolist()}, which have ended; leave them out of the member mask "
        "[member-ended]",
    )  # fmt: skip
    if state.machine.observers.relied is None:
        raise broken
    state.machine.observers.relied.on(ENDED_MEMBERS, str(broken))


def bits_of_lanes(lanes: NDArray[np.bool_]) -> Any:
    """Lanes (…, 32) as the bits of 32-bit registers, signed."""
    found = (lanes.astype(np.uint64) << _BITS.astype(np.uint64)).sum(axis=-1)
    return found.astype(np.uint32).view(np.int32) if found.ndim else int(found) - (int(found) >> 31 << 32)
