"""The split of a matrix into pieces in one thread's program: one unit of K of a row of the target, in all blocks.

A thread loads the elements of a unit, and rounds each to its pieces: x₀ is x rounded, x₁ is x − x₀ rounded, and so on.
The differences are exact. It stores one vector of 16 bytes for each product. Where K is contiguous in the source too,
threads with neighbouring numbers take neighbouring units of a row, and load 16 bytes at a time where the source is
aligned; else a CTA takes a patch of rows and units, and neighbouring threads neighbouring units of a row, so that each
store of a warp fills lines of 128 bytes. Its loads of one k are short runs of rows, which other warps of the CTA go on
with: the cache brings their lines once.
"""

from collections.abc import Sequence
from functools import partial

from mlir import ir
from mlir.dialects import arith, llvm, nvvm, scf, vector

from lowtide.decompositions import UNIT_BYTES, Decomposition
from lowtide.dialects import sm
from lowtide.dialects.tile import Side
from lowtide.elements import element_type
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import element_pointer, load_element, place_pointer, where
from lowtide.passes.nvvm.thread.values import GlobalMatrix, element_of, vector_type
from lowtide.passes.support.ir.arithmetic import number
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.streams.copy_units import PATCH_ROWS, PATCH_UNITS, patches

_Place = tuple[ir.Value, ir.Value, ir.Value, ir.Value]  # of a batch, of its row, the first k, K


def split_matrix(
    context: Context, source: GlobalMatrix, target: GlobalMatrix, row: Decomposition, side: Side, *, k_first: bool
) -> None:
    """Unit i of the target by thread i of the launch."""
    build = context.build
    k, rows = source.extents[-2:] if k_first else source.extents[:-3:-1]
    in_row = build.ceil_udiv(k, row.unit)
    place_of = _in_patches if k_first else _in_rows
    matrix, line, number_in_row = place_of(context, rows, in_row)
    batch = source.extents[0] if len(source.extents) > 2 else 1
    is_within = build.and_(build.ult(line, rows), build.ult(number_in_row, in_row))
    first = build.mul(number_in_row, row.unit)
    exists = scf.IfOp(build.and_(build.ult(matrix, batch), is_within))
    with ir.InsertionPoint(exists.then_block):
        place = matrix, line, first, build.mul(in_row, row.unit)
        if k_first:
            values = _down_a_column(build, source, place, row.unit)
        else:
            values = _along_a_row(build, source, place, row.unit)
        _store(build, target, place, values, row, 0 if side is Side.left else 1)
        scf.YieldOp([])


