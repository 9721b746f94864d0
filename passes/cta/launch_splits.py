"""launch-splits: before a kernel that multiplies pieces of matrices, launch those that make them.

Before   %p = tile.split %a left by tf32x3 : memref<?x?xf32, strided<[?, 1]>> to memref<?x?xtf32, strided<[?, 1]>>
         %q = tile.split %b right by tf32x3 : …
         tile.launch @gemm_kernel grid(%g) threads(384) args(%p, %q, %d)
After    host    %k = products · (K in whole units)
                 %space = tile.workspace (rows · stride) : memref<?xtf32>
                 %p = memref.reinterpret_cast %space to offset: [0], sizes: [%m, %k], strides: [%stride, 1]
                 cf.assert (the K of A is that of B), …
                 tile.launch @gemm_split_left grid(units / 256) threads(256) args(%a, %p)
                 tile.launch @gemm_split_right …
                 tile.launch @gemm_kernel …
         device  tile.kernel @gemm_split_left(%source, %target) { tile.split_matrix %source to %target left by tf32x3 }
         Rows of a workspace begin at multiples of 128 bytes. In a batch one launch splits all matrices: where their
         stride is 0, the one matrix, whose pieces have a stride of 0 as well. With K first a CTA takes a patch of
         32 rows of pieces, and 8 units of 16 bytes of each.
Needs    level cta, one launch of a kernel in a function that splits.
Refuses  a split in a function with no launch, or several.
Test     test/lit/passes/cta/launch-splits.mlir, launch-splits-invalid.mlir, test/interpreter/test_split.py
"""

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from mlir import ir
from mlir.dialects import cf, func, memref

from lowtide.dialects import tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import Side
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.builder import Builder, constant_of
from lowtide.passes.support.copy_units import PATCH_ROWS, PATCH_UNITS, patches
from lowtide.passes.support.element_types import element_bits
from lowtide.passes.support.kernels import gemm_kernels
from lowtide.passes.support.problem import decomposition_of
from lowtide.passes.support.rewriting import before, extent, outer_strides, replace, uses
from lowtide.passes.support.workspaces import any_extents, row_stride, view, workspace
from lowtide.targets import Target

_THREADS = PATCH_ROWS * PATCH_UNITS
_MOST_UNITS = 2**32  # exclusive: a kernel counts them in 32 bits
_MOST_K = 2**31  # exclusive: of all blocks


@dataclass(frozen=True)
class LaunchSplits(Pass):
    """Replaces tile.split by host code and launches."""

    name: ClassVar[str] = "launch-splits"
    needs: ClassVar[Level] = Level.CTA
    gives: ClassVar[Level] = Level.CTA

    def run(self, module: ir.Module, target: Target) -> None:
        products = {ir.StringAttr(kernel.sym_name).value for kernel in gemm_kernels(module)}
        for function in walk(module, func.FuncOp):
            splits = walk(function, tile.SplitOp)
            launches = [op for op in walk(function, tile.LaunchOp) if ir.FlatSymbolRefAttr(op.kernel).value in products]
            if not splits:
                continue
            if len(launches) != 1:
                raise Refusal(
                    splits[0],
                    f"is for one tile.launch of a product in its function, which has {len(launches)} [splits-launch]",
                )
            _assert_same_k(splits)
            for split in splits:
                with split.operation.location:
                    replace(split, [_launch(split, _kernel(module, function, split), launches[0])])


def _assert_same_k(splits: list[tile.SplitOp]) -> None:
    """The extents of what is split, arguments of the function: those of pieces are rounded up."""
    with before(splits[0]), splits[0].operation.location:
        first, *others = (extent(split.source, -2 if split.k_first else -1) for split in splits)
        for k in others:
            _assert(Builder.index().eq(first, k), "A and B must have the same K")


def _launch(split: tile.SplitOp, kernel: str, product: tile.LaunchOp) -> ir.Value:
    """Launches the split into a workspace, before that of the product; gives what takes its place."""
    source, type_, build = split.source, ir.MemRefType(split.result.type), Builder.index()
    row = decomposition_of(split.precision)
    with before(split):
        outer = [extent(source, dim) for dim in range(type_.rank - 2)]
        rows, k = (extent(source, dim) for dim in ((-1, -2) if split.k_first else (-2, -1)))
        in_row = build.ceil_udiv(k, row.unit)
        columns = build.mul(in_row, len(row.products) * row.unit)
        _assert(build.ult(columns, _MOST_K), f"K is over {row.longest}, the most that precision={row.name!r} takes")
        stride = row_stride(columns, element_bits(type_.element_type) // 8)
        of_one = build.mul(rows, stride)
        # What all products share is split once.
        is_shared = [build.eq(outer_strides(source)[0], 0)] if outer else []
        copied = [build.select(shared, build.umin(x, 1), x) for shared, x in zip(is_shared, outer, strict=True)]
        space = workspace(type_, reduce(build.mul, copied, of_one))
        of_one_matrix = build.mul(*patches(build, rows, in_row)) if split.k_first else build.mul(rows, in_row)
        units = reduce(build.mul, copied, of_one_matrix)
        grid = units if split.k_first else build.ceil_udiv(units, _THREADS)
        most = _MOST_UNITS // _THREADS
        _assert(build.ult(grid, most), "A or B has 2^32 or more 16-byte units of pieces; reduce M, N or K")
        any_source, any_pieces = any_extents(ir.MemRefType(source.type)), any_extents(type_)
        target = view(space, any_pieces, [*copied, rows, columns], [*([of_one] * len(outer)), stride])
        if outer:
            own = [copied[0], *(extent(source, dim) for dim in (-2, -1))]
            source = view(source, any_source, own, outer_strides(source))
        elif source.type != any_source:
            source = memref.cast(any_source, source)
        batch = [build.select(shared, 0, of_one) for shared in is_shared]
        pieces = view(space, type_, [*outer, rows, columns], [*batch, stride])
        known = {type_.rank - 1: columns, type_.rank - 2: rows, 0: outer[0] if outer else rows}
    with before(product):
        tile.LaunchOp(kernel, grid, _THREADS, [source, target])
    for reader in [op for op in uses(split.result) if isinstance(op, memref.DimOp)]:
        replace(reader, [known[constant_of(reader.index)]])
    return pieces


def _assert(holds: ir.Value, message: str) -> None:
    if not constant_of(holds):
        cf.assert_(holds, message)


def _kernel(module: ir.Module, function: func.FuncOp, split: tile.SplitOp) -> str:
    """The name of the kernel that splits A, or B, of this function, which is made."""
    side = str(Side(ir.IntegerAttr(split.side).value))
    name = f"{ir.StringAttr(function.sym_name).value}_split_{side}"
    types = [any_extents(ir.MemRefType(value.type)) for value in (split.source, split.result)]
    with ir.InsertionPoint(module.body), split.operation.location:
        kernel = tile.KernelOp(name, ir.TypeAttr.get(ir.FunctionType.get(types, [])))
    with ir.InsertionPoint(kernel.body.blocks.append(*types)):
        arguments = kernel.body.blocks[0].arguments
        tile.SplitMatrixOp(*arguments, split.side, split.precision, k_first=split.k_first)
        tile.ReturnOp()
    return name
