"""Loops, windows, rings and index arithmetic of one thread's program."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import gcd

from mlir import ir
from mlir.dialects import arith, llvm, memref, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import operand_kind, work_part
from lowtide.dialects.sm.timing import keep_timing
from lowtide.dialects.tile import Coordinate, OperandKind, WorkPart
from lowtide.dialects.tile.work import Place, coordinate_of
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.hoisting import before_loop
from lowtide.passes.nvvm.thread.lanes import of_first_lane
from lowtide.passes.nvvm.thread.listed import listed_matrix, uniform_extent
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.nvvm.thread.unrolling import annotate
from lowtide.passes.nvvm.thread.values import (
    GlobalExtents,
    GlobalMatrix,
    Lowered,
    Offset,
    Ring,
    SharedBuffer,
    Window,
    flatten,
    unflatten,
)
from lowtide.passes.schedules.facts.resources import aligned
from lowtide.passes.support.ir.builder import constant_of
from lowtide.passes.support.problem.element_types import buffer_bytes
from lowtide.passes.support.problem.kernels import copies_of
from lowtide.passes.support.problem.operand_kinds import SCALES

LowerBlock = Callable[[Context, ir.Block], None]
_MATRIX_RANK = 2  # a batch has one dimension more


def lower_view(context: Context, op: tile.ViewOp) -> None:
    matrix, kind = context.get(op.source), operand_kind(op)
    if kind in SCALES:
        raise Refusal(op, "is a window of scales; load these from their matrix, by sm.load_scales [scales-window]")
    assert isinstance(matrix, GlobalMatrix)
    *batch, _, _ = op.offsets if kind is OperandKind.full else [*op.offsets, None]
    second = None
    if op.halves:
        first, *others = batch
        next_one = context.build.add(context.scalar(first), 1)
        second = _matrix_of(context, matrix, [next_one, *map(context.scalar, others)])
    matrix = _matrix_of(context, matrix, map(context.scalar, batch))
    offsets = tuple(offset_of(context, value) for value in list(op.offsets)[len(batch) :])
    shape = tuple(op.result.type.shape)
    if matrix.by_columns:
        matrix = replace(matrix, extents=matrix.extents[::-1], by_columns=False)
        context.values[op.result] = Window(kind, matrix, offsets[::-1], shape[::-1], turned=True)
    else:
        context.values[op.result] = Window(kind, matrix, offsets, shape, second=second)


def _matrix_of(context: Context, batch: GlobalMatrix, numbers: Iterable[ir.Value]) -> GlobalMatrix:
    """One matrix, or vector, of a batch, or of a batch of batches. It may lie anywhere, so its address is worked out in
    64 bits."""
    build = context.build
    for number in numbers:
        if batch.is_list:
            with before_loop(number):
                batch = listed_matrix(context, batch, number)
            continue
        stride, *strides = batch.strides
        pointer = element_pointer(batch.pointer, build.mul(build.zext(number, build.i64), stride), batch.element)
        batch = replace(batch, pointer=pointer, strides=tuple(strides), extents=batch.extents[1:])
    return batch


def offset_of(context: Context, value: ir.Value) -> Offset:
    """A window's offset, with what its origin implies."""
    return Offset(context.scalar(value), *_origin(context, value))


