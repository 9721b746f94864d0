"""Bulk copies and reductions of consecutive bytes, and asynchronous stores and reductions of registers.

PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk", "cp.async.bulk.prefetch", "st.async", "red.async". Reductions
of boxes of tensors are in tensors.py.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.interpreter.machine import async_reductions, bulk_copies, register_memory
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import by_lane
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.registers import canonical, raw
from lowtide.interpreter.ptx.lane_by_lane import lane_by_lane
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.syntax import Group
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SECTION = "Data Movement and Conversion Instructions"
_CLUSTER = ("shared::cluster", "shared::cta")
_BYTES = "mbarrier::complete_tx::bytes L2::cache_hint"


@TABLE.effects(
    *(f"cp.async.bulk.{to}.global" for to in _CLUSTER),
    words=f"multicast::cluster {_BYTES}",
    section=f"{_SECTION}: cp.async.bulk",
    prepare=lambda form: "multicast::cluster" in form.words,
)
@lane_by_lane
def load(state: AgentState, op: Op, destination: Any, source: Any, size: Any, barrier: Any, *further: Any) -> None:
    """A cache hint, the last operand, has no effect."""
    bulk_copies.load(state, op, (destination, source, size), barrier, further[0] if op.data else None)


@TABLE.effects("cp.async.bulk.shared::cluster.shared::cta", words=_BYTES, section=f"{_SECTION}: cp.async.bulk")
@lane_by_lane
def copy_within(state: AgentState, op: Op, destination: Any, source: Any, size: Any, barrier: Any) -> None:
    bulk_copies.copy_within(state, op, (destination, source, size), barrier)


@TABLE.effects(
    "cp.async.bulk.global.shared::cta", words="bulk_group L2::cache_hint", section=f"{_SECTION}: cp.async.bulk"
)
@lane_by_lane
def store(state: AgentState, op: Op, destination: Any, source: Any, size: Any, *hint: Any) -> None:
    bulk_copies.store(state, op, destination, source, size)


@TABLE.effects(
    "cp.async.bulk.prefetch.L2.global",
    *(f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global" for rank in range(1, 6)),
    words="tile L2::cache_hint",
    section=f"{_SECTION}: cp.async.bulk.prefetch",
    acts=False,
)
def prefetch(state: AgentState, op: Op, *operands: Any) -> None:
    """Changes no number."""


# Reductions -----------------------------------------------------------------------------------------------------------

Change = Callable[[Any, Any], Any]

# Of copied and of old elements, integers of the instruction's type.
_OF_INTEGERS: Mapping[str, Change] = MappingProxyType(
    {
        "add": lambda x, y: x + y,
        "min": np.minimum,
        "max": np.maximum,
        "and": lambda x, y: x & y,
        "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y,
        "inc": lambda x, y: np.where(y >= x, 0, y + 1),
        "dec": lambda x, y: np.where((y == 0) | (y > x), x, y - 1),
    }
)
REDUCTIONS = " ".join(_OF_INTEGERS)
_TYPES = "f16 bf16 f32 f64 b32 u32 s32 b64 u64 s64"


def change_of(how: str, type: str, domain: Domain) -> tuple[str, Change]:
    """The type of elements in memory, and the function of copied and of old elements. `type` is PTX's or MLIR's."""
    if "f" in type:
        if how == "add":
            return type, lambda x, y: domain.add(y, x, type)
        extremum = domain.min_number if how == "min" else domain.max_number
        return type, lambda x, y: extremum(x, y)
    width = int(type.lstrip("busi")) // 8
    seen = np.dtype(f"{'i' if type[0] in 'si' else 'u'}{width}")

    def change(x: Any, y: Any) -> Any:
        result = _OF_INTEGERS[how](*(np.asarray(each).astype(np.int64).astype(seen) for each in (x, y)))
        return result.astype(seen).view(f"i{width}")

    return f"i{8 * width}", change


def _reduction(form: Form) -> tuple[str, Change]:
    return change_of(next(word for word in _OF_INTEGERS if word in form.words), form.type, form.domain)


@TABLE.effects(
    "cp.reduce.async.bulk.global.shared::cta",
    types=_TYPES,
    words=f"bulk_group noftz L2::cache_hint {REDUCTIONS}",
    section=f"{_SECTION}: cp.reduce.async.bulk",
    prepare=_reduction,
)
@lane_by_lane
def reduce(state: AgentState, op: Op, destination: Any, source: Any, size: Any, *hint: Any) -> None:
    bulk_copies.reduce(state, op, (destination, source, size), *op.data)


@TABLE.effects(
    "cp.reduce.async.bulk.shared::cluster.shared::cta",
    types="b32 u32 s32 u64 b64 s64",
    words=f"mbarrier::complete_tx::bytes {REDUCTIONS}",
    section=f"{_SECTION}: cp.reduce.async.bulk",
    prepare=_reduction,
)
@lane_by_lane
def reduce_within(state: AgentState, op: Op, destination: Any, source: Any, size: Any, barrier: Any) -> None:
    bulk_copies.reduce_within(state, op, (destination, source, size), barrier, *op.data)


# Stores of registers --------------------------------------------------------------------------------------------------


@TABLE.effects(
    "st.async",
    types="b32 u32 s32 f32 b64 u64 s64 f64",
    words="weak shared::cluster mbarrier::complete_tx::bytes v2 v4",
    section=f"{_SECTION}: st.async",
    prepare=lambda form: (form.bits // 8, isinstance(form.instruction.operands[1], Group)),
)
def store_async(state: AgentState, op: Op, address: Any, value: Any, barrier: Any) -> None:
    width, is_group = op.data
    domain = state.machine.domain
    parts = [register_memory.narrowed(each, 8 * width, domain) for each in (value if is_group else (value,))]
    bulk_copies.store_async(state, op, address, parts, width, barrier)


@TABLE.effects(
    "red.async",
    types="b32 u32 s32 u64 s64",
    words=f"relaxed cluster shared::cluster mbarrier::complete_tx::bytes {REDUCTIONS}",
    section="Parallel Synchronization and Communication Instructions: red.async",
    prepare=lambda form: (form.bits, _reduction(form)),
)
def reduce_async(state: AgentState, op: Op, address: Any, value: Any, barrier: Any) -> None:
    bits, how = op.data
    words = canonical(by_lane(raw(value, bits, state.machine.domain)), bits)
    async_reductions.reduce(state, op, address, words, barrier, how)
