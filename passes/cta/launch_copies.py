"""launch-copies: decide at the launch whether a matrix is copied to aligned rows, and launch the kernel that does.

Before   %p = tile.pack %a align(16)
         %q = tile.pack %d align(16) uninitialized
         tile.launch @gemm_kernel grid(%g) threads(384) args(%p, %b, %q)
         tile.unpack %q into %d
After    host    %apart = (base address | bytes of a row's stride) mod 16 ≠ 0
                 %space = tile.workspace (%apart ? rows · stride : 0)
                 %rows = memref.reinterpret_cast %space to offset: [0], sizes: [%m, %k], strides: [%stride, 1]
                 %p = arith.select %apart, %rows, %a
                 tile.launch @gemm_copy_bf16 grid(%apart ? units / 256 : 0) threads(256) args(%a, %rows)
                 tile.launch @gemm_kernel …
                 tile.launch @gemm_copy_bf16 … args(%rows_of_d, %d)
         device  tile.kernel @gemm_copy_bf16(%source, %target) { tile.copy_matrix %source to %target }
         Rows of a workspace begin at multiples of 128 bytes, a line of the L2 cache. Where nothing is copied the
         workspaces have no elements, and a launch of no CTAs does nothing. One kernel for each element type copies all
         matrices. The launches are in the stream's order: the kernel reads what was copied before it, and D is copied
         after it. In a batch the stride from matrix to matrix is tested too, and one launch copies all matrices: where
         that stride is 0, the one matrix, which the kernel finds in the workspace with a stride of 0 as well.
Before   %p = tile.pack_transposed %a align(16)
After    host    %space = tile.workspace …
                 %p = memref.reinterpret_cast %space to offset: [0], sizes: [%m, %k], strides: [%stride, 1]
                 tile.launch @gemm_transpose_bf16 grid(tiles) threads(128) args(%a, %p)
         device  tile.kernel @gemm_transpose_bf16(%source, %target) { tile.transpose_matrix %source to %target }
Needs    level cta, one launch of a kernel in a function that packs.
Refuses  a packed matrix in a function with no launch, or several.
Test     test/lit/passes/cta/launch-copies.mlir, launch-copies-batch.mlir, launch-copies-invalid.mlir
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, cf, func, memref

from lowtide.dialects import tile
from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.builder import Builder
from lowtide.passes.support.copy_units import TRANSPOSING_THREADS, UNIT_BYTES, side_of_tile, units_of_row
from lowtide.passes.support.element_types import element_bits, element_name
from lowtide.passes.support.rewriting import before, erase, extent, outer_strides, replace, uses
from lowtide.passes.support.workspaces import ROW_BYTES, any_extents, row_stride, view, workspace
from lowtide.targets import Target

_THREADS = 256
_MOST_UNITS = 2**32  # exclusive: a kernel counts them in 32 bits
_MOST_TILES = 2**31  # exclusive: the most CTAs of a launch


@dataclass(frozen=True)
class LaunchCopies(Pass):
    """Replaces tile.pack, tile.pack_transposed and tile.unpack by host code and launches."""

    name: ClassVar[str] = "launch-copies"
    needs: ClassVar[Level] = Level.CTA
    gives: ClassVar[Level] = Level.CTA

    def run(self, module: ir.Module, target: Target) -> None:
        for function in walk(module, func.FuncOp):
            packs, transposes = walk(function, tile.PackOp), walk(function, tile.PackTransposedOp)
            launches = walk(function, tile.LaunchOp)
            if (packs or transposes) and len(launches) != 1:
                first = [*packs, *transposes][0]
                raise Refusal(
                    first, f"is for one tile.launch in its function, which has {len(launches)} [copies-launch]"
                )
            for transpose in transposes:
                _transpose(module, function, transpose, launches[0])
            copied = {}
            for pack in packs:
                with pack.operation.location:
                    copied[pack.result] = _Copied.of(pack)
            for pack in packs:
                copy = copied[pack.result]
                name = _kernel(module, function, tile.CopyMatrixOp, "copy", *[pack.source] * 2)
                if not pack.uninitialized:
                    with before(launches[0]), pack.operation.location:
                        copy.launch(name)
                for reader in list(uses(pack.result)):
                    if isinstance(reader, tile.UnpackOp):
                        with before(reader), reader.operation.location:
                            copy.launch(name, back=True)
                        erase(reader)
                    elif isinstance(reader, memref.DimOp):  # the same of both
                        reader.operation.operands[0] = copy.matrix
                replace(pack, [copy.chosen])


@dataclass(frozen=True)
class _Copied:
    """What takes the place of a matrix, which is copied where `apart`."""

    apart: ir.Value
    matrix: ir.Value
    chosen: ir.Value
    ends: tuple[ir.Value, ir.Value]  # what is copied, with its own strides and with those of the workspace
    extents: tuple[ir.Value, ...]  # of what is copied

    @classmethod
    def of(cls, pack: tile.PackOp) -> "_Copied":
        matrix, type_, build = pack.source, ir.MemRefType(pack.source.type), Builder.index()
        element_bytes = element_bits(type_.element_type) // 8
        with before(pack):
            base = memref.ExtractAlignedPointerAsIndexOp(matrix).result
            strides = outer_strides(matrix)
            apart = _is_apart(pack, base, strides, element_bytes)
            extents = tuple(extent(matrix, dim) for dim in range(type_.rank))
            stride = row_stride(extents[-1], element_bytes)
            of_one = build.mul(extents[-2], stride)
            if type_.rank == 2:
                space = workspace(type_, build.select(apart, of_one, 0))
                rows = view(space, type_, extents, [stride])
                return cls(apart, matrix, arith.select(apart, rows, matrix), (matrix, rows), extents)
            # What all products share is copied once.
            is_shared = build.eq(strides[0], 0)
            copied = (build.select(is_shared, build.umin(extents[0], 1), extents[0]), *extents[1:])
            space = workspace(type_, build.select(apart, build.mul(copied[0], of_one), 0))
            rows = view(space, type_, extents, [build.select(is_shared, 0, of_one), stride])
            any_ = any_extents(type_)
            ends = view(matrix, any_, copied, strides), view(space, any_, copied, [of_one, stride])
            return cls(apart, matrix, arith.select(apart, rows, matrix), ends, copied)

    def launch(self, kernel: str, *, back: bool = False) -> None:
        """Launches the copy to the workspace, or back, on no CTAs where there is nothing to copy."""
        type_, build = ir.MemRefType(self.matrix.type), Builder.index()
        per_unit = UNIT_BYTES * 8 // element_bits(type_.element_type)
        *outer, columns = self.extents
        units = build.mul(reduce(build.mul, outer), units_of_row(build, columns, per_unit))
        grid = build.select(self.apart, build.ceil_udiv(units, _THREADS), 0)
        if len(outer) > 1:
            cf.assert_(
                build.ult(grid, _MOST_UNITS // _THREADS), "the batch has 2^32 or more units of 16 bytes; split it"
            )
        ends = self.ends[::-1] if back else self.ends
        tile.LaunchOp(kernel, grid, _THREADS, list(map(_with_any_extents, ends)))


def _is_apart(pack: tile.PackOp, base: ir.Value, strides: Sequence[ir.Value], element_bytes: int) -> ir.Value:
    """Whether base or strides of the matrix are no multiple of the bytes that they must be of."""
    build, align = Builder.index(), pack.align.value
    lengths = [*strides[::-1], *([extent(pack.source, -1)] if pack.whole_rows else [])]
    rest = build.urem(base, align)
    for length in lengths:
        rest = build.or_(rest, build.urem(build.mul(length, element_bytes), align))
    return build.ne(rest, 0)


def _kernel(module: ir.Module, function: func.FuncOp, op: Callable[..., object], verb: str, *matrices: ir.Value) -> str:
    """The name of the kernel of one op on matrices of such types, but of any extents; made where it is not there."""
    types = [any_extents(ir.MemRefType(matrix.type)) for matrix in matrices]
    name = f"{ir.StringAttr(function.sym_name).value}_{verb}_{element_name(types[0].element_type)}"
    if all(ir.StringAttr(kernel.sym_name).value != name for kernel in walk(module, tile.KernelOp)):
        with ir.InsertionPoint(module.body), matrices[0].location:
            kernel = tile.KernelOp(name, ir.TypeAttr.get(ir.FunctionType.get(types, [])))
        with ir.InsertionPoint(kernel.body.blocks.append(*types)):
            op(*kernel.body.blocks[0].arguments)
            tile.ReturnOp()
    return name


def _transpose(
    module: ir.Module, function: func.FuncOp, transpose: tile.PackTransposedOp, reader: tile.LaunchOp
) -> None:
    """Puts a workspace in the place of a transpose, and a launch that fills it before that of the kernel."""
    matrix, build, location = transpose.source, Builder.index(), transpose.operation.location
    type_, turned = ir.MemRefType(matrix.type), ir.MemRefType(transpose.result.type)
    element_bytes = element_bits(type_.element_type) // 8
    with before(transpose), location:
        *batch, rows, columns = (extent(matrix, dim) for dim in range(type_.rank))
        each = max(ROW_BYTES, transpose.align.value) // element_bytes
        stride = build.mul(build.ceil_udiv(rows, each), each)
        of_one = build.mul(columns, stride)
        source, count, steps = matrix, [], [stride]
        if batch:  # what all products share is transposed once
            strides = outer_strides(matrix)
            is_shared = build.eq(strides[0], 0)
            count = [build.select(is_shared, build.umin(batch[0], 1), batch[0])]
            source = view(matrix, any_extents(type_), [*count, rows, columns], strides)
            steps = [build.select(is_shared, 0, of_one), stride]
        space = workspace(type_, reduce(build.mul, count, of_one))
        result = view(space, turned, [*batch, columns, rows], steps)
        target = view(space, any_extents(turned), [*count, columns, rows], [of_one, stride] if batch else [stride])
    name = _kernel(module, function, tile.TransposeMatrixOp, "transpose", matrix, transpose.result)
    with before(reader), location:
        side = side_of_tile(element_bytes)
        tiles = reduce(build.mul, [*count, build.ceil_udiv(rows, side), build.ceil_udiv(columns, side)])
        if batch:
            cf.assert_(build.ult(tiles, _MOST_TILES), "the batch has 2^31 or more tiles to transpose; split it")
        tile.LaunchOp(name, tiles, TRANSPOSING_THREADS, [_with_any_extents(source), target])
    replace(transpose, [result])


def _with_any_extents(matrix: ir.Value) -> ir.Value:
    type_ = any_extents(ir.MemRefType(matrix.type))
    return matrix if matrix.type == type_ else memref.cast(type_, matrix)
