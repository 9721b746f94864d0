"""Checks of the operands before anything is launched. Each refusal says the fault, the limit and the way out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowtide.elements import element_type
from lowtide.errors import LaunchError, MisalignedError
from lowtide.runtime.kinds import KINDS, extent_of, is_full_operand
from lowtide.runtime.limits import MAX_EXTENT
from lowtide.runtime.operands import Operand

_TABLE_ALIGNMENT, _TABLE_ROW = 8, 32  # bytes, of the table of a list


@dataclass(frozen=True)
class MatrixView:
    """A checked operand for the host function: address and span in bytes, extents and strides in elements, without the
    last dimension's stride."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    span: int  # from the first byte to one past the last

    @property
    def row_stride(self) -> int:
        """Elements between rows of a matrix."""
        return self.strides[-1]

    @property
    def batch_stride(self) -> int:
        """Elements between matrices of a batch."""
        return self.strides[0]

    def shared_by(self, batch: int) -> MatrixView:
        """A batch of this matrix or vector, with stride 0."""
        return replace(self, shape=(batch, *self.shape), strides=(0, *self.strides))


def is_batched(argument: Mapping[str, Any]) -> bool:
    """Whether the first dimension of a manifest's argument is the batch, or the groups of K. For a per-column operand,
    it may also be the groups of rows."""
    has_groups = "per_group" in argument and argument["kind"] == "matrix"
    return len(argument["shape"]) > KINDS[argument["kind"]] and not has_groups


def check_layout(argument: Mapping[str, Any], operand: Operand) -> MatrixView:
    """Check one operand against its manifest entry, except its base address (`check_address`).

    A stride over an extent of 1, or of an array without elements, is replaced by the smallest legal one. An input that
    a batch shares may lack the batch dimension; see `MatrixView.shared_by`. Raises LaunchError.
    """
    name, dtype = argument["name"], argument["dtype"]
    if operand.dtype != dtype:
        raise LaunchError(
            f"operand {name}: dtype is {operand.dtype}, the kernel was compiled for {dtype}: cast it [operand-dtype]"
        )
    rank, shape = len(argument["shape"]), operand.shape
    may_be_shared = is_batched(argument) and argument["role"] == "input"
    if len(shape) != rank and not (may_be_shared and len(shape) == rank - 1):
        sharing = "groups share" if "per_group" in argument else "the batch shares"
        shared = f", or {rank - 1} if {sharing} it" if may_be_shared else ""
        raise LaunchError(
            f"operand {name}: shape {shape} has rank {len(shape)}, must have rank {rank}{shared}: reshape it"
            " [operand-rank]"
        )
    for axis, (extent, wanted) in enumerate(zip(shape, argument["shape"][-len(shape) :], strict=True)):
        if wanted is not None and extent != wanted:
            raise LaunchError(
                f"operand {name}: extent {axis} of shape {shape} is {extent}, the kernel was compiled for {wanted};"
                f" compile it with that extent None to give it at run time [operand-extent]"
            )
        if not 0 <= extent <= MAX_EXTENT:
            raise LaunchError(
                f"operand {name}: extent {axis} of shape {shape} must be in [0, {MAX_EXTENT}]; split it [extent-range]"
            )
    _check_listed(argument, operand)
    if 0 in shape:
        row = pad_row(shape[-1], dtype, argument.get("row_stride_alignment", 1))
        return MatrixView(operand.address, shape, (row,) * (len(shape) - 1), 0)
    return _check_strides(argument, operand)


def base_alignment(argument: Mapping[str, Any]) -> int:
    """The bytes that an argument's base address is a multiple of: of a list, that of its table."""
    return _TABLE_ALIGNMENT if "list" in argument else int(argument.get("base_alignment", 1))


def _check_listed(argument: Mapping[str, Any], operand: Operand) -> None:
    """Raises LaunchError for a list in place of an array, for an array in place of a list, and for a list with matrices
    that are misaligned, or have other extents than the kernel supports."""
    name, listed = argument["name"], operand.listed
    if ("list" in argument) != (listed is not None):
        kinds = ("a list of matrices", "one array")
        taken, given = kinds if "list" in argument else kinds[::-1]
        way_out = f"lt.matrix_list(matrices) for {name}" if "list" in argument else "the stacked matrices"
        raise LaunchError(f"operand {name}: the kernel takes {taken}, not {given}; pass {way_out} [operand-list]")
    if listed is None:
        return
    needed = max(argument.get("base_alignment", 1), argument.get("row_stride_alignment", 1))
    if listed.alignment % needed:
        raise MisalignedError(
            f"operand {name}: addresses and row strides of the list are multiples of {listed.alignment} bytes, must be "
            f"of {needed}; copy the matrices to aligned rows [list-misaligned]"
        )
    for axis, (least, most) in enumerate(zip(listed.least, operand.shape[1:], strict=True)):
        if least != most and (argument["list"] == "equal" or argument["shape"][1 + axis] is not None):
            raise LaunchError(
                f"operand {name}: extent {axis} of the matrices of the list is {least} to {most}, but the kernel takes "
                "matrices that agree in it; compile it with lists='abd' and that extent None [list-extents]"
            )


