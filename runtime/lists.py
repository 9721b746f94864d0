"""Lists of matrices that lie anywhere in GPU memory: a table on the device says where each one lies.

The table is int64 (matrices, 4), with rows of four: the address of the matrix, its rows and columns as it lies in
memory (columns are contiguous), and the elements from row to row.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lowtide.elements import element_type
from lowtide.errors import LaunchError
from lowtide.keywords import check_keywords
from lowtide.runtime.call_keys import Recent
from lowtide.runtime.operands import Listed, Operand, view
from lowtide.runtime.streams import library_of

ENTRIES = 4  # of a row of the table
ENTRY_BYTES = 8
_MOST_ALIGNED = 256  # bytes
_RANK = 2  # of a matrix


@check_keywords
def matrix_list(
    matrices: Sequence[Any] | None = None,
    *,
    table: Any = None,
    shape: tuple[int, int, int] | None = None,
    dtype: str | None = None,
) -> Operand:
    """A list of matrices, as an operand of kernels with `lists`.

    `matrices`: GPU arrays of torch or CuPy, of one type and on one GPU. One of their two dimensions is contiguous, the
    same one in all. The list keeps them alive. The table is made here, once.

    `table`, in place of `matrices`: a table that is already on the GPU, int64 (matrices, 4). `shape` has the number of
    matrices, the most rows and the most columns, as they lie in memory; `dtype` is their type. Only the device reads
    the table, so its addresses and row strides are not checked: they must be as the kernel needs them.

    Raises LaunchError for matrices that do not fit together.
    """
    if (matrices is None) == (table is None):
        raise LaunchError("a list takes either matrices or a table of them; give one of the two [list-of]")
    if matrices is None:
        return _of_table(view(_in_halves(table), "table"), shape, dtype)
    records = [view(each, f"matrix {number}") for number, each in enumerate(matrices)]
    rows, turned = _rows_of(records)
    on_device = view(_in_halves(_array(matrices[0], rows)), "table")
    return _list_of(rows, records[0], on_device, (on_device.owner, [*matrices]), turned=turned)


def rows_of_batch(batch: Operand) -> np.ndarray:
    """The table of the matrices of a batch: int64 (matrices, 4)."""
    size = element_type(batch.dtype).bytes
    others = (*batch.shape[1:], batch.strides[1])
    rows = [(batch.address + number * batch.strides[0] * size, *others) for number in range(batch.shape[0])]
    return np.array(rows, np.int64)


def list_at(batch: Operand, address: int) -> Operand:
    """The matrices of a batch as a list whose table is at this address."""
    return replace(batch, address=address, listed=_listed(rows_of_batch(batch), batch.dtype))


def listed_shape(rows: np.ndarray) -> tuple[int, int, int]:
    """The number of matrices in a table, the most rows, and the most columns."""
    most = rows[:, 1:3].max(axis=0)
    return len(rows), int(most[0]), int(most[1])


def is_list(argument: Mapping[str, Any]) -> bool:
    """Whether a manifest's argument is a list of matrices."""
    return "list" in argument


def _rows_of(records: Sequence[Operand]) -> tuple[np.ndarray, bool]:
    """The table of arrays, and whether their first dimension is the contiguous one. Raises LaunchError."""
    if not records:
        raise LaunchError("a list of no matrices; give at least one [list-empty]")
    first = records[0]
    for number, each in enumerate(records):
        if len(each.shape) != _RANK:
            raise LaunchError(
                f"matrix {number} of the list has shape {each.shape}; matrices of a list have two dimensions"
                " [list-matrix]"
            )
        if (each.dtype, each.device) != (first.dtype, first.device):
            raise LaunchError(
                f"matrix {number} of the list is {each.dtype} on GPU {each.device}, but matrix 0 is {first.dtype} on "
                f"GPU {first.device}; take one type and one GPU [list-types]"
            )
    for turned in (False, True):
        lie = [each if not turned else _turned(each) for each in records]
        if all(each.strides[1] == 1 or each.shape[1] <= 1 or not each.shape[0] for each in lie):
            return np.array([(each.address, *each.shape, each.strides[0]) for each in lie], np.int64), turned
    raise LaunchError(
        "the matrices of a list have the same contiguous dimension, the last or the one before it; copy the others "
        "[list-strides]"
    )


