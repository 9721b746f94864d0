"""The host side of a kernel: checks of shapes, the size of the grid, and the launch."""

from mlir import ir
from mlir.dialects import cf

from lowtide.dialects import tile
from lowtide.dialects.enums import gemm_layout, operand_kinds, result_kinds, whole_results
from lowtide.dialects.tile import OperandKind, ResultKind, SchedulerKind, TailKind, WavesKind
from lowtide.dialects.tile.division import Adder, Cut, KDivision, Tiles
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import SCALE_BLOCK, WEIGHT_BLOCK, WEIGHT_ROWS
from lowtide.passes.cta.partial_results import launch_finish, make_partials
from lowtide.passes.schedules.facts.resources import ctas_per_sm, threads_of
from lowtide.passes.support.agents.reductions import reduction_of
from lowtide.passes.support.ir.builder import Builder, constant_of
from lowtide.passes.support.ir.rewriting import before, extent, outer_strides
from lowtide.passes.support.problem.kernels import cluster_clause
from lowtide.passes.support.problem.matrix_layouts import dims_of_a, dims_of_b
from lowtide.passes.support.problem.operand_kinds import SCALES, SENDS, acts_in_the_sum, operand_is_batched
from lowtide.passes.support.problem.problem import Problem, is_batch
from lowtide.passes.support.streams.workspaces import view
from lowtide.targets import Target
from lowtide.words import APART

MOST_WORK_ITEMS = 2**31  # exclusive: in a kernel their numbers are unsigned, of 32 bits


def as_halves(gemm: tile.GemmOp) -> ir.Value:
    """A view of the B of pairs of columns as two matrices (2, N, K): the first columns of all pairs, and the second. In
    groups, two matrices for each: (2, groups, N, K). A B of two matrices is one."""
    if Problem.of(gemm).pairs == APART:
        return gemm.b
    build, type_ = Builder.index(), ir.MemRefType(gemm.b.type)
    *of_groups, stride = outer_strides(gemm.b)
    n = extent(whole_results(gemm)[0], -1)
    of_d = ir.MemRefType(whole_results(gemm)[0].type).shape[-1]
    *groups, _, k = type_.shape
    layout = ir.StridedLayoutAttr.get(0, [ir.ShapedType.get_dynamic_stride_or_offset()] * type_.rank + [1])
    halves = ir.MemRefType.get([2, *groups, of_d, k], type_.element_type, layout)
    apart, between = (stride, build.mul(stride, 2)) if gemm.interleaved else (build.mul(n, stride), stride)
    extents = [build.constant(2), *(extent(gemm.b, dim) for dim in range(len(groups))), n, extent(gemm.b, -1)]
    return view(gemm.b, halves, extents, [apart, *of_groups, between])


def rows_of_product(gemm: tile.GemmOp) -> ir.Value:
    """M: the number of rows of D, or of elements of the index of its rows."""
    operands = zip(gemm.epilogue_operands, operand_kinds(gemm), strict=True)
    index = next((operand for operand, kind in operands if kind is OperandKind.d_rows), None)
    return extent(whole_results(gemm)[0], -2) if index is None else extent(index, 0)


