"""Matrices in the registers of a warp: ldmatrix, stmatrix, mma.sync.

PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import element_of_ptx
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import hardware, warp_matrices
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.quad_fragments import quad_fragments
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.integers import INTEGERS
from lowtide.interpreter.numbers.packed import PACKED_TYPES, Packed
from lowtide.interpreter.numbers.registers import Number
from lowtide.interpreter.program.batches import Batch, Bulk, NotTogether
from lowtide.interpreter.ptx.moves import GENERIC_SHARED
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.syntax import Group
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

Values = NDArray[Any]

_SECTION = "Warp Level Matrix Multiply-Accumulate Instructions"
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def shape_of(form: Form) -> tuple[int, int, int] | None:
    """M, N and K of a product; None if its name has no shape."""
    words = form.instruction.name.split(".")
    found = next((match for word in words if (match := _SHAPE.fullmatch(word))), None)
    return None if found is None else tuple(map(int, found.groups()))  # type: ignore[return-value]


def _matrices(form: Form) -> tuple[int, bool, int]:
    """The number of 8x8 matrices of 16 bits, whether they are transposed, and the start of shared memory among the
    addresses, which are generic if no state space is named."""
    number = next(int(word[1:]) for word in ("x4", "x2", "x1") if word in form.words)
    return number, "trans" in form.words, 0 if form.words & {"shared", "shared::cta"} else GENERIC_SHARED


_MATRIX_WORDS = "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16"


def _ldmatrices(state: AgentState, batch: Batch) -> None:
    values, (num, trans, start) = state.values, batch.ops[0].data
    addresses = [op.readers[0](values) - start for op in batch.ops]
    received = warp_matrices.ldmatrix(state, batch.ops, addresses, num, trans)
    for op, held in zip(batch.ops, received, strict=True):
        op.give(values, op.results, held)


@TABLE.effects(
    "ldmatrix",
    words=_MATRIX_WORDS,
    section=f"{_SECTION}: ldmatrix",
    results=1,
    acts=False,
    is_wide=True,
    prepare=_matrices,
    bulk=Bulk(_ldmatrices, key=lambda op: op.data),
)
def ldmatrix(state: AgentState, op: Op, address: Any) -> tuple[Any, ...]:
    num, trans, start = op.data
    return warp_matrices.ldmatrix(state, (op,), (address - start,), num, trans)[0]


def _stmatrices(state: AgentState, batch: Batch) -> None:
    values = state.values
    addresses, held = zip(*([read(values) for read in op.readers] for op in batch.ops), strict=True)
    _, trans, start = batch.ops[0].data
    warp_matrices.stmatrix(state, batch.ops, [address - start for address in addresses], held, trans)


@TABLE.effects(
    "stmatrix",
    words=_MATRIX_WORDS,
    section=f"{_SECTION}: stmatrix",
    prepare=_matrices,
    bulk=Bulk(_stmatrices, key=lambda op: op.data),
)
def stmatrix(state: AgentState, op: Op, address: Any, values: tuple[Any, ...]) -> None:
    _, trans, start = op.data
    warp_matrices.stmatrix(state, (op,), (address - start,), (values,), trans)


# mma.sync -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Mma:
    """`types` of A, B and C by MLIR name, or by PTX's for integers of less than a byte; `counts` of their registers.
    `result` is the type of D."""

    fragments: hardware.MmaFragments
    types: tuple[str, str, str]
    counts: tuple[int, int, int]
    result: str
    how: warp_matrices.Product = warp_matrices.PLAIN

    @property
    def accumulator(self) -> str:
        return self.types[2]


def _mma(form: Form) -> _Mma:
    layouts, is_quad = _layouts(form), _is_quad(form)
    if shape_of(form) is None or len(form.types) != 4 or (layouts != ("row", "col") and not is_quad):
        raise form.instruction.error(
            "mma.sync has a shape, .row.col (.m8n8k4 of f16: any layouts) and the four types of D, A, B and C"
            " [ptx-mma-types]"
        )
    d, _, _, c = form.types
    if c != d and not (is_quad and (c, d) == ("f16", "f32")):
        raise form.instruction.error(
            "mma.sync has C and D of one type; .m8n8k4 may have C of f16 and D of f32 [ptx-mma-one-type]"
        )
    try:
        rows = [element_of_ptx(c), element_of_ptx(d)]
        names, fragments, bits = _operands(form, rows[0].bits, rows[1].bits)
    except InterpreterError as error:
        raise form.instruction.error(str(error)) from error
    widths = (bits, bits, rows[0].bits, rows[1].bits)
    parts = (fragments.a, fragments.b, fragments.c, fragments.d or fragments.c)
    counts = [part[0].shape[1] * width // max(width, 32) for part, width in zip(parts, widths, strict=True)]
    target, *sources = form.instruction.operands
    given = [len(each.elements) if isinstance(each, Group) else 0 for each in (*sources, target)]
    count = 4 if form.are_places else 3  # D may be one value, a struct
    if given[:count] != counts[:count]:
        raise form.instruction.error(
            f"takes {counts[:count]} registers, in braces, of {', '.join('ABCD'[:count])}, not {given[:count]}"
            " [mma-registers]"
        )
    how = warp_matrices.Product("" if c == d else rows[1].ir, "satfinite" in form.words, "xor" in form.words)
    return _Mma(fragments, (*names, rows[0].ir), tuple(counts[:3]), rows[1].ir, how)


def _layouts(form: Form) -> tuple[str, ...]:
    """The layouts of A and B, "row" or "col"."""
    return tuple(word for word in form.instruction.name.split(".") if word in ("row", "col"))


def _is_quad(form: Form) -> bool:
    """Whether it is a product by pairs of quads of lanes: .m8n8k4 of f16."""
    return shape_of(form) == (8, 8, 4) and form.types[1:3] == ("f16", "f16") and len(_layouts(form)) == 2


def _operands(form: Form, bits_of_c: int, bits_of_d: int) -> tuple[tuple[str, str], hardware.MmaFragments, int]:
    """The types of A and B by MLIR name, the places of all elements, and the bits of an element of A."""
    _, a, b, _ = form.types
    if a in warp_matrices.SMALL:
        names, bits = _small(a, b), warp_matrices.SMALL[a][0]
    else:
        operands = hardware.operands_of_mma(a, b)
        names, bits = (operands[0].ir, operands[1].ir), operands[0].bits
    if _is_quad(form):
        return names, quad_fragments(_layouts(form), bits_of_c, bits_of_d), bits  # type: ignore[arg-type]
    return names, hardware.fragments_of(shape_of(form), bits), bits  # type: ignore[arg-type]


def _small(a: str, b: str) -> tuple[str, str]:
    """The types of operands of less than a byte. Raises InterpreterError for a pair that cannot be multiplied."""
    if warp_matrices.SMALL[a][0] != warp_matrices.SMALL.get(b, (0, 0))[0]:
        raise InterpreterError(f"mma.sync of {a} and {b}: take two of s4 and u4, or b1 for both [mma-small-types]")
    return a, b


_SHAPES = "m16n8k8 m16n8k16 m16n8k32 m8n8k4 m16n8k4 m8n8k16 m8n8k32 m16n8k64 m8n8k128 m16n8k128 m16n8k256"


def _products(state: AgentState, batch: Batch) -> None:
    """Products of packed operands into registers of one number each."""
    plan, values, domain = batch.ops[0].data, state.values, state.machine.domain
    products, slots = batch.data
    is_typed, count = batch.ops[0].is_typed, plan.counts[2]
    before = [values[slot] for slot in slots]
    if not is_typed:
        before = [accumulator(value, plan.accumulator, domain) for value in before]
    columns = warp_matrices.multiply_together(state, products, before, plan.fragments, plan.types)
    if not is_typed:
        columns = [held_as(column, plan.accumulator) for column in columns]
    for at, op in enumerate(batch.ops):
        given = tuple(columns[at * count : (at + 1) * count])
        if is_typed:  # a struct
            values[op.results[0]] = given
        else:
            op.give(values, op.results, given)


def accumulator(value: Any, dtype: str, domain: Domain) -> Any:
    """The value of a 32-bit register as a type; for an integer, its bits."""
    return registers.raw(value, 32, domain) if dtype in INTEGERS else registers.number(value, dtype, domain)


def held_as(column: Values, dtype: str) -> Any:
    """Numbers of a type in the form of a register."""
    return column if dtype in INTEGERS else Number(column, dtype)


def accumulators_of(d: Values, dtype: str) -> tuple[Any, ...]:
    """The registers of D, from its elements of a type (32, values)."""
    if dtype in PACKED_TYPES:
        return tuple(Packed(d[:, at : at + 2], dtype) for at in range(0, d.shape[1], 2))
    return tuple(held_as(column, dtype) for column in np.ascontiguousarray(d.T))


def _product_key(op: Op) -> Any:
    """Products run as one if all their operands are registers, those of A and B packed."""
    is_able = op.data.accumulator in ("f32", "i32") and op.data.how == warp_matrices.PLAIN
    is_able &= (
        op.data.fragments.products == 1
        and op.data.types[0] not in warp_matrices.SMALL
        and len(op.operands) == sum(op.data.counts)
    )
    return op.instruction.name if is_able else op


def _together(ops: Sequence[Op]) -> tuple[warp_matrices.Products, tuple[int, ...]]:
    """The products, and the slots of C."""
    a, b, _ = ops[0].data.counts
    products = warp_matrices.Products.of([(op.operands[:a], op.operands[a : a + b]) for op in ops])
    return products, tuple(slot for op in ops for slot in op.operands[a + b :])


_PRODUCTS = Bulk(_products, key=_product_key, accesses=False, prepare=_together)


@TABLE.effects(
    "mma.sync",
    types="f16 bf16 tf32 f32 f64 e4m3 e5m2 s8 u8 s4 u4 b1 s32",
    words=f"aligned {_SHAPES} row col satfinite xor and popc",
    section=f"{_SECTION}: mma",
    results=1,
    acts=False,
    is_wide=True,
    prepare=_mma,
    bulk=_PRODUCTS,
)
def mma(state: AgentState, op: Op, a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    if len(state.lanes) > WARP:
        raise NotTogether
    plan = op.data
    given = tuple(group if isinstance(group, tuple) else (group,) for group in (a, b, c))
    d = warp_matrices.multiply(state, op, plan.fragments, plan.types, given, plan.how)  # type: ignore[arg-type]
    return accumulators_of(d, plan.result)


@TABLE.effects(
    "movmatrix",
    words="sync aligned m8n8 trans b16",
    section=f"{_SECTION}: movmatrix",
    results=1,
    acts=False,
)
def movmatrix(state: AgentState, op: Op, register: Any) -> Any:
    return warp_matrices.transposed(state, op, register)
