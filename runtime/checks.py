"""What must hold of the operands before anything is launched. Each refusal says what, the limit and the way out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.elements import element_type
from lowtide.errors import LaunchError
from lowtide.runtime.limits import MAX_EXTENT
from lowtide.runtime.operands import Operand


@dataclass(frozen=True)
class MatrixView:
    """A checked operand as the host function sees it: address and span in bytes, extents and row stride in elements."""

    address: int
    shape: tuple[int, ...]
    row_stride: int
    span: int  # from the first byte to past the last one


def check_layout(argument: Mapping[str, Any], operand: Operand) -> MatrixView:
    """Check one operand against its manifest entry, its base address apart (`check_address`).

    A stride over an extent of 1, or of an array without elements, means nothing and is replaced by the smallest one
    allowed. Raises LaunchError.
    """
    name, dtype = argument["name"], argument["dtype"]
    if operand.dtype != dtype:
        raise LaunchError(f"operand {name}: dtype is {operand.dtype}, the kernel was compiled for {dtype}: cast it")
    rank, shape = len(argument["shape"]), operand.shape
    if len(shape) != rank:
        raise LaunchError(f"operand {name}: shape {shape} has rank {len(shape)}, must have rank {rank}: reshape it")
    for axis, (extent, wanted) in enumerate(zip(shape, argument["shape"], strict=True)):
        if wanted is not None and extent != wanted:
            raise LaunchError(
                f"operand {name}: extent {axis} of shape {shape} is {extent}, the kernel was compiled for {wanted};"
                f" compile it with that extent None to give it at run time"
            )
        if not 0 <= extent <= MAX_EXTENT:
            raise LaunchError(f"operand {name}: extent {axis} of shape {shape} must be in [0, {MAX_EXTENT}]; split it")
    if 0 in shape:
        return MatrixView(operand.address, shape, pad_row(shape[-1], dtype, argument.get("row_stride_alignment", 1)), 0)
    return _check_strides(argument, operand)


def _check_strides(argument: Mapping[str, Any], operand: Operand) -> MatrixView:
    name, shape, size = argument["name"], operand.shape, element_type(operand.dtype).bytes
    if any(stride < 0 for stride in operand.strides):
        raise LaunchError(f"operand {name}: strides {operand.strides} must not be negative: copy it")
    if shape[-1] > 1 and operand.strides[-1] != 1:
        raise LaunchError(
            f"operand {name}: the last dimension has stride {operand.strides[-1]}, must have 1 (rows may be padded):"
            f" pass a contiguous copy, or compile for the layout in which it lies"
        )
    if len(shape) == 1:
        return MatrixView(operand.address, shape, shape[0], shape[0] * size)
    alignment = argument.get("row_stride_alignment", 1)
    row_stride = operand.strides[0]
    if shape[0] == 1:
        row_stride = pad_row(shape[1], operand.dtype, alignment)
    if row_stride * size % alignment:
        raise LaunchError(
            f"operand {name}: rows are {row_stride * size} bytes apart, must be a multiple of {alignment};"
            f" pad each row to {pad_row(max(row_stride, shape[1]), operand.dtype, alignment)} elements"
        )
    if argument["role"] == "output" and row_stride < shape[1]:
        raise LaunchError(
            f"operand {name}: rows of {shape[1]} elements overlap at row stride {row_stride}; pass a full matrix"
        )
    return MatrixView(operand.address, shape, row_stride, ((shape[0] - 1) * row_stride + shape[1]) * size)


def pad_row(columns: int, dtype: str, alignment: int) -> int:
    """The least row length in elements, at least `columns`, of which `alignment` bytes divide the size."""
    unit = max(1, alignment // element_type(dtype).bytes)
    return -(-columns // unit) * unit


def check_output(argument: Mapping[str, Any], operand: Operand) -> None:
    """Raises LaunchError when the output may not be written."""
    if operand.read_only:
        raise LaunchError(f"operand {argument['name']}: the output is read-only; pass a writable array")


def check_dims(dims: Mapping[str, Sequence[str]], views: Mapping[str, MatrixView]) -> dict[str, int]:
    """The problem's extents m, n, k. Raises LaunchError that names two operands which disagree on one."""
    found: dict[str, tuple[int, str]] = {}
    for name, view in views.items():
        for dim, extent in zip(dims[name], view.shape, strict=True):
            first, owner = found.setdefault(dim, (extent, name))
            if extent != first:
                raise LaunchError(
                    f"operand {name}: shape {view.shape} makes {dim} = {extent}, but {owner} of shape"
                    f" {views[owner].shape} makes it {first}; {name} must be ({', '.join(dims[name])})"
                )
    return {dim: extent for dim, (extent, _) in found.items()}


def check_devices(devices: Mapping[str, int | None]) -> int:
    """The one GPU that holds all operands. Raises LaunchError otherwise."""
    names = list(devices)
    first = devices[names[0]]
    for name in names:
        ordinal = devices[name]
        if ordinal is None:
            raise LaunchError(f"operand {name}: its address is not GPU memory; copy the array to the GPU")
        if ordinal != first:
            raise LaunchError(
                f"operand {name} is on GPU {ordinal}, {names[0]} is on GPU {first}; all must be on one: copy it there"
            )
    assert first is not None
    return first


def address_error(argument: Mapping[str, Any], address: int) -> LaunchError:
    """The refusal of a base address that is null or not aligned."""
    alignment = argument.get("base_alignment", 1)
    elements = max(1, alignment // element_type(argument["dtype"]).bytes)
    return LaunchError(
        f"operand {argument['name']}: base address {address:#x} must be a multiple of {alignment} bytes and not null;"
        f" pass a copy, or a slice that starts at a multiple of {elements} elements"
    )


def overlap_error(output: Mapping[str, Any], argument: Mapping[str, Any]) -> LaunchError:
    """The refusal of an output whose bytes are also an input's."""
    name = argument["name"]
    may_be = argument["kind"] == "full" and argument["dtype"] == output["dtype"]
    whole = f", or {name} itself, with the same base and strides" if may_be else ""
    return LaunchError(
        f"operand {output['name']}: the output's bytes reach into those of input {name}, which CTAs read while others"
        f" write; pass another output, or none to have it allocated{whole}"
    )


def check_scalar(argument: Mapping[str, Any], value: Any) -> int | float:
    """A run-time scalar as a Python number. Raises LaunchError for arrays and for values that its dtype cannot hold."""
    name, dtype = argument["name"], argument["dtype"]
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise LaunchError(
            f"operand {name}: {type(value).__name__} is not a number; a scalar goes by value: use .item()"
        )
    row = element_type(dtype)
    if not row.is_float:
        if int(value) != value or not row.lowest <= value <= row.largest:
            raise LaunchError(
                f"operand {name}: {value} is not an integer in [{row.lowest}, {row.largest}] as {dtype} needs"
            )
        return int(value)
    return float(value)