def _origin(context: Context, value: ir.Value) -> tuple[int, int, int | None, int]:
    """(multiple, shift, room, span) of an offset: see `Offset`."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        parent = owner.owner.opview
        if isinstance(parent, tile.WorkTilesOp):
            return _origin_of_item(context, parent, coordinate_of(parent, value))
        return 1, 0, None, 1
    op = owner.opview
    if isinstance(op, tile.NextWorkTileOp):
        following = Place(m=op.m, n=op.n, batch=op.batch).values
        return _origin(context, Place.of(op.operation.parent.opview).values[following.index(value)])
    if isinstance(op, arith.SelectOp):
        taken, left = _origin(context, op.true_value), _origin(context, op.false_value)
        return taken if taken == left else (1, 0, None, 1)
    if isinstance(op, arith.MulIOp):
        factor = constant_of(op.rhs) or constant_of(op.lhs)
        return factor or 1, 0, None, 1
    if isinstance(op, arith.DivUIOp) and (by := constant_of(op.rhs)) is not None:
        multiple, shift, room, span = _origin(context, op.lhs)
        if not shift and not any(known % by for known in (multiple, room or 0, span)):
            return multiple // by, 0, room and room // by, span // by
    if isinstance(op, arith.RemUIOp) and (by := constant_of(op.rhs)) is not None:
        multiple, shift, *_ = _origin(context, op.lhs)
        return 1 if shift else gcd(multiple, by), 0, None, 1
    if isinstance(op, arith.AddIOp) and (by := constant_of(op.rhs)) is not None:
        multiple, shift, room, span = _origin(context, op.lhs)
        if room is not None and by < room:
            return multiple, shift + by, room - by, span
    if isinstance(op, arith.AddIOp):
        (first, by, *_), (second, other, *_) = _origin(context, op.lhs), _origin(context, op.rhs)
        return (gcd(first, second) if by == other == 0 else 1), 0, None, 1
    return 1, 0, None, 1


def _origin_of_item(
    context: Context, work: tile.WorkTilesOp, coordinate: Coordinate | None
) -> tuple[int, int, int | None, int]:
    """As `_origin`, of a coordinate of a work item. The first rows of groups are multiples of nothing, unless they are
    padded."""
    sides = dict(zip((Coordinate.m, Coordinate.n), zip(work.tile, context.cluster.shape, strict=True), strict=True))
    if coordinate is Coordinate.k0:
        return work.k_step.value, 0, None, 1
    begins_anywhere = work.ends is not None and work.batches is None
    if coordinate not in sides or (coordinate is Coordinate.m and begins_anywhere):
        return 1, 0, None, 1
    extent, ctas = sides[coordinate]
    may_start_past_the_edge = coordinate is Coordinate.m and work_part(work) is WorkPart.tail_halves
    return extent, 0, None if may_start_past_the_edge else extent, extent * ctas


def lower_if(context: Context, op: scf.IfOp, lower_block: LowerBlock) -> None:
    """A branch that all threads of the CTA, or of the role, take together."""
    if len(op.results):
        raise Refusal(op, "has results; scf.if with results is not supported in a kernel [branch-results]")
    has_else = len(op.elseRegion.blocks) > 0
    branch = scf.IfOp(context.scalar(op.condition), has_else=has_else)
    blocks = [(op.then_block, branch.then_block)] + ([(op.else_block, branch.else_block)] if has_else else [])
    for old, new in blocks:
        with ir.InsertionPoint(new):
            lower_block(context, old)
            scf.YieldOp([])


def lower_loop(context: Context, op: scf.ForOp, lower_block: LowerBlock) -> None:
    """The loop on i32 bounds; carried fragments and buffers become the registers that hold them."""
    inits = [context.get(value) for value in op.initArgs]
    flat = [value for init in inits for value in flatten(init)]
    bounds = [context.scalar(value) for value in (op.lowerBound, op.upperBound, op.step)]
    loop = scf.ForOp(*bounds, flat)
    keep_timing(op, loop)
    annotate(context, op, loop)
    context.values[op.induction_variable] = loop.induction_variable
    bind_all(context, list(op.inner_iter_args), inits, list(loop.inner_iter_args))
    with ir.InsertionPoint(loop.body):
        lower_block(context, op.body)
        yielded = list(op.body.operations)[-1].operands
        scf.YieldOp([value for old in yielded for value in flatten(context.get(old))])
    bind_all(context, list(op.results), inits, list(loop.results))


def bind_all(context: Context, old: list[ir.Value], likes: list[Lowered], flat: list[ir.Value]) -> None:
    """Binds each old value to consecutive new values, as many as its counterpart in `likes` has."""
    start = 0
    for value, like in zip(old, likes, strict=True):
        count = len(flatten(like))
        context.values[value] = unflatten(like, flat[start : start + count])
        start += count


def lower_arith(context: Context, op: ir.OpView) -> None:
    """Index arithmetic in i32, and a choice of tensor maps as one of pointers; other types are unchanged."""
    build = context.build
    if isinstance(op, arith.ConstantOp):
        value = op.value
        if isinstance(op.result.type, ir.IndexType):
            context.values[op.result] = build.constant(int(ir.IntegerAttr(value).value))
        else:
            context.values[op.result] = arith.constant(op.result.type, value)
        return
    operands = [context.scalar(operand) for operand in op.operands]
    if isinstance(op, arith.IndexCastOp) and operands[0].type == build.i32 and _is_index(op.result):
        context.values[op.result] = operands[0]
        return
    if isinstance(op, (arith.CeilDivSIOp, arith.CeilDivUIOp)):
        divisor = constant_of(op.rhs)
        if divisor is None:
            raise Refusal(op, "divides by a value that is not a constant [constant-divisor]")
        context.values[op.result] = build.udiv(build.add(operands[0], divisor - 1), divisor)
        return
    kept = {ir.IndexType: build.i32, sm.TensorMapType: llvm.PointerType.get()}
    types = [kept.get(type(result.type), result.type) for result in op.results]
    attributes = {name: op.attributes[name] for name in op.attributes}
    clone = ir.Operation.create(op.operation.name, results=types, operands=operands, attributes=attributes)
    context.values.update(zip(op.results, clone.results, strict=True))


def _is_index(value: ir.Value) -> bool:
    return isinstance(value.type, ir.IndexType)


def lower_dim(context: Context, op: ir.OpView) -> None:
    matrix = context.get(op.operands[0])
    assert isinstance(matrix, (GlobalMatrix, GlobalExtents))
    dim = constant_of(op.operands[1])
    if dim is None:
        raise Refusal(op, "asks for a dimension that is not a constant [constant-dimension]")
    extent = matrix.extents[dim]
    assert extent is not None
    context.values[op.results[0]] = context.build.constant(extent) if isinstance(extent, int) else extent


def lower_subview(context: Context, op: memref.SubViewOp) -> None:
    """The first rows and columns of a matrix, or elements of a vector, such as those up to the end of a group; or the
    part of a group: the vector that is a row of a matrix, or the matrix of a batch."""
    matrix = context.get(op.source)
    assert isinstance(matrix, GlobalMatrix)
    (first, *others), sizes, given = list(op.static_offsets), list(op.static_sizes), iter(op.sizes)
    rank = ir.MemRefType(op.result.type).rank
    is_part = rank < len(sizes)
    begins = (sizes[0], len(op.offsets)) == (1, 1) if is_part else first == 0
    is_matrix = len(sizes) <= _MATRIX_RANK + 1 and not (is_part and matrix.by_columns)
    if not begins or any(others) or set(op.static_strides) != {1} or not is_matrix:
        raise Refusal(
            op,
            "must take the first rows and columns of a matrix, [0, 0] [rows, columns] [1, 1]; or, of one that lies by "
            "rows, the vector of a row, [row, 0] [1, columns] [1, 1]; or a matrix of a batch [subview-of-first]",
        )
    extents = [context.scalar(next(given)) if ir.ShapedType.is_dynamic_size(size) else size for size in sizes]
    if is_part:
        matrix, extents = _matrix_of(context, matrix, map(context.scalar, op.offsets)), extents[1:]
    context.values[op.result] = replace(matrix, extents=tuple(extents))


def lower_take_rows(context: Context, op: tile.TakeRowsOp) -> None:
    matrix, index = context.get(op.source), context.get(op.index)
    assert isinstance(matrix, GlobalMatrix) and isinstance(index, GlobalMatrix)
    rows, columns = matrix.extents
    context.values[op.result] = replace(matrix, extents=(*index.extents, columns), index=index, source_rows=rows)


def lower_load(context: Context, op: memref.LoadOp) -> None:
    """An element of a vector, such as the end of a group, which all threads that run this code load."""
    vector = context.get(op.memref)
    assert isinstance(vector, GlobalMatrix)
    (number,), build = op.indices, context.build
    place = element_pointer(vector.pointer, build.zext(context.scalar(number), build.i64), op.result.type)
    loaded = llvm.LoadOp(op.result.type, place, alignment=op.result.type.width // 8).result
    context.values[op.result] = loaded if context.elected else of_first_lane(build, loaded)


def lower_matrix_extent(context: Context, op: tile.MatrixExtentOp) -> None:
    matrices = context.get(op.matrices)
    assert isinstance(matrices, GlobalMatrix)
    context.values[op.result] = uniform_extent(context, matrices, context.scalar(op.number), op.dim.value)


def lower_ring(context: Context, op: sm.RingOp) -> None:
    ring = op.result.type
    if op.at is None:
        raise Refusal(op, "has no place in shared memory; run assign-smem-offsets first [ring-place]")
    pointers = tuple(element_pointer(context.smem, at, context.build.i8) for at in op.at)
    sizes = tuple(buffer_bytes(buffer) for buffer in ring.buffers)
    context.values[op.result] = Ring(pointers, sizes, tuple(copies_of(op)), ring)


def _ring(context: Context, value: ir.Value) -> Ring:
    ring = context.get(value)
    assert isinstance(ring, Ring)
    return ring


def lower_ring_slot(context: Context, op: sm.RingSlotOp) -> None:
    ring, index = _ring(context, op.ring), context.scalar(op.index)
    build, stages = context.build, ring.type.stages
    for buffer, start, size, copies in zip(op.buffers, ring.pointers, ring.stage_bytes, ring.copies, strict=True):
        own = index if copies == stages else build.urem(index, copies)
        pointer = element_pointer(start, build.mul(own, size), build.i8)
        context.values[buffer] = SharedBuffer(pointer, ir.MemRefType(buffer.type))


def lower_ring_advance(context: Context, op: sm.RingAdvanceOp) -> None:
    build, stages = context.build, _ring(context, op.ring).type.stages
    if op.count is not None:
        following = build.add(context.scalar(op.index), context.scalar(op.count))
        rounds = build.udiv(following, stages)
        context.values[op.next_index] = build.sub(following, build.mul(rounds, stages))
        context.values[op.next_phase] = build.urem(build.add(context.scalar(op.phase), rounds), 2)
        return
    following = build.add(context.scalar(op.index), 1)
    is_last = build.eq(following, stages)
    context.values[op.next_index] = build.select(is_last, 0, following)
    phase = context.scalar(op.phase)
    context.values[op.next_phase] = build.select(is_last, build.xor(phase, 1), phase)


def lower_ring_reuse(context: Context, op: sm.RingReuseOp) -> None:
    pointer = _ring(context, op.ring).pointers[0]
    context.values[op.result] = SharedBuffer(pointer, ir.MemRefType(op.result.type))


def lower_prefix(context: Context, op: sm.PrefixOp) -> None:
    context.values[op.result] = SharedBuffer(context.buffer(op.source).pointer, ir.MemRefType(op.result.type))


def lower_alloc(context: Context, op: sm.AllocOp) -> None:
    if op.at is None:
        raise Refusal(op, "has no place in shared memory; run assign-smem-offsets first [buffer-place]")
    build, buffer = context.build, ir.MemRefType(op.result.type)
    pointer = element_pointer(context.smem, int(op.at.value), build.i8)
    if context.instance is not None:
        each = aligned(buffer_bytes(buffer))
        pointer = element_pointer(pointer, build.mul(context.instance, each), build.i8)
    context.values[op.result] = SharedBuffer(pointer, buffer)
