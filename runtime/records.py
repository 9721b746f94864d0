"""The launches of a saved kernel as data (`lowtide.launches`), for arrays on the CPU and the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from lowtide.elements import argument_type
from lowtide.errors import LaunchError
from lowtide.launches import Array, Launch, LaunchRecord, Parameter, Pointer, TensorMap
from lowtide.runtime.checks import check_dims, check_layout
from lowtide.runtime.dtypes import to_bits
from lowtide.runtime.host_compiler import compile_host
from lowtide.runtime.host_program import HostProgram
from lowtide.runtime.kinds import problem_dims
from lowtide.runtime.lists import ENTRIES, ENTRY_BYTES, list_at
from lowtide.runtime.operands import Operand
from lowtide.runtime.tensor_maps import TensorMap as PlacedMap
from lowtide.runtime.tensor_maps import swizzle_span

_APART = 1 << 40  # bytes between arrays, so that an address tells its array


def launch_record(manifest: Mapping[str, Any], operands: Mapping[str, Any], sm_count: int) -> LaunchRecord:
    """The launches of a kernel for operands, given as arrays and numbers by argument name, on this many SMs.

    The output's array gives its shape and strides; its contents count as not written. Raises LaunchError for a missing
    or unknown operand, and for shapes and strides that a call refuses.
    """
    program, dims = compile_host(manifest), problem_dims(manifest)
    views: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    for number, argument in enumerate(manifest["arguments"]):
        name = argument["name"]
        if name not in operands:
            raise LaunchError(
                f"{program.name}: operand {name} is missing; pass {', '.join(program.arguments)} [recorded-operand]"
            )
        if name in program.scalars:
            views[name] = operands[name]
            continue
        array = np.asarray(operands[name])
        strides = tuple(stride // array.itemsize for stride in array.strides)
        operand = Operand((number + 1) * _APART, array.shape, strides, argument["dtype"], device=None)
        operand = list_at(operand, operand.address) if "list" in argument else operand
        views[name] = check_layout(argument, operand)
        values = None if argument["role"] == "output" else array
        arrays[name] = Array(argument["dtype"], array.shape, strides[:-1], values)
        if "list" in argument:
            arrays |= _listed(name, arrays[name])
    extents = check_dims(dims, {name: view for name, view in views.items() if name in arrays})
    for name, view in views.items():
        if name in arrays and len(view.shape) < len(dims[name]):
            views[name] = view.shared_by(extents[dims[name][0]])
    first = len(manifest["arguments"]) + 1
    spaces = _workspaces(program, views, sm_count)
    addresses = [number * _APART for number in range(first, first + len(spaces))]
    workspaces = {f"workspace {number}": space for number, space in enumerate(spaces, start=len(arrays))}
    names = dict(enumerate((*program.arguments, *workspaces), start=1))
    clusters = min(max(1, sm_count // prod(shape.cluster or (1,))) for shape in program.launches)
    found = program(views, sm_count=sm_count, cluster_count=clusters, workspaces=addresses)
    return LaunchRecord(
        {**arrays, **workspaces},
        tuple(
            Launch(
                each.kernel,
                each.grid,
                each.block,
                tuple(_parameter(value, kind, names) for value, kind in each.arguments),
                each.cluster or (1, 1, 1),
                each.shared_memory,
                each.programmatic,
                each.cooperative,
            )
            for each in found
        ),
    )


def _listed(name: str, batch: Array) -> dict[str, Array]:
    """The matrices of a batch, each an array of its own, and the table that makes them a list."""
    rows = np.array([(0, *batch.shape[1:], batch.strides[1])] * batch.shape[0], np.int64).reshape(-1, ENTRIES)
    parts = {}
    for number in range(batch.shape[0]):
        values = None if batch.values is None else batch.values[number]
        parts[f"{name}[{number}]"] = Array(batch.dtype, batch.shape[1:], batch.strides[1:], values)
    pointers = tuple((number * ENTRIES * ENTRY_BYTES, Pointer(part)) for number, part in enumerate(parts))
    return parts | {name: Array("i64", rows.shape, (ENTRIES,), rows, relocations=pointers)}


def _workspaces(program: HostProgram, views: Mapping[str, Any], sm_count: int) -> list[Array]:
    clusters = dict.fromkeys((shape.kernel for shape in program.launches), sm_count)
    counts: Sequence[int] = program.early(views, sm_count, clusters)[2]
    program.needs(counts)
    return [
        Array(shape.dtype, (count,), (), np.zeros(count, np.int32) if shape.zeroed else None)
        for shape, count in zip(program.workspaces, counts, strict=True)
    ]


def _parameter(value: Any, kind: str, names: Mapping[int, str]) -> Parameter:
    if isinstance(value, PlacedMap):
        tensor = value.tensor
        span = swizzle_span(tensor.swizzle, tensor.dtype)
        if span is None or any(step != 1 for step in tensor.element_strides):
            raise LaunchError(
                f"operand {tensor.name}: a tensor map with element strides is not recorded [recorded-strides]"
            )
        strides = tensor.strides[:-1]
        return TensorMap(_pointer(value.address, names), tensor.dtype, tensor.shape, strides, tensor.box, span)
    if kind == "ptr":
        return _pointer(value, names)
    row = argument_type(kind)
    if kind[0] == "i":
        return int(value).to_bytes(row.bytes, "little", signed=True)
    return to_bits(np.float64(value), kind).tobytes()


def _pointer(address: int, names: Mapping[int, str]) -> Pointer:
    number, offset = divmod(address, _APART)
    return Pointer(names[number], offset)
