"""Rules of the epilogue of a schedule: words that go together, parts of the tile, the scratch's swizzle."""

from collections.abc import Iterator

from lowtide.dialects.tile import (
    CacheHint,
    EpilogueMath,
    EpilogueStart,
    PackKind,
    RepeatKind,
    StorePath,
    UnrollKind,
)
from lowtide.dialects.tile.division import Adder
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.facts.resources import (
    multiplying_threads,
    scratch_buffers,
    scratch_element,
    stored_columns,
    swizzle_base,
    tile_of_d,
    work_loops,
)
from lowtide.passes.schedules.facts.staged_operands import full_operands, why_not_beside, why_not_staged
from lowtide.passes.schedules.rules.copies import swizzle_of
from lowtide.passes.schedules.rules.mainloop import roles_or
from lowtide.passes.schedules.rules.tma import MAX_BOX_SIDE
from lowtide.passes.support.agents.atoms import STMATRIX_BITS, holds_a, rows_of_part
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import WGMMA_ROWS

_THREAD_HINTS = (CacheHint.normal, CacheHint.streaming, CacheHint.write_through)

_STORE_BYTES = (16, 8, 4, 2, 1)

# The hints that each path's stores take.
STORE_HINTS = {
    StorePath.smem: _THREAD_HINTS,
    StorePath.direct: _THREAD_HINTS,
    StorePath.tma: (CacheHint.normal, CacheHint.evict_first, CacheHint.evict_last),
}


