"""tile-to-ctas: assign output tiles to the CTAs of a kernel, and write the K loop of one tile.

Before   tile.gemm tn %a, %b into %d acc(f32) schedule(…) { epilogue }
After    host    %tiles = ceildiv(M, 128) · ceildiv(N, 256); cf.assert that the extents agree
                 tile.launch @gemm_kernel grid(%tiles) threads(256) args(%a, %b, %d)
                 With grid.cluster = [m, n] the tiles are super-tiles of m × n, and the grid is a multiple of m·n:
                 tile.launch … threads(384) cluster [2, 1] args(…)
         device  tile.kernel @gemm_kernel(…) {
                   tile.work_tiles (%m, %n) of (%M, %N) by [128, 256] order(<grouped 8>) one_shot {
                     %acc = scf.for %k … { tile.mma tn (tile.view %a[%m, %k]), (tile.view %b[%n, %k]), %c }
                     tile.store %acc into %d[%m, %n] { epilogue }
         With grid.tail = halves there are two tile.work_tiles, one after the other, each with its own tile size:
         part(full_waves) by [256, 192], and part(tail_halves) by [128, 192].
         With grid.k_division, a work item is a range of K of a tile: the K loop goes from %k0 to %k1, and the
         tile.store says which part of its tile it stores.
         Extents of 0 become extents known at run time, and #tile.problem names them: empty = [k].
         With promote = per_step the product of a K step starts from zero, and is added to the sum that is carried:
           %p = tile.mma tn %at, %bt, %zero; %c2 = tile.promote %p into %c
         Packed weights are a B of bytes, of 4 bits with half the rows. The sum of each K step is scaled by the row of
         its group:
           %g = arith.divui %k, %c128; %s = tile.view per_column %scales[%g, %n] : …
           tile.promote (tile.mma tn …, (tile.view %b[%n2, %k]) weights(si4), %zero) into %c scaled(%s : …)
         Where the operands are swapped they are A, and what a group has belongs to rows: tile.view per_row.
         In a batch the number of the matrix is a coordinate of a work item, and the first one of windows and of the
         store:
           tile.work_tiles (%m, %n) of (%M, %N) by … batch(%batch of %B) … { … tile.view %a[%batch, %m, %k] … }
         If rows are grouped, a work item has the group as a coordinate, and so have windows of B, as their first one.
         For the store, results and full operands end with the rows of the group:
           tile.work_tiles (%m, %n) of (%M, %N) by … groups(%group to %rows_end of %ends) … {
             … tile.view %b[%group, %n, %k] …
             %rows = memref.subview %d[0, 0] [%rows_end, %N] [1, 1]
             tile.store %acc into %rows[%m, %n] … }
         If the groups are padded, they are matrices of a batch as well, and the store is to matrix %batch of %rows:
           tile.work_tiles (%m, %n) of (%M, %N) by … batch(%batch of %B) groups(%group to %rows_end of %ends) … {
             … tile.view %a[%batch, %m, %k] …
             %rows = memref.subview %d[0, 0, 0] [%B, %rows_end, %N] [1, 1, 1]
         In lists of matrices of any extents, each product has its own tiles along N and its own K steps, at least one:
           tile.work_tiles … groups(%group to %rows_end of %ends) columns_of(%D) … {
             %k = tile.matrix_extent %A[%batch] dim 1
             scf.for %k0 = select(%k == 0, 64, 0) to … }
         If an operand has a vector for each group, the store takes the vector of the item's group:
           %own = memref.subview %bias[%group, 0] [1, %N] [1, 1] : memref<?x?xf32, …> to memref<?xf32, …>
         If rows of A are taken at an index, windows of A are windows of a matrix of these rows:
           %taken = tile.take_rows %a at %index : … ; … tile.view %taken[%m, %k] …
         If rows of D are stored at an index, the store is to a matrix of these rows:
           %placed = tile.take_rows %d at %index : … ; … tile.store %acc into %placed[%m, %n] …
         If K is grouped, D is a batch with a matrix for each group. The K loop covers the range of the group and has at
         least one step. Windows of A and B end with the group:
           tile.work_tiles (%m, %n) of (%M, %N) by … batch(%group of %groups) … {
             %end = smin(smax(memref.load %ends[%group], %begin), %K)
             %as = memref.subview %a[0, 0] [%end, %M] [1, 1]; %bs = memref.subview %b[0, 0] [%end, %N] [1, 1]
             scf.for %k = %begin to smax(%end, %begin + 1) … { tile.mma nt (tile.view %as[%k, %m]), … }
             tile.store %acc into %d[%group, %m, %n] … }
         With scales of blocks, the promoted sum of a step is multiplied by those of its rows and columns:
           %rows = tile.view row_scale %sa[%m, %k]; %columns = tile.view column_scale %sb[%n, %k]
           tile.promote %partial into %c block_scaled(%rows, %columns)
         With pairs of columns, a tile of the grid counts accumulators, and its part of D has half as many columns. The
         host makes a view of B as an array of two matrices. A window of B has rows of both:
           host    %pair = memref.reinterpret_cast %b to offset: [0], sizes: [2, %N, %K], strides: [%half, %stride, 1]
           device  tile.work_tiles (%m, %n) of (%M, %N) by [128, 128] … {
             … tile.view %b[%c0, %n, %k] halves : memref<2x?x?xbf16, …> to !tile.view<256x64xbf16>
             tile.store %acc pairs into %d[%m, %n] … }
         If rows are grouped as well, the view has two matrices for each group:
           … tile.view %b[%c0, %group, %n, %k] halves : memref<2x?x?x?xbf16, …> to !tile.view<256x64xbf16>
         For a reduction, the kernel writes a matrix of partial results in a workspace. Another launch reduces them to
         the result, in a fixed order (passes/cta/partial_results.py):
           host    %partials = memref.reinterpret_cast (tile.workspace …) : memref<?x?xf32, strided<[?, 1]>>
                   tile.launch @gemm_kernel … args(%a, %b, %d, %partials)
                   tile.launch @gemm_finish_sum grid(ceildiv(M, 64)) threads(64) args(%s, %space)
           device  tile.kernel @gemm_finish_sum(%s, %partials) { tile.finish row_sum %s from %partials }
         If shards of A arrive while the kernel runs, the products begin with the shard of this GPU. A work item waits
         for its shard before it reads A. If the time limit passes first, the item reads the shard of this GPU, and its
         tile is stored past the last row, so nothing is stored:
           %rank = index_cast(memref.load %turn[0])
           tile.work_tiles (%m, %n) of (%M, %N) by … batch(%batch of %B from %rank) … {
             %from = tile.await_arrival %batch of %arrived, %turn, %status : …
             … tile.view %a[%from, %m, %k] …
             %late = tile.is_late %status : memref<4xi32>
             tile.store %acc into %d[%batch, select(%late, %M, %m), %n] … }
         With grid.sender = kernel, all threads send the shard of this GPU before the work tiles:
           tile.send_shard %a to %peers in_turn %turn counting %sent by 16 : …
         With grid.waves = synchronized, the first loop begins with tile.await_wave on a counter that the host makes as
         a zeroed tile.workspace of one element.
Needs    level problem, with a complete schedule.
Refuses  more than one tile.gemm in a function; a schedule without a field that it reads; an epilogue that reads a host
         value other than its operands and constants.
Test     test/lit/passes/cta/tile-to-ctas.mlir, tile-to-ctas-{tail,waves,empty,groups,groups-of-k,
         padded-groups,arrivals,sends,invalid}.mlir
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from mlir import ir
from mlir.dialects import arith, func, memref, scf

from lowtide.dialects import tile
from lowtide.dialects.enums import gemm_layout, is_whole, operand_kinds
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import OperandKind, ResultKind, SchedulerKind, WavesKind, WorkPart
from lowtide.dialects.tile.fields import Extents2
from lowtide.dialects.tile.lists import is_list
from lowtide.dialects.tile.schedule import Schedule
from lowtide.dialects.tile.work import Place, add_body
from lowtide.elements import SCALE_BLOCK
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.cta.host_side import as_halves, counter_type, emit_host
from lowtide.passes.cta.partial_results import kinds_in_kernel
from lowtide.passes.schedules.facts.alignment import sent_at_once
from lowtide.passes.schedules.facts.resources import work_loops
from lowtide.passes.support.agents.reductions import reduction_of
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import before, copy_region, defining_op, erase, extent, values_from_outside
from lowtide.passes.support.problem.attributes import keep_asked, problem_attribute, problem_in_kernel
from lowtide.passes.support.problem.kernels import cluster_clause, schedule_of
from lowtide.passes.support.problem.matrix_layouts import a_is_mk, b_is_nk, dims_of_a
from lowtide.passes.support.problem.operand_kinds import (
    ARRIVALS,
    POSITIONS,
    SCALES,
    SENDS,
    acts_in_the_sum,
    is_of_epilogue,
    operand_is_batched,
)
from lowtide.passes.support.problem.problem import Problem, is_batch
from lowtide.passes.support.work.groups_of_k import group_of_k, up_to
from lowtide.targets import Target

# The schedule fields that it reads, and those that also determine the number of CTAs per SM.
_FIELDS = ("grid.tile", "grid.order", "grid.scheduler", "mainloop.k", "multiply.atoms")
_SHARED_MEMORY_FIELDS = ("mainloop.stages", "epilogue.path", "epilogue.math", "epilogue.tile")


# The operands of a store that have an element, or elements, for each row of D, and their dimension of rows.
_DIM_OF_ROWS = MappingProxyType({OperandKind.full: -2, OperandKind.per_row: -1})


@dataclass(frozen=True)
class TileToCtas(Pass):
    """Turns each tile.gemm into a kernel and its launch."""

    name: ClassVar[str] = "tile-to-ctas"
    needs: ClassVar[Level] = Level.PROBLEM
    gives: ClassVar[Level] = Level.CTA

    def run(self, module: ir.Module, target: Target) -> None:
        for function in walk(module, func.FuncOp):
            gemms = walk(function, tile.GemmOp)
            if len(gemms) > 1:
                raise Refusal(
                    gemms[1], "is the second tile.gemm of its function; put each in its own function [second-gemm]"
                )
            for gemm in gemms:
                schedule = schedule_of(
                    gemm, "grid.tile", "grid.order", "grid.scheduler", "mainloop.k", "multiply.atoms"
                )
                if schedule.grid.scheduler is not SchedulerKind.one_shot:  # resident CTAs share the memory of an SM
                    schedule_of(gemm, *_SHARED_MEMORY_FIELDS[schedule.is_direct :])
                name = f"{ir.StringAttr(function.sym_name).value}_kernel"
                with gemm.operation.location:
                    problem = problem_attribute(gemm)
                    keep_asked(gemm)
                    if problem.empty:
                        _open_empty_extents(function)
                    with before(gemm):
                        b = as_halves(gemm) if gemm.pairs else gemm.b
                    outs = emit_host(gemm, name, target, b)
                    _emit_kernel(module, gemm, name, problem, [gemm.a, b, *outs, *gemm.epilogue_operands])
                erase(gemm)


def _open_empty_extents(function: func.FuncOp) -> None:
    """Give arguments with an extent of 0, and what is packed of them, the type of those whose extent is known at run
    time."""
    entry = function.regions[0].blocks[0]
    results = [result for op in entry.operations for result in op.results]
    for value in (*entry.arguments, *results):
        type_ = value.type
        if isinstance(type_, ir.MemRefType) and 0 in type_.shape:
            shape = [extent or ir.ShapedType.get_dynamic_size() for extent in type_.shape]
            value.set_type(ir.MemRefType.get(shape, type_.element_type, type_.layout))
    types = [argument.type for argument in entry.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))


def _emit_kernel(
    module: ir.Module, gemm: tile.GemmOp, name: str, problem: tile.ProblemAttr, operands: list[ir.Value]
) -> None:
    """The kernel: work tiles, the K loop, the store with the epilogue region. `operands`: A, B, results or their
    partial results, and operands of the epilogue."""
    schedule, layout = Schedule.of(gemm.schedule), gemm_layout(gemm)
    of_d = Problem.of(gemm).tile_of_d
    waits = schedule.grid.waves is WavesKind.synchronized
    types = [value.type for value in operands] + [counter_type()] * waits
    with ir.InsertionPoint(module.body):
        kernel = tile.KernelOp(name, ir.TypeAttr.get(ir.FunctionType.get(types, [])))
    kernel.attributes["schedule"] = gemm.schedule
    kernel.attributes["problem"] = problem_in_kernel(problem, kinds_in_kernel(gemm))
    if schedule.grid.ctas_per_sm is not None:
        each = ir.IntegerType.get_signless(64)
        kernel.attributes["ctas_per_sm"] = ir.IntegerAttr.get(each, schedule.grid.ctas_per_sm)
    entry = kernel.body.blocks.append(*types)
    a, b, *given = list(entry.arguments)[: len(operands)]
    results = dict(zip(given, kinds_in_kernel(gemm), strict=False))
    d = next(result for result, kind in results.items() if is_whole(kind))
    of_store, others = _operands(gemm, given[len(results) :])
    ends, index, places = (others.get(kind) for kind in POSITIONS)
    arriving, sending = (tuple(others[kind] for kind in kinds if kind in others) for kinds in (ARRIVALS, SENDS))
    in_the_sum = {kind: value for kind, value in others.items() if acts_in_the_sum(kind)}
    with ir.InsertionPoint(entry):
        batch = extent(d, 0) if is_batch(d) else None
        rows = extent(d, -2) if places is None else extent(places, 0)
        columns, k = extent(d, -1), extent(a, dims_of_a(layout)[1])
        a = a if index is None else _taken(a, index)
        if places is not None:
            results = {_taken(x, places) if is_whole(kind) else x: kind for x, kind in results.items()}
        _take_constants_along(gemm.epilogue.blocks[0])
        of_k, own_k = Problem.of(gemm).k_is_grouped, Problem.of(gemm).k_is_of_matrices
        grids = {"batches": batch, "ends": None if of_k else ends, "matrices": d if _has_own_columns(gemm, d) else None}
        grids |= {"first": _rank(arriving[1])} if arriving else {}
        if schedule.sends:
            tile.SendShardOp(a, sending[0], arriving[1], sending[1], sent_at_once(schedule, Problem.of(gemm)))
        for shape, part in work_loops(schedule.grid):
            work = _emit_work_tiles(schedule, grids, (rows, columns, k), of_d(shape), part)
            with ir.InsertionPoint(add_body(work)):
                if waits and part is not WorkPart.tail_halves:
                    tile.AwaitWaveOp(entry.arguments[-1])
                place, factors, span = Place.of(work), (a, b), None
                shard = _awaited(place.batch, arriving) if arriving else place.batch
                if of_k and ends is not None and place.batch is not None:
                    is_scaled = Problem.of(gemm).is_scaled  # then a group consists of whole K steps
                    group = group_of_k(ends, place.batch, k, SCALE_BLOCK if is_scaled else 1)
                    factors = factors if is_scaled else (up_to(a, group.end), up_to(b, group.end))
                    span = group.begin, group.last
                if own_k and place.batch is not None:
                    span = _own_k(a, place.batch, dims_of_a(layout)[1] % 2, schedule.tile_mnk[2])
                span = span or (place.k0 or Builder.index().constant(0), place.k1 or k)
                own = {kind: _of_sum(x, kind, place) for kind, x in in_the_sum.items()}
                acc = _emit_k_loop(gemm, (*factors, own), span, (place, shard), shape)
                more = {name: getattr(place, name) for name in ("batch", "part", "parts", "slot")}
                more |= {
                    "row": _row_unless_late(arriving[2], place.m, rows) if arriving else place.m,
                    "column": place.n,
                }
                operands = [_of_group(x, kind, place) for x, kind in of_store.items()]
                more |= {"epilogue_operands": operands, "kinds": list(of_store.values())}
                outs = [_within_group(x, _rows_of_result(kind), place) for x, kind in results.items()]
                more |= {"pairs": True} if gemm.pairs else {}
                store = tile.StoreOp(acc, outs=outs, out_kinds=list(results.values()), **more)
                tile.YieldOp([])
            copy_region(gemm.epilogue.blocks[0], store.epilogue)
        tile.ReturnOp()


def _rank(turn: ir.Value) -> ir.Value:
    """The number of this GPU, whose shard comes first."""
    return arith.index_cast(ir.IndexType.get(), memref.load(turn, [Builder.index().constant(0)]))


def _awaited(shard: ir.Value | None, arriving: tuple[ir.Value, ...]) -> ir.Value:
    """The shard to read: that of the work item after its wait; if it is late, that of this GPU."""
    return tile.AwaitArrivalOp(ir.IndexType.get(), shard, *arriving).source


def _row_unless_late(status: ir.Value, row: ir.Value, rows: ir.Value) -> ir.Value:
    """The first row of a tile in D. If the status is set, the number of rows: no row of D is there."""
    return arith.select(tile.IsLateOp(ir.IntegerType.get_signless(1), status).late, rows, row)


def _operands(
    gemm: tile.GemmOp, given: list[ir.Value]
) -> tuple[dict[ir.Value, OperandKind], dict[OperandKind, ir.Value]]:
    """The kernel's arguments for the operands: those of the store with their kinds; and by kind the others, which are
    those of the sum, the ends of groups, indices of rows, and those for shards that arrive."""
    kinds = dict(zip(given, operand_kinds(gemm), strict=True))
    of_store = {x: kind for x, kind in kinds.items() if is_of_epilogue(kind) or kind is OperandKind.target}
    return of_store, {kind: value for value, kind in kinds.items() if value not in of_store}


def _taken(matrix: ir.Value, index: ir.Value) -> ir.Value:
    """The rows of A, or of a result, at an index."""
    type_, rows = ir.MemRefType(matrix.type), ir.MemRefType(index.type).shape[0]
    taken = ir.MemRefType.get([rows, type_.shape[1]], type_.element_type, type_.layout)
    return tile.TakeRowsOp(taken, matrix, index).result


def _of_group(operand: ir.Value, kind: OperandKind, place: Place) -> ir.Value:
    """The part of an operand that belongs to the work item's group: the rows up to the group's end; or the group's
    vector or matrix, if there is one for each group; or the whole operand."""
    if place.group is None or place.batch is not None or not operand_is_batched(operand, kind):
        return _within_group(operand, _DIM_OF_ROWS.get(kind), place)
    return _part_at(operand, place.group)


def _of_sum(operand: ir.Value, kind: OperandKind, place: Place) -> ir.Value:
    """The part of an operand that acts in the sum: that of the work item's product in a batch, or of its group."""
    number = place.group if place.batch is None else place.batch
    return operand if number is None or not operand_is_batched(operand, kind) else _part_at(operand, number)