def _in_rows(context: Context, rows: ir.Value | int, in_row: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Matrix of a batch, row and unit of a thread: units count row by row."""
    build = context.build
    unit = build.add(build.mul(nvvm.BlockIdXOp(build.i32).result, context.threads), context.tid)
    of_one = build.mul(rows, in_row)
    matrix = build.udiv(unit, of_one)
    within = build.sub(unit, build.mul(matrix, of_one))
    return matrix, build.udiv(within, in_row), build.urem(within, in_row)


def _in_patches(context: Context, rows: ir.Value | int, in_row: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """As `_in_rows`, with a patch for each CTA. Units of a patch and patches of a matrix are numbered row by row, so
    that CTAs that run at the same time write neighbouring lines."""
    build, cta = context.build, nvvm.BlockIdXOp(context.build.i32).result
    down, along = patches(build, rows, in_row)
    of_one = build.mul(down, along)
    matrix = build.udiv(cta, of_one)
    within = build.sub(cta, build.mul(matrix, of_one))
    row, unit = build.udiv(within, along), build.urem(within, along)
    line = build.add(build.mul(row, PATCH_ROWS), build.udiv(context.tid, PATCH_UNITS))
    return matrix, line, build.add(build.mul(unit, PATCH_UNITS), build.urem(context.tid, PATCH_UNITS))


def _along_a_row(build: Builder, source: GlobalMatrix, place: _Place, count: int) -> list[ir.Value]:
    """`count` elements of a row, zeros behind its end."""
    matrix, line, first, _ = place
    pointer = place_pointer(build, source, (matrix, line), first)
    width = UNIT_BYTES * 8 // element_bits(source.element)
    type_ = vector_type(width, source.element)
    low = build.trunc(llvm.PtrToIntOp(build.i64, pointer).result, build.i32)
    is_inside = build.ule(build.add(first, count), source.extents[-1])
    branch = scf.IfOp(
        build.and_(is_inside, build.eq(build.urem(low, UNIT_BYTES), 0)), [type_] * (count // width), has_else=True
    )
    with ir.InsertionPoint(branch.then_block):
        pointers = (element_pointer(pointer, at, source.element) for at in range(0, count, width))
        scf.YieldOp([llvm.LoadOp(type_, each, alignment=UNIT_BYTES).result for each in pointers])
    with ir.InsertionPoint(branch.else_block):
        singles = [
            _load(build, source, element_pointer(pointer, i, source.element), build.add(first, i), source.extents[-1])
            for i in range(count)
        ]
        parts = (singles[start : start + width] for start in range(0, count, width))
        scf.YieldOp([vector.FromElementsOp(type_, part).result for part in parts])
    return [element_of(part, i) for part in branch.results for i in range(width)]


def _down_a_column(build: Builder, source: GlobalMatrix, place: _Place, count: int) -> list[ir.Value]:
    """`count` elements along K, the first dimension of a matrix, zeros behind its end. The loads of whole units do not
    wait for each other."""
    matrix, line, first, _ = place
    places = [build.add(first, i) for i in range(count)]
    pointers = [place_pointer(build, source, (matrix, k), line) for k in places]
    branch = scf.IfOp(build.ule(build.add(first, count), source.extents[-2]), [source.element] * count, has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp([load_element(source.element, pointer) for pointer in pointers])
    with ir.InsertionPoint(branch.else_block):
        found = zip(pointers, places, strict=True)
        scf.YieldOp([_load(build, source, pointer, k, source.extents[-2]) for pointer, k in found])
    return list(branch.results)


def _load(build: Builder, source: GlobalMatrix, pointer: ir.Value, k: ir.Value, end: ir.Value | int) -> ir.Value:
    """An element, 0 where `k` is not below `end`."""
    return where(build.ult(k, end), source.element, partial(load_element, source.element, pointer))


def _store(
    build: Builder, target: GlobalMatrix, place: _Place, values: Sequence[ir.Value], row: Decomposition, side: int
) -> None:
    """A vector of pieces for each product, blocks of K apart."""
    matrix, line, first, block = place
    pieces = [_pieces(x, row) for x in values]
    type_ = vector_type(row.unit, target.element)
    pointer = place_pointer(build, target, (matrix, line), first)
    for position, pair in enumerate(row.products):
        is_last = position == len(row.products) - 1
        parts = [whole if is_last else finite[pair[side]] for whole, finite in pieces]
        stored = vector.FromElementsOp(type_, parts).result
        llvm.StoreOp(stored, pointer, alignment=UNIT_BYTES)
        pointer = element_pointer(pointer, build.zext(block, build.i64), target.element)


def _pieces(x: ir.Value, row: Decomposition) -> tuple[ir.Value, list[ir.Value]]:
    """The first piece of an element, and all of its pieces, which are 0 where the first is not finite."""
    whole, rest, found = None, x, []
    for _ in range(row.pieces):
        piece, as_whole = _rounded(rest, row)
        if whole is None:
            whole = piece
            is_finite = arith.cmpf(arith.CmpFPredicate.ORD, *[arith.subf(as_whole, as_whole)] * 2)
        zero = number(piece.type, 0.0)
        found.append(arith.select(is_finite, piece, zero))
        rest = arith.subf(rest, as_whole)
    assert whole is not None
    return whole, found


def _rounded(x: ir.Value, row: Decomposition) -> tuple[ir.Value, ir.Value]:
    """A number rounded to the type of the pieces: as a thread holds it, and in its own type."""
    piece = element_type(row.piece)
    if piece.storage is not None:
        rounded = sm.PtxRoundOp(x, ir.TypeAttr.get(ir.Type.parse(piece.ir))).result
        return rounded, rounded
    rounded = arith.truncf(ir.Type.parse(piece.value_ir), x)
    return rounded, arith.extf(x.type, rounded)
