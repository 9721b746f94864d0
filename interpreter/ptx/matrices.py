"""Matrices in the registers of a warp, or of a warpgroup: ldmatrix, stmatrix, mma.sync, wgmma.

PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions", "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
Instructions". The accumulators of a wgmma may not be touched, read or written, until a wait covers its group.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import element_of_ptx
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import hardware, warp_matrices, wgmma
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.lanes import whole_warp
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.integers import INTEGERS
from lowtide.interpreter.numbers.packed import NARROW_TYPES, PACKED_TYPES, Packed
from lowtide.interpreter.numbers.registers import Number, Unreadable
from lowtide.interpreter.numbers.storage import is_cut
from lowtide.interpreter.program.batches import Batch, Bulk
from lowtide.interpreter.ptx.binding import Op
from lowtide.interpreter.ptx.syntax import Group, Immediate
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

Values = NDArray[Any]

_SECTION = "Warp Level Matrix Multiply-Accumulate Instructions"
_MMA = r"m(\d+)n(\d+)k(\d+)"


def _matrices(form: Form) -> tuple[int, bool]:
    """How many 8x8 matrices of 16 bits, and whether they are transposed."""
    return next(int(word[1:]) for word in ("x4", "x2", "x1") if word in form.words), "trans" in form.words


_MATRIX_WORDS = "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16"


def _ldmatrices(state: AgentState, batch: Batch) -> None:
    values, (num, trans) = state.values, batch.ops[0].data
    addresses = [op.readers[0](values) for op in batch.ops]
    received = warp_matrices.ldmatrix_together(state, batch, addresses, num, trans)
    for op, held in zip(batch.ops, received, strict=True):
        for slot, value in zip(op.results, held, strict=True):
            values[slot] = value


@TABLE.effects(
    "ldmatrix",
    words=_MATRIX_WORDS,
    section=f"{_SECTION}: ldmatrix",
    results=1,
    acts=False,
    prepare=_matrices,
    bulk=Bulk(_ldmatrices, key=lambda op: op.data),
)
def ldmatrix(state: AgentState, op: Op, address: Any) -> tuple[Any, ...]:
    return warp_matrices.ldmatrix(state, op, address, *op.data)


@TABLE.effects("stmatrix", words=_MATRIX_WORDS, section=f"{_SECTION}: stmatrix", prepare=_matrices)
def stmatrix(state: AgentState, op: Op, address: Any, values: tuple[Any, ...]) -> None:
    domain = state.machine.domain
    dtype = next((value.dtype for value in values if isinstance(value, Packed)), PACKED_TYPES[0])
    packed = [Packed(registers.halves(value, dtype, domain), dtype) for value in values]
    warp_matrices.stmatrix(state, op, address, packed, op.data[1])


# mma.sync -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Mma:
    """`types` of A, B and the accumulators by their MLIR names; `counts` of their registers."""

    fragments: hardware.MmaFragments
    types: tuple[str, str, str]
    counts: tuple[int, int, int]

    @property
    def accumulator(self) -> str:
        return self.types[2]


def _mma(form: Form) -> _Mma:
    words = form.instruction.name.split(".")[1:]
    shape = next((match for word in words if (match := re.fullmatch(_MMA, word))), None)
    if shape is None or len(form.types) != 4 or not {"row", "col"} <= form.words:
        raise form.instruction.error("mma.sync has a shape, .row.col and four types, those of D, A, B and C")
    d, a, b, c = form.types
    if c != d:
        raise form.instruction.error("mma.sync of C and D of one type is interpreted")
    m, n, k = (int(number) for number in shape.groups())
    try:
        rows = (*hardware.operands_of_mma(a, b), element_of_ptx(c))
        fragments = hardware.fragments_of((m, n, k), rows[0].bits)
    except InterpreterError as error:
        raise form.instruction.error(str(error)) from error
    counts = tuple(
        part[0].shape[1] * row.bits // max(row.bits, 32)
        for part, row in zip((fragments.a, fragments.b, fragments.c), rows, strict=True)
    )
    return _Mma(fragments, tuple(row.ir for row in rows), counts)  # type: ignore[arg-type]


_SHAPES = "m16n8k8 m16n8k16 m16n8k32 m8n8k4 m16n8k4"


def _products(state: AgentState, batch: Batch) -> None:
    """Products of packed operands into registers of one number each."""
    plan, values, domain = batch.ops[0].data, state.values, state.machine.domain
    before = [_accumulator(values[slot], plan.accumulator, domain) for slot in batch.data.c]
    columns = warp_matrices.multiply_together(state, batch.data, before, plan.fragments, plan.types)
    slots = (slot for op in batch.ops for slot in op.results)
    for slot, column in zip(slots, columns, strict=True):
        values[slot] = _held(column, plan.accumulator)


def _accumulator(value: Any, dtype: str, domain: Domain) -> Any:
    """What a register of 32 bits holds of a type: an integer its bits."""
    return registers.raw(value, 32, domain) if dtype in INTEGERS else registers.number(value, dtype, domain)


def _held(column: Values, dtype: str) -> Any:
    """Numbers of a type as a register holds them."""
    return column if dtype in INTEGERS else Number(column, dtype)


def _product_key(op: Op) -> Any:
    """Products run as one where all their operands are registers, those of A and B packed."""
    is_able = op.data.accumulator in ("f32", "i32") and len(op.operands) == sum(op.data.counts)
    return op.instruction.name if is_able else op


def _slots(op: Op) -> tuple[tuple[int, ...], ...]:
    a, b, _ = op.data.counts
    return op.operands[:a], op.operands[a : a + b], op.operands[a + b :]


_PRODUCTS = Bulk(
    _products,
    key=_product_key,
    accesses=False,
    prepare=lambda ops: warp_matrices.Products.of([_slots(op) for op in ops]),
)


@TABLE.effects(
    "mma.sync",
    types="f16 bf16 tf32 f32 f64 e4m3 e5m2 s8 u8 s32",
    words=f"aligned {_SHAPES} row col",
    section=f"{_SECTION}: mma",
    results=1,
    acts=False,
    prepare=_mma,
    bulk=_PRODUCTS,
)
def mma(state: AgentState, op: Op, a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    plan, domain = op.data, state.machine.domain
    first, second, sums = (
        [_operand(value, dtype, domain) for value in _tuple(group)]
        for group, dtype in zip((a, b, c), plan.types, strict=True)
    )
    d = warp_matrices.multiply(state, op, plan.fragments, plan.types, (first, second, sums))
    if plan.accumulator in PACKED_TYPES:
        return tuple(Packed(d[:, at : at + 2], plan.accumulator) for at in range(0, d.shape[1], 2))
    return tuple(_held(column, plan.accumulator) for column in np.ascontiguousarray(d.T))


def _tuple(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)


def _operand(value: Any, dtype: str, domain: Domain) -> Any:
    """As machine/warp_matrices.py takes it: packed, bits, or a payload."""
    if is_cut(dtype):
        return value
    if dtype in INTEGERS:
        return registers.raw(value, 32, domain)
    if dtype in NARROW_TYPES and dtype not in PACKED_TYPES:
        return Packed(registers.numbers_of(value, 32, dtype, domain), dtype)
    if dtype not in PACKED_TYPES:
        return registers.number(value, dtype, domain)
    return value if isinstance(value, Packed) else Packed(registers.halves(value, dtype, domain), dtype)


# wgmma ----------------------------------------------------------------------------------------------------------------

_ASYNC = "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"


@dataclass(eq=False)
class _Accumulators:
    """The accumulators of one wgmma: `values` (32, n / 2), its group, and the slots of their registers."""

    values: Values
    group: int
    slots: tuple[int, ...]
    dtype: str


@dataclass(eq=False, slots=True)
class _InFlight(Unreadable):
    """Register number `index` of accumulators that a wgmma may still write."""

    owner: _Accumulators
    index: int

    @property
    def why(self) -> str:  # type: ignore[override]
        return (
            f"an accumulator register of wgmma group {self.owner.group} is touched before a wait covers the group; "
            "put wgmma.wait_group before"
        )


@dataclass(eq=False)
class _HeldA:
    """Registers that a wgmma reads A from: its group, their slots and what they hold."""

    group: int
    slots: tuple[int, ...]
    values: tuple[Any, ...]

    def give_back(self, state: AgentState, op: Op) -> None:
        """They may be touched again; none has been."""
        for slot, value in zip(self.slots, self.values, strict=True):
            held = state.values[slot]
            if not isinstance(held, _ReadByWgmma) or held.owner is not self:
                raise violation(state, op, f"a register of A of wgmma group {self.group} was written; wait before")
            state.values[slot] = value


@dataclass(eq=False, slots=True)
class _ReadByWgmma(Unreadable):
    """A register of A that a wgmma may still read."""

    owner: _HeldA

    @property
    def why(self) -> str:  # type: ignore[override]
        return (
            f"a register of A of wgmma group {self.owner.group} is touched before a wait covers the group; put "
            "wgmma.wait_group before"
        )


def product_of(form: Form) -> wgmma.Product:
    words = form.instruction.name.split(".")
    shape = next((match for word in words if (match := re.fullmatch(_MMA, word))), None)
    if shape is None or len(form.types) != 3:
        raise form.instruction.error("wgmma.mma_async has a shape and three types, those of D, A and B")
    m, n, k = (int(number) for number in shape.groups())
    d, a, b = form.types
    try:
        kind = wgmma.kind_of(a, b, d, (m, n, k))
        further = [each.value for each in form.instruction.operands[4:] if isinstance(each, Immediate)]
        signs, is_held = [1, 1] if kind.negates else [], isinstance(form.instruction.operands[1], Group)
        turned = (not is_held) + 1 if kind.transposes else 0  # those of the operands that may be transposed
        if len(further) != len(signs) + turned or further[: len(signs)] != signs:
            raise InterpreterError("operands that are negated are not interpreted")
        k_major = (is_held or further[2] == 0, further[-1] == 0) if kind.transposes else (True, True)
        return wgmma.Product.of((m, n, k), (a, b, d), k_major)
    except InterpreterError as error:
        raise form.instruction.error(str(error)) from error


_WGMMA_SHAPES = " ".join(f"m64n{n}k{k}" for k in (8, 16, 32) for n in range(8, 257, 8))


@TABLE.effects(
    "wgmma.mma_async",
    types=" ".join(dict.fromkeys((*wgmma.OPERAND_TYPES, "f16", "f32", "s32"))),
    words=f"sync aligned {_WGMMA_SHAPES}",
    section=f"{_ASYNC}: wgmma.mma_async",
    results=1,
    prepare=product_of,
)
def mma_async(state: AgentState, op: Op, a: Any, b: Any, scale: Any, *further: Any) -> tuple[Any, ...]:
    """`scale` false: the accumulators count as zero before. Predicates are the same in all lanes."""
    product: wgmma.Product = op.data
    whole_warp(state, op)
    is_scaled = bool(np.all(scale))
    if is_scaled != bool(np.any(scale)):
        raise violation(state, op, "lanes differ in scale-d; it is the same for the whole warpgroup")
    before = _before(state, op, product, is_scaled)
    held = held_of(state, product, a) if isinstance(a, tuple) else None
    values, group = wgmma.multiply(state, op, product, (a if held is None else None, b), before, held)
    owner = _Accumulators(values, group, op.results, product.accumulator)
    _pending(state).append(owner)
    if isinstance(a, tuple):
        _take_over(state, op, _HeldA(group, op.operands[: len(a)], a))
    return tuple(_InFlight(owner, index) for index in range(len(op.results)))


def held_of(state: AgentState, product: wgmma.Product, registers_of_a: tuple[Any, ...]) -> Values:
    """A in registers of two elements, (32, 8)."""
    parts = [registers.halves(value, product.dtypes[0], state.machine.domain) for value in registers_of_a]
    return wgmma.held_operand(parts, product)


def _take_over(state: AgentState, op: Op, owner: "_HeldA") -> None:
    """Nothing may touch the registers of A until a wait covers the group."""
    if len(set(owner.slots)) < len(owner.slots):
        raise violation(state, op, "A has a register twice")
    _pending(state).append(owner)
    for slot in owner.slots:
        state.values[slot] = _ReadByWgmma(owner)


def _before(state: AgentState, op: Op, product: wgmma.Product, is_scaled: bool) -> Values | None:
    """The accumulators before: those of the last wgmma on these registers, or what other instructions wrote."""
    held = [state.values[slot] for slot in op.results]
    first = held[0]
    if isinstance(first, _InFlight) and first.owner.slots == op.results:
        for index, value in enumerate(held):
            if not isinstance(value, _InFlight) or value.owner is not first.owner or value.index != index:
                raise violation(state, op, "some of its accumulators were written while a wgmma was in flight")
        _pending(state).remove(first.owner)
        return first.owner.values if is_scaled else None
    for value in held:
        if isinstance(value, _InFlight):
            raise violation(state, op, value.why)
    if not state.fenced:
        raise violation(
            state, op, "registers that other instructions wrote are handed to wgmma; put wgmma.fence before it"
        )
    if not is_scaled:
        return None
    if any(value is None for value in held):
        raise violation(state, op, "an accumulator was never written; write it, or let scale-d be false")
    return accumulators_of(held, product, state.machine.domain)


def accumulators_of(held: list[Any], product: wgmma.Product, domain: Domain) -> Values:
    """The accumulators (32, values) that registers hold, one or two in each."""
    if product.packed:
        parts = [registers.halves(value, product.packed, domain) for value in held]
        return np.concatenate([np.broadcast_to(part, (32, 2)) for part in parts], axis=1)
    columns = [_accumulator(value, product.accumulator, domain) for value in held]
    return np.stack([np.broadcast_to(column, (32,)) for column in columns], axis=1)


def _pending(state: AgentState) -> list[_Accumulators | _HeldA]:
    """Accumulators and A's registers of the agent that no wait has covered."""
    found: list[_Accumulators | _HeldA] = state.accumulators
    return found


