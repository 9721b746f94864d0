"""launch-preparations: launch what prepares matrices before their product, and what copies D back after it.

Before   %p = tile.pack %a align(16)
         %q = tile.pack %d align(16) uninitialized
         tile.launch @gemm_kernel grid(%g) threads(384) args(%p, %b, %q, %amax)
         tile.unpack %q into %d
After    host    %apart = (base address | bytes of a row's stride) mod 16 ≠ 0
                 %space = tile.workspace (%apart ? rows · stride : 0)
                 %rows = memref.reinterpret_cast %space to offset: [0], sizes: [%m, %k], strides: [%stride, 1]
                 %p = arith.select %apart, %rows, %a
                 tile.launch @gemm_copy_bf16 grid(%apart ? units / 256 : 0) threads(256) args(%a, %rows)
                 tile.launch @gemm_clear grid(%c1) threads(32) args(%amax)
                 tile.launch @gemm_kernel …
                 tile.launch @gemm_copy_bf16 … args(%rows_of_d, %d)
         device  tile.kernel @gemm_copy_bf16(%source, %target) { tile.prepare %target from %source }
                 tile.kernel @gemm_clear(%target) { tile.prepare %target }
         Rows of a workspace begin at multiples of 128 bytes, a line of the L2 cache. If nothing is copied,
         workspaces have no elements, and a launch of no CTAs does nothing. One kernel for each element type copies all.
         Transposes and pieces are always made, with one exception: a matrix that is known to have one column, with
         contiguous elements and an aligned base, is its own transpose.
                 tile.launch @gemm_transpose_bf16 grid(tiles) threads(128) args(%a, %p)
                 cf.assert (the K of A is that of B), …
                 tile.launch @gemm_split_left grid(units / 256) threads(256) args(%a, %p)
         The launches are in the stream's order: the kernel reads what was prepared before it, and D is copied after it.
         In a batch the stride from matrix to matrix is tested too, and one launch prepares all matrices: if that stride
         is 0, the one matrix, which the kernel finds in the workspace with a stride of 0 as well.
         An amax is set to zero so that every call starts anew, in a captured graph too. If D has no elements nothing is
         launched: the runtime refuses the call.
Needs    level cta, one launch of a product in a function that packs.
Refuses  a packed matrix in a function with no launch, or several; an amax that is no argument of its kernel.
Test     test/lit/passes/cta/launch-preparations-{copies,batch,transposed,pieces,clears,invalid}.mlir
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

from mlir import ir
from mlir.dialects import arith, cf, func, memref

from lowtide.dialects import tile
from lowtide.dialects.enums import results_of
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import ResultKind, Side
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.builder import Builder, constant_of
from lowtide.passes.support.ir.rewriting import before, erase, extent, outer_strides, replace, uses
from lowtide.passes.support.problem.element_types import element_bits, element_name
from lowtide.passes.support.problem.kernels import gemm_kernels, launches_of
from lowtide.passes.support.problem.problem import decomposition_of
from lowtide.passes.support.streams.copy_units import (
    PATCH_ROWS,
    PATCH_UNITS,
    TRANSPOSING_THREADS,
    UNIT_BYTES,
    patches,
    side_of_tile,
    units_of_row,
)
from lowtide.passes.support.streams.workspaces import any_extents, row_stride, view, workspace
from lowtide.targets import Target

_CLEARING_THREADS, _THREADS = 32, PATCH_ROWS * PATCH_UNITS
_MOST_UNITS = 2**32  # exclusive: a kernel counts them in 32 bits
_MOST_TILES = 2**31  # exclusive: the most CTAs of a launch
_MOST_K = 2**31  # exclusive: of all blocks of pieces


@dataclass(frozen=True)
class LaunchPreparations(Pass):
    """Replaces tile.pack and tile.unpack by host code and launches, and launches what clears an amax."""

    name: ClassVar[str] = "launch-preparations"
    needs: ClassVar[Level] = Level.CTA
    gives: ClassVar[Level] = Level.CTA

    def run(self, module: ir.Module, target: Target) -> None:
        products = gemm_kernels(module)
        launches = [launch for kernel in products for launch in launches_of(module, kernel)]
        for function in walk(module, func.FuncOp):
            packs = sorted(walk(function, tile.PackOp), key=_rank)
            own = [launch for launch in launches if launch.operation.parent == function.operation]
            if packs and len(own) != 1:
                raise Refusal(
                    packs[0],
                    f"is for one tile.launch of a product in its function, which has {len(own)} [prepared-launch]",
                )
            _assert_same_k([pack for pack in packs if pack.precision is not None])
            for pack in packs:
                with pack.operation.location:
                    _prepare(module, function, pack, own[0])
        for kernel in products:
            for position in _raised(kernel):
                for launch in launches_of(module, kernel):
                    cleared = launch.args[position]
                    with before(launch), launch.operation.location:
                        name = _kernel(module, launch.operation.parent.opview, "clear", [cleared.type])
                        tile.LaunchOp(name, Builder.index().constant(1), _CLEARING_THREADS, [cleared])


def _raised(kernel: tile.KernelOp) -> list[int]:
    """Which arguments of the kernel its stores raise."""
    arguments, found = list(kernel.body.blocks[0].arguments), set()
    for store in walk(kernel, tile.StoreOp):
        for amax in results_of(store, ResultKind.amax):
            if amax not in arguments:
                raise Refusal(
                    store, "has an amax that is no argument of its kernel; pass it at the launch [amax-argument]"
                )
            found.add(arguments.index(amax))
    return sorted(found)


def _assert_same_k(splits: Sequence[tile.PackOp]) -> None:
    """The extents of what is split, arguments of the function: those of pieces are rounded up."""
    if splits:
        with before(splits[0]), splits[0].operation.location:
            first, *others = (extent(split.source, -2 if split.transposed else -1) for split in splits)
            for k in others:
                _assert(Builder.index().eq(first, k), "A and B must have the same K")


def _prepare(module: ir.Module, function: func.FuncOp, pack: tile.PackOp, product: tile.LaunchOp) -> None:
    """Puts a workspace in the place of what is packed, and a launch that fills it before that of the product."""
    source, made, build = pack.source, ir.MemRefType(pack.result.type), Builder.index()
    is_copy = not pack.transposed and pack.precision is None
    with before(pack):
        may_stay = is_copy or _has_one_column(pack)
        strides = outer_strides(source) if may_stay or made.rank > 2 else []
        apart = _is_apart(pack, strides) if may_stay else None
        *batch, rows, columns = (extent(source, dim) for dim in range(made.rank))
        shape = _shape(pack, rows, columns)
        stride = row_stride(shape[1], element_bits(made.element_type) // 8, pack.align.value)
        of_one = build.mul(shape[0], stride)
        own, count, steps = _with_any_extents(source), [], [stride]
        if batch:  # what all products share is prepared once
            is_shared = build.eq(strides[0], 0)
            count = [build.select(is_shared, build.umin(batch[0], 1), batch[0])]
            own = view(source, any_extents(ir.MemRefType(source.type)), [*count, rows, columns], strides)
            steps = [build.select(is_shared, 0, of_one), stride]
        grid, threads = _grid(pack, apart, count, rows, columns)
        size = reduce(build.mul, count, of_one)
        space = workspace(made, size if apart is None else build.select(apart, size, 0))
        result = view(space, made, [*batch, *shape], steps)
        target = view(space, any_extents(made), [*count, *shape], [of_one, stride] if batch else [stride])
        chosen = result
        if apart is not None:
            stays = source if is_copy else view(source, made, [*batch, *shape], [*strides[:-1], stride])
            chosen = arith.select(apart, result, stays)
    how = {"transposed": pack.transposed, "side": pack.side, "precision": pack.precision}
    kernel = _kernel(module, function, _verb(pack), [target.type, own.type], **how)
    if not pack.uninitialized:
        with before(product):
            tile.LaunchOp(kernel, grid, threads, [own, target])
    for reader in list(uses(pack.result)):
        if isinstance(reader, tile.UnpackOp):
            with before(reader), reader.operation.location:
                tile.LaunchOp(kernel, grid, threads, [target, own])
            erase(reader)
        elif isinstance(reader, memref.DimOp):
            replace(reader, [[*batch, *shape][constant_of(reader.index) or 0]])
    replace(pack, [chosen])


def _has_one_column(pack: tile.PackOp) -> bool:
    """Whether the transpose of a matrix that is known to have one column is made: it may be the matrix itself. The row
    stride of a matrix of one element is not that of its transpose."""
    *_, rows, columns = ir.MemRefType(pack.source.type).shape
    return bool(pack.transposed) and pack.precision is None and columns == 1 and rows != 1


def _is_apart(pack: tile.PackOp, strides: Sequence[ir.Value]) -> ir.Value:
    """Whether base or strides of the matrix are no multiple of the bytes that they must be of; or, of a column in place
    of its transpose, whether its elements are not contiguous."""
    build, align = Builder.index(), pack.align.value
    element_bytes = element_bits(ir.MemRefType(pack.source.type).element_type) // 8
    lengths = [*strides[::-1], *([extent(pack.source, -1)] if pack.whole_rows else [])]
    rest = build.urem(memref.ExtractAlignedPointerAsIndexOp(pack.source).result, align)
    if pack.transposed:
        rest = build.or_(rest, build.xor(lengths.pop(0), 1))
    for length in lengths:
        rest = build.or_(rest, build.urem(build.mul(length, element_bytes), align))
    return build.ne(rest, 0)


def _shape(pack: tile.PackOp, rows: ir.Value, columns: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Rows and columns of the result, by those of the source."""
    rows, columns = (columns, rows) if pack.transposed else (rows, columns)
    if pack.precision is None:
        return rows, columns
    build, row = Builder.index(), decomposition_of(pack.precision)
    columns = build.mul(build.ceil_udiv(columns, row.unit), len(row.products) * row.unit)
    _assert(build.ult(columns, _MOST_K), f"K is over {row.longest}, the most that precision={row.name!r} takes")
    return rows, columns


