"""Tensor maps that kernels change (PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy", "membar, fence")."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lowtide.interpreter.machine import map_objects
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import active_lane_numbers, by_lane
from lowtide.interpreter.machine.map_fields import BYTES, ELEMENT_TYPES, SPANS
from lowtide.interpreter.machine.views import Scope
from lowtide.interpreter.numbers.registers import raw, unsigned
from lowtide.interpreter.ptx.moves import GENERIC_SHARED
from lowtide.interpreter.ptx.orders import SCOPES
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.spaces import cells_of, space_of
from lowtide.interpreter.ptx.syntax import Immediate, Instruction
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_REPLACE = "Data Movement and Conversion Instructions: tensormap.replace"
_SYNCHRONIZATION = "Parallel Synchronization and Communication Instructions"
_SPACES = "global shared::cta"
_FENCE = "fence.proxy.tensormap::generic"


@dataclass(frozen=True)
class _Field:
    """`part` is the name in `Fields`. A field of several dimensions has `count` of them, others 0. Immediate values are
    in `values`; `offset` is added to them."""

    part: str
    count: int = 0
    values: range | None = None
    offset: int = 0


_WIDE: Mapping[str, _Field] = MappingProxyType(
    {"global_address": _Field("address"), "global_stride": _Field("strides", 4)}
)
_NARROW: Mapping[str, _Field] = MappingProxyType(
    {
        "rank": _Field("rank", offset=1),
        "box_dim": _Field("box", 5),
        "global_dim": _Field("extents", 5),
        "element_stride": _Field("steps", 5),
        "elemtype": _Field("element", values=ELEMENT_TYPES, offset=1),
        "interleave_layout": _Field("interleave", values=range(3)),
        "swizzle_mode": _Field("swizzle", values=range(len(SPANS))),
        "fill_mode": _Field("fill", values=range(2)),
    }
)
_FIELDS: Mapping[str, _Field] = MappingProxyType({**_WIDE, **_NARROW})
_RANKS = range(1, 6)


@dataclass(frozen=True)
class _Replacement:
    """The state space, the field, the dimension, and the bits of a value."""

    space: str
    field: _Field
    dimension: int
    bits: int


def _replacement(form: Form) -> _Replacement:
    instruction, field = form.instruction, _FIELDS[form.row.name.split(".")[-1]]
    if "b1024" not in form.words or len(form.types) != 1:
        raise instruction.error(f"{form.row.name} has .b1024 and then .{min(form.row.types)} [map-form]")
    dimension = 0
    if field.count:
        ordinal = instruction.operands[1]
        if not isinstance(ordinal, Immediate) or ordinal.value not in range(field.count):
            raise instruction.error(f"the dimension is an immediate of 0 to {field.count - 1} [map-dimension]")
        dimension = ordinal.value
    value = instruction.operands[-1]
    if field.values is not None and (not isinstance(value, Immediate) or value.value not in field.values):
        raise instruction.error(
            f"the value of this field is an immediate of 0 to {field.values[-1]} on sm_90a [map-value]"
        )
    return _Replacement(space_of(form), field, dimension, form.bits)


def _replace(state: AgentState, op: Op, address: Any, *operands: Any) -> None:
    """Each active lane replaces the field."""
    what: _Replacement = op.data
    values = by_lane(raw(operands[-1], what.bits, state.machine.domain))
    cells, rows = cells_of(state, op, what.space, address)
    rows = by_lane(rows)
    for lane in active_lane_numbers(state):
        value = int(unsigned(int(values[lane]), what.bits)) + what.field.offset
        if what.field.part == "rank" and value not in _RANKS:
            raise state.violation(op, f"a rank of {value}, given less one; it is 1 to {_RANKS[-1]} [map-rank-value]")
        at, part = (int(rows[lane]), lane), (what.field.part, what.dimension, value)
        map_objects.replace_field(state, op, cells, at, part)


def _enter(fields: Mapping[str, _Field], type: str) -> None:
    with_dimension = [f"tensormap.replace.tile.{name}" for name, field in fields.items() if field.count]
    others = [f"tensormap.replace.tile.{name}" for name, field in fields.items() if not field.count]

    def replace(state: AgentState, op: Op, address: Any, value: Any) -> None:
        _replace(state, op, address, value)

    def replace_of_dimension(state: AgentState, op: Op, address: Any, dimension: Any, value: Any) -> None:
        _replace(state, op, address, value)

    for names, handler in ((others, replace), (with_dimension, replace_of_dimension)):
        words = f"{_SPACES} b1024"
        TABLE.effects(*names, types=type, words=words, section=_REPLACE, prepare=_replacement)(handler)


_enter(_WIDE, "b64")
_enter(_NARROW, "b32")


# Fences ---------------------------------------------------------------------------------------------------------------


def _scope(form: Form) -> Scope:
    found = [Scope[word] for word in SCOPES.split() if word in form.words]
    if len(found) != 1:
        raise form.instruction.error(f"{form.row.name} has one scope: {', '.join(SCOPES.split())} [map-fence-scope]")
    return found[0]


def _sized(form: Form) -> Scope:
    """The scope of an instruction whose last operand is the size of a map."""
    _check_size(form.instruction)
    return _scope(form)


def _check_size(instruction: Instruction) -> None:
    size = instruction.operands[-1]
    if not isinstance(size, Immediate) or size.value != BYTES:
        raise instruction.error(f"the size is the immediate {BYTES}, that of a tensor map [map-size]")


def _copied(form: Form) -> Scope:
    if not {"sync", "aligned"} <= form.words:
        raise form.instruction.error(f"{form.row.name} has .sync.aligned [map-copy-form]")
    return _sized(form)


@TABLE.effects(
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release",
    words=f"{SCOPES} sync aligned",
    section=f"{_SYNCHRONIZATION}: tensormap.cp_fenceproxy",
    prepare=_copied,
)
def cp_fenceproxy(state: AgentState, op: Op, destination: Any, source: Any, size: Any) -> None:
    map_objects.copy(state, op, destination, source, op.data)


@TABLE.effects(f"{_FENCE}.release", words=SCOPES, section=f"{_SYNCHRONIZATION}: membar, fence", prepare=_scope)
def fence_release(state: AgentState, op: Op) -> None:
    map_objects.release(state, op.data)


@TABLE.effects(f"{_FENCE}.acquire", words=SCOPES, section=f"{_SYNCHRONIZATION}: membar, fence", prepare=_sized)
def fence_acquire(state: AgentState, op: Op, address: Any, size: Any) -> None:
    """By each active lane, of the map at its address."""
    rows = by_lane(address)
    for lane in active_lane_numbers(state):
        if rows[lane] >= GENERIC_SHARED:
            raise state.violation(op, "an address outside of global memory; acquire maps there alone [map-fence-space]")
        map_objects.acquire(state, (int(rows[lane]), lane), op.data)
