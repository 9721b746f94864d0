"""The launches of a host function as data (`lowtide.launches`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.elements import element_of_ir
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import LaunchRequest
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.tensor_maps import TensorMap
from lowtide.interpreter.numbers.domains import Domain, FloatDomain
from lowtide.interpreter.program.types import Pointer as PointerType
from lowtide.interpreter.program.types import Scalar, Type
from lowtide.launches import Array, Launch, Parameter, Pointer
from lowtide.launches import TensorMap as RecordedMap

_FLOATS = FloatDomain()


def launch_of(request: LaunchRequest, types: Sequence[Type], memory: GlobalMemory) -> Launch:
    """A launch of a kernel that takes parameters of these types, on arrays in memory."""
    parameters = tuple(_parameter(value, type, memory) for value, type in zip(request.arguments, types, strict=True))
    return Launch(
        request.kernel,
        (request.grid, 1, 1),
        (request.threads, 1, 1),
        parameters,
        (request.cluster[0] * request.cluster[1], 1, 1),
        request.shared_memory or 0,
        request.programmatic,
        request.cooperative,
    )


def arrays_of(memory: GlobalMemory, domain: Domain) -> dict[str, Array]:
    """The arrays in memory by name, with their strides between rows and matrices of a batch."""
    found = {}
    for buffer in memory.buffers:
        payload, written = memory.contents(buffer.name)
        width = domain.matrix_of(payload[:0], buffer.dtype).itemsize
        shape: tuple[int, ...] = (buffer.rows, buffer.columns)
        strides: tuple[int, ...] = (buffer.stride // width,)
        if buffer.count > 1:
            shape, strides = (buffer.count, *shape), (buffer.batch_stride // width, *strides)
        values = domain.matrix_of(payload, buffer.dtype).reshape(shape) if written.any() else None
        pointers = tuple((at, _pointer(to, memory)) for at, to in memory.pointers.get(buffer.name, {}).items())
        placed = (buffer.start + memory.origin) % 256
        found[buffer.name] = Array(_element(buffer.dtype), shape, strides, values, placed, pointers)
    return found


def _element(ir: str) -> str:
    """The name of an element type in records."""
    row = element_of_ir(ir)
    return ir if row is None else row.name


def _parameter(value: Any, type: Type, memory: GlobalMemory) -> Parameter:
    if isinstance(value, TensorMap):
        at, dtype = _pointer(value.matrix.address, memory), _element(value.element.name)
        return RecordedMap(at, dtype, value.shape, value.strides[:-1], value.box, value.span)
    if isinstance(type, PointerType):
        return _pointer(int(value), memory)
    assert isinstance(type, Scalar)
    if type.is_float:
        return np.asarray(_FLOATS.to_bits(np.float64(value), type.name)).tobytes()
    return int(value).to_bytes(type.bytes, "little", signed=True)


def _pointer(address: int, memory: GlobalMemory) -> Pointer:
    place = address - memory.origin
    for buffer in memory.buffers:
        if buffer.start <= place < buffer.end or place == buffer.start:
            return Pointer(buffer.name, place - buffer.start)
    raise InterpreterError(f"the address {address:#x} that a launch passes is not in an array [pointer-of-array]")