def _grid(
    pack: tile.PackOp, apart: ir.Value | None, count: Sequence[ir.Value], rows: ir.Value, columns: ir.Value
) -> tuple[ir.Value, int]:
    """CTAs of the launch, and the threads of each, for `count` matrices, or one, of so many rows and columns: none if a
    copy is not `apart` from what it copies."""
    build, element, threads = Builder.index(), ir.MemRefType(pack.source.type).element_type, _THREADS
    most, refusal = _MOST_UNITS // _THREADS, "the batch has 2^32 or more units of 16 bytes; split it"
    if pack.precision is not None:
        unit = decomposition_of(pack.precision).unit
        refusal = "A or B has 2^32 or more 16-byte units of pieces; reduce M, N or K"
        if pack.transposed:
            grid = reduce(build.mul, [*count, *patches(build, columns, build.ceil_udiv(rows, unit))])
        else:
            grid = build.ceil_udiv(reduce(build.mul, [*count, rows, build.ceil_udiv(columns, unit)]), threads)
    elif pack.transposed:
        most, refusal = _MOST_TILES, "the batch has 2^31 or more tiles to transpose; split it"
        threads, side = TRANSPOSING_THREADS, side_of_tile(element_bits(element) // 8)
        grid = reduce(build.mul, [*count, build.ceil_udiv(rows, side), build.ceil_udiv(columns, side)])
    else:
        units = units_of_row(build, columns, UNIT_BYTES * 8 // element_bits(element))
        grid = build.ceil_udiv(reduce(build.mul, [*count, rows, units]), threads)
    if apart is not None:
        grid = build.select(apart, grid, 0)
    if count or pack.precision is not None:
        _assert(build.ult(grid, most), refusal)
    return grid, threads


def _rank(pack: tile.PackOp) -> int:
    """Transposes are launched first, and pieces last, however the ops stand."""
    return 2 if pack.precision is not None else int(not pack.transposed)


def _verb(pack: tile.PackOp) -> str:
    """What a kernel does, for its name."""
    if pack.precision is not None:
        return f"split_{Side(ir.IntegerAttr(pack.side).value)}"
    name = element_name(ir.MemRefType(pack.source.type).element_type)
    return f"transpose_{name}" if pack.transposed else f"copy_{name}"


def _kernel(module: ir.Module, function: func.FuncOp, verb: str, types: Sequence[ir.Type], **how: Any) -> str:
    """The name of the kernel that prepares a target from a source, if there is one; made if it is not there. Of groups
    of rows, A and D are matrices and B is a batch: then there are two kernels."""
    name, (target, *source) = f"{ir.StringAttr(function.sym_name).value}_{verb}", types
    made = {ir.StringAttr(x.sym_name).value: x for x in walk(module, tile.KernelOp)}
    if name in made and [x.type for x in made[name].body.blocks[0].arguments] != [*source, target]:
        name = f"{name}_batch"
    if name not in made:
        with ir.InsertionPoint(module.body):
            kernel = tile.KernelOp(name, ir.TypeAttr.get(ir.FunctionType.get([*source, target], [])))
        with ir.InsertionPoint(kernel.body.blocks.append(*source, target)):
            *given, written = kernel.body.blocks[0].arguments
            tile.PrepareOp(written, source=given[0] if given else None, **how)
            tile.ReturnOp()
    return name


def _with_any_extents(matrix: ir.Value) -> ir.Value:
    type_ = any_extents(ir.MemRefType(matrix.type))
    return matrix if matrix.type == type_ else memref.cast(type_, matrix)


def _assert(holds: ir.Value, message: str) -> None:
    if not constant_of(holds):
        cf.assert_(holds, message)