@TABLE.effects("wgmma.fence", words="sync aligned", section=f"{_ASYNC}: wgmma.fence")
def fence(state: AgentState, op: Op) -> None:
    wgmma.fence(state, op)


@TABLE.effects("wgmma.commit_group", words="sync aligned", section=f"{_ASYNC}: wgmma.commit_group")
def commit_group(state: AgentState, op: Op) -> None:
    wgmma.commit(state, op)


@TABLE.effects("wgmma.wait_group", words="sync aligned", section=f"{_ASYNC}: wgmma.wait_group")
def wait_group(state: AgentState, op: Op, pending: Any) -> Steps:
    """The registers of groups that are done may be touched again."""
    yield from wgmma.wait(state, op, pending)
    for owner in [owner for owner in _pending(state) if owner.group not in state.mmas]:
        _pending(state).remove(owner)
        if isinstance(owner, _HeldA):
            owner.give_back(state, op)
        else:
            _hand_over(state, op, owner)


def _hand_over(state: AgentState, op: Op, owner: _Accumulators) -> None:
    values = owner.values
    is_packed = len(owner.slots) != values.shape[1]
    for index, slot in enumerate(owner.slots):
        held = state.values[slot]
        if not isinstance(held, _InFlight) or held.owner is not owner:
            raise violation(
                state,
                op,
                f"a register of wgmma group {owner.group} was written while it was in flight; wait before",
            )
        if is_packed:
            state.values[slot] = Packed(values[:, 2 * index : 2 * index + 2], "f16")
        else:
            state.values[slot] = _held(np.ascontiguousarray(values[:, index]), owner.dtype)