def _part_at(operand: ir.Value, number: ir.Value) -> ir.Value:
    """A vector or matrix of a batch of them."""
    type_, dynamic = ir.MemRefType(operand.type), ir.ShapedType.get_dynamic_stride_or_offset()
    (_, *shape), ones = type_.shape, [1] * type_.rank
    layout = ir.StridedLayoutAttr.get(dynamic, [*[dynamic] * (type_.rank - 2), 1])
    part = ir.MemRefType.get(shape, type_.element_type, layout)
    sizes = [extent(operand, dim) for dim in range(1, type_.rank) if type_.is_dynamic_dim(dim)]
    offsets = [dynamic, *[0] * (type_.rank - 1)]
    return memref.SubViewOp(part, operand, [number], sizes, [], offsets, [1, *shape], ones).result


def _rows_of_result(kind: ResultKind) -> int | None:
    """The dimension of a kernel's result along the rows of D: of a matrix of partial results, the last one; None for a
    result without rows."""
    reduction = reduction_of(kind)
    if reduction is not None and reduction.axis == "row":
        return -1
    return -2 if kind is ResultKind.full else None


def _within_group(operand: ir.Value, dim: int | None, place: Place) -> ir.Value:
    """A result or operand of the store. If it has D's rows, along the dimension `dim`, it ends with the rows of the
    work item's group. The group may be a matrix of a batch."""
    if place.rows_end is None or dim is None:
        return operand
    type_ = ir.MemRefType(operand.type)
    shape, rows = list(type_.shape), type_.rank + dim
    shape[rows] = ir.ShapedType.get_dynamic_size()
    open_ = [each for each in range(type_.rank) if each == rows or type_.is_dynamic_dim(each)]
    sizes = [place.rows_end if each == rows else extent(operand, each) for each in open_]
    part = ir.MemRefType.get(shape, type_.element_type, type_.layout, type_.memory_space)
    return memref.SubViewOp(part, operand, [], sizes, [], [0] * type_.rank, shape, [1] * type_.rank).result


