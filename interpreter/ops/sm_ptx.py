"""The `sm.ptx_…` ops of several PTX instructions, for one warp with any active lanes.

Ops that are a single instruction are written as PTX; `sm.ptx_store` is a store of LLVM (llvm.py), and wgmma is in
nvvm_wgmma.py.
"""

from typing import Any

import numpy as np

from lowtide.interpreter.machine import arrivals, maxima, semaphores, sends, waves
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.lanes import one_lane, uniform, whole_warp
from lowtide.interpreter.ops.instructions import enter
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable

OPS = OpTable()

_WIDE_FIELDS = ("global_address", "global_stride")  # of a tensor map


def _replace_map(op: DecodedOp) -> str:
    field, dim = op.attributes["field"], op.attributes.get("dim")
    value = op.attributes.get("immediate", "$1")
    bits = 64 if field in _WIDE_FIELDS else 32
    place = "" if dim is None else f" {dim},"
    return f"tensormap.replace.tile.{field}.shared::cta.b1024.b{bits} [$0],{place} {value};"


enter(
    OPS,
    {
        "sm.ptx_round": lambda op: f"cvt.rna.{op.attributes['to']}.f32 $d, $0;",
        "sm.ptx_replace_map": _replace_map,
        "sm.ptx_read_status": "ld.relaxed.sys.global.b32 $d, [$0];",
        "sm.ptx_copy_map": (
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [$1], [$0], 128;"
        ),
    },
)


@OPS.effects("sm.ptx_await_wave")
def ptx_await_wave(state: AgentState, op: DecodedOp, counter: Any, tiles: Any, patience: Any) -> Steps:
    one_lane(state, op, "begin a work tile")
    yield from waves.begin(state, op, uniform(state, op, counter), uniform(state, op, tiles))


@OPS.effects("sm.ptx_await_arrival")
def ptx_await_arrival(
    state: AgentState, op: DecodedOp, flag: Any, epoch: Any, limit: Any, status: Any, shard: Any
) -> Steps:
    """All lanes wait for one flag. With for_tma, a proxy fence follows."""
    address, number, least, most, at = (uniform(state, op, each) for each in (flag, shard, epoch, limit, status))
    awaited = arrivals.Flag(address, number, least, most, at)
    return (yield from arrivals.wait(state, op, awaited, fences="for_tma" in op.attributes))


def _by_one_thread(state: AgentState, op: DecodedOp) -> None:
    one_lane(state, op, "count a CTA")


@OPS.effects("sm.ptx_tell_last", check=_by_one_thread)
def ptx_tell_last(state: AgentState, op: DecodedOp, counter: Any, last: Any, flag: Any, epoch: Any) -> None:
    """One thread counts its CTA; the last one writes the flag."""
    sends.tell_last(state, op, sends.Telling(*(uniform(state, op, each) for each in (counter, last, flag, epoch))))


@OPS.effects("sm.ptx_keep_pair")
def ptx_keep_pair(state: AgentState, op: DecodedOp, value: Any) -> Any:
    """The value itself."""
    return value


@OPS.effects("sm.ptx_mask_or")
def ptx_mask_or(state: AgentState, op: DecodedOp, value: Any) -> Any:
    own = ~value if "inverted" in op.attributes else value
    return own & op.attributes["mask"] | op.attributes["bits"]


def _by_one_lane(state: AgentState, op: DecodedOp) -> None:
    one_lane(state, op, "act on a semaphore")


@OPS.effects("sm.ptx_semaphore_arrive", check=_by_one_lane)
def semaphore_arrive(state: AgentState, op: DecodedOp, address: Any) -> None:
    """Adds one for each active lane; by convention one thread arrives for its CTA."""
    semaphores.arrive(state, op, uniform(state, op, address))


@OPS.effects("sm.ptx_semaphore_wait", check=_by_one_lane)
def semaphore_wait(state: AgentState, op: DecodedOp, address: Any, count: Any) -> Steps:
    yield from semaphores.wait(state, op, uniform(state, op, address), uniform(state, op, count))


@OPS.effects("sm.ptx_semaphore_leave", check=_by_one_lane)
def semaphore_leave(state: AgentState, op: DecodedOp, address: Any, last: Any) -> None:
    semaphores.leave(state, op, uniform(state, op, address), uniform(state, op, last))


@OPS.effects("sm.ptx_raise_max", check=whole_warp)
def raise_max(state: AgentState, op: DecodedOp, value: Any, pointer: Any) -> None:
    """All lanes of the warp give a value; one atomic operation."""
    maxima.lift(state, op, uniform(state, op, pointer), np.asarray(value))