def _check_strides(argument: Mapping[str, Any], operand: Operand) -> MatrixView:
    name, shape, size = argument["name"], operand.shape, element_type(operand.dtype).bytes
    if any(stride < 0 for extent, stride in zip(shape, operand.strides, strict=True) if extent > 1):
        raise LaunchError(f"operand {name}: strides {operand.strides} must not be negative: copy it [negative-strides]")
    if shape[-1] > 1 and operand.strides[-1] != 1:
        raise LaunchError(
            f"operand {name}: the last dimension has stride {operand.strides[-1]}, must have 1 (rows may be padded):"
            f" pass a contiguous copy, or compile for its layout [last-stride]"
        )
    strides = aligned_strides(argument, shape, operand.strides)
    if argument["role"] == "output" and strides and operand.listed is None:
        _check_apart(name, shape, strides)
    if operand.listed is not None:
        return MatrixView(operand.address, shape, tuple(strides), shape[0] * _TABLE_ROW)
    elements = shape[-1] + sum((extent - 1) * stride for extent, stride in zip(shape[:-1], strides, strict=True))
    return MatrixView(operand.address, shape, tuple(strides), elements * size)


def aligned_strides(argument: Mapping[str, Any], shape: Sequence[int], given: Sequence[int]) -> list[int]:
    """The strides of an array, without the last one, in elements; over an extent of 1, the smallest legal one.

    Raises MisalignedError unless rows, and matrices of a batch, are multiples of the argument's alignment apart.
    """
    alignment, dtype = argument.get("row_stride_alignment", 1), argument["dtype"]
    strides = list(given[:-1])
    dense = pad_row(shape[-1], dtype, alignment)
    for axis in reversed(range(len(strides))):
        if shape[axis] == 1:
            strides[axis] = dense
        dense = max(dense, shape[axis] * strides[axis])
        apart = strides[axis] * element_type(dtype).bytes
        if apart % alignment:
            units = f"{pad_row(max(strides[axis], shape[-1]), dtype, alignment)} elements"
            of_batch = axis == len(shape) - 1 - KINDS[argument["kind"]]
            what, way_out = (
                ("matrices", f"put {units} between them") if of_batch else ("rows", f"pad each row to {units}")
            )
            raise MisalignedError(
                f"operand {argument['name']}: {what} are {apart} bytes apart, must be a multiple of {alignment}; "
                f"{way_out}{_or_pack(argument)} [rows-misaligned]"
            )
    return strides


def _or_pack(argument: Mapping[str, Any]) -> str:
    """Another way out for a matrix that is not aligned."""
    return (
        f", or compile the kernel with pack = rows for {argument['name']}"
        if "list" not in argument and (argument["kind"] == "matrix" or argument["role"] == "output")
        else ""
    )


def _check_apart(name: str, shape: Sequence[int], strides: Sequence[int]) -> None:
    """Raises LaunchError if rows of an output, or matrices of a batch, overlap."""
    rows, columns = shape[-2:]
    if rows > 1 and strides[-1] < columns:
        raise LaunchError(
            f"operand {name}: rows of {columns} elements overlap at row stride {strides[-1]}; pass a full matrix"
            " [rows-apart]"
        )
    end = columns
    for stride, extent in sorted(zip(strides, shape[:-1], strict=True)):
        if extent > 1 and stride < end:
            raise LaunchError(
                f"operand {name}: matrices of {rows} x {columns} elements overlap at strides {(*strides, 1)}, but each"
                " element is written; pass a full array [batch-apart]"
            )
        end += (extent - 1) * stride


