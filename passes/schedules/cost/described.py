"""Schedules and problems as the input of the estimate of wgmma tiles."""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from math import log2, sqrt
from typing import Any

from lowtide.dialects.tile import OperandKind, RasterKind, SchedulerKind, TailKind
from lowtide.dialects.tile.division import KDivision
from lowtide.dialects.tile.fields import Order, grouped
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.cost import few_rows
from lowtide.passes.schedules.cost.grids import LINE_BYTES, WHOLE_COLUMN, Grid, Product
from lowtide.passes.schedules.cost.traffic import TMA_BYTES, batch_of, sizes_of, straddles_sectors
from lowtide.passes.schedules.facts.staged_operands import why_not_staged
from lowtide.passes.schedules.rules.mainloop import has_wgmma
from lowtide.passes.schedules.rules.tma import contiguous_extent
from lowtide.passes.support.agents.atoms import STMATRIX_BITS
from lowtide.passes.support.agents.clusters import OPERANDS
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import WARPGROUP_WARPS, Operand

# The cycles of an SM for a function of an element of D, and for a byte of it that threads load or store. With
# these, one of the best of 14 to 27 tiles is chosen for a residual with row sums, a saved GELU, dSwiGLU, dGELU and a
# cross entropy (M = 8192, H200).
_FUNCTION, _MOVED_BYTE = 0.2, 0.1
# The cycles of an SM for a byte of an operand that TMA loads, while consumers that share a tile wait for its parts
# (residual, 8192³, and dSwiGLU, 8192×14336×4096, tiles of 128×256, H200).
_AWAITED_BYTE = 0.15
_FEWEST_EARLY = 1024  # of K, for the first rows of a tile to be stored early
_BANDS = {RasterKind.row: 1, RasterKind.column: WHOLE_COLUMN}

#: The fields that the estimate reads
PATHS = (
    "grid.tile",
    "mainloop.k",
    "mainloop.agents.consumer.warps",
    "mainloop.agents.consumer.instances",
    "grid.cluster",
    "grid.k_division",
    "grid.order",
    "grid.tail",
)


def is_estimated(problem: Problem) -> bool:
    """Whether the estimate covers such products: sums stay in the tensor cores, and operands are not converted."""
    return not (problem.promotes or problem.weights or problem.decomposition is not None or any(problem.converted))


def is_of_few_rows(schedule: Schedule, problem: Problem, target: Target) -> bool:
    """Whether a schedule has no producer and one of the tiles of few rows, which the choice compares with wgmma."""
    rows, columns = schedule.grid.tile or (0, 0)
    return (
        schedule.agents.is_single
        and rows == few_rows.ROWS
        and schedule.mainloop.k == few_rows.DEPTH
        and schedule.mainloop.stages == few_rows.stages_of(columns)
        and schedule.grid.scheduler is SchedulerKind.one_shot
        and schedule.grid.k_division is None
        and may_have_few_rows(problem, target)
    )


def may_have_few_rows(problem: Problem, target: Target) -> bool:
    """Whether tiles of few rows are tried for a problem if it has few rows: it must be one product of 16-bit operands,
    on a target with wgmma. The constants were fitted to kernels of such products.

    A must be K-major, as in all kernels that were measured. If B is K-major, too, its rows must start on sectors of L2:
    of two products whose rows do not, one took 1.00 of the time of wgmma and one 1.08 (29×15432×12344 and
    17×24792×2280, H200).
    """
    is_one = not (problem.is_batched or problem.is_grouped or problem.k_is_grouped or problem.pairs is not None)
    by_threads = problem.takes_rows or problem.places_rows or problem.copied_by_threads
    types = {element_type(each).bits for each in (problem.a, problem.b)}
    a_is_k_major, b_is_k_major = (contiguous_extent(name, problem)[0] == "K" for name in OPERANDS)
    return (
        is_estimated(problem)
        and has_wgmma(target)
        and is_one
        and not by_threads
        and not problem.d_is_column_major
        and types == {few_rows.BITS}
        and a_is_k_major
        and not (b_is_k_major and straddles_sectors(problem))
    )


def grid_of(fields: Mapping[str, Any], target: Target) -> Grid:
    """The grid of a schedule's fields, by path. Tile, K of a step and agents must be given; others may be left out."""
    rows, columns = fields["grid.tile"]
    cluster = fields.get("grid.cluster") or (1, 1)
    division: KDivision | None = fields.get("grid.k_division")
    is_whole = division is None or not division.parts or division.is_of_tail
    square = square_bands((rows, columns), cluster[0], target)
    order = fields.get("grid.order") or square
    return Grid(
        rows=rows,
        columns=columns,
        depth=fields["mainloop.k"],
        warpgroups=(fields.get("mainloop.agents.consumer.warps") or WARPGROUP_WARPS) // WARPGROUP_WARPS,
        turns=fields.get("mainloop.agents.consumer.instances") or 1,
        cluster_rows=cluster[0],
        cluster_columns=cluster[1],
        parts=1 if is_whole or division is None else division.parts,
        adds_shares=division is not None and not is_whole and division.is_scattered,
        band=band_of(order) or square.rows,
        halves=fields.get("grid.tail") is TailKind.halves,
    )