def _own_k(matrices: ir.Value, number: ir.Value, dim: int, step: int) -> tuple[ir.Value, ir.Value]:
    """The range of K of a matrix of A. Agents rely on a first step, which for a K of 0 is one past it, of zeros."""
    build = Builder.index()
    own = tile.MatrixExtentOp(ir.IndexType.get(), matrices, number, dim).result
    begin = build.mul(build.select(build.eq(own, 0), 1, 0), step)
    return begin, build.smax(own, build.add(begin, 1))


def _has_own_columns(gemm: tile.GemmOp, d: ir.Value) -> bool:
    """Whether the tiles along N are those of each matrix of D: if A is no list, all have the same shape. Reductions
    finish partial results of all tiles, so with them all products have as many."""
    kinds = [reduction_of(kind) for kind in kinds_in_kernel(gemm)]
    return is_list(gemm.a.type) and is_list(d.type) and ir.MemRefType(d.type).is_dynamic_dim(2) and not any(kinds)


def _emit_work_tiles(
    schedule: Schedule,
    grids: Mapping[str, ir.Value | None],
    extents: tuple[ir.Value, ir.Value, ir.Value],
    shape: Extents2,
    part: WorkPart,
) -> tile.WorkTilesOp:
    """A loop over work tiles, or over ranges of their K, without a body yet. `grids` has operands of the op by name:
    the number of matrices in a batch, the number of the first one, the ends of groups of rows, and a list whose
    matrices have different numbers of columns."""
    grid, division, (rows, columns, depth) = schedule.grid, schedule.k_division, extents
    order = grid.order
    assert order is not None
    return tile.WorkTilesOp(
        [],
        rows,
        columns,
        [],
        ir.DenseI64ArrayAttr.get(shape),
        tile.RasterAttr.get(order.kind, order.rows, order.columns),
        grid.scheduler,
        **grids,
        cluster=cluster_clause(grid),
        part=None if part is WorkPart.all else part,
        depth=None if division is None else depth,
        k_step=None if division is None else schedule.tile_mnk[2],
        k_division=None if division is None else division.kind,
        k_parts=None if division is None or not division.parts else division.parts,
    )