def _turned(record: Operand) -> Operand:
    return replace(record, shape=record.shape[::-1], strides=record.strides[::-1])


def _list_of(rows: np.ndarray, like: Operand, table: Operand, owner: Any, *, turned: bool) -> Operand:
    count, *extents = listed_shape(rows)
    stride = int(rows[:, 3].max())
    shape, strides = (count, *extents), (0, stride, 1)
    if turned:
        shape, strides = (count, *extents[::-1]), (0, 1, stride)
    listed = _listed(rows, like.dtype)
    return Operand(table.address, shape, strides, like.dtype, like.device, listed=listed, owner=owner)


def _listed(rows: np.ndarray, dtype: str) -> Listed:
    """What a call checks of a table: the alignment of addresses and rows, and the least extents."""
    size = element_type(dtype).bytes
    filled = rows[(rows[:, 1:3] > 0).all(axis=1)].tolist()
    apart = [stride * size for _, count, _, stride in filled if count > 1]
    together = math.gcd(*(address for address, *_ in filled), *apart, _MOST_ALIGNED)
    least = rows[:, 1:3].min(axis=0)
    return Listed(together & -together, (int(least[0]), int(least[1])))


def _of_table(table: Operand, shape: Any, dtype: str | None) -> Operand:
    """A list whose table only the device reads."""
    if shape is None or dtype is None or len(shape) != _RANK + 1:
        raise LaunchError(
            "a table of matrices needs shape=, the number of matrices, the most rows and the most columns, and dtype= "
            "[list-table-shape]"
        )
    if table.dtype != "s32" or table.shape != (shape[0], 2 * ENTRIES) or table.strides != (2 * ENTRIES, 1):
        raise LaunchError(
            f"the table of a list is {table.dtype} {table.shape}; it must be contiguous, int64 ({shape[0]}, {ENTRIES}),"
            f" or int32 ({shape[0]}, {2 * ENTRIES}) with the halves of each [list-table]"
        )
    own = element_type(dtype)
    listed = Listed(_MOST_ALIGNED, (int(shape[1]), int(shape[2])))
    row = -(-int(shape[2]) * own.bytes // _MOST_ALIGNED) * _MOST_ALIGNED // own.bytes
    return Operand(table.address, tuple(shape), (0, row, 1), dtype, table.device, listed=listed, owner=table)


def _in_halves(table: Any) -> Any:
    """A table of 64-bit integers as one of 32-bit integers, which operands may have."""
    if library_of(table) and str(table.dtype).endswith("int64"):
        return table.view(sys.modules["torch"].int32 if library_of(table) == "torch" else "int32")
    return table


def _array(like: Any, values: np.ndarray) -> Any:
    """Integers as an array of the matrices' library. Raises LaunchError for libraries other than torch and CuPy."""
    library = view(like, "matrix 0").library
    if library == "torch":
        torch = sys.modules["torch"]
        return torch.tensor(values.tolist(), dtype=getattr(torch, values.dtype.name), device=like.device)
    if library == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(like.device.id):
            return cupy.asarray(values)
    raise LaunchError(
        f"a list of {type(like).__name__}: its table is made with torch or CuPy; make one and pass table= "
        "[list-library]"
    )


class Lists:
    """Lists of matrices that were given before: their tables, which hold addresses and not the matrices, and numbers of
    rows. Threads may share it."""

    def __init__(self, most: int) -> None:
        self._kept = Recent(most)

    def counts(self, like: Any, rows: tuple[int, ...]) -> Any:
        """The number of rows of each matrix, s32, on the GPU of `like`."""
        key = rows, like.device
        found = self._kept[key]
        if found is None:
            found = self._kept[key] = _array(like, np.array(rows, np.int32))
        return found

    def of(self, matrices: Sequence[Any]) -> Operand:
        """The list of matrices. Of torch tensors that lie as others did, it is the same. Raises as `matrix_list`."""
        key = None
        if all(library_of(each) == "torch" for each in matrices):
            key = tuple((each.data_ptr(), each.shape, each.stride(), each.dtype, each.device) for each in matrices)
        found: Operand | None = None if key is None else self._kept[key]
        if found is None:
            found = matrix_list(matrices)
            if key is not None:
                self._kept[key] = found = replace(found, owner=found.owner[0])
        return found
