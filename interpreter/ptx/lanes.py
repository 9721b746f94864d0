"""Registers exchanged between the lanes of a warp, and bytes within one (PTX ISA, "shfl.sync", "prmt", "vote.sync").

Lowtide's own kernels read only their own lane (`sm.ptx_keep_pair`), and take bytes out of registers by `prmt`; kernels
of other compilers use the rest.
"""

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import by_lane, uniform, whole_warp
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.cells import ELEMENT_BYTES
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import Number, canonical, raw, unsigned
from lowtide.interpreter.ptx.binding import Op
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SECTION = "Data Movement and Conversion Instructions"
_ALL = 0xFFFFFFFF

# Of two registers, in the instruction's type.
_REDUCTIONS: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "min": min,
        "max": max,
        "add": operator.add,
        "and": operator.and_,
        "or": operator.or_,
        "xor": operator.xor,
    }
)


def _whole(state: AgentState, op: Op, members: Any) -> None:
    whole_warp(state, op)
    if uniform(state, op, members) & _ALL != _ALL:
        raise state.violation(
            op, "only the member mask of the whole warp, 0xffffffff, is interpreted [lanes-member-mask]"
        )


@TABLE.effects(
    "shfl.sync",
    types="b32",
    words="up down bfly idx",
    section=f"{_SECTION}: shfl.sync",
    results=1,
    acts=False,
    prepare=lambda form: next(iter(form.words)),
)
def shfl(state: AgentState, op: Op, value: Any, offset: Any, clamp: Any, members: Any) -> Any:
    """Each lane reads the register of another lane of its segment; outside of it, its own. If all read one lane, the
    result is uniform."""
    _whole(state, op, members)
    lane = state.lanes.astype(np.int64)
    offset, clamp = by_lane(offset) & 31, by_lane(clamp).astype(np.int64)
    segment, limit = clamp >> 8 & 31, clamp & 31
    first, last = lane & segment, (lane & segment) | (limit & ~segment)
    source = {"up": lane - offset, "down": lane + offset, "bfly": lane ^ offset, "idx": first | (offset & ~segment)}
    found = source[op.data]
    inside = found >= last if op.data == "up" else found <= last
    chosen = np.where(inside, found, lane)
    if (chosen == chosen[0]).all():
        return registers.of_lane(value, int(chosen[0]))
    return registers.of_lanes(value, chosen)


@TABLE.effects(
    "vote.sync",
    words="all any ballot pred b32",
    section="Parallel Synchronization and Communication Instructions: vote.sync",
    results=1,
    acts=False,
    prepare=lambda form: next(word for word in ("all", "any", "ballot") if word in form.words),
)
def vote(state: AgentState, op: Op, condition: Any, members: Any) -> Any:
    _whole(state, op, members)
    lanes = np.broadcast_to(np.asarray(condition, np.bool_), (32,))
    if op.data == "ballot":
        return canonical(sum(1 << lane for lane in range(32) if lanes[lane]), 32)
    return bool(lanes.all() if op.data == "all" else lanes.any())


@TABLE.effects(
    "redux.sync",
    types="u32 s32 b32",
    words="min max add and or xor",
    section="Parallel Synchronization and Communication Instructions: redux.sync",
    results=1,
    acts=False,
    prepare=lambda form: (next(word for word in _REDUCTIONS if word in form.words), form.type[0] == "s"),
)
def redux(state: AgentState, op: Op, value: Any, members: Any) -> Any:
    """Over the registers of all lanes. Non-negative floats, and NaN, have the order of their bits."""
    _whole(state, op, members)
    (name, is_signed), domain = op.data, state.machine.domain
    if isinstance(value, Number):
        if name != "max":
            raise state.violation(op, f"only .max reduces floats to floats, not .{name} [redux-floats]")
        return Number(reduce(domain.maximum, np.asarray(value.payload).reshape(-1)), value.dtype)
    lanes = by_lane(raw(value, 32, domain))
    given = [int(canonical(each, 32) if is_signed else unsigned(each, 32)) for each in lanes.tolist()]
    return canonical(reduce(_REDUCTIONS[name], given), 32)


@TABLE.values("prmt", types="b32", section=f"{_SECTION}: prmt")
def prmt(form: Form) -> Callable[..., Any]:
    """Bytes of two registers, chosen by the nibbles of a third; whole halves keep numbers."""
    domain = form.domain

    def compute(x: Any, y: Any, selector: Any) -> Any:
        if not isinstance(selector, np.ndarray):
            x, y = _if_chosen(x, y, int(selector))
        if (x is None and _is_unwritten_or_zero(y)) or (y is None and _is_unwritten_or_zero(x)):
            return None  # the result is unwritten too: a compiler later replaces its bytes, or does not use them
        if not isinstance(selector, np.ndarray) and not (registers.is_raw(x) and registers.is_raw(y)):
            found = _halves(x, y, int(selector), domain)
            if found is None:
                found = _bytes(x, y, int(selector), domain)
            if found is not None:
                return found
        bits = [unsigned(raw(value, 32, domain), 32) for value in (x, y)]
        low, high = (value.astype(np.uint64) if isinstance(value, np.ndarray) else np.uint64(value) for value in bits)
        both, result = low | high << np.uint64(32), np.uint64(0)
        for byte in range(4):
            nibble = np.asarray(selector, np.int64) >> 4 * byte & 15
            found = both >> (nibble & 7).astype(np.uint64) * np.uint64(8) & np.uint64(255)
            signs = np.where(found & np.uint64(128), np.uint64(255), np.uint64(0))
            result = result | np.where(nibble & 8, signs, found) << np.uint64(8 * byte)
        words = np.asarray(result, np.uint64).astype(np.uint32).view(np.int32)
        return words if words.ndim else int(words)

    return compute


def _is_unwritten_or_zero(value: Any) -> bool:
    return value is None or (registers.is_raw(value) and not np.any(value))


def _if_chosen(x: Any, y: Any, selector: int) -> tuple[Any, Any]:
    """The registers; zero for an unwritten one if none of its bytes is chosen."""
    from_y = [selector >> 4 * byte & 4 for byte in range(4)]
    return 0 if x is None and all(from_y) else x, 0 if y is None and not any(from_y) else y


def _bytes(x: Any, y: Any, selector: int, domain: Domain) -> Any:
    """The result if registers hold 8-bit numbers, or zeros, and none is chosen for its sign; else None."""
    types = registers.types_of(x) | registers.types_of(y)
    chosen = [selector >> 4 * byte & 15 for byte in range(4)]
    if len(types) != 1 or max(chosen) > 7:
        return None
    (dtype,) = types
    if ELEMENT_BYTES[dtype] != 1 or any(registers.is_raw(value) and np.any(value) for value in (x, y)):
        return None
    rows = [registers.numbers_of(value, 32, dtype, domain) for value in (x, y)]
    both = np.concatenate(np.broadcast_arrays(*rows), axis=1)
    return Packed(both[:, chosen], dtype)


def _halves(x: Any, y: Any, selector: int, domain: Domain) -> Any:
    """The result if the selector takes whole halves, any value for unwritten ones; else None."""
    chosen = [selector >> 8 * half & 0xFF for half in (0, 1)]
    if any(pair not in (0x10, 0x32, 0x54, 0x76) for pair in chosen):
        return None
    halves = [half for each in (x, y) for half in ((None,) * 2 if each is None else registers.split(each, 32, domain))]
    low, high = (halves[(pair & 15) // 2] for pair in chosen)
    return registers.join(low, high, 16, domain)
