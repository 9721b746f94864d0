"""The arrays and parameters of a launch record (`lowtide.launches`), placed in global memory. Needs no MLIR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import ELEMENTS, element_type
from lowtide.errors import InterpreterError, NotInterpreted
from lowtide.interpreter.machine import map_objects
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.map_fields import BYTES, encoded, fields_of
from lowtide.interpreter.machine.map_limits import check_tensor_map
from lowtide.interpreter.machine.matrices import Matrix
from lowtide.interpreter.machine.tensor_maps import TensorMap, WithMaps
from lowtide.interpreter.numbers.codes import CODES, CONTINUED, ELEMENT_BYTES
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.registers import Number
from lowtide.interpreter.program.types import Scalar
from lowtide.interpreter.ptx.table import bits_of
from lowtide.launches import Array, Parameter, Pointer, Struct
from lowtide.launches import TensorMap as RecordedMap

_LEVELS = 3  # strides of an allocation: between matrices, between rows, between elements
_POINTER = 8  # bytes
_HALF = "i32"  # holds half of an i64, which the payload of the float domains cannot hold whole


def element_of(dtype: str) -> str:
    """The name of an element's type in memory: a row of `elements`, or an integer of some bits."""
    name = element_type(dtype).ir if dtype in ELEMENTS else dtype
    if name not in ELEMENT_BYTES:
        raise InterpreterError(
            f"elements of type {dtype} are not interpreted; take one of {', '.join(ELEMENT_BYTES)} [launched-element]"
        )
    return name