def _take_constants_along(epilogue: ir.Block) -> None:
    """Copies constants that the region reads into it: canonicalize hoists them, but a kernel cannot read them."""
    own: dict[ir.Value, ir.Value] = {}
    for reader, number, value in list(values_from_outside(epilogue)):
        constant = defining_op(value)
        if not isinstance(constant, arith.ConstantOp):
            raise Refusal(
                reader,
                "reads a value from outside the epilogue; make it one of the tile.gemm's operands [epilogue-captures]",
            )
        if value not in own:
            own[value] = constant.operation.clone(ir.InsertionPoint.at_block_begin(epilogue)).results[0]
        reader.operation.operands[number] = own[value]


def _emit_k_loop(
    gemm: tile.GemmOp,
    operands: tuple[ir.Value, ir.Value, dict[OperandKind, ir.Value]],
    span: tuple[ir.Value, ir.Value],
    where: tuple[Place, ir.Value | None],
    shape: Extents2,
) -> ir.Value:
    """The accumulator of a work item of a shape: a loop over a range of K, with one tile.mma.

    `operands` are A, B and, by kind, the scales and zero points of groups, or of blocks. `where`: the place of the work
    item, and the number of the matrix of A in a batch.
    """
    layout, (a, b, in_the_sum), problem, (place, shard) = gemm_layout(gemm), operands, Problem.of(gemm), where
    tile_m, tile_n = shape
    schedule = Schedule.of(gemm.schedule)
    _, _, tile_k = schedule.tile_mnk
    accumulator = tile.TileType.get((tile_m, tile_n), ir.TypeAttr(gemm.acc).value)
    zero = tile.SplatOp(accumulator, 0.0).result
    build = Builder.index()
    m, n, is_of_batch = place.m, place.n, place.batch is not None and is_batch(a)
    of_a_alone, of_b_alone = ([matrix] if is_of_batch else [] for matrix in (shard, place.batch))
    of_b_alone = of_b_alone if place.group is None else [place.group]
    halves: dict[str, Any] = {"halves": True} if gemm.pairs else {}
    if gemm.pairs:
        of_b_alone = [build.constant(0), *of_b_alone]
    of_a, of_b = problem.stream("a").rows, problem.stream("b").rows
    row_of_a, row_of_b = (x if per_byte == 1 else build.udiv(x, per_byte) for x, per_byte in ((m, of_a), (n, of_b)))
    loop = scf.ForOp(*span, build.constant(tile_k), [zero])
    with ir.InsertionPoint(loop.body):
        a_view = _view(a, of_a_alone, row_of_a, loop.induction_variable, (tile_m // of_a, tile_k), a_is_mk(layout))
        b_view = _view(
            b, of_b_alone, row_of_b, loop.induction_variable, (tile_n // of_b, tile_k), b_is_nk(layout), halves
        )
        total = loop.inner_iter_args[0]
        start = zero if schedule.promotes else total
        of_group = {
            kind: _of_weights(
                kind, each, (loop.induction_variable, m if gemm.swapped else n), problem, schedule.tile_mnk
            )
            for kind, each in in_the_sum.items()
            if kind not in SCALES
        }
        zeros = of_group.get(OperandKind.group_zero)
        more = {"weights": gemm.weights, "zeros": zeros}
        product = tile.MmaOp(accumulator, gemm.layout, a_view, b_view, start, **more).result
        if schedule.promotes:
            windows = {"scale": of_group.get(OperandKind.group_scale)}
            windows |= _scale_windows(in_the_sum, (m, n), loop.induction_variable, shape)
            product = tile.PromoteOp(total.type, product, total, **windows).result
        scf.YieldOp([product])
    return loop.results[0]


def _of_weights(
    kind: OperandKind,
    source: ir.Value,
    place: tuple[ir.Value, ir.Value],
    problem: Problem,
    tile_mnk: tuple[int, int, int],
) -> ir.Value:
    """The window of the factors or zero points of the group at (k, n): a factor for each column of D, or a zero point
    for each row of B. With swapped operands it is for each row of D or of A, and n is m."""
    (k, n), (tile_m, tile_n, tile_k) = place, tile_mnk
    is_scale, is_a = kind is OperandKind.group_scale, problem.packed == "a"
    shape = (tile_m, tile_n) if is_scale else (tile_m if is_a else tile_n, tile_k)
    window = tile.ViewType.get(shape, ir.MemRefType(source.type).element_type)
    along = OperandKind.per_column if is_scale and not is_a else OperandKind.per_row
    return tile.ViewOp(window, source, [Builder.index().udiv(k, problem.group), n], kind=along).result


def _scale_windows(
    in_the_sum: Mapping[OperandKind, ir.Value],
    origin: tuple[ir.Value, ir.Value],
    k: ir.Value,
    shape: Extents2,
) -> dict[str, ir.Value]:
    """The windows of scales of rows and of columns at a step of K, by what tile.promote calls them."""
    windows = {}
    for kind, source in in_the_sum.items():
        if kind not in SCALES:
            continue
        outer = origin[0 if SCALES[kind].of_rows else 1]
        type_ = tile.ViewType.get(shape, ir.MemRefType(source.type).element_type)
        view = tile.ViewOp(type_, source, [outer, k], kind=kind).result
        windows["rows" if SCALES[kind].of_rows else "columns"] = view
    return windows


def _view(
    source: ir.Value,
    matrix: list[ir.Value],
    outer: ir.Value,
    k: ir.Value,
    shape: Extents2,
    k_last: bool,
    halves: Mapping[str, Any] = MappingProxyType({}),
) -> ir.Value:
    """The window at (outer, k) of an operand, with K as its last or first dimension."""
    offsets = (outer, k) if k_last else (k, outer)
    element = ir.MemRefType(source.type).element_type
    window = tile.ViewType.get(shape if k_last else shape[::-1], element)
    return tile.ViewOp(window, source, [*matrix, *offsets], **halves).result
