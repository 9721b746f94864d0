"""Arguments in global memory: which of them overlap, and a matrix for each array, with its strides."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.inputs.arguments import Argument, output_of
from lowtide.interpreter.inputs.extents import FACTORS
from lowtide.interpreter.inputs.values import ROW_BYTES, Array
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.matrices import Matrix, part_name
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.program.types import MemRef

_MOST_WORK: Any = 10_000  # the limit of numpy's test whether two arrays have a byte in common


def in_place_of(arguments: Sequence[Argument]) -> int | None:
    """The position of the full operand in whose place D is written; None if D does not overlap an operand.

    D may only be the whole operand, and only if its rows are not stored at an index, because then they are others than
    the operand's. Raises InterpreterError for any other overlap of a result with an input or another result.
    """
    output, found, in_order = output_of(arguments), None, not any(x.is_places for x in arguments)
    arrays = [(at, x, x.value) for at, x in enumerate(arguments) if isinstance(x.value, np.ndarray)]
    for (at, result, written), (position, other, value) in permutations(arrays, 2):
        if result.result is None or not _share_memory(written, value):
            continue
        same = at == output and in_order and (_place(written), result.type) == (_place(value), other.type)
        if not same or position < FACTORS or other.result is not None:
            kind = "input" if other.result is None else "output"
            raise InterpreterError(
                f"operand {result.name}: the output overlaps {kind} {other.name}, which some CTAs access while others "
                "write the output; pass another output, or leave D out to have it allocated; D may also be a full "
                "operand itself, with its base, strides and dtype [output-overlaps-input]"
            )
        found = position if found is None else found
    return found


def _share_memory(x: Array, y: Array) -> bool:
    """Whether two arrays have a byte in common. Halves of the columns of one matrix have none."""
    if not np.may_share_memory(x, y):
        return False
    try:
        return np.shares_memory(x, y, max_work=_MOST_WORK)
    except np.exceptions.TooHardError:
        return True


def _place(array: Array) -> tuple[Any, ...]:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def matrix_of(memory: GlobalMemory, domain: Domain, argument: Argument, filled: bool, offset: int = 0) -> Matrix:
    """A matrix, a vector, a batch of them or a list, allocated with the strides of the array.

    `filled`: whether it gets the elements of the array, which an operand does, but not D. It begins `offset` bytes past
    a multiple of 256. Raises InterpreterError for an array whose last dimension is not contiguous, or whose rows
    overlap; for D also if its matrices overlap.
    """
    name, array, type = argument.name, argument.value, argument.type
    assert isinstance(array, np.ndarray) and isinstance(type, MemRef)
    if type.is_list:
        return _list_of(memory, domain, argument, filled, offset)
    *count, rows, columns = (
        array.shape if array.ndim - argument.is_batch == 2 else (*array.shape[:-1], 1, array.shape[-1])
    )
    size = array.dtype.itemsize
    if columns > 1 and array.strides[-1] != size:
        raise InterpreterError(
            f"operand {name}: the last dimension has stride {array.strides[-1]} bytes, must have {size} (rows may be "
            "padded): pass a contiguous copy, or compile for its layout [columns-strided]"
        )
    row_stride = columns
    if array.ndim - argument.is_batch == 2:
        row_stride, rest = divmod(array.strides[-2], size)
        if rest or row_stride < columns:
            if rows > 1:
                raise InterpreterError(
                    f"operand {name}: rows of {columns} elements overlap at {array.strides[-2]} bytes apart; pass a "
                    "copy [rows-overlap]"
                )
            unit = ROW_BYTES // type.element.bytes
            row_stride = -(-columns // unit) * unit  # a stride of one row means nothing
    batch = (count[0], _batch_stride(name, array, row_stride * rows, filled)) if count else (1, 0)
    payload = domain.of_matrix(array, type.element.name).reshape(-1, columns) if filled else None
    address = memory.allocate(name, rows, columns, row_stride, type.element.name, payload, offset, batch)
    strides = (*([batch[1]] if count else []), *([row_stride] if array.ndim - argument.is_batch == 2 else []))
    shape = type.turned(array.shape) if type.is_column_major else array.shape
    return Matrix(name, address, shape, strides, type.element, type.is_column_major)


def _list_of(memory: GlobalMemory, domain: Domain, argument: Argument, filled: bool, offset: int) -> Matrix:
    """A list of matrices: each is allocated separately, the last one first, and then their table."""
    name, type = argument.name, argument.type
    assert isinstance(argument.value, np.ndarray) and isinstance(type, MemRef)
    own, parts = replace(type, shape=type.shape[1:], is_list=False), []
    for number in reversed(range(len(argument.value))):
        value = argument.value[number]
        if argument.shapes is not None:
            rows, columns = argument.shapes[number]
            value = value[:rows, :columns]
        one = replace(argument, name=part_name(name, number), value=value, type=own, is_batch=False)
        if 0 in value.shape:
            address = memory.allocate(one.name, 1, 0, 0, type.element.name)
            parts.append(Matrix(one.name, address, value.shape, (value.shape[1],), type.element))
        else:
            parts.append(matrix_of(memory, domain, one, filled, offset))
    table = [(part.address, *part.shape, part.row_stride) for part in reversed(parts)]
    address = memory.allocate_table(name, np.array(table, np.int64))
    return Matrix(name, address, argument.value.shape, (0, parts[0].row_stride), type.element, is_list=True)


def _batch_stride(name: str, array: Array, dense: int, is_input: bool) -> int:
    """Elements between matrices, or vectors, of a batch. Matrices of an input may overlap, or have a stride of 0."""
    stride, rest = divmod(array.strides[0], array.dtype.itemsize)
    if array.shape[0] == 1:
        return dense
    if rest or stride < 0:
        raise InterpreterError(
            f"operand {name}: matrices {array.strides[0]} bytes apart; take a multiple of the element's size, not "
            "negative: pass a copy [matrices-apart]"
        )
    apart = sorted((array.strides[axis], array.shape[axis]) for axis in range(array.ndim - 1) if array.shape[axis] > 1)
    end = array.shape[-1] * array.dtype.itemsize
    for step, extent in apart:
        if step < end and not is_input:
            raise InterpreterError(
                f"operand {name}: with the strides {array.strides} bytes its matrices overlap, but each element is "
                "written; pass a full array [matrices-overlap]"
            )
        end += (extent - 1) * step
    return stride