def emit_host(gemm: tile.GemmOp, kernel: str, target: Target, b: ir.Value) -> list[ir.Value]:
    """Shape checks, the grid and the launch, in place of the gemm. `b`: B as the kernel takes it. Returns what the
    kernel takes for each result: the result, or a matrix of partial results."""
    schedule, problem = Schedule.of(gemm.schedule), Problem.of(gemm)
    tile_m, tile_n = problem.tile_of_d(schedule.tile_mnk)
    tile_k = schedule.tile_mnk[2]
    d, *_ = full = whole_results(gemm)
    with before(gemm):
        m, n = rows_of_product(gemm), extent(d, -1)
        _assert_shapes(gemm, full, (m, n))
        build = Builder.index()
        cluster_m, cluster_n = schedule.cluster
        high, wide = build.ceil_sdiv(m, tile_m * cluster_m), build.ceil_sdiv(n, tile_n * cluster_n)
        if problem.is_grouped and not problem.is_padded:  # the last tiles of each group may have fewer rows
            high = build.add(high, build.smin(extent(gemm.b, 0), m))
        work = build.mul(high, wide)
        if is_batch(d):
            work = build.mul(extent(d, 0), work)
        if schedule.grid.tail is TailKind.halves:  # a grid of one wave may be split as well
            work = build.mul(work, 2)
        division = schedule.k_division
        parts: ir.Value | int = 1
        if division is not None:
            steps = build.ceil_sdiv(extent(gemm.a, dims_of_a(problem.layout)[1]), tile_k)
            parts = build.smin(steps, division.parts) if division.cut is Cut.parts else steps
            if division.is_scattered:
                _assert_steps(steps, division, tile_k)
            work = build.mul(work, parts)  # of a tail, where all tiles are one: a grid without a full wave
        if is_batch(d):
            _assert_countable(build.mul(work, cluster_m * cluster_n))
        if schedule.grid.scheduler is not SchedulerKind.one_shot:
            resident = _resident(kernel, schedule, problem, target)
            if division is not None and division.cut is Cut.parts and division.tiles is Tiles.all:
                # The parts of a tile are then items of one round, whose CTAs wait for lower-numbered ones only.
                resident = build.mul(build.smax(build.sdiv(resident, parts), 1), parts)
            elif division is not None and division.is_scattered:
                resident = build.smax(resident, parts)  # a CTA for each part
            work = build.smin(work, resident)
        batch = extent(d, 0) if is_batch(d) else None
        operands = zip(gemm.epilogue_operands, operand_kinds(gemm), strict=True)
        ends = next((operand for operand, kind in operands if kind is OperandKind.ends), None)
        partials = make_partials(gemm, (batch, m, n))
        outs = [own if made is None else made.matrix for own, made in zip(gemm.outs, partials, strict=True)]
        arguments = [gemm.a, b, *outs, *gemm.epilogue_operands]
        if schedule.grid.waves is WavesKind.synchronized:
            arguments.append(tile.WorkspaceOp(counter_type(), build.constant(1), zeroed=True).result)
        grid = build.mul(work, cluster_m * cluster_n)
        together = {"cooperative": True} if schedule.sends else {}
        tile.LaunchOp(kernel, grid, threads_of(schedule), arguments, cluster=cluster_clause(schedule.grid), **together)
        for made in filter(None, partials):
            launch_finish(gemm.operation.parent, made, batch, ends if problem.is_grouped else None)
    return outs


def _resident(kernel: str, schedule: Schedule, problem: Problem, target: Target) -> ir.Value:
    """CTAs, or clusters, that are resident at once: a value known at launch."""
    index = ir.IndexType.get()
    if cluster := cluster_clause(schedule.grid):
        return tile.ClusterCountOp(index, kernel, cluster).result
    division = schedule.k_division
    if schedule.sends or (division is not None and division.is_scattered):
        # All must run at once. ptxas keeps room for as many as the schedule asks for; more are an estimate.
        each = schedule.grid.ctas_per_sm or 1
    else:
        each = max(schedule.grid.ctas_per_sm or 1, ctas_per_sm(schedule, problem, target))
    return Builder.index().mul(tile.SmCountOp(index).result, each)


def _assert_steps(steps: ir.Value, division: KDivision, tile_k: int) -> None:
    """Host check that each part has a step: each adds and stores a share of the tile."""
    parts, way_out = division.parts, division.added_by(Adder.first)
    has_enough = Builder.index().sle(parts, steps)
    if not constant_of(has_enough):
        message = f"k_division = {division}: K must have {parts} steps of {tile_k}; compile it with {way_out}"
        cf.assert_(has_enough, message)


def _assert_countable(work: ir.Value) -> None:
    """Host check that work items of a batch can be counted in 32 bits: D may be small and have many matrices."""
    is_countable = Builder.index().slt(work, MOST_WORK_ITEMS)
    if not constant_of(is_countable):
        message = "the batch has 2^31 or more work tiles; split it, or compile with a larger grid.tile"
        cf.assert_(is_countable, message)


