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
         after it.
Needs    level cta, one launch of a kernel in a function that packs.
Refuses  a packed matrix in a function with no launch, or several.
Test     test/lit/passes/cta/launch-copies.mlir, launch-copies-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, func, memref

from lowtide.dialects import tile
from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.builder import Builder
from lowtide.passes.support.copy_units import UNIT_BYTES, units_of_row
from lowtide.passes.support.problem import element_bits, element_name
from lowtide.passes.support.rewriting import before, erase, extent, replace, uses
from lowtide.targets import Target

_THREADS = 256
_ROW_BYTES = 128  # to which the rows of a workspace are aligned


@dataclass(frozen=True)
class LaunchCopies(Pass):
    """Replaces tile.pack and tile.unpack by host code and launches."""

    name: ClassVar[str] = "launch-copies"
    needs: ClassVar[Level] = Level.CTA
    gives: ClassVar[Level] = Level.CTA

    def run(self, module: ir.Module, target: Target) -> None:
        for function in walk(module, func.FuncOp):
            packs = walk(function, tile.PackOp)
            launches = walk(function, tile.LaunchOp)
            if packs and len(launches) != 1:
                raise Refusal(packs[0], f"is for one tile.launch in its function, which has {len(launches)}")
            copied = {}
            for pack in packs:
                with pack.operation.location:
                    copied[pack.result] = _Copied.of(pack)
            for pack in packs:
                copy, name = copied[pack.result], _kernel(module, function, pack)
                if not pack.uninitialized:
                    with before(launches[0]), pack.operation.location:
                        copy.launch(name, copy.matrix, copy.rows)
                for reader in list(uses(pack.result)):
                    if isinstance(reader, tile.UnpackOp):
                        with before(reader), reader.operation.location:
                            copy.launch(name, copy.rows, copy.matrix)
                        erase(reader)
                    elif isinstance(reader, memref.DimOp):  # the same of both
                        reader.operation.operands[0] = copy.matrix
                replace(pack, [copy.chosen])


@dataclass(frozen=True)
class _Copied:
    """What takes the place of a matrix, which is copied where `apart`."""

    apart: ir.Value
    matrix: ir.Value
    rows: ir.Value  # a workspace with aligned rows
    chosen: ir.Value
    extents: tuple[ir.Value, ir.Value]

    @classmethod
    def of(cls, pack: tile.PackOp) -> "_Copied":
        matrix, type_, build = pack.source, ir.MemRefType(pack.source.type), Builder.index()
        element_bytes = element_bits(type_.element_type) // 8
        with before(pack):
            apart = _is_apart(pack, element_bytes)
            extents = extent(matrix, 0), extent(matrix, 1)
            each = _ROW_BYTES // element_bytes
            stride = build.mul(build.ceil_udiv(extents[1], each), each)
            size = build.select(apart, build.mul(extents[0], stride), 0)
            dynamic = ir.ShapedType.get_dynamic_size()
            space = tile.WorkspaceOp(ir.MemRefType.get([dynamic], type_.element_type), size).result
            rows = _rows_of(space, type_, extents, stride)
            return cls(apart, matrix, rows, arith.select(apart, rows, matrix), extents)

    def launch(self, kernel: str, source: ir.Value, target: ir.Value) -> None:
        """Launches the copy, on no CTAs where there is nothing to copy."""
        type_, build = ir.MemRefType(source.type), Builder.index()
        per_unit = UNIT_BYTES * 8 // element_bits(type_.element_type)
        units = build.mul(self.extents[0], units_of_row(build, self.extents[1], per_unit))
        grid = build.select(self.apart, build.ceil_udiv(units, _THREADS), 0)
        any_extents = _any_extents(type_)
        arguments = [x if x.type == any_extents else memref.cast(any_extents, x) for x in (source, target)]
        tile.LaunchOp(kernel, grid, _THREADS, arguments)


def _is_apart(pack: tile.PackOp, element_bytes: int) -> ir.Value:
    """Whether base or rows of the matrix are no multiple of the bytes that they must be of."""
    build, align = Builder.index(), pack.align.value
    base = memref.ExtractAlignedPointerAsIndexOp(pack.source).result
    matrix = ir.MemRefType(pack.source.type)
    index = ir.IndexType.get()
    results = [ir.MemRefType.get([], matrix.element_type), *[index] * 5]
    metadata = ir.Operation.create("memref.extract_strided_metadata", results=results, operands=[pack.source])
    lengths = [metadata.results[4]] + ([extent(pack.source, 1)] if pack.whole_rows else [])
    rest = build.urem(base, align)
    for length in lengths:
        rest = build.or_(rest, build.urem(build.mul(length, element_bytes), align))
    return build.ne(rest, 0)


def _rows_of(space: ir.Value, like: ir.MemRefType, extents: tuple[ir.Value, ir.Value], stride: ir.Value) -> ir.Value:
    """A vector as a matrix of the type `like`, with rows `stride` elements apart."""
    dynamic = [like.is_dynamic_dim(dim) for dim in (0, 1)]
    sizes = [value for value, is_dynamic in zip(extents, dynamic, strict=True) if is_dynamic]
    any_stride = ir.ShapedType.get_dynamic_stride_or_offset()
    return memref.ReinterpretCastOp(like, space, [], sizes, [stride], [0], list(like.shape), [any_stride, 1]).result


def _any_extents(type_: ir.MemRefType) -> ir.MemRefType:
    dynamic = ir.ShapedType.get_dynamic_size()
    return ir.MemRefType.get([dynamic, dynamic], type_.element_type, type_.layout)


def _kernel(module: ir.Module, function: func.FuncOp, pack: tile.PackOp) -> str:
    """The name of the kernel that copies matrices of this element type, which is made where it is not there."""
    type_ = _any_extents(ir.MemRefType(pack.source.type))
    name = f"{ir.StringAttr(function.sym_name).value}_copy_{element_name(type_.element_type)}"
    if all(ir.StringAttr(kernel.sym_name).value != name for kernel in walk(module, tile.KernelOp)):
        with ir.InsertionPoint(module.body), pack.operation.location:
            kernel = tile.KernelOp(name, ir.TypeAttr.get(ir.FunctionType.get([type_] * 2, [])))
        with ir.InsertionPoint(kernel.body.blocks.append(type_, type_)):
            tile.CopyMatrixOp(*kernel.body.blocks[0].arguments)
            tile.ReturnOp()
    return name
