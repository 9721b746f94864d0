"""The llvm dialect: bit casts, between numbers of the domain and integers that hold them.

Pairs of 16-bit floats in an i32 are `Packed` in every domain. If an integer of the same width, or two of half of it,
only carries a float into inline assembly or an mma, it is a `Number`, or `Halves`. Other casts need real bits, which
only the domains of floats have.
"""

from typing import Any

import numpy as np
from mlir import ir

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES, ZERO_TYPE
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import Halves, Number
from lowtide.interpreter.ops import arith
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import Type, Vector

OPS = OpTable(acts=False)

_TAKE_NUMBERS = frozenset({"llvm.inline_asm", "nvvm.mma.sync", "sm.ptx_wgmma"})
_HANDS_ON = frozenset({"llvm.extractelement", "vector.extract"})


def _prepare(op: DecodedOp, program: Program) -> Any:
    """Whether the result keeps numbers, and as what; whether it has halves that share registers; the types, and the
    result's shape."""
    source, target = (arith.element_of(types[0]) for types in (op.operand_types, op.result_types))
    kinds = {source.bits: Number, source.bits // 2 if source.bits == 64 else 0: Halves}
    kind = kinds.get(target.bits) if source.is_float and not target.is_float else None
    keeps = kind if kind is not None and _goes_into_assembly(op.source.results[0]) else None
    halves = source.is_float and source.bits == 16 and target.bits == 32 and not target.is_float
    shape = op.result_types[0].shape if isinstance(op.result_types[0], Vector) else ()
    return keeps, halves, source, target, shape


def _goes_into_assembly(value: ir.Value) -> bool:
    """Whether only inline assembly, or products of matrices, use a value."""
    users = [use.owner.operation for use in value.uses]
    return bool(users) and all(
        user.name in _TAKE_NUMBERS or (user.name in _HANDS_ON and _goes_into_assembly(user.results[0]))
        for user in users
    )


@OPS.implements("llvm.bitcast", "vector.bitcast", prepare=_prepare)
def bitcast(state: AgentState, op: DecodedOp) -> None:
    keeps, halves, from_element, to_element, shape = op.data
    value, target = state.values[op.operands[0]], op.result_types[0]
    if value is None:  # poison
        pass
    elif keeps is Halves:
        as_vector = not isinstance(op.operand_types[0], Vector)
        value = Halves(np.reshape(value, (-1, 1)) if as_vector else value, from_element.name)
    elif keeps is not None:
        value = Number(_of_type(_rows(value), target, from_element.is_float), from_element.name)
    elif isinstance(value, Packed):
        if to_element.is_float:
            payload = value.unpack(to_element.name)
            value = payload.reshape(len(payload), *shape)
        else:
            each = to_element.bytes // (ELEMENT_BYTES[value.dtype] if value.dtype != ZERO_TYPE else 2)
            value = Packed(value.payload.reshape(len(value.payload), *shape, each), value.dtype)
    elif from_element.name != to_element.name:
        if halves:
            value = Packed(value.reshape(len(value), *shape, 2), from_element.name)
        else:
            value = _cast_bits(state, value, op.operand_types[0], target)
    else:
        value = _of_type(_rows(value), target, to_element.is_float)
    state.values[op.results[0]] = value


def _cast_bits(state: AgentState, value: Any, source: Type, target: Type) -> Any:
    """Real bits, which only the domains of floats have; zero is zero in each domain."""
    domain, rows = state.machine.domain, _rows(value)
    from_element, to_element = arith.element_of(source), arith.element_of(target)
    if not rows.any():
        count = rows.shape[1] * from_element.bits // to_element.bits
        result = np.zeros((len(rows), count), domain.payload if to_element.is_float else to_element.dtype)
    else:
        bits = domain.to_bits(rows, from_element.name) if from_element.is_float else rows.astype(from_element.dtype)
        bits = np.ascontiguousarray(bits).view(f"u{to_element.bytes}")
        result = domain.from_bits(bits, to_element.name) if to_element.is_float else bits.view(to_element.dtype)
    return _of_type(result, target, to_element.is_float)


def _rows(value: Any) -> Any:
    """The elements of a value by lane: (32 or 1, elements)."""
    rows = np.asarray(value)
    return rows.reshape(len(rows) if rows.ndim else 1, -1)


def _of_type(rows: Any, target: Type, is_float: bool) -> Any:
    """`_rows` as a value of a type: a vector, or a scalar."""
    if isinstance(target, Vector):
        return rows.reshape(len(rows), *target.shape)
    if len(rows) > 1:
        return rows[:, 0]
    return rows[0, 0] if is_float else int(rows[0, 0])
