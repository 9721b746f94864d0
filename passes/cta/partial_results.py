"""Reductions on the host's side: workspaces for the partial results of a kernel, and the launches that finish them.

For each of its rows (or columns), a tile has `slots_of` the schedule partial results. They are rows of a matrix in a
workspace, tile after tile. For each element of the result, one thread reduces them in this order (tile.finish). If a
column has more than `MOST_ALONE`, they are reduced in groups of every 16th one, and then the results of the groups. If
M is known only at run time, there are launches for both cases, and those of the other case are empty. The kernel
computes a reduction of all elements as a reduction of rows. Its elements are then reduced to at most `_WIDTH`, and
these to one."""

from dataclasses import dataclass
from functools import reduce

from mlir import ir
from mlir.dialects import arith, memref, scf

from lowtide.dialects import tile
from lowtide.dialects.enums import result_kinds
from lowtide.dialects.tile import ResultKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.facts.resources import multiplying_threads
from lowtide.passes.support.agents.reductions import (
    FINISH_GROUPS,
    MOST_ALONE,
    in_kernel,
    may_finish_in_groups,
    reduction_of,
    slots_of,
)
from lowtide.passes.support.ir.builder import Builder, constant_of
from lowtide.passes.support.ir.rewriting import extent
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.workspaces import any_extents, view, workspace
from lowtide.reductions import Reduction

_THREADS = 64  # of a CTA of a launch that finishes
_VECTORS = 2  # arguments of a kernel that finishes, without the ends of groups
_WIDTH = 64  # elements that are reduced to one in the last launch


@dataclass(frozen=True)
class Partials:
    """The partial results of one reduction: the workspace, its view as the kernel's argument, and elements of a row."""

    result: ir.Value
    reduction: Reduction
    space: ir.Value
    matrix: ir.Value
    rows: ir.Value
    length: ir.Value


def make_partials(gemm: tile.GemmOp, extents: tuple[ir.Value | None, ir.Value, ir.Value]) -> list[Partials | None]:
    """The partial results of each result, built at the insertion point; None for a result that is not a reduction.
    `extents`: the batch, M and N. Raises ScheduleError."""
    schedule, problem, (batch, m, n) = Schedule.of(gemm.schedule), Problem.of(gemm), extents
    made: list[Partials | None] = []
    (tile_m, tile_n, _), threads = schedule.tile_mnk, multiplying_threads(schedule)
    build = Builder.index()
    for result, kind in zip(gemm.outs, result_kinds(gemm), strict=True):
        reduction = reduction_of(kind)
        if reduction is None:
            made.append(None)
            continue
        is_row = in_kernel(reduction).axis == "row"
        tiles = build.ceil_sdiv(n, tile_n) if is_row else build.ceil_sdiv(m, tile_m)
        slots = slots_of(schedule, problem, in_kernel(reduction), threads) * (2 if reduction.is_pair else 1)
        rows, length = build.mul(tiles, slots), m if is_row else n
        one = build.mul(rows, length)
        type_ = _matrix_type(result, batch is not None)
        space = workspace(type_, one if batch is None else build.mul(batch, one))
        sizes, strides = ([rows, length], [length]) if batch is None else ([batch, rows, length], [one, length])
        made.append(Partials(result, reduction, space, view(space, type_, sizes, strides), rows, length))
    return made


def kinds_in_kernel(gemm: tile.GemmOp) -> list[ResultKind]:
    """The kinds of the kernel's results. The kernel computes a reduction of all elements as a reduction of rows."""
    found = []
    for kind in result_kinds(gemm):
        reduction = reduction_of(kind)
        found.append(kind if reduction is None else ResultKind[in_kernel(reduction).word])
    return found


def launch_finish(
    function: ir.Operation, partials: Partials, batch: ir.Value | None, ends: ir.Value | None = None
) -> None:
    """Adds the launches that reduce partial results to the result, at the insertion point in the host function. `ends`:
    of groups of rows; rows of no group have no partial results."""
    build, reduction = Builder.index(), partials.reduction
    kind = ResultKind[in_kernel(reduction).word]
    if ends is not None:
        target = _cast(partials.result, any_extents(ir.MemRefType(partials.result.type)))
        ends = _cast(ends, any_extents(ir.MemRefType(ends.type)))
        _launch(function, kind, (target, partials.matrix, ends), reduction.is_pair, [])
        return
    if reduction.axis != "all":
        source = partials.space
        if batch is not None:
            one = build.mul(partials.rows, partials.length)
            source = view(source, _vector_type(partials.result, True), [batch, one], [one])
        target = _cast(partials.result, any_extents(ir.MemRefType(partials.result.type)))
        count = [*([] if batch is None else [batch])]
        if may_finish_in_groups(reduction):
            are_few = build.ule(partials.rows, MOST_ALONE)
            if constant_of(are_few) in (None, 0):
                many, groups = [*count, build.select(are_few, 0, 1)], _groups(partials, batch)
                _launch(function, kind, (groups, source), False, many)
                _launch(function, kind, (target, groups), False, many)
            count.append(build.select(are_few, 1, 0))
        _launch(function, kind, (target, source), reduction.is_pair, count)
        return
    vector = _vector_type(partials.result, False)
    lines = workspace(vector, partials.length)
    few = workspace(vector, build.constant(_WIDTH))
    _launch(function, kind, (lines, partials.space), reduction.is_pair, [])
    _launch(function, kind, (few, lines), False, [])
    _launch(function, kind, (_cast(partials.result, vector), few), False, [])