def fields(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The fields that are words or numbers, if they are given."""
    path, buffers, cache = schedule.epilogue.path, schedule.epilogue.buffers, schedule.epilogue.cache
    if schedule.epilogue.tile is not None and min(schedule.epilogue.tile) < 1:
        yield f"epilogue.tile = {list(schedule.epilogue.tile)}: every extent is at least 1 [epilogue-tile]"
    if path not in (None, StorePath.smem) and schedule.epilogue.math is EpilogueMath.rows:
        yield f"epilogue.math = rows needs epilogue.path = smem; with {path} stores take registers [math-path]"
    if buffers is not None and buffers < 1:
        yield f"epilogue.buffers = {buffers}: at least 1 buffer; nearest is 1 [buffers-least]"
    elif buffers is not None and buffers > 1 and path not in (None, StorePath.tma):
        yield (
            f"epilogue.buffers = {buffers} goes with epilogue.path = tma, not {path}; take epilogue.buffers = 1"
            " [buffers-path]"
        )
    yield from _prefetch(schedule)
    yield from _store(schedule, problem)
    yield from _of_types(schedule, problem)
    yield from _only_stored(schedule, problem)
    if cache is not None and path is not None and cache not in STORE_HINTS[path]:
        taken = ", ".join(map(str, STORE_HINTS[path]))
        yield f"epilogue.cache = {cache} with epilogue.path = {path}, whose stores take {taken} [store-cache]"


def _of_types(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """Results of several types are stored from one scratch of sums, in rows; by TMA, from a scratch for each type."""
    path, math = schedule.epilogue.path, schedule.epilogue.math
    if len({*problem.stored}) > 1 and path is StorePath.smem and math is EpilogueMath.registers:
        yield (
            f"epilogue.math = registers with results of {' and '.join(dict.fromkeys(problem.stored))}: the scratch of "
            "epilogue.path = smem has one type; take epilogue.math = rows [results-types]"
        )


def _only_stored(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """If a result has elements that threads do not hold, it is stored where it is converted."""
    path, math = schedule.epilogue.path, schedule.epilogue.math
    row = next((row for row in map(element_type, problem.stored) if row.is_converted_to), None)
    if row is None:
        return
    division = schedule.k_division
    if division is not None and division.is_scattered:
        by_one = division.added_by(Adder.first)
        yield (
            f"D of {row} is converted in rows, k_division = {division} stores it from fragments; take {by_one}"
            " [divided-conversion]"
        )
    elif path not in (None, StorePath.smem) or math not in (None, EpilogueMath.rows):
        yield f"D of {row} is converted in rows; take epilogue.path = smem with epilogue.math = rows [conversion-path]"
    if schedule.epilogue.cache not in (None, CacheHint.normal):
        yield f"epilogue.cache = {schedule.epilogue.cache} with D of {row}, whose stores take normal [conversion-cache]"


def columns(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """If D lies by columns, path `smem` or `tma` needs fragments of wgmma and elements of 16 bits or more."""
    path = schedule.epilogue.path
    if not problem.d_is_column_major or path is StorePath.direct:
        return
    at = f"grid.operands = swapped: D lies by columns as the kernel sees it, and epilogue.path = {path} transposes"
    way_out = "take epilogue.path = direct, or grid.operands = as_given"
    if not schedule.multiply.by_warpgroups:
        yield f"{at} fragments of wgmma; {way_out} [transposed-fragments]"
    elif element_type(scratch_element(schedule, problem)).bits < STMATRIX_BITS:
        yield (
            f"{at} elements of {STMATRIX_BITS} bits or more, not {scratch_element(schedule, problem)}; {way_out}"
            " [transposed-elements]"
        )


def _prefetch(schedule: Schedule) -> Iterator[str]:
    """Full operands are loaded ahead in whole rows, or by TMA."""
    path, math, prefetch = schedule.epilogue.path, schedule.epilogue.math, schedule.epilogue.prefetch
    if prefetch is not None and prefetch < 0:
        yield f"epilogue.prefetch = {prefetch}: at least 0 parts; nearest is 0 [prefetch-least]"
    elif prefetch and path is not StorePath.tma and (path is StorePath.direct or math is EpilogueMath.registers):
        yield (
            f"epilogue.prefetch = {prefetch} needs epilogue.path = tma, or smem with epilogue.math = rows; take these, "
            "or 0 [prefetch-path]"
        )


def _store(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """Stores of at least one element of D, by threads."""
    path, store = schedule.epilogue.path, schedule.epilogue.store
    if store is None:
        return
    sizes = [size for size in _STORE_BYTES if size >= element_type(problem.widest).bytes]
    sizes = [size for size in sizes if size > 1 or path in (None, StorePath.direct)]  # rows are stored by 2 or more
    if store not in sizes:
        nearest = min(sizes, key=lambda size: (abs(size - store), size))
        yield (
            f"epilogue.store = {store} bytes: a thread stores {', '.join(map(str, sizes))} of D; nearest is {nearest}"
            " [store-bytes]"
        )
    elif path is StorePath.tma:
        yield (
            f"epilogue.store = {store} is of stores by threads, not of epilogue.path = tma; take epilogue.path = smem"
            " [store-path]"
        )


def start(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Stores that start with the first rows, or that stand among the products of the next tile."""
    if schedule.epilogue.start is EpilogueStart.first_rows:
        yield from _first_rows(schedule, problem)
    elif schedule.epilogue.start is EpilogueStart.next_tile:
        yield from _next_tile(schedule, problem)


def _first_rows(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """First rows: 64 for each consumer. In a known last K step their sums are complete before the others."""
    found, rows = "epilogue.start = first_rows", WGMMA_ROWS * schedule.agents.consumer.warpgroups
    if schedule.agents.consumer.turns != 1 or not schedule.multiply.by_warpgroups:
        yield (f"{found} is for wgmma and a consumer of one instance; take all_sums [start-turns]")
    elif schedule.epilogue.path is not StorePath.tma:
        yield f"{found} stores by TMA, not by epilogue.path = {schedule.epilogue.path}; take all_sums [start-path]"
    elif schedule.tile_mnk[0] < 2 * rows:
        yield (
            f"{found} stores {rows} rows, {WGMMA_ROWS} for each consumer, of a tile that has more, not "
            f"{schedule.tile_mnk[0]}; take all_sums [start-rows]"
        )
    elif schedule.k_division is not None:
        yield f"{found} goes with whole sums, not k_division = {schedule.k_division}; take all_sums [start-divided]"
    elif schedule.promotes or problem.weights or holds_a(schedule, problem):
        yield (
            f"{found} needs a wgmma that adds up the sums itself and reads A from shared memory; take all_sums"
            " [start-promoted]"
        )
    elif problem.k is None or problem.k <= schedule.tile_mnk[2]:
        yield (
            f"{found} needs a K that is known, of two steps of {schedule.tile_mnk[2]} or more; take all_sums"
            " [start-steps]"
        )


def _next_tile(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """A tile of D that is stored during the next one is whole, and the next one's K steps are written out."""
    found, mainloop = "epilogue.start = next_tile", schedule.mainloop
    if schedule.epilogue.path is not StorePath.direct:
        yield (
            f"{found} stores from registers, not by epilogue.path = {schedule.epilogue.path}; take all_sums"
            " [next-tile-path]"
        )
    elif mainloop.prologue is not RepeatKind.once or mainloop.unroll is not UnrollKind.full:
        yield (
            f"{found} stores a tile among the products of the next one: it needs prologue = once and unroll = full; "
            "take all_sums [held-store-loop]"
        )
    if schedule.epilogue.cache not in (None, CacheHint.normal):
        yield f"{found} stores without a cache hint; take epilogue.cache = normal [held-store-cache]"
    for side, extent, most in zip("MN", (problem.m, problem.n), schedule.tile_mnk, strict=False):
        if extent is None or extent % most:
            shown = f"an open {side}" if extent is None else f"{side} = {extent}"
            yield (
                f"{found} needs whole tiles, and {shown} is not known to be a multiple of {most}; take all_sums"
                " [held-store-edges]"
            )


def parts(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """Parts divide the tile in steps of the tiled mma, and fit the stores."""
    path = schedule.epilogue.path
    if path is StorePath.direct and not problem.reductions:  # reductions are computed part by part
        return
    assert schedule.epilogue.tile is not None
    if path is StorePath.tma and not schedule.multiply.by_warpgroups:
        way_out = roles_or("epilogue.path = smem", problem, target)
        yield f"epilogue.path = tma stores the rows of wgmmas; take {way_out} [tma-store-roles]"
        return
    step_m, step_n, _ = schedule.multiply.step
    # The columns of a wgmma are held in runs of 8; a part of the tile may have any number of runs.
    steps = (step_m, 8 if schedule.multiply.by_warpgroups else step_n)
    extents = tile_of_d(schedule, problem)
    for letter, extent, part, step in zip("MN", extents, schedule.epilogue.tile, steps, strict=False):
        may_be_narrow = letter == "N" and path is StorePath.tma and part <= extent  # its last part
        if part % step or (extent % part and not may_be_narrow):
            yield (
                f"epilogue.tile {letter} = {part} must be a multiple of {step}, one step of the tiled mma, and divide "
                f"the CTA tile's {extent}; nearest is {_nearest_part(part, step, extent)} [part-extent]"
            )
            return
    if path is StorePath.tma:
        yield from _tma_stores(schedule, problem)
        return
    rows, columns = schedule.epilogue.tile
    for (extent, _), _ in work_loops(schedule.grid):  # parts of half tiles may be lower
        lowest = (min(rows, extent), columns)
        try:
            element, threads = scratch_element(schedule, problem), multiplying_threads(schedule)
            rows_of_part(lowest, element, problem.widest, threads, schedule.epilogue.store, problem.d_is_column_major)
        except ScheduleError as error:
            yield f"epilogue.tile: {error}"
            return


def swizzle(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The swizzle of the scratch, if threads store through it."""
    if schedule.epilogue.path is not StorePath.smem:
        return
    assert schedule.epilogue.swizzle is not None and schedule.epilogue.tile is not None
    bits, (rows, columns) = element_type(scratch_element(schedule, problem)).bits, schedule.epilogue.tile
    as_it_lies = (columns, rows) if problem.d_is_column_major else (rows, columns)
    yield from swizzle_of("epilogue.swizzle", schedule.epilogue.swizzle, as_it_lies, bits)


def _nearest_part(part: int, step: int, extent: int) -> int:
    """The legal extent of a part nearest to the given one: a multiple of the step that divides the CTA tile's."""
    fitting = [size for size in range(step, extent + 1, step) if extent % size == 0]
    return min(fitting, key=lambda size: (abs(size - part), -size), default=extent)


def stores_whole_rows(problem: Problem) -> bool:
    """Whether D's rows are known to be multiples of 16 bytes: TMA writes no less, even at an edge (seen on H200)."""
    length = problem.row_of_d
    return length is not None and length * element_type(problem.narrowest).bits % 128 == 0


def _tma_stores(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """Each warpgroup stores 64 rows of a part, in boxes as wide as the swizzle's span."""
    assert schedule.epilogue.tile is not None and schedule.epilogue.swizzle is not None
    rows, columns = schedule.epilogue.tile
    length, whole = problem.row_of_d, 128 // element_type(problem.narrowest).bits
    yield from _tma_operands(schedule, problem)
    if length is not None and not stores_whole_rows(problem) and schedule.epilogue.pack is not PackKind.rows:
        letter, packed = ("M", "") if problem.d_is_column_major else ("N", "epilogue.pack = rows, ")
        yield (
            f"epilogue.path = tma stores whole 16 bytes and would overwrite what lies behind D's rows of {length} "
            f"elements; take epilogue.path = smem, {packed}or {letter} = {-(-length // whole) * whole}"
            " [tma-store-overwrites]"
        )
    wanted = WGMMA_ROWS * schedule.agents.consumer.warpgroups
    if rows != wanted:
        yield f"epilogue.tile M = {rows}: TMA stores take 64 rows of each warpgroup; take {wanted} [tma-store-rows]"
    bits, base, shift = schedule.epilogue.swizzle
    unit = swizzle_base(problem.d)
    if bits and (bits > 3 or (base, shift) != (unit, 3)):
        nearest = f"<{min(bits, 3)},{unit},3>"
        yield (
            f"epilogue.swizzle = <{bits},{base},{shift}>: TMA swizzles units of 16 bytes; take {nearest}"
            " [tma-store-swizzle]"
        )
        return
    width = 1 << (bits + unit) if bits else rows if problem.d_is_column_major else columns
    yield from (_boxes_of_columns if problem.d_is_column_major else _boxes_of_rows)(schedule, problem, width)
    m, _, _ = schedule.tile_mnk
    count, buffers = m // rows * (stored_columns(schedule, problem) // columns), scratch_buffers(schedule)
    if count % buffers:
        fewer = max(number for number in range(1, buffers) if count % number == 0)
        yield (
            f"epilogue.buffers = {buffers} take turns with {count} parts of the tile, evenly; nearest is {fewer}"
            " [buffers-turns]"
        )


def _tma_operands(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """Full operands beside TMA stores: TMA loads parts of them to shared memory, in the layout of parts of D."""
    why = why_not_staged(problem) or why_not_beside(schedule)
    if schedule.epilogue.start is EpilogueStart.first_rows:
        why = why or "when a part is stored, not with epilogue.start = first_rows"
    if full_operands(problem) and why:
        yield f"epilogue.path = tma loads full operands {why}; take epilogue.path = smem [tma-store-operand]"


def _boxes_of_columns(schedule: Schedule, problem: Problem, width: int) -> Iterator[str]:
    """Boxes of a D by columns have all columns of a part, and rows of one warpgroup, as many as the swizzle spans."""
    if WGMMA_ROWS % width:
        yield (
            f"epilogue.tile M = {width}: a box of D by columns has rows of one warpgroup, at most {WGMMA_ROWS}; take "
            f"epilogue.swizzle = <3,{swizzle_base(problem.d)},3> [tma-store-box-rows]"
        )


def _boxes_of_rows(schedule: Schedule, problem: Problem, width: int) -> Iterator[str]:
    """Boxes of a D by rows have as many columns as the swizzle spans; without a swizzle, as many as a part."""
    assert schedule.epilogue.tile is not None and schedule.epilogue.swizzle is not None
    _, columns = schedule.epilogue.tile
    bits, base, shift = schedule.epilogue.swizzle
    unit, whole = swizzle_base(problem.d), 128 // element_type(problem.narrowest).bits
    if columns % width:
        narrower = max(b for b in range(bits) if b == 0 or columns % (1 << (b + unit)) == 0)
        yield (
            f"epilogue.tile N = {columns}: epilogue.swizzle = <{bits},{base},{shift}> takes boxes of {width} columns; "
            f"take a multiple of {width}, or epilogue.swizzle = <{narrower},{unit},3> [tma-store-boxes]"
        )
    _, n = tile_of_d(schedule, problem)
    if width > MAX_BOX_SIDE or columns % whole:
        yield (
            f"epilogue.tile N = {columns}: a box's row is a multiple of 16 bytes and at most {MAX_BOX_SIDE} elements"
            " [tma-store-columns]"
        )
    elif n % columns % whole:
        yield (
            f"grid.tile N = {n * problem.sums}: the row of a box must be a multiple of 16 bytes, also in the last "
            f"part of {n % columns} columns; take {n // whole * whole * problem.sums} [tma-store-last-part]"
        )
