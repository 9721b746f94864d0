"""The llvm dialect at level nvvm: pointers, loads and stores, structs, bit casts.

A pointer is its byte address; a struct is a tuple. The arith and math dialects implement integer and float arithmetic.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import (
    SHARED,
    active_rows,
    disjoint,
    memory_of,
    rows_together,
    spread,
)
from lowtide.interpreter.machine.memory import SharedMemory
from lowtide.interpreter.numbers.accesses import Access, Ints
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES, ZERO_TYPE
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.packed import NARROW_TYPES, Packed
from lowtide.interpreter.numbers.registers import canonical, unsigned
from lowtide.interpreter.ops import arith, math
from lowtide.interpreter.ops.vector import scalar_of
from lowtide.interpreter.program.batches import Batch, Bulk, NotTogether
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.ir_attributes import decode_attribute
from lowtide.interpreter.program.ir_types import parsed_type
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import Array, Scalar, Struct, Type, Vector
from lowtide.interpreter.ptx.shared_variables import places
from lowtide.interpreter.ptx.syntax import Variable

OPS = OpTable(acts=False)

_DYNAMIC_INDEX = -(2**31)

# Arithmetic --------------------------------------------------------------------------------------------------------

_SAME_AS: Mapping[str, str] = MappingProxyType(
    {
        "llvm.mlir.constant": "arith.constant",
        "llvm.add": "arith.addi",
        "llvm.sub": "arith.subi",
        "llvm.mul": "arith.muli",
        "llvm.and": "arith.andi",
        "llvm.or": "arith.ori",
        "llvm.xor": "arith.xori",
        "llvm.shl": "arith.shli",
        "llvm.lshr": "arith.shrui",
        "llvm.ashr": "arith.shrsi",
        "llvm.sdiv": "arith.divsi",
        "llvm.srem": "arith.remsi",
        "llvm.udiv": "arith.divui",
        "llvm.urem": "arith.remui",
        "llvm.icmp": "arith.cmpi",
        "llvm.zext": "arith.extui",
        "llvm.sext": "arith.extsi",
        "llvm.trunc": "arith.trunci",
        "llvm.select": "arith.select",
        "llvm.fadd": "arith.addf",
        "llvm.fsub": "arith.subf",
        "llvm.fmul": "arith.mulf",
        "llvm.fdiv": "arith.divf",
        "llvm.fneg": "arith.negf",
        "llvm.fcmp": "arith.cmpf",
        "llvm.fpext": "arith.extf",
        "llvm.fptrunc": "arith.truncf",
        "llvm.sitofp": "arith.sitofp",
        "llvm.uitofp": "arith.uitofp",
        "llvm.fptosi": "arith.fptosi",
        "llvm.fptoui": "arith.fptoui",
        "llvm.intr.smin": "arith.minsi",
        "llvm.intr.smax": "arith.maxsi",
        "llvm.intr.umin": "arith.minui",
        "llvm.intr.umax": "arith.maxui",
        "llvm.intr.minnum": "arith.minnumf",
        "llvm.intr.maxnum": "arith.maxnumf",
        "llvm.intr.minimum": "arith.minimumf",
        "llvm.intr.maximum": "arith.maximumf",
        "llvm.intr.fma": "math.fma",
        "llvm.intr.fabs": "math.absf",
    }
)


def _as_upstream(op: DecodedOp, program: Program) -> Any:
    """Replace the op by the one of arith or math; messages still show the IR."""
    op.name = _SAME_AS[op.name]
    entry = (arith.OPS if op.name.startswith("arith.") else math.OPS)[op.name]
    op.handler = entry.handler
    return None if entry.prepare is None else entry.prepare(op, program)


@OPS.implements(*_SAME_AS, prepare=_as_upstream)
def same_as_upstream(state: AgentState, op: DecodedOp) -> None:
    """The placeholder of the handler that `_as_upstream` sets."""


# Pointers ----------------------------------------------------------------------------------------------------------


def size_of(type: Type) -> int:
    """Bytes of a type in memory. Raises InterpreterError for a type without a plain size."""
    if isinstance(type, Scalar):
        return type.bytes
    if isinstance(type, Vector):
        return int(np.prod(type.shape)) * type.element.bytes
    if isinstance(type, Array):
        return type.length * size_of(type.element)
    raise InterpreterError(
        f"the size of {type} in memory is not interpreted; address elements, vectors or arrays [size-of-type]"
    )


def _prepare_gep(op: DecodedOp, program: Program) -> Any:
    """The constant part of the offset, and the slots and strides of the run-time indices."""
    text, constant, steps = str(op.attributes["elem_type"]), 0, []
    if text not in program.pointees:
        program.pointees[text] = parsed_type(text, op.source.context)
    type = program.pointees[text]
    slots = iter(op.operands[1:])
    for depth, index in enumerate(op.attributes["rawConstantIndices"]):
        if depth:
            if not isinstance(type, Array | Vector):
                raise InterpreterError(
                    f"{op.describe()}: index {depth} goes into {type}; only arrays are interpreted [gep-type]"
                )
            type = type.element
        if index == _DYNAMIC_INDEX:
            steps.append((next(slots), size_of(type)))
        else:
            constant += index * size_of(type)
    return constant, steps


@OPS.implements("llvm.getelementptr", prepare=_prepare_gep)
def getelementptr(state: AgentState, op: DecodedOp) -> None:
    constant, steps = op.data
    address = state.values[op.operands[0]]
    if constant:
        address = address + constant
    for slot, stride in steps:
        index = state.values[slot]
        if isinstance(index, np.ndarray) and index.dtype != np.int64:
            index = index.astype(np.int64)
        address = address + (index if stride == 1 else index * stride)
    state.values[op.results[0]] = address


@OPS.implements("llvm.inttoptr")
def inttoptr(state: AgentState, op: DecodedOp) -> None:
    value = unsigned(state.values[op.operands[0]], op.operand_types[0].bits)
    state.values[op.results[0]] = value.astype(np.int64) if isinstance(value, np.ndarray) else value


@OPS.implements("llvm.ptrtoint")
def ptrtoint(state: AgentState, op: DecodedOp) -> None:
    value = state.values[op.operands[0]]
    state.values[op.results[0]] = canonical(value, op.result_types[0].bits)


@OPS.implements("llvm.addrspacecast")
def addrspacecast(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.values[op.operands[0]]


def _prepare_addressof(op: DecodedOp, program: Program) -> Any:
    """Globals of shared memory are laid out like variables of PTX, in the order of the module."""
    scope = op.source.parent
    while scope.name not in ("gpu.module", "builtin.module"):
        scope = scope.parent
    variables = []
    for child in scope.regions[0].blocks[0].operations:
        variable = child.operation
        if variable.name == "llvm.mlir.global" and decode_attribute(variable.attributes["addr_space"]) == SHARED:
            size = size_of(parsed_type(str(decode_attribute(variable.attributes["global_type"])), variable.context))
            symbol = decode_attribute(variable.attributes["sym_name"])
            aligned = decode_attribute(variable.attributes["alignment"]) if "alignment" in variable.attributes else 0
            variables.append(Variable(symbol, "shared", "b8", size, aligned))
    name = op.attributes["global_name"]
    shared = places(variables)
    if name not in shared.variables:
        raise InterpreterError(
            f"{op.describe()}: @{name} is not a global of shared memory (addr_space = 3) [addressof-global]"
        )
    program.shared_origin, program.static_bytes = shared.origin, shared.size
    return shared.variables[name].start


@OPS.implements("llvm.mlir.addressof", prepare=_prepare_addressof)
def addressof(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.cta.shared.origin + op.data


def _prepare_access(op: DecodedOp, program: Program) -> Any:
    """(pointer slot, its type, element type, elements, alignment) of a load or store."""
    is_load = op.name == "llvm.load"
    type = op.result_types[0] if is_load else op.operand_types[0]
    element = type.element if isinstance(type, Vector) else type
    if not isinstance(element, Scalar) or element.bits == 1:
        raise InterpreterError(
            f"{op.describe()}: memory holds floats, integers of at least 8 bits and their vectors [memory-of-type]"
        )
    count = int(np.prod(type.shape)) if isinstance(type, Vector) else 1
    pointer = 0 if is_load else 1
    return (op.operands[pointer], op.operand_types[pointer], element, count, op.attributes.get("alignment"))


def _access_key(op: DecodedOp) -> Any:
    _, pointer, element, count, align = op.data
    return op.name, pointer, element, count, align


def _load(state: AgentState, *ops: DecodedOp) -> None:
    """A load by the active lanes, or several loads of one type by all lanes, which run as one."""
    op, values = ops[0], state.values
    _, pointer, element, count, align = op.data
    addresses, type = [values[each.data[0]] for each in ops], op.result_types[0]
    if len(ops) > 1 and state.mask is not None:
        raise NotTogether
    access, rows = rows_together(state, ops, addresses) if len(ops) > 1 else active_rows(state, op, addresses[0])
    cells, shape = memory_of(state, op, pointer, rows), type.shape if isinstance(type, Vector) else ()
    held = None if element.is_float else _holds_numbers(cells, access, rows)
    if held is not None and ELEMENT_BYTES[held] <= element.bytes:
        each = element.bytes // ELEMENT_BYTES[held]
        payload, dtype = cells.load_any(access, rows, ELEMENT_BYTES[held], each * count)
        for op, part in zip(ops, spread(state, payload).reshape(len(ops), -1, *shape, each), strict=True):
            values[op.results[0]] = Packed(part, dtype)
        return
    payload = spread(state, cells.load(access, rows, element.name, count, align))
    payload = payload if element.is_float else payload.astype(element.dtype)
    for op, part in zip(ops, payload.reshape(len(ops), -1, *shape), strict=True):
        values[op.results[0]] = part if isinstance(type, Vector) else scalar_of(part, type)


OPS.implements(
    "llvm.load", prepare=_prepare_access, bulk=Bulk(lambda state, batch: _load(state, *batch.ops), _access_key)
)(_load)


def _holds_numbers(cells: Cells, access: Access, rows: Ints) -> str | None:
    """The type of narrow floats in memory that are read as integers; registers then hold them as numbers."""
    return next((dtype for dtype in cells.dtypes_at(access, rows) if dtype in NARROW_TYPES), None)


def _store(state: AgentState, *ops: DecodedOp) -> None:
    """A store by the active lanes, or several stores of one type to disjoint bytes, which run as one. A cache operator
    changes no number."""
    op, values = ops[0], state.values
    _, pointer, element, count, align = op.data
    stored = [values[each.operands[0]] for each in ops]
    if any(value is None for value in stored):
        raise state.violation(op, "a value that was never given (undef or poison) is stored [store-undef]")
    kinds = {value.dtype if isinstance(value, Packed) else "" for value in stored}
    if len(kinds) > 1:
        raise NotTogether
    (dtype,) = kinds
    if dtype:
        stored, count = [value.payload for value in stored], stored[0].payload.shape[-1] * count
    dtype = dtype or element.name
    access, rows = rows_together(state, ops, [values[each.data[0]] for each in ops])
    payload = np.empty((len(ops), len(state.lanes), count), state.machine.domain.payload)
    for at, value in enumerate(stored):
        payload[at] = value.reshape(len(value), count) if isinstance(value, np.ndarray) and value.ndim else value
    if state.mask is not None:
        payload = payload[:, state.mask]
    cells, size = memory_of(state, op, pointer, rows), ELEMENT_BYTES.get(dtype, 2) * count
    disjoint(cells, access, rows, size, align)
    payload = payload.reshape(-1, count)
    if isinstance(cells, SharedMemory) and dtype in ("i32", "i64") and not payload.any():
        # Zeros may be read as any type, as in PTX.
        payload, dtype, count = np.zeros((1, 1), payload.dtype), ZERO_TYPE, size // 2
    cells.store(access, rows, payload, dtype, count, align)


OPS.implements(
    *("llvm.store", "sm.ptx_store"),
    prepare=_prepare_access,
    acts=True,
    bulk=Bulk(lambda state, batch: _store(state, *batch.ops), _access_key),
)(_store)


# Structs ------------------------------------------------------------------------------------------------


def _nothing(type: Type) -> Any:
    return tuple(_nothing(element) for element in type.elements) if isinstance(type, Struct) else None


@OPS.implements("llvm.mlir.undef", "llvm.mlir.poison", "ub.poison")
def undef(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = _nothing(op.result_types[0])


@OPS.implements("llvm.mlir.zero", prepare=lambda op, program: _zero(program.domain, op.result_types[0]))
def zero(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = op.data


def _zero(domain: Domain, type: Type) -> Any:
    if isinstance(type, Struct):
        return tuple(_zero(domain, element) for element in type.elements)
    element = type.element if isinstance(type, Vector) else type
    if isinstance(element, Scalar) and element.is_float:
        value: Any = domain.constant(0.0, element.name)
    else:
        value = False if element == Scalar("i1", 1) else 0
    return np.full((1, *type.shape), value) if isinstance(type, Vector) else value


def _extractvalues(state: AgentState, batch: Batch) -> None:
    values = state.values
    for result, operand, position in batch.data:
        value = values[operand]
        for index in position:
            value = value[index]
        values[result] = value


_EXTRACTVALUES = Bulk(
    _extractvalues,
    key=lambda op: None,
    accesses=False,
    prepare=lambda ops: [(op.results[0], op.operands[0], op.data) for op in ops],
)


@OPS.implements("llvm.extractvalue", prepare=lambda op, program: op.attributes["position"], bulk=_EXTRACTVALUES)
def extractvalue(state: AgentState, op: DecodedOp) -> None:
    value = state.values[op.operands[0]]
    for index in op.data:
        value = value[index]
    state.values[op.results[0]] = value


@OPS.effects("llvm.insertvalue")
def insertvalue(state: AgentState, op: DecodedOp, whole: Any, value: Any) -> Any:
    return _replaced(whole, op.attributes["position"], value)


def _replaced(whole: tuple[Any, ...], position: tuple[int, ...], value: Any) -> tuple[Any, ...]:
    index, *deeper = position
    new = _replaced(whole[index], tuple(deeper), value) if deeper else value
    return (*whole[:index], new, *whole[index + 1 :])
