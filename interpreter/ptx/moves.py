"""Registers moved, packed, selected and converted (PTX ISA, "Data Movement and Conversion Instructions")."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lowtide.interpreter.machine import clusters
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.syntax import Group
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_LONG = "b128"  # in two registers of 64 bits
_BITS = "b16 b32 b64 pred u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64"
_SECTION = "Data Movement and Conversion Instructions"

GENERIC_SHARED = 1 << 40
"""The start of shared memory among generic addresses."""

GENERIC_LOCAL = 1 << 41
"""The start of a thread's own memory among generic addresses."""


@TABLE.values("mov", types=f"{_BITS} {_LONG}", words="v2 v4 v8", section=f"{_SECTION}: mov")
def mov(form: Form) -> Callable[..., Any]:
    """A register, a constant or an address; or the parts of a register, or a register made of parts; or a vector."""
    target, *sources = form.instruction.operands
    bits, domain = form.bits, form.domain
    if form.type == _LONG or form.words:
        count = 2 if form.type == _LONG else max(int(word[1:]) for word in form.words)
        if any(not isinstance(each, Group) or len(each.elements) != count for each in (target, *sources)):
            raise TypeError(f"vectors of {count} registers")
        return lambda values: tuple(map(registers.readable, values))
    if isinstance(target, Group):
        parts = len(target.elements)
        return lambda value: _cut(value, bits, parts, domain)
    if sources and isinstance(sources[0], Group):
        return lambda values: _glued(values, bits // len(values), domain)
    return registers.readable


def _cut(value: Any, bits: int, parts: int, domain: Any) -> tuple[Any, ...]:
    if parts == 1:
        return (value,)
    return tuple(
        piece for half in registers.split(value, bits, domain) for piece in _cut(half, bits // 2, parts // 2, domain)
    )


def _glued(values: tuple[Any, ...], bits: int, domain: Any) -> Any:
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        values, bits = tuple(registers.join(low, high, bits, domain) for low, high in pairs), 2 * bits
    return values[0]


@TABLE.values("selp", types=_BITS, section="Comparison and Selection Instructions: selp")
def selp(form: Form) -> Callable[..., Any]:
    bits = form.bits
    return lambda x, y, condition: registers.chosen(condition, x, y, bits)


@TABLE.values(
    "cvta",
    types="u32 u64",
    words="to shared shared::cta shared::cluster global param param::entry const local",
    section=f"{_SECTION}: cvta",
)
def cvta(form: Form) -> Callable[..., Any]:
    """An address of a state space as a generic one, or with .to the reverse. Global addresses are generic already, and
    so are those of constants."""
    shift = GENERIC_SHARED if any(word.startswith("shared") for word in form.words) else 0
    shift = GENERIC_LOCAL if "local" in form.words else shift
    if not shift:
        return lambda address: address
    return (lambda address: address - shift) if "to" in form.words else (lambda address: address + shift)


def _space(form: Form) -> str:
    (space,) = form.words
    return {"shared": "shared::cta", "param": "param::entry"}.get(space, space)


@TABLE.effects(
    "isspacep",
    types="u64",
    words="const global local param param::entry shared shared::cta shared::cluster",
    section=f"{_SECTION}: isspacep",
    results=1,
    acts=False,
    is_wide=True,
    prepare=_space,
)
def isspacep(state: AgentState, op: Op, address: Any) -> Any:
    """Whether a generic address is in a state space. Parameters are a part of global memory, and constants are not."""
    space, found = op.data, np.asarray(address)
    if space.startswith("shared"):
        inside = (found >= GENERIC_SHARED) & (found < GENERIC_LOCAL)
        if space == "shared::cta":
            inside &= clusters.rank_of(np.where(inside, found - GENERIC_SHARED, 0)) == state.cta.rank
    elif space == "local":
        inside = found >= GENERIC_LOCAL
    else:
        machine = state.machine
        constants = _in_any(found, machine.memory.constants)
        inside = _in_any(found, machine.parameters.values()) if space == "param::entry" else constants
        inside = (found >= 0) & (found < GENERIC_SHARED) & ~constants if space == "global" else inside
    return inside if inside.ndim else bool(inside)


def _in_any(addresses: Any, ranges: Iterable[range]) -> Any:
    """Whether each address is in one of the ranges."""
    found = np.zeros(addresses.shape, np.bool_)
    for each in ranges:
        found |= (addresses >= each.start) & (addresses < each.stop)
    return found


@TABLE.effects(
    "mapa",
    types="u32 u64",
    words="shared::cluster",
    section=f"{_SECTION}: mapa",
    results=1,
    acts=False,
    prepare=lambda form: "shared::cluster" not in form.words,
)
def mapa(state: AgentState, op: Op, address: Any, rank: Any) -> Any:
    """Without a state space, of a generic address."""
    if op.data:
        return clusters.mapped(state, address - GENERIC_SHARED, rank) + GENERIC_SHARED
    return clusters.mapped(state, address, rank)
