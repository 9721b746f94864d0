"""Tensor maps of the matrices of a list, in one thread's program: one warp makes one map.

The map begins as zeros in shared memory; one lane sets its fields by tensormap.replace, and the warp copies it to
global memory (PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy"). The numbers of types and modes are those of the
table "Tensormap new_val validity".
"""

from mlir import ir
from mlir.dialects import arith, llvm, nvvm, scf

from lowtide.dialects import sm
from lowtide.dialects.tile.lists import Entry
from lowtide.elements import element_type
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.listed import entry, listed_extent
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.nvvm.thread.values import GlobalMatrix
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.problem.element_types import element_name
from lowtide.passes.support.streams.listed_maps import MAP_WORDS

_ELEMENT_TYPES = {"UINT8": 0, "FLOAT16": 6, "FLOAT32": 7, "FLOAT64": 9, "BFLOAT16": 10}
_UNIT = 16  # bytes: strides are multiples of it, and not zero
_RANK = 2
_GENERIC = 0  # address space


def lower_make_maps(context: Context, op: sm.MakeMapsOp) -> None:
    """CTA i makes the map of matrix i."""
    maps, matrices = context.get(op.maps), context.get(op.matrices)
    assert isinstance(maps, GlobalMatrix) and isinstance(matrices, GlobalMatrix)
    build, scratch, number = (
        context.build,
        context.buffer(op.scratch).pointer,
        nvvm.BlockIdXOp(context.build.i32).result,
    )
    llvm.StoreOp(build.constant(0), element_pointer(scratch, context.tid, build.i32), alignment=4)
    nvvm.SyncWarpOp(build.constant(-1))
    with ir.InsertionPoint(scf.IfOp(build.eq(context.tid, 0)).then_block):
        _set_kind(build, op, scratch)
        _set_matrix(build, op, (matrices, number), scratch)
        scf.YieldOp([])
    nvvm.SyncWarpOp(build.constant(-1))
    sm.PtxCopyMapOp(scratch, _map_pointer(build, maps, number))


def _set_kind(build: Builder, op: sm.MakeMapsOp, scratch: ir.Value) -> None:
    """The fields that all maps of the list share."""
    type_ = sm.TensorMapType(ir.TypeAttr(op.map_type).value)
    element = element_type(element_name(type_.element_type)).tensor_map
    swizzle = type_.swizzle.bits if type_.swizzle is not None else 0
    sm.PtxReplaceMapOp(scratch, "rank", value=build.constant(_RANK - 1))
    for dim, side in enumerate(reversed(type_.shape)):
        sm.PtxReplaceMapOp(scratch, "box_dim", dim=dim, value=build.constant(side))
        sm.PtxReplaceMapOp(scratch, "element_stride", dim=dim, value=build.constant(1))
    modes = {"elemtype": _ELEMENT_TYPES[element], "interleave_layout": 0, "swizzle_mode": swizzle, "fill_mode": 0}
    for name, number in modes.items():
        sm.PtxReplaceMapOp(scratch, name, immediate=number)


def _set_matrix(build: Builder, op: sm.MakeMapsOp, place: tuple[GlobalMatrix, ir.Value], scratch: ir.Value) -> None:
    """Address, extents and row stride of a matrix. Extents are at least 1. The stride of a matrix with one row may
    be anything and is never used, so the map gets one unit. A matrix without elements may have no valid address, so its
    map has the address of the table."""
    matrices, number = place
    rows, columns = (listed_extent(build, matrices, number, dim) for dim in range(_RANK))
    bytes_ = element_type(element_name(ir.MemRefType(op.matrices.type).element_type)).bytes
    is_empty = build.eq(build.umin(rows, columns), 0)
    stride = build.mul(entry(build, matrices, number, Entry.row_stride), bytes_)
    unit = build.constant(_UNIT, build.i64)
    stride = arith.select(build.or_(is_empty, build.eq(rows, 1)), unit, stride)
    table = llvm.PtrToIntOp(build.i64, matrices.pointer).result
    address = arith.select(is_empty, table, entry(build, matrices, number, Entry.address))
    sm.PtxReplaceMapOp(scratch, "global_address", value=address)
    for dim, extent in enumerate((columns, rows)):
        sm.PtxReplaceMapOp(scratch, "global_dim", dim=dim, value=build.umax(extent, 1))
    sm.PtxReplaceMapOp(scratch, "global_stride", dim=0, value=stride)


def lower_listed_map(context: Context, op: sm.ListedMapOp) -> None:
    """The address of the map, after an acquire fence."""
    maps, build = context.get(op.maps), context.build
    assert isinstance(maps, GlobalMatrix)
    found = _map_pointer(build, maps, context.scalar(op.number))
    pointer = llvm.AddrSpaceCastOp(llvm.PointerType.get(_GENERIC), found).result
    nvvm.FenceProxyAcquireOp(nvvm.MemScopeKind.GPU, pointer, build.constant(MAP_WORDS * 4))
    context.values[op.result] = pointer


def _map_pointer(build: Builder, maps: GlobalMatrix, number: ir.Value) -> ir.Value:
    return element_pointer(maps.pointer, build.mul(build.zext(number, build.i64), MAP_WORDS), build.i32)