def band_of(order: Order) -> int:
    """The rows of tiles in a band, as `Grid` has them; 0 for an order without bands of rows."""
    return _BANDS.get(order.kind) or order.rows


def fields_of(schedule: Schedule, paths: Iterable[str] = PATHS) -> dict[str, Any]:
    """The fields of a schedule that the estimate reads, by path."""
    return {path: schedule.get(path) for path in paths}


@lru_cache(maxsize=64)  # a search asks for one problem again for each candidate
def product_of(problem: Problem) -> Product:
    """The product of a problem, with assumed values for extents known only at run time."""
    m, n, k = sizes_of(problem)
    of_a, of_b = (_row_bytes(name, problem) for name in OPERANDS)
    a_is_k_major, b_is_k_major = (contiguous_extent(name, problem)[0] == "K" for name in OPERANDS)
    return Product(
        m=m,
        n=n,
        k=k,
        batch=batch_of(problem),
        operand_bytes=element_type(problem.a).bits / 8,
        result_bytes=_result_bytes(problem),
        row_bytes=(of_a, of_b),
        stores_columns=problem.d_is_column_major and not _is_transposed_by_tma(problem),
        stores_transposed=problem.d_is_column_major and _is_transposed_by_tma(problem),
        stores_early=_may_store_early(problem),
        a_is_k_major=a_is_k_major,
        b_is_k_major=b_is_k_major,
        clips=not problem.is_grouped or problem.is_padded,  # otherwise the rows of the next group follow
        overlaps=not problem.compiled.has_static_extents,
        ends_anywhere=problem.is_grouped,
        in_turn=problem.is_grouped or problem.k_is_grouped,
        read_bytes=_read_bytes(problem),
        computed=_FUNCTION * problem.functions / problem.sums,
        **_epilogue_cycles(problem),
    )


def _result_bytes(problem: Problem) -> float:
    """The bytes of all results for each sum."""
    return sum(element_type(each).bits for each in problem.stored) / 8 / problem.sums


def _read_bytes(problem: Problem) -> float:
    """The bytes of full operands of the epilogue for each sum."""
    operands = zip(problem.kinds, problem.operands, strict=True)
    return sum(element_type(each).bytes for kind, each in operands if kind is OperandKind.full) / problem.sums


def _epilogue_cycles(problem: Problem) -> dict[str, Any]:
    """`moved` and `awaited` of a `Product`. Threads that load full operands also store the results. Otherwise TMA moves
    both."""
    read = _read_bytes(problem)
    if not read:
        return {}
    if why_not_staged(problem):
        return {"moved": _MOVED_BYTE * (read + _result_bytes(problem))}
    return {"awaited": _AWAITED_BYTE * read}


def _is_transposed_by_tma(problem: Problem) -> bool:
    """Whether a D that lies by columns is transposed in shared memory and stored by TMA."""
    bits = element_type(problem.d).bits
    return bits == STMATRIX_BITS and problem.m is not None and problem.m * bits // 8 % TMA_BYTES == 0


def _may_store_early(problem: Problem) -> bool:
    """Whether the first rows of a tile may be stored while its last K step multiplies: D depends on the sums alone, and
    K is known and has several steps."""
    k = problem.compiled.k
    return k is not None and k >= _FEWEST_EARLY and problem.is_plain


def _row_bytes(operand: Operand, problem: Problem) -> int:
    _, extent = contiguous_extent(operand, problem)
    size = (extent or 0) * element_type(problem.stream(operand).element).bits // 8
    return size if size % TMA_BYTES == 0 else LINE_BYTES  # packed to lines


def square_bands(tile: tuple[int, int], cluster_rows: int, target: Target) -> Order:
    """The order in bands in which the tiles in flight cover about a square of D, so that they share the most in L2."""
    return _bands(*tile, cluster_rows, target.sm_count)


@cache
def _bands(rows: int, columns: int, cluster_rows: int, sm_count: int) -> Order:
    tile_rows = 2 ** max(0, round(log2(sqrt(sm_count * columns / rows))))
    return grouped(max(1, tile_rows // cluster_rows))  # a cluster takes as many of them at a time
