"""Registers that depend, in some lanes, on what an instruction should not have read: on a lane outside the member mask
of a shuffle (PTX ISA, "shfl.sync"), on unwritten memory (unwritten.py), on a register that only other lanes have
written, or on memory that others may write at the same time (unused_reads.py).

A program may compute with such a value, move it and discard it. It is an error if an address, a store, a branch, a
guard, or another instruction with an effect uses it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.agents import AgentState, Causes
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.machine.unused_reads import Read
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.blending import blend
from lowtide.interpreter.program.batches import NotTogether

Lanes = NDArray[np.bool_]


class _Never:
    """In place of the op that made a register undefined: no op has written it in these lanes."""

    name = ""


NEVER: Final = _Never()

_BITS = (int, bool, np.ndarray, np.generic)
_CHOOSING = ("selp", "and", "or")
_OWN = frozenset({"shared", "shared::cta", "local"})
_STRONG = frozenset({"relaxed", "release", "volatile", "async", "bulk"})


def flatten(op: Any) -> tuple[Any, ...]:
    """The instructions of a batch, or the instruction."""
    ops: tuple[Any, ...] = getattr(op, "ops", (op,))
    return ops


def bits_of(lanes: Lanes) -> NDArray[np.uint32]:
    """For each of these lanes its own bit, and 0 for others: each depends on itself."""
    return np.where(lanes, np.uint32(1) << np.arange(len(lanes), dtype=np.uint32), np.uint32(0))


def add(causes: Causes, source: Any, origins: NDArray[np.uint32]) -> None:
    """Registers also depend on lanes of a source."""
    causes[source] = causes[source] | origins if source in causes else origins


def executing(state: AgentState, op: Any) -> Lanes:
    """The lanes that execute an instruction, by its guard too. Raises InterpreterError for an undefined guard."""
    lanes = np.ones(len(state.lanes), np.bool_) if state.mask is None else state.mask
    slot = getattr(op, "guard", None)
    if slot is None:
        return lanes
    check(state, op, slot, lanes)
    holds = np.broadcast_to(np.asarray(state.values[slot], np.bool_), lanes.shape)
    return lanes & (holds != op.instruction.guard.negated)


def check(state: AgentState, op: Described, slot: int, lanes: Lanes | None = None, may_keep: bool = False) -> None:
    """Raise InterpreterError if the register in a slot is undefined in some of these lanes, by default the active.
    `may_keep`: the instruction passes undefined values on."""
    running = state.mask if lanes is None else lanes
    for source, origins in state.undefined.get(slot, {}).items():
        active = origins if running is None else np.where(running, origins, 0)
        if isinstance(source, Read):
            source.use(int(np.bitwise_or.reduce(active)))
        elif active.any() and not may_keep:
            if source is NEVER:
                rule = f"reads a register that lanes {np.flatnonzero(active).tolist()} have never written"
                raise state.violation(op, f"{rule}; write it in all lanes that use it [register-unset-lanes]")
            used = f"uses an undefined register in lanes {np.flatnonzero(active).tolist()}: it depends on what "
            if source.name.startswith("shfl."):
                raise state.violation(
                    op, f"{used}{source.describe()} read from a lane outside of its member mask [undefined-used]"
                )
            stores = source.name.startswith("st.")
            did = "stored from a register that was never written" if stores else "read from unwritten memory"
            raise state.violation(op, f"{used}{source.describe()} {did} [unwritten-used]")


def stored_slots(state: AgentState, op: Any) -> list[int | None]:
    """The slot of each register that a weak store to shared or local memory stores; None for a constant.

    It is no error if such a register is undefined: the memory then counts as unwritten. Empty for other instructions.
    """
    words = op.instruction.name.split(".")
    if not state.machine.options.unwritten_values or words[0] != "st" or not _OWN.intersection(words):
        return []
    if _STRONG.intersection(words) or len(op.instruction.operands) != 2:
        return []
    address, value = op.instruction.operands
    slots = iter(op.sources[int(hasattr(address.base, "slot")) :])
    return [next(slots) if hasattr(each, "slot") else None for each in getattr(value, "elements", (value,))]


def before(state: AgentState, op: Any) -> tuple[Lanes, Causes]:
    """Checks an instruction with an effect. Returns the lanes that execute it, and for one without what its result
    depends on."""
    lanes, causes = executing(state, op), Causes()
    words, kept = op.instruction.name.split("."), stored_slots(state, op)
    places = _operands(op) if words[0] in _CHOOSING else []
    for place, slot in enumerate(op.sources):
        if slot not in state.undefined:
            continue
        if not op.computes:
            is_shuffled = words[0] == "shfl" and place == 0
            if not is_shuffled:
                check(state, op, slot, lanes, may_keep=slot in kept)
            continue
        matters = _matters(state, op, words, places, slot) if places else True
        for source, origins in state.undefined[slot].items():
            add(causes, source, np.where(matters, origins, 0))
    return lanes, causes


def _operands(op: Any) -> list[int | None]:
    """The slot of each operand of an instruction that computes; None for a constant."""
    registers = [getattr(each, "register", each) for each in op.instruction.operands[1:]]
    slots = iter(op.sources)
    return [next(slots) if hasattr(each, "slot") else None for each in registers]


def _matters(state: AgentState, op: Any, words: list[str], places: list[int | None], slot: int) -> Lanes:
    """The lanes in which the result of `selp`, `and` or `or` depends on the operand in `slot`."""
    values = [read(state.values) for read in op.readers]
    if words[0] == "selp":
        condition = np.broadcast_to(np.asarray(values[2], np.bool_), state.lanes.shape)
        taken = condition if slot == places[0] else np.zeros_like(condition)
        return taken | (~condition if slot == places[1] else False) | (slot == places[2])
    decides: Any = 0 if words[0] == "and" else 1 if words[-1] == "pred" else -1
    matters = np.ones(state.lanes.shape, np.bool_)
    for value, other in zip(values, places, strict=True):
        if other != slot and other not in state.undefined and isinstance(value, _BITS):
            matters &= np.asarray(value) != decides
    return matters


def keep(state: AgentState, op: Any, slots: Iterable[tuple[int, Any]], mask: Lanes) -> None:
    """The lanes of `mask` have run an op; the others keep the old values of its results: pairs of slot and value.

    A register that no lane had written stays undefined in the others. One that is computed from a register that was
    never written becomes undefined. Raises NotTogether for a convoy with such a result.
    """
    values, before = state.values, [*slots]
    lost = [slot for slot, old in before if old is not None and values[slot] is None]
    if lost and len(state.lanes) > WARP:
        for slot, old in before:
            values[slot] = old
        raise NotTogether
    for slot, old in before:
        if old is None and values[slot] is not None and slot in getattr(op, "unset", ()):
            state.undefined.setdefault(slot, Causes()).setdefault(NEVER, bits_of(~mask))
        values[slot] = blend(mask, values[slot], old)
    for slot in lost:
        state.made_undefined[slot] = Causes({NEVER: bits_of(mask)})


def only_passes_on(op: Any) -> bool:
    """Whether the result of an op is undefined where an operand is, whatever the values are."""
    return bool(op.computes) and op.guard is None and op.instruction.name.split(".")[0] not in _CHOOSING


def touches(state: AgentState, op: Any) -> bool:
    """Whether an op reads or writes a register that is undefined in some lanes."""
    known = state.undefined.keys()
    return not (known.isdisjoint(op.operands) and known.isdisjoint(op.results))


def prune(state: AgentState, live: frozenset[int]) -> None:
    """Forget registers that are not read any more."""
    for slot in state.undefined.keys() - live:
        del state.undefined[slot]


def after(state: AgentState, op: Any, lanes: Lanes, causes: Mapping[Any, NDArray[np.uint32]] | None = None) -> None:
    """Note what the results depend on in these lanes; other lanes keep what they were."""
    made, state.made_undefined = state.made_undefined, {}
    for slot in op.results:
        now = Causes()
        for source, origins in state.undefined.pop(slot, {}).items():
            add(now, source, np.where(lanes, 0, origins))
        for source, origins in made.get(slot, causes or {}).items():
            add(now, source, np.where(lanes, origins, 0))
        now = Causes({source: _unused(source, origins) for source, origins in now.items()})
        if now := Causes({source: origins for source, origins in now.items() if origins.any()}):
            state.undefined[slot] = now


def _unused(source: Any, origins: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Lanes of a load that are used already need not be followed."""
    return origins & ~np.uint32(source.used) if isinstance(source, Read) else origins


def lacking(state: AgentState, slot: int) -> Lanes:
    """The lanes in which a register is undefined."""
    found = np.zeros(len(state.lanes), np.bool_)
    for source, origins in state.undefined.get(slot, {}).items():
        if not isinstance(source, Read):
            found |= origins != 0
    return found
