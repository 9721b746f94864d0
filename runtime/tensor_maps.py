"""Tensor maps: a tensor in global memory and the box that one TMA instruction copies, with the rules on both.

Dimensions are in memory order, rows before columns, the last one contiguous; extents, strides and box sides are in
elements. A box that crosses an edge reads zeros beyond it, and its transaction bytes are those of the full box.
`swizzle` is <B, M, S> on elements of shared memory: bits M … M+B−1 of an element's offset are xored with the bits S
above. Nothing here touches a driver; `tensor_map_encoder` does.
Sources: CUDA driver API reference 13, "Tensor Map Object Management"; PTX ISA, "Swizzling modes" of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lowtide.elements import element_type
from lowtide.errors import Error, LaunchError

TENSOR_MAP = "tensor_map"  # the type of a kernel argument
TENSOR_MAP_BYTES = 128
L2_PROMOTIONS = (0, 64, 128, 256)  # the least bytes that a miss brings to the L2 cache
MAX_BOX_SIDE = 256
_RAGGED_ROWS = 2**30  # the extent of the rows of a ragged map
_CHUNK = 16  # bytes: the unit of addresses, strides and box rows, and of a swizzle
_MAX_ELEMENT_STRIDE = 8
_SWIZZLE_SHIFT = 3
_SWIZZLE_BITS = (1, 2, 3)
_MAX_EXTENT = 2**32 - 1
_MAX_STRIDE = 2**40  # bytes, exclusive

Swizzle = tuple[int, int, int]


@dataclass(frozen=True)
class BoxedTensor:
    """A tensor map without the base address. `name`, the operand's, is for messages: equality ignores it."""

    name: str = field(compare=False)
    dtype: str  # a row's name
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: Swizzle | None
    l2_promotion: int = 0
    element_strides: tuple[int, ...] = ()  # distance between copied elements; () means 1


class TensorMap(NamedTuple):
    """The contents of one CUtensorMap; `address` is the first element's, in bytes."""

    address: int
    tensor: BoxedTensor