def _assert_shapes(gemm: tile.GemmOp, full: list[ir.Value], extents: tuple[ir.Value, ir.Value]) -> None:
    """Host checks that extents agree, where they are known only at run time. `extents` are M and N."""
    layout, (m, n), d = gemm_layout(gemm), extents, full[0]
    (a_m, a_k), (b_n, b_k) = dims_of_a(layout), dims_of_b(layout)
    k = extent(gemm.a, a_k)
    # The messages are of what was asked for.
    first, second, rows, columns = (
        ("B", "A", "N columns", "M rows") if gemm.swapped else ("A", "B", "M rows", "N columns")
    )
    problem, checks = Problem.of(gemm), []
    if not problem.takes_rows:
        of_rows = "d_rows" if problem.places_rows else "D"
        message = f"{first} and {of_rows} must have the same {rows[0]}"
        checks.append((gemm.a, a_m, _rows_in_memory(gemm, "a", m), message))
    checks += [
        (gemm.b, b_n, _rows_in_memory(gemm, "b", n), f"{second} and D must have the same {columns[0]}")
        if problem.pairs in (None, APART)
        else (gemm.b, b_n, Builder.index().mul(n, 2), "B must have two rows for each of the N columns of D"),
        (gemm.b, b_k, k, "A and B must have the same K"),
    ]
    checks += _checks_of_results(gemm, full, (m, n), (rows, columns))
    if is_batch(d) and not Problem.of(gemm).k_is_grouped:
        batch = extent(d, 0)
        checks += [
            (gemm.a, 0, batch, "A and D must have the same batch"),
            (gemm.b, 0, batch, "B and D must have the same batch"),
        ]
    if gemm.weights:
        checks += _of_weights(gemm, k, m if gemm.swapped else n)
    checks += _checks_of_operands(gemm, d, (m, n, k), (rows, columns))
    for operand, dim, expected, message in checks:
        agrees = Builder.index().eq(extent(operand, dim), expected)
        if not constant_of(agrees):
            cf.assert_(agrees, message)


def _checks_of_operands(
    gemm: tile.GemmOp, d: ir.Value, extents: tuple[ir.Value, ir.Value, ir.Value], words: tuple[str, str]
) -> list[tuple[ir.Value, int, ir.Value, str]]:
    """Checks that operands agree with the problem. `extents` are M, N and K, `words` the names of M and N."""
    (m, n, _), (rows, columns) = extents, words
    checks: list[tuple[ir.Value, int, ir.Value, str]] = []
    for position, (operand, kind) in enumerate(zip(gemm.epilogue_operands, operand_kinds(gemm), strict=True)):
        if kind in (OperandKind.full, OperandKind.per_row):
            dim = -2 if kind is OperandKind.full else -1
            checks.append((operand, dim, m, f"epilogue operand {position} must have {rows}"))
        if kind in (OperandKind.full, OperandKind.per_column):
            checks.append((operand, -1, n, f"epilogue operand {position} must have {columns}"))
        if kind is OperandKind.target:
            by_row = ResultKind.row_value in result_kinds(gemm)
            own, word = (m, rows) if by_row else (n, columns)
            checks.append((operand, -1, own, f"epilogue operand {position} must have {word}"))
        if kind is OperandKind.ends:
            letter, matrices = ("D", d) if is_batch(d) else ("B", gemm.b)
            message = f"{letter} must have a matrix for each of the ends of groups"
            checks.append((operand, 0, extent(matrices, 0), message))
        if kind is OperandKind.arrived:
            checks.append((operand, 0, extent(d, 0), "arrived must have a number for each shard of A"))
        if kind in SENDS:
            has = "a row" if kind is OperandKind.peers else "a number"
            checks.append((operand, 0, extent(d, 0), f"{kind} must have {has} for each shard of A"))
        if kind is OperandKind.a_rows:
            checks.append((operand, 0, m, f"a_rows must have {rows}"))
        if kind in SCALES:
            checks += _checks_of_scales(operand, kind, extents, words)
        if operand_is_batched(operand, kind):
            outer, what = (d, "the batch of D") if is_batch(d) else (gemm.b, "a part for each matrix of B")
            checks.append((operand, 0, extent(outer, 0), f"epilogue operand {position} must have {what}"))
    return checks


