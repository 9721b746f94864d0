"""Products of matrices whose fragments are opaque: wmma.load, wmma.mma, wmma.store.

PTX ISA, "Matrix multiply-accumulate operation using wmma instructions". All lanes give the same address and stride. The
ISA asks that rows or columns begin at multiples of a fragment's bytes. As CUDA C++ promises, 16 bytes are enough here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.elements import element_of_ptx
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import hardware, warp_matrices
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.hardware import MmaFragments
from lowtide.interpreter.machine.lanes import uniform, whole_warp
from lowtide.interpreter.machine.wmma_fragments import Fragment, product_places
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.ptx import memory
from lowtide.interpreter.ptx.matrices import accumulators_of, shape_of
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.spaces import space_of
from lowtide.interpreter.ptx.syntax import Group, Operand
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SECTION = "Warp Level Matrix Multiply-Accumulate Instructions"
_SHAPES = "m16n16k16 m8n32k16 m32n8k16 m16n16k8 m8n8k4 m8n8k32 m8n8k128"
_WORDS = f"sync aligned row col global shared shared::cta {_SHAPES}"
_OPERANDS = "f16 bf16 tf32 f64 s8 u8 s4 u4 b1"
_SUMS = "f16 f32 f64 s32"
_LEAST_ALIGNMENT = 16  # bytes


@dataclass(frozen=True)
class _Access:
    """A fragment in memory of a state space ("" for generic addresses)."""

    fragment: Fragment
    space: str


def _layouts(form: Form, count: int) -> list[str]:
    """The layouts of `count` matrices, "row" or "col". Raises InterpreterError if there are others, or no shape."""
    found = [word for word in form.instruction.name.split(".") if word in ("row", "col")]
    if len(found) != count or shape_of(form) is None:
        raise form.instruction.error(f"{form.row.name} has a shape, and .row or .col for {count} matrices [wmma-words]")
    return found


def _fragment(form: Form, role: str, type: str, layout: str) -> Fragment:
    try:
        return Fragment.of(role, shape_of(form), type, layout == "row")  # type: ignore[arg-type]
    except InterpreterError as error:
        raise form.instruction.error(str(error)) from error


def _confirm(form: Form, fragment: Fragment, operand: Operand) -> None:
    """Raises InterpreterError if an operand has another number of registers than its fragment."""
    given = len(operand.elements) if isinstance(operand, Group) else 1
    if given != fragment.registers:
        name = "m{}n{}k{}".format(*shape_of(form))  # type: ignore[misc]
        raise form.instruction.error(
            f"{given} registers for {fragment.role.upper()} of {fragment.type} in {name}; it has {fragment.registers}"
            " [wmma-registers]"
        )


def _access(form: Form) -> _Access:
    role = form.row.name[-1].replace("d", "c")
    fragment = _fragment(form, role, form.type, *_layouts(form, 1))
    _confirm(form, fragment, form.instruction.operands[1 if form.row.name == "wmma.store.d" else 0])
    return _Access(fragment, space_of(form))


def _starts(state: AgentState, op: Op, address: Any, stride: Any) -> Any:
    """The address of each element of each lane, (32, elements), for elements of a byte or more."""
    whole_warp(state, op)
    fragment: Fragment = op.data.fragment
    start, step = uniform(state, op, address), fragment.line if stride is None else uniform(state, op, stride)
    if step < fragment.line:
        raise state.violation(
            op,
            f"a stride of {step} elements; rows or columns have {fragment.line}, so it is at least that [wmma-stride]",
        )
    least = min(_LEAST_ALIGNMENT, fragment.registers * fragment.width // 8)
    if start % least or step * fragment.bits // 8 % least:
        raise state.violation(
            op,
            f"address {start} and a stride of {step * fragment.bits // 8} bytes; both are multiples of {least}"
            " [wmma-alignment]",
        )
    return start + fragment.offsets(step) * fragment.bits // 8


@TABLE.effects(
    "wmma.load.a", "wmma.load.b", types=_OPERANDS, words=_WORDS, section=f"{_SECTION}: wmma.load", results=1,
    acts=False, prepare=_access,
)  # fmt: skip
@TABLE.effects(
    "wmma.load.c", types=_SUMS, words=_WORDS, section=f"{_SECTION}: wmma.load", results=1, acts=False, prepare=_access
)
def load(state: AgentState, op: Op, address: Any, stride: Any = None) -> tuple[Any, ...]:
    starts, fragment = _starts(state, op, address, stride), op.data.fragment
    if fragment.is_contiguous:
        found = _loaded(state, op, starts[:, 0], fragment.width, fragment.distinct)
        return found * (fragment.registers // fragment.distinct)
    columns = np.ascontiguousarray(starts.T)
    found = tuple(each for column in columns for each in _loaded(state, op, column, fragment.bits, 1))
    if fragment.bits == fragment.width:
        return found
    pairs = zip(found[::2], found[1::2], strict=True)
    return tuple(registers.join(low, high, fragment.bits, state.machine.domain) for low, high in pairs)


def _loaded(state: AgentState, op: Op, addresses: Any, bits: int, count: int) -> tuple[Any, ...]:
    """`count` registers of each lane, from its address on; by 16 bytes at most."""
    found: list[Any] = []
    size, most = bits // 8, max(1, 16 * 8 // bits)
    for first in range(0, count, most):
        some = min(most, count - first)
        form = op.data.space, size, some, True, bits, bits, False, state.machine.domain
        found += memory.load(state, op, form, addresses + first * size)
    return tuple(found)


@TABLE.effects("wmma.store.d", types=_SUMS, words=_WORDS, section=f"{_SECTION}: wmma.store", prepare=_access)
def store(state: AgentState, op: Op, address: Any, values: Any, stride: Any = None) -> None:
    starts, fragment, domain = _starts(state, op, address, stride), op.data.fragment, state.machine.domain
    held = values if isinstance(values, tuple) else (values,)
    if fragment.bits < fragment.width:
        held = tuple(half for each in held for half in registers.split(each, fragment.width, domain))
    form = op.data.space, fragment.bits // 8, 1, False
    for column, value in zip(np.ascontiguousarray(starts.T), held, strict=True):
        memory.store(state, op, form, column, value)


# Products -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Product:
    """`types` of A, B and C and `result` of D by MLIR name, or by PTX's for integers of less than a byte; `counts` of
    the registers of A and B that hold each element once."""

    fragments: MmaFragments
    types: tuple[str, str, str]
    counts: tuple[int, int]
    result: str
    how: warp_matrices.Product


def _product(form: Form) -> _Product:
    layouts = _layouts(form, 2)
    if len(form.types) not in (2, 4):
        raise form.instruction.error("wmma.mma has the types of D and C of f16, or of D, A, B and C [wmma-types]")
    d, *operands, c = form.types
    a, b = operands or ("f16", "f16")
    parts = [
        _fragment(form, role, type, by) for role, type, by in zip("abc", (a, b, c), (*layouts, "row"), strict=True)
    ]
    parts.append(_fragment(form, "c", d, "row"))
    for fragment, operand in zip(parts, (*form.instruction.operands[1:], form.instruction.operands[0]), strict=True):
        _confirm(form, fragment, operand)
    try:
        names = (a, b) if parts[0].bits < 8 else tuple(each.ir for each in hardware.operands_of_mma(a, b))
    except InterpreterError as error:
        raise form.instruction.error(str(error)) from error
    sums, result = element_of_ptx(c).ir, element_of_ptx(d).ir
    how = warp_matrices.Product("" if c == d else result, "satfinite" in form.words, "xor" in form.words)
    places = product_places(shape_of(form), *parts[:3])  # type: ignore[arg-type]
    counts = parts[0].distinct, parts[1].distinct
    return _Product(places, (*names, sums), counts, result, how)  # type: ignore[arg-type]


@TABLE.effects(
    "wmma.mma",
    types=f"{_OPERANDS} {_SUMS}",
    words=f"sync aligned row col satfinite rn xor and popc {_SHAPES}",
    section=f"{_SECTION}: wmma.mma",
    results=1,
    acts=False,
    prepare=_product,
)
def mma(state: AgentState, op: Op, a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    plan: _Product = op.data
    given = [each if isinstance(each, tuple) else (each,) for each in (a, b, c)]
    once = given[0][: plan.counts[0]], given[1][: plan.counts[1]], given[2]
    return accumulators_of(warp_matrices.multiply(state, op, plan.fragments, plan.types, once, plan.how), plan.result)