def boxed_matrix(
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
    swizzle: Swizzle | None,
    l2_promotion: int = 0,
    element_strides: tuple[int, ...] = (),
) -> BoxedTensor:
    """A matrix (rows, columns), or a batch of them, for a box's rank. `strides` are all but the last.

    A box of a higher rank is panels × rows × columns of a panel, with sides of 1 before them: the matrix is cut into
    panels as wide as the box. The batch comes before all of that. Raises LaunchError unless panels divide its columns.
    """
    *batch, rows, columns = shape
    *batch_stride, row_stride = strides
    outer, width = len(box) - len(shape) - 1, box[-1]
    inner: tuple[int, ...] = (rows, columns)
    inner_strides: tuple[int, ...] = (row_stride, 1)
    if outer >= 0:
        if columns % width:
            raise LaunchError(
                f"operand {name}: a tensor map of rank {len(box)} sees its {columns} columns as panels of {width},"
                f" which must divide them; pad the operand, or compile with a.copy = tma and b.copy = tma"
                " [map-whole-panels]"
            )
        inner = (*(1,) * outer, columns // width, rows, width)
        inner_strides = (*(width,) * outer, width, row_stride, 1)
    strides = (*batch_stride, *inner_strides)
    return BoxedTensor(name, dtype, (*batch, *inner), strides, box, swizzle, l2_promotion, element_strides)


def ragged_matrix(
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
    swizzle: Swizzle | None,
    l2_promotion: int = 0,
    element_strides: tuple[int, ...] = (),
) -> BoxedTensor:
    """A matrix (rows, columns) whose loads say where the rows end. Arguments as for `boxed_matrix`.

    Its extents are 2³¹ − 1, 2³¹ − 1, 2³⁰ and the columns. A load of the box at (row, column) before the row `end` has
    the coordinates (2³⁰, end, 2³⁰ − end + row, column), so that rows from `end` on are outside. The strides are 2³⁴
    bytes less that of a row, then twice that of a row: the first three terms have a sum of row · stride + 2⁶⁴ bytes,
    and addresses have 64 bits.
    """
    (_, columns), (row_stride,) = shape, strides
    rows, apart = _RAGGED_ROWS, 2**34 // element_type(dtype).bytes - row_stride
    of_map = (2 * rows - 1, 2 * rows - 1, rows, columns), (apart, row_stride, row_stride, 1)
    return BoxedTensor(name, dtype, *of_map, box, swizzle, l2_promotion, element_strides)


def boxed_tensor(
    name: str,
    dtype: str,
    box: tuple[int, ...],
    swizzle: Swizzle | None,
    l2_promotion: int,
    steps: tuple[int, ...],
    *,
    ragged: bool = False,
) -> Callable[..., BoxedTensor]:
    """A function that makes the tensor of a tensor map from a shape, strides, and the rows of its boxes if they may
    have fewer. Arguments as for `boxed_matrix`; `ragged`: by `ragged_matrix`."""

    def tensor(shape: Sequence[int], strides: tuple[int, ...], rows: int | None = None) -> BoxedTensor:
        own = box if rows is None else (*box[:-2], min(max(1, rows), box[-2]), box[-1])
        matrix = ragged_matrix if ragged else boxed_matrix
        return matrix(name, dtype, tuple(shape), strides, own, swizzle, l2_promotion, steps)

    return tensor


def swizzle_span(swizzle: Swizzle | None, dtype: str) -> int | None:
    """The bytes of a box row that a swizzle permutes, 0 without a swizzle, None if TMA has no such swizzle."""
    if swizzle is None or swizzle[0] == 0:
        return 0
    bits, base, shift = swizzle
    if bits not in _SWIZZLE_BITS or base != _swizzle_base(dtype) or shift != _SWIZZLE_SHIFT:
        return None
    return 2 ** (bits + base) * element_type(dtype).bytes


def _swizzle_base(dtype: str) -> int:
    return (_CHUNK // element_type(dtype).bytes).bit_length() - 1


def check_box(
    name: str,
    dtype: str,
    box: Sequence[int],
    swizzle: Swizzle | None,
    l2_promotion: int,
    error: type[Error] = LaunchError,
    element_strides: Sequence[int] = (),
) -> None:
    """Check the parts of a map that do not depend on the tensor. Raises `error`."""
    at = f"operand {name}: a tensor map's box of {'×'.join(map(str, box))} {dtype}"
    if not 2 <= len(box) <= 5:
        raise error(f"{at} has rank {len(box)}, must have rank 2 to 5; fold dimensions that lie together [map-rank]")
    if any(not 1 <= side <= MAX_BOX_SIDE for side in box):
        raise error(f"{at} must have sides of 1 to {MAX_BOX_SIDE}; copy it as several boxes [map-sides]")
    row = box[-1] * element_type(dtype).bytes
    if row % _CHUNK:
        unit = _CHUNK // element_type(dtype).bytes
        raise error(
            f"{at} has rows of {row} bytes, must be a multiple of {_CHUNK}; make its last side a multiple of {unit}"
            " [map-row-bytes]"
        )
    span = swizzle_span(swizzle, dtype)
    if span is None:
        base = _swizzle_base(dtype)
        legal = ", ".join(f"<{bits}, {base}, {_SWIZZLE_SHIFT}>" for bits in _SWIZZLE_BITS)
        raise error(
            f"{at} has swizzle {swizzle}; on {dtype} TMA has {legal} (32, 64, 128 bytes) and none: take one"
            " [map-swizzle]"
        )
    if span and row > span:
        raise error(
            f"{at} has rows of {row} bytes, its swizzle permutes {span}; make its last side at most"
            f" {span // element_type(dtype).bytes}, or take a wider swizzle [map-swizzle-span]"
        )
    if l2_promotion not in L2_PROMOTIONS:
        raise error(
            f"{at} has L2 promotion {l2_promotion}, must be one of {', '.join(map(str, L2_PROMOTIONS))} bytes"
            " [map-promotion]"
        )
    if element_strides:
        _check_element_strides(at, tuple(element_strides), len(box), error)


def _check_element_strides(at: str, strides: tuple[int, ...], rank: int, error: type[Error]) -> None:
    if len(strides) != rank or any(not 1 <= stride <= _MAX_ELEMENT_STRIDE for stride in strides):
        raise error(
            f"{at} has element strides {strides}, must have {rank} of 1 to {_MAX_ELEMENT_STRIDE};"
            f" pass a copy of the elements that are wanted [map-element-strides]"
        )
    if strides[-1] != 1:
        raise error(
            f"{at} has element strides {strides}, TMA ignores all but 1 in the last dimension; pass a copy"
            " [map-last-element-stride]"
        )


def check_tensor_map(tensor_map: TensorMap) -> None:
    """Check the rules of cuTensorMapEncodeTiled, which itself only says "invalid argument". Raises LaunchError."""
    check_tensor(tensor_map.tensor)
    check_address(*tensor_map)


def check_address(address: int, tensor: BoxedTensor) -> None:
    """Check the address of a tensor map. Raises LaunchError."""
    if address <= 0 or address % _CHUNK:
        raise LaunchError(
            f"operand {tensor.name}: a tensor map of shape {tensor.shape} starts at address {address:#x}, must be a"
            f" multiple of {_CHUNK} bytes and not null; pass a copy, or a slice that starts at a multiple of"
            f" {_CHUNK // element_type(tensor.dtype).bytes} elements [map-address]"
        )


def check_tensor(tensor: BoxedTensor) -> None:
    """Check a tensor map, except its address. Raises LaunchError."""
    check_box(
        tensor.name,
        tensor.dtype,
        tensor.box,
        tensor.swizzle,
        tensor.l2_promotion,
        element_strides=tensor.element_strides,
    )
    at, size = f"operand {tensor.name}: a tensor map of shape {tensor.shape}", element_type(tensor.dtype).bytes
    if not len(tensor.shape) == len(tensor.strides) == len(tensor.box):
        raise LaunchError(
            f"{at} has {len(tensor.strides)} strides and a box of rank {len(tensor.box)}; all must have one rank"
            " [map-ranks-agree]"
        )
    if any(not 1 <= extent <= _MAX_EXTENT for extent in tensor.shape):
        raise LaunchError(f"{at} must have extents of 1 to {_MAX_EXTENT}; split the operand [map-extents]")
    if tensor.strides[-1] != 1:
        raise LaunchError(
            f"{at} has stride {tensor.strides[-1]} in its last dimension, must have 1; pass a copy [map-last-stride]"
        )
    for stride in tensor.strides[:-1]:
        if stride * size % _CHUNK or not 0 <= stride * size < _MAX_STRIDE:
            raise LaunchError(
                f"{at} has rows {stride * size} bytes apart, must be a multiple of {_CHUNK} below 2^40; pad each row"
                f" to a multiple of {_CHUNK // size} elements [map-row-stride]"
            )
