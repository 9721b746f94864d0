"""What a kernel takes in place of its matrices: addresses, strides and extents, at the kernel and at its launch."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import llvm, memref

from lowtide.dialects import sm, tile
from lowtide.dialects.tile.lists import is_list
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.values import TENSOR_MAPS_ATTRIBUTE, GlobalExtents, GlobalMatrix, held_type
from lowtide.passes.support.ir.builder import Builder, constant_of
from lowtide.passes.support.ir.rewriting import before, extent, outer_strides, uses
from lowtide.passes.support.problem.kernels import relaunch
from lowtide.passes.support.problem.matrix_layouts import is_column_major

_GLOBAL = 1  # address space


@dataclass(frozen=True)
class Passed:
    """What the kernel gets in place of a memref: its address (base and strides), and dynamic extents."""

    address: bool
    extents: tuple[int, ...]


def passed_for(argument: ir.Value) -> Passed:
    """Every part of a memref, or only extents if its elements are reached through tensor maps alone. Other arguments
    are passed as they are."""
    if not isinstance(argument.type, ir.MemRefType):
        return Passed(False, ())
    type_ = ir.MemRefType(argument.type)
    dynamic = tuple(dim for dim in range(type_.rank) if type_.is_dynamic_dim(dim))
    readers = list(uses(argument))
    if not all(isinstance(op, memref.DimOp) and constant_of(op.index) is not None for op in readers):
        return Passed(True, dynamic)
    read = {constant_of(op.operands[1]) for op in readers}
    return Passed(False, tuple(dim for dim in dynamic if dim in read))


def argument_types(type_: ir.Type, passed: Passed) -> list[ir.Type]:
    """The types that replace a kernel argument: base pointer, strides (i64), and an i32 for each passed extent."""
    if isinstance(type_, sm.TensorMapType):
        return [llvm.PointerType.get()]
    if not isinstance(type_, ir.MemRefType):
        return [type_]
    i32, i64 = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    address = [llvm.PointerType.get(_GLOBAL), *[i64] * (type_.rank - 1)]
    return [*(address if passed.address else []), *[i32 for _ in passed.extents]]


def tensor_map_positions(entry: ir.Block, by_argument: list[list[ir.Type]]) -> dict[str, ir.Attribute]:
    """The positions of arguments that are tensor maps, for `pass-tensor-maps-by-value`."""
    positions, count = [], 0
    for argument, types in zip(entry.arguments, by_argument, strict=True):
        if isinstance(argument.type, sm.TensorMapType):
            positions.append(count)
        count += len(types)
    return {TENSOR_MAPS_ATTRIBUTE: ir.DenseI64ArrayAttr.get(positions)} if positions else {}


def bind_arguments(context: Context, entry: ir.Block, passed: list[Passed], flat: list[ir.Value]) -> None:
    values = iter(flat)
    for argument, parts in zip(entry.arguments, passed, strict=True):
        type_ = argument.type
        if not isinstance(type_, ir.MemRefType):
            context.values[argument] = next(values)
            continue
        if not parts.address:
            known = {dim: next(values) for dim in parts.extents}
            sizes = (known.get(d) if type_.is_dynamic_dim(d) else type_.get_dim_size(d) for d in range(type_.rank))
            context.values[argument] = GlobalExtents(tuple(sizes))
            continue
        pointer = next(values)
        strides = tuple(next(values) for _ in range(type_.rank - 1))
        extents = tuple(
            next(values) if type_.is_dynamic_dim(dim) else type_.get_dim_size(dim) for dim in range(type_.rank)
        )
        element, by_columns = held_type(type_.element_type), is_column_major(type_)
        context.values[argument] = GlobalMatrix(pointer, strides, extents, element, by_columns, is_list=is_list(type_))


def pass_parts(launch: tile.LaunchOp, passed: list[Passed]) -> None:
    """Passes what the kernel takes in place of each memref."""
    build = Builder.index()
    arguments: list[ir.Value] = []
    with before(launch), launch.operation.location:
        for operand, parts in zip(launch.args, passed, strict=True):
            type_ = operand.type
            if not isinstance(type_, ir.MemRefType):
                arguments.append(operand)
                continue
            if parts.address:
                arguments.append(memref.ExtractAlignedPointerAsIndexOp(operand).result)
            if parts.address:
                arguments += [build.index_cast(stride, build.i64) for stride in outer_strides(operand)]
            arguments += [build.index_cast(extent(operand, dim), build.i32) for dim in parts.extents]
    relaunch(launch, arguments)