def pad_row(columns: int, dtype: str, alignment: int) -> int:
    """The smallest row length in elements, at least `columns`, that is a multiple of `alignment` bytes."""
    unit = max(1, alignment // element_type(dtype).bytes)
    return -(-columns // unit) * unit


def check_output(argument: Mapping[str, Any], operand: Operand) -> None:
    """Raises LaunchError if the output is read-only."""
    if operand.read_only:
        raise LaunchError(
            f"operand {argument['name']}: the output is read-only; pass a writable array [output-read-only]"
        )


def _of_view(dims: Sequence[str], view: MatrixView) -> Iterator[tuple[str, int]]:
    """The dimensions of an operand with their extents. An input that a batch shares may lack the first."""
    return zip(dims[len(dims) - len(view.shape) :], view.shape, strict=True)


def check_dims(dims: Mapping[str, Sequence[str]], views: Mapping[str, MatrixView]) -> dict[str, int]:
    """The problem's extents m, n, k and batch. Raises LaunchError, which names two operands that disagree on one."""
    found: dict[str, tuple[int, str]] = {}
    for name, view in views.items():
        for dim, extent in _of_view(dims[name], view):
            if "/" in dim:  # in blocks, see below
                continue
            first, owner = found.setdefault(dim, (extent, name))
            if extent != first:
                raise LaunchError(
                    f"operand {name}: shape {view.shape} makes {dim} = {extent}, but {owner} of shape"
                    f" {views[owner].shape} makes it {first}; {name} must be ({', '.join(dims[name])}) [extents-differ]"
                )
    extents = {dim: extent for dim, (extent, _) in found.items()}
    for name, view in views.items():
        for dim, extent in _of_view(dims[name], view):
            letter, _, block = dim.partition("/")
            if block and extent != (blocks := extent_of(dim, extents)):
                raise LaunchError(
                    f"operand {name}: shape {view.shape} has {extent} blocks of {block} along {letter.upper()}, but "
                    f"{letter} = {extents[letter]} has {blocks}; {name} must be ({', '.join(dims[name])}), rounded up"
                    " [blocks-differ]"
                )
    return extents


def check_devices(devices: Mapping[str, int | None]) -> int:
    """The GPU that holds all operands. Raises LaunchError if there is no single one."""
    names = list(devices)
    first = devices[names[0]]
    for name in names:
        ordinal = devices[name]
        if ordinal is None:
            raise LaunchError(
                f"operand {name}: its address is not GPU memory; copy the array to the GPU [not-gpu-memory]"
            )
        if ordinal != first:
            raise LaunchError(
                f"operand {name} is on GPU {ordinal}, {names[0]} is on GPU {first}; all must be on one: copy it there"
                " [one-gpu]"
            )
    assert first is not None
    return first


def address_error(argument: Mapping[str, Any], address: int) -> LaunchError:
    """The error for a base address that is null or not aligned."""
    alignment = base_alignment(argument)
    elements = max(1, alignment // element_type(argument["dtype"]).bytes)
    kind = MisalignedError if address else LaunchError
    return kind(
        f"operand {argument['name']}: base address {address:#x} must be a multiple of {alignment} bytes and not null;"
        f" pass a copy, or a slice that starts at a multiple of {elements} elements{_or_pack(argument)}"
    )


def overlap_error(output: Mapping[str, Any], argument: Mapping[str, Any], *, in_order: bool = True) -> LaunchError:
    """The error for an output that overlaps another argument. `in_order`: whether rows of D are those of the product,
    so that D may replace a full operand."""
    name = argument["name"]
    may_be = in_order and is_full_operand(argument) and argument["dtype"] == output["dtype"]
    whole = f", or {name} itself, with the same base and strides, for D" if may_be else ""
    return LaunchError(
        f"operand {output['name']}: the output overlaps {argument['role']} {name}, which CTAs read or write at other"
        f" times; pass another output{', or none to have D allocated' * in_order}{whole} [output-overlaps]"
    )


def check_scalar(argument: Mapping[str, Any], value: Any) -> int | float:
    """A run-time scalar as a Python number. Raises LaunchError for arrays and for values that its dtype cannot hold."""
    name, dtype = argument["name"], argument["dtype"]
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise LaunchError(
            f"operand {name}: {type(value).__name__} is not a number; a scalar goes by value: use .item() [scalar-kind]"
        )
    row = element_type(dtype)
    if not row.is_float:
        if not row.lowest <= value <= row.largest or int(value) != value:
            raise LaunchError(
                f"operand {name}: {value} is not an integer in [{row.lowest}, {row.largest}] as {dtype} needs"
                " [scalar-range]"
            )
        return int(value)
    try:
        return float(value)
    except OverflowError:
        raise LaunchError(
            f"operand {name}: an integer of {int(value).bit_length()} bits is beyond every float; scale it down"
            " [scalar-beyond]"
        ) from None
