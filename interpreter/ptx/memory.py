"""Loads and stores (PTX ISA, "Data Movement and Conversion Instructions", "Cache Operators").

Caches and cache hints change no number. Strong loads and stores (.acquire, .release, .relaxed,
.volatile) are in atomics.py.
"""

from dataclasses import dataclass
from typing import Any

from lowtide.interpreter.machine import register_memory, unwritten
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.map_fields import encoded, fields_of
from lowtide.interpreter.machine.tensor_maps import TensorMap
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.numbers.registers import canonical, unsigned
from lowtide.interpreter.program.batches import Batch, Bulk, NotTogether
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.spaces import by_memory, cells_of, space_of
from lowtide.interpreter.ptx.syntax import Address, Group, Name, Register
from lowtide.interpreter.ptx.table import Form, Table, bits_of

TABLE = Table()

TYPES = "b8 u8 s8 b16 u16 s16 b32 u32 s32 f32 b64 u64 s64 f64"
_SPACES = "global shared shared::cta shared::cluster local const"
_EVICTIONS = "L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged L1::no_allocate"
_LEVEL_2 = "L2::evict_first L2::evict_last L2::evict_normal L2::cache_hint L2::64B L2::128B L2::256B"
HINTS = f"ca cg cs cv lu wb wt nc {_EVICTIONS} {_LEVEL_2} weak"
_SECTION = "Data Movement and Conversion Instructions"