@dataclass(frozen=True)
class Order:
    """The elements of a strided array in the order of memory.

    `axes`: its dimensions from the largest stride to the smallest, without those of stride 0 or extent 1. `levels`:
    (extent, stride in elements), after dimensions without gaps between them are joined. There are at most three, and
    the last one is contiguous.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    levels: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, name: str, array: Array) -> Order:
        """The order of an array with a name. Raises NotInterpreted for strides that an allocation cannot have."""
        shape, strides = array.shape, array.strides
        if len(strides) == len(shape) - 1:
            strides = (*strides, 1)
        if len(strides) != len(shape) or any(stride < 0 for stride in strides) or any(side < 0 for side in shape):
            raise NotInterpreted(
                f"array {name}: shape {list(shape)} with strides {list(array.strides)}; give a stride, 0 or more, for "
                "each dimension, or for each but the last [launched-strides]"
            )
        kept = [axis for axis, side in enumerate(shape) if side != 1 and strides[axis]]
        axes = sorted(kept, key=lambda axis: (-strides[axis], axis))
        levels: list[tuple[int, int]] = []
        for axis in axes:
            extent, stride = shape[axis], strides[axis]
            if levels and levels[-1][1] == extent * stride:
                extent *= levels.pop()[0]
            levels.append((extent, stride))
        if not levels or levels[-1][1] != 1:
            levels.append((1, 1))
        overlaps = any(stride < inner * step for (_, stride), (inner, step) in pairwise(levels))
        if len(levels) > _LEVELS or (overlaps and 0 not in shape):
            raise NotInterpreted(
                f"array {name}: shape {list(shape)} with strides {list(array.strides)} has elements that overlap, or "
                "gaps between more than three levels of rows; pass the memory that it lies in [launched-gaps]"
            )
        return cls(shape, tuple(axes), tuple(levels))

    def flat(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the array's shape as rows, in the order of memory."""
        whole = np.broadcast_to(values, self.shape)
        picked = whole[tuple(slice(None) if axis in self.axes else slice(0, 1) for axis in range(len(self.shape)))]
        rest = [axis for axis in range(len(self.shape)) if axis not in self.axes]
        return picked.transpose(*self.axes, *rest).reshape(-1, self.levels[-1][0])

    def shaped(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows in the order of memory as an array of the array's shape."""
        if 0 in self.shape:
            return np.zeros(self.shape, rows.dtype)
        turned = rows.reshape([self.shape[axis] for axis in self.axes])
        back = turned.transpose(*(self.axes.index(axis) for axis in sorted(self.axes)))
        sides = [side if axis in self.axes else min(side, 1) for axis, side in enumerate(self.shape)]
        return np.broadcast_to(back.reshape(sides), self.shape)


def _sides(array: Array) -> list[tuple[int, int]]:
    """The extent and the stride, in elements, of each dimension."""
    strides = array.strides if len(array.strides) == len(array.shape) else (*array.strides, 1)
    return [*zip(array.shape, strides, strict=True)]


@dataclass(frozen=True)
class Places:
    """The arrays of a record in global memory: their addresses and orders, by name."""

    memory: GlobalMemory
    numbers: Domain
    addresses: Mapping[str, int]
    orders: Mapping[str, Order]
    arrays: Mapping[str, Array]

    @classmethod
    def of(cls, memory: GlobalMemory, numbers: Domain, arrays: Mapping[str, Array]) -> Places:
        """Place all arrays, then write their relocations."""
        orders = {name: Order.of(name, array) for name, array in arrays.items()}
        addresses = {name: _placed(memory, numbers, name, array, orders[name]) for name, array in arrays.items()}
        for name, array in arrays.items():
            width = ELEMENT_BYTES[element_of(array.dtype)]
            memory.name_elements(name, tuple((side, width * stride) for side, stride in _sides(array)))
        places = cls(memory, numbers, addresses, orders, arrays)
        for name, array in arrays.items():
            for offset, pointer in array.relocations:
                places._relocate(name, array, offset, places.address(pointer))
        return places

    def address(self, pointer: Pointer) -> int:
        """The address that a pointer has in this memory."""
        if pointer.array not in self.addresses:
            known = ", ".join(self.addresses) or "none"
            raise InterpreterError(
                f"a pointer to {pointer.array}, which is no array of the record; it has {known} [launched-array]"
            )
        return self.addresses[pointer.array] + pointer.offset

    def contents(self) -> dict[str, NDArray[Any]]:
        """The present contents of the arrays, by name."""
        return {name: self._contents(name, array) for name, array in self.arrays.items()}

    def unwritten(self) -> dict[str, NDArray[np.bool_]]:
        """For each array, by name, the elements that nothing has written, not even before the launches."""
        found = {}
        for name, array in self.arrays.items():
            written = self.memory.contents(name)[1]
            if element_of(array.dtype) == "i64":
                written = np.logical_and.reduce(written.reshape(len(written), -1, 2), axis=2)
            found[name] = np.logical_not(self.orders[name].shaped(written))
        return found

    def last_write(self, name: str, index: tuple[int, ...]) -> str | None:
        """The thread and the op that last wrote an element in the last launch, in words; None if there are none."""
        array = self.arrays[name]
        width = ELEMENT_BYTES[element_of(array.dtype)]
        offset = sum(at * stride for at, (_, stride) in zip(index, _sides(array), strict=True))
        return self.memory.last_write(self.addresses[name] + width * offset, width)

    def _contents(self, name: str, array: Array) -> NDArray[Any]:
        element = element_of(array.dtype)
        payload = self.memory.contents(name)[0]
        if element == "i64":
            halves = np.ascontiguousarray(self.numbers.matrix_of(payload, _HALF).astype(np.int32))
            return self.orders[name].shaped(halves.view(np.int64))
        return self.orders[name].shaped(self.numbers.matrix_of(payload, element))

    def _relocate(self, name: str, array: Array, offset: int, address: int) -> None:
        """Write an address of 8 bytes into an array of integers."""
        element = _HALF if element_of(array.dtype) == "i64" else element_of(array.dtype)
        width, buffer = ELEMENT_BYTES[element], self.memory.buffer(name)
        at = buffer.start + offset
        if offset < 0 or at + _POINTER > buffer.end or offset % min(width, _POINTER) or element[0] in "fbt":
            raise InterpreterError(
                f"array {name}: a pointer at byte {offset}; it needs {_POINTER} bytes of an array of integers"
                " [launched-relocation]"
            )
        where = slice(at, at + _POINTER, width)
        self.memory.payload[where] = np.frombuffer(address.to_bytes(_POINTER, "little"), f"i{width}")
        self.memory.codes[at : at + _POINTER] = CONTINUED
        self.memory.codes[where] = CODES[element]

    # Parameters -------------------------------------------------------------------------------------------------------

    def parameter(self, parameter: Parameter, type: str, what: str) -> Any:
        """The result of `ld.param` of a parameter of a type. `what` names it in messages."""
        if isinstance(parameter, Pointer):
            return self.address(parameter)
        if isinstance(parameter, RecordedMap):
            return self._tensor_map(parameter, what)
        if isinstance(parameter, Struct):
            return self._struct(parameter, what)
        if type[0] != "f":
            return int.from_bytes(parameter, "little", signed=True)
        if len(parameter) != bits_of(type) // 8:
            raise InterpreterError(
                f"{what}: {len(parameter)} bytes for .{type}; pass {bits_of(type) // 8} [launched-float]"
            )
        value = np.frombuffer(parameter, f"f{bits_of(type) // 8}")[0]
        return Number(self.numbers.constant(float(value), type), type)

    def _struct(self, struct: Struct, what: str) -> int:
        """The bytes of a struct with its pointers, as a number, and its tensor maps."""
        data = bytearray(struct.data)
        for offset, pointer in struct.pointers:
            if not 0 <= offset <= len(data) - _POINTER:
                raise InterpreterError(
                    f"{what}: a pointer at byte {offset} of a struct of {len(data)} bytes [launched-struct]"
                )
            data[offset : offset + _POINTER] = self.address(pointer).to_bytes(_POINTER, "little")
        maps = {at: self._tensor_map(each, f"{what} at byte {at}") for at, each in struct.maps}
        for offset, map in maps.items():
            if not 0 <= offset <= len(data) - BYTES:
                raise InterpreterError(
                    f"{what}: a tensor map at byte {offset} of a struct of {len(data)} bytes [launched-map]"
                )
            data[offset : offset + BYTES] = encoded(fields_of(map))
        number = int.from_bytes(data, "little", signed=True)
        return WithMaps.of(number, maps) if maps else number

    def _tensor_map(self, map: RecordedMap, what: str) -> TensorMap:
        element, at = element_of(map.dtype), self.address(map.at)
        check_tensor_map(map, at, ELEMENT_BYTES[element], what)
        matrix = Matrix(map.at.array, at, map.shape, map.strides, Scalar(element, 8 * ELEMENT_BYTES[element]))
        found = TensorMap(matrix, map.box, map.shape, (*map.strides, 1), map.swizzle)
        return replace(found, at=map_objects.place_parameter(self.memory, found, what))


def _placed(memory: GlobalMemory, numbers: Domain, name: str, array: Array, order: Order) -> int:
    """The address of an array after it is placed in memory."""
    levels = ((1, 0),) * (_LEVELS - len(order.levels)) + order.levels
    (count, batch_stride), (rows, row_stride), (columns, _) = levels
    element, values = element_of(array.dtype), None
    if array.values is not None:
        given = np.asarray(array.values)
        if given.shape != array.shape:
            raise InterpreterError(
                f"array {name}: values of shape {list(given.shape)} for an array of {list(array.shape)}"
                " [launched-shape]"
            )
        values = None if 0 in array.shape else order.flat(given)
    if 0 in array.shape:
        count, rows, columns = 1, 1, 0
    if element == "i64":
        element, columns, row_stride, batch_stride = _HALF, 2 * columns, 2 * row_stride, 2 * batch_stride
        if values is not None:
            values = np.ascontiguousarray(values.astype(np.int64)).view(np.int32)
    payload = None if values is None else numbers.of_matrix(values, element)
    batch = count, batch_stride
    return memory.allocate(name, rows, columns, row_stride or columns, element, payload, array.misaligned, batch)