def _checks_of_results(
    gemm: tile.GemmOp, full: list[ir.Value], extents: tuple[ir.Value, ir.Value], words: tuple[str, str]
) -> list[tuple[ir.Value, int, ir.Value, str]]:
    """Checks that results agree with D, the first of the full results. `extents` are M and N, `words` their names."""
    (m, n), (rows, columns), (d, *others) = extents, words, full
    checks: list[tuple[ir.Value, int, ir.Value, str]] = []
    for other in others:
        checks += [
            (other, dim, extent(d, dim), "results must have the extents of D") for dim in range(len(d.type.shape))
        ]
    for result, of_result in zip(gemm.outs, result_kinds(gemm), strict=True):
        reduction = reduction_of(of_result)
        if reduction is not None and reduction.dims:
            own, word = (m, rows) if reduction.axis == "row" else (n, columns)
            checks.append((result, -1, own, f"a reduction of each of {word} must have {word[0]} elements"))
            if is_batch(d):
                checks.append((result, 0, extent(d, 0), "reductions must have the batch of D"))
    return checks


def _rows_in_memory(gemm: tile.GemmOp, operand: str, rows: ir.Value) -> ir.Value:
    """The rows in which A or B lies: of packed weights those of bytes."""
    per_byte = Problem.of(gemm).stream(operand).rows
    return Builder.index().sdiv(rows, per_byte) if per_byte > 1 else rows


def _of_weights(gemm: tile.GemmOp, k: ir.Value, n: ir.Value) -> list[tuple[ir.Value, int, ir.Value, str]]:
    """What the scales of packed weights have, after checks of the extents of K and N."""
    build, problem = Builder.index(), Problem.of(gemm)
    unit, groups = problem.group or WEIGHT_BLOCK, []
    for operand, kind in zip(gemm.epilogue_operands, operand_kinds(gemm), strict=True):
        if acts_in_the_sum(kind):
            name = "scales" if kind is OperandKind.group_scale else "zeros"
            groups.append((operand, -2, build.sdiv(k, unit), f"{name} must have a row for each {unit} of K"))
            groups.append((operand, -1, n, f"{name} must have N columns"))
    whole = [
        (k, unit, f"K of packed weights must be a positive multiple of {unit}: pad A, and the weights, with zeros")
    ]
    if problem.packed is not None and problem.stream(problem.packed).rows > 1:
        whole.append(
            (n, WEIGHT_ROWS, f"N of packed weights must be a multiple of {WEIGHT_ROWS}: pad them with rows of zeros")
        )
    for extent_, step, message in whole:
        is_whole = build.eq(build.mul(build.sdiv(extent_, step), step), extent_)
        if not constant_of(is_whole):
            cf.assert_(is_whole, message)
    return groups


def _checks_of_scales(
    operand: ir.Value, kind: OperandKind, extents: tuple[ir.Value, ir.Value, ir.Value], words: tuple[str, str]
) -> list[tuple[ir.Value, int, ir.Value, str]]:
    """A scale for each block of rows, or columns, and for each of K. `words` are those of what was asked for."""
    m, n, k = extents
    build, scales = Builder.index(), SCALES[kind]
    outer, word = (m, words[0]) if scales.of_rows else (n, words[1])
    message = f"scales of {word} must have one for each {{}} {word[0]} and for each {SCALE_BLOCK} of K, rounded up"
    message = message.format(scales.rows)
    return [
        (operand, -1 - scales.k_dim, build.ceil_sdiv(outer, scales.rows), message),
        (operand, scales.k_dim - 2, build.ceil_sdiv(k, scales.k), message),
    ]


def counter_type() -> ir.MemRefType:
    """The type of the counter of work tiles that have begun."""
    return ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], ir.IntegerType.get_signless(32))