def _groups(partials: Partials, batch: ir.Value | None) -> ir.Value:
    """A workspace for a few results of each line."""
    build, type_ = Builder.index(), _vector_type(partials.result, batch is not None)
    one = build.mul(partials.length, FINISH_GROUPS)
    space = workspace(type_, one if batch is None else build.mul(batch, one))
    return space if batch is None else view(space, type_, [batch, one], [one])


def _launch(
    function: ir.Operation,
    kind: ResultKind,
    vectors: tuple[ir.Value, ...],
    is_pair: bool,
    count: list[ir.Value],
) -> None:
    """One thread for each element of the first vector, which is the target. The second one is the source. A third one
    has the ends of groups. `count`: factors of the number of threads; if one is known to be 0, there is no launch."""
    build = Builder.index()
    elements = reduce(build.mul, [*count, extent(vectors[0], -1)])
    if any(constant_of(each) == 0 for each in count):
        return
    kernel = _kernel(function, kind, tuple(each.type for each in vectors), is_pair)
    tile.LaunchOp(kernel, build.ceil_udiv(elements, _THREADS), _THREADS, list(vectors))


def _kernel(function: ir.Operation, kind: ResultKind, types: tuple[ir.Type, ...], is_pair: bool) -> str:
    """The name of the kernel, which is built if there is none yet. All reductions with one operation share it."""
    reduction = reduction_of(kind)
    assert reduction is not None
    body = function.block
    words = [ir.StringAttr(function.attributes["sym_name"]).value, "finish", reduction.operation]
    words += [*["pairs"] * is_pair, *["batch"] * (types[0].rank > 1), *["groups"] * (len(types) > _VECTORS)]
    name = "_".join(words)
    known = [op for op in body.operations if op.operation.name == "tile.kernel"]
    if all(ir.StringAttr(op.attributes["sym_name"]).value != name for op in known):
        with ir.InsertionPoint(body):
            kernel = tile.KernelOp(name, ir.TypeAttr.get(ir.FunctionType.get(list(types), [])))
        with ir.InsertionPoint(kernel.body.blocks.append(*types)):
            target, source, *ends = kernel.body.blocks[0].arguments
            target = _rows_of_groups(target, *ends) if ends else target
            tile.FinishOp(kind, target, source, pairs=is_pair or None)
            tile.ReturnOp()
    return name


def _rows_of_groups(vector: ir.Value, ends: ir.Value) -> ir.Value:
    """The elements of a vector for the rows up to the last end of groups: the largest, at most the vector's length."""
    build = Builder.index()
    loop = scf.ForOp(build.constant(0), extent(ends, 0), build.constant(1), [build.constant(0)])
    with ir.InsertionPoint(loop.body):
        end = arith.index_cast(ir.IndexType.get(), memref.load(ends, [loop.induction_variable]))
        scf.YieldOp([build.smax(end, loop.inner_iter_args[0])])
    last = build.smin(loop.results[0], extent(vector, 0))
    type_ = any_extents(ir.MemRefType(vector.type))
    return memref.SubViewOp(type_, vector, [], [last], [], [0], type_.shape, [1]).result


def _cast(matrix: ir.Value, type_: ir.MemRefType) -> ir.Value:
    """The same matrix as a type with any extents."""
    return matrix if matrix.type == type_ else memref.cast(type_, matrix)


def _matrix_type(result: ir.Value, is_batched: bool) -> ir.MemRefType:
    return _dynamic(result, 3 if is_batched else 2)


def _vector_type(result: ir.Value, is_batched: bool) -> ir.MemRefType:
    return _dynamic(result, 2 if is_batched else 1)


def _dynamic(result: ir.Value, rank: int) -> ir.MemRefType:
    """The type of a matrix or vector, or of a batch of them, with the elements of a result and any extents."""
    element, any_ = ir.MemRefType(result.type).element_type, ir.ShapedType.get_dynamic_size()
    if rank == 1:
        return ir.MemRefType.get([any_], element)
    stride = ir.ShapedType.get_dynamic_stride_or_offset()
    return ir.MemRefType.get([any_] * rank, element, ir.StridedLayoutAttr.get(0, [stride] * (rank - 1) + [1]))