def access_form(form: Form) -> tuple[str, int, int, bool]:
    """(space, bytes of each element, number of elements, whether they are a group)."""
    count = next((int(word[1:]) for word in form.words if word in ("v2", "v4", "v8")), 1)
    is_group = any(isinstance(operand, Group) for operand in form.instruction.operands)
    return space_of(form), max(1, form.bits // 8), count, is_group


def load_form(form: Form) -> tuple[Any, ...]:
    """`access_form`, and how each register is extended: its bits, and the sign if the type is signed."""
    target = form.instruction.operands[0]
    first = target.elements[0] if isinstance(target, Group) else target
    held = bits_of(first.type) if isinstance(first, Register) else form.bits
    return *access_form(form), held, form.bits, form.type[0] == "s", form.domain


def _space_together(state: AgentState, op: Op) -> Cells:
    """The memory of a named state space. Raises NotTogether for generic addresses and the memory of a thread."""
    if op.data[0] not in ("global", "shared", "const"):
        raise NotTogether
    return cells_of(state, op, op.data[0], 0)[0]


def _loads(state: AgentState, batch: Batch) -> None:
    values, first = state.values, batch.ops[0]
    _, width, count, _, held, bits, is_signed, domain = first.data
    addresses = [op.readers[0](values) for op in batch.ops]
    cells = _space_together(state, first)
    loaded = register_memory.load(state, batch.ops, cells, addresses, width, count)
    for op, found in zip(batch.ops, loaded, strict=True):
        for slot, value in zip(op.results, found, strict=True):
            wide = held > bits
            values[slot] = register_memory.widened(value, bits, held, is_signed, domain) if wide else value


def _stores(state: AgentState, batch: Batch) -> None:
    values, first, domain = state.values, batch.ops[0], state.machine.domain
    _, width, _, is_group = first.data
    cells = _space_together(state, first)
    addresses = [op.readers[0](values) for op in batch.ops]
    stored = [op.readers[1](values) for op in batch.ops]
    parts = [
        [register_memory.narrowed(each, 8 * width, domain) for each in (value if is_group else (value,))]
        for value in stored
    ]
    register_memory.store(state, batch.ops, cells, addresses, parts, width)


@TABLE.effects(
    "ld",
    "ldu",
    types=TYPES,
    words=f"{_SPACES} {HINTS} v2 v4 v8",
    section=f"{_SECTION}: ld",
    results=1,
    acts=False,
    is_wide=True,
    prepare=load_form,
    bulk=Bulk(_loads, key=lambda op: (op.instruction.name, op.data[4]), is_masked=True),
)
def ld(state: AgentState, op: Op, address: Any, hint: Any = None) -> Any:
    """A register wider than the loaded element is extended with zeros, or with the sign of a signed type. `hint`, a
    cache policy, changes no value."""
    return load(state, op, op.data, address)


def load(state: AgentState, op: Op, form: tuple[Any, ...], address: Any) -> Any:
    """The registers of a load with the data of `load_form`."""
    space, width, count, is_group, held, bits, is_signed, domain = form
    if space in ("", "cluster"):
        has_run, loaded = by_memory(
            state, op, space, address, lambda own, there: load(state, op, (own, *form[1:]), there)
        )
        if has_run:
            return loaded
    cells, place = cells_of(state, op, space, address)
    (loaded,) = register_memory.load(state, (op,), cells, (place,), width, count)
    if held > bits:
        loaded = tuple(register_memory.widened(value, bits, held, is_signed, domain) for value in loaded)
    return loaded if is_group else loaded[0]


@dataclass(frozen=True)
class _Part:
    """Parts of a parameter: the first byte, the bits of each, their number, the width of a register for one."""

    offset: int
    bits: int
    count: int
    held: int
    is_signed: bool


def _part(form: Form) -> _Part | tuple[Any, ...]:
    """The parts, or for an address in a register what `load` takes."""
    source = form.instruction.operands[1]
    _, *further = load_form(form)
    if not isinstance(source, Address) or not isinstance(source.base, Name):
        return "param", *further
    _, count, _, held, bits, is_signed, _ = further
    return _Part(source.offset, bits, count, held, is_signed)


@TABLE.effects(
    "ld.param", "ld.param::entry", types=TYPES, words="v2 v4", section=f"{_SECTION}: ld", results=1, acts=False,
    is_wide=True, prepare=_part,
)  # fmt: skip
def ld_param(state: AgentState, op: Op, value: Any) -> Any:
    """A kernel's parameter, or a part of one that is passed by value; or bytes of one at an address in a register."""
    part: _Part | tuple[Any, ...] = op.data
    if isinstance(part, tuple):
        return load(state, op, part, value)
    if isinstance(value, TensorMap):
        value = int.from_bytes(encoded(fields_of(value)), "little")
    if not registers.is_raw(value):
        if part.offset or part.count > 1:
            value = registers.raw(value, 64, state.machine.domain)
        else:
            return value
    found = []
    for at in range(part.count):
        bits = unsigned(int(value) >> 8 * part.offset + at * part.bits, part.bits)
        found.append(canonical(canonical(bits, part.bits) if part.is_signed else bits, part.held))
    return tuple(found) if part.count > 1 else found[0]


_STORES = Bulk(_stores, key=lambda op: op.instruction.name, is_masked=True)


@TABLE.effects(
    "st", types=TYPES, words=f"{_SPACES} {HINTS} v2 v4 v8", section=f"{_SECTION}: st", prepare=access_form,
    bulk=_STORES, is_wide=True,
)  # fmt: skip
def st(state: AgentState, op: Op, address: Any, value: Any, hint: Any = None) -> None:
    store(state, op, op.data, address, value)


def store(state: AgentState, op: Op, form: tuple[Any, ...], address: Any, value: Any) -> None:
    """A store with the data of `access_form`."""
    space, width, _, is_group = form
    if space in ("", "cluster"):
        has_run, _ = by_memory(
            state, op, space, address, lambda own, there: store(state, op, (own, *form[1:]), there, value)
        )
        if has_run:
            return
    cells, place = cells_of(state, op, space, address)
    values = value if is_group else (value,)
    lacks, domain = unwritten.lacking(state, op, values), state.machine.domain
    if lacks is not None:
        values = [0 if each is None else each for each in values]
    parts = [register_memory.narrowed(each, 8 * width, domain) for each in values]
    register_memory.store(state, (op,), cells, (place,), (parts,), width)
    if lacks is not None:
        unwritten.erase(state, op, cells, place, width, lacks)


_PREFETCH = "global local L1 L2 tensormap param L2::evict_last L2::evict_normal const"


@TABLE.effects("prefetch", "applypriority", words=f"{_PREFETCH} global", section=f"{_SECTION}: prefetch", acts=False)
def hint(state: AgentState, op: Op, *operands: Any) -> None:
    """Changes no number."""


@TABLE.effects(
    "createpolicy",
    types="b64",
    words="fractional range cvt L2 global L2::evict_first L2::evict_last L2::evict_normal L2::evict_unchanged",
    section=f"{_SECTION}: createpolicy",
    results=1,
    acts=False,
)
def createpolicy(state: AgentState, op: Op, *operands: Any) -> int:
    """A cache policy changes no number."""
    return 0
