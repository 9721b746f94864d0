"""How the epilogue of a schedule is chosen: path, where the region runs, parts of the tile, buffers, swizzle."""

from collections.abc import Mapping
from math import ceil, gcd
from typing import Any

from lowtide import targets
from lowtide.dialects.tile import CacheHint, EpilogueMath, EpilogueStart, OperandKind, StorePath, WavesKind
from lowtide.dialects.tile.fields import Extents2
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.choice.asked_for import may_store_by_tma
from lowtide.passes.schedules.choice.stages import fitting_stages
from lowtide.passes.schedules.facts.resources import (
    multiplying_threads,
    registers_at_entry,
    results_fill_registers,
    ring_bytes,
    runs_ahead,
    scratch_element,
    stored_columns,
    sums_per_thread,
    swizzle_base,
    threads_of,
    tile_of_d,
    warps_along_k,
)
from lowtide.passes.schedules.facts.staged_operands import staged_operands
from lowtide.passes.schedules.rules.epilogue import start, stores_whole_rows
from lowtide.passes.support.agents.atoms import (
    STMATRIX_BITS,
    epilogue_rows,
    matrices_of_stmatrix,
    part_of,
    tiled_mma,
)
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import SwizzleChoice, Target
from lowtide.targets.atoms import FMA, WGMMA_ROWS
from lowtide.targets.tv import neighbours

# Elements of the epilogue tile per thread if the epilogue reads whole rows, or calls functions.
_ROWS_VALUES = 32
_FUNCTION_VALUES = 64

_WIDEST_BITS = 128  # of a store of one thread
_MOST_BUFFERS = 4
_FEWEST_STAGES = 3  # with fewer, the wait for L2 is visible
# On an H200, a fourth stage gains 1.5 % in a grid of one wave (2048³). In several waves, tiles with fewer than 256
# columns gain up to 26 % (256×112, M of 200 to 1500, N of 16,000 to 57,000), and tiles with 256 columns lose up to 1 %
# (4096³). It gains as much if it leaves one buffer: swapped tiles of 128×232 to 256×136 took 0.79 to 1.015 of their
# time (19 products, mean 0.935), other tiles 0.89 to 1.10 (21 products, mean 0.992).
_STAGES, _FULL_COLUMNS = 4, 256
_FEWEST_BUFFERS = 2  # with one, each part of a tile waits for the store of the part before
_SCRATCH_BESIDE_RING = 16384  # without roles, where the ring stays filled: shared memory is for its stages
_SCRATCH_BYTES = 32768  # of an epilogue through shared memory without TMA, beside roles or without a ring
# Columns of a part of such an epilogue. ptxas spills wider ones beside the accumulators of the largest tiles.
_COLUMNS_BESIDE_OPERANDS = 64
_COLUMNS_BESIDE_ROWS = 32  # of one full operand
_MANY_SUMS, _VALUES_BESIDE_SUMS = 128, 16  # of a thread: with more sums, a part of the epilogue has so few elements
_COLUMNS_OF_FUNCTIONS = 32  # of f32
_NARROWER_STORE = 8  # bytes: the warps of any consumer can then divide 8 columns
_COLUMNS_OF_BOXES = 64  # at most, of a D by columns that TMA stores
# The bytes of full operands that a thread loads ahead. On an H200 4096×4096×1024 with a bf16 operand takes 71 µs with
# 128 bytes, 75 with 32, and 84 with none; with 256 ptxas spills beside the largest tiles.
_PREFETCH_BYTES = 128
# They may take this share of the registers of a consumer that are left beside the sums and the current part (two for
# each element, and one for each function), less if rows may end within 16 bytes. With more, kernels of three consumers
# and 4001×4003×101 spilled.
_PREFETCHED, _PREFETCHED_OF_ANY_ROWS = 0.8, 0.5
_REGISTER_BYTES = 4
# With so many K steps, an epilogue is hidden if consumers take turns. On an H200 8192×14336×4096 with two operands
# takes 1475 µs with one slot for parts of them, and 1509 with two; 4096×4096×1024 with one operand 63.7 and 61.7.
_HIDING_STEPS = 32
# First rows are stored early from this number of K steps on. LLVM unrolls shorter loops, which leave no registers.
_STEPS_BEFORE_FIRST_ROWS = 16


def path_and_math(schedule: Schedule, problem: Problem) -> Schedule:
    """Decides how the accumulators reach D, and where the region runs."""
    if problem.lacks_d:
        return schedule.filled({"epilogue.path": StorePath.direct, "epilogue.math": EpilogueMath.registers})
    by_tma = schedule.multiply.by_warpgroups and may_store_by_tma(schedule, problem)
    division = schedule.k_division
    shares_by_tma = by_tma and (problem.d_is_column_major or (division is not None and division.is_of_tail))
    if division is not None and division.is_scattered and not shares_by_tma:
        schedule = schedule.filled({"epilogue.path": StorePath.direct})
    # Fragments of mma.sync and wgmma hold pairs of columns. Those of FMA atoms and of f64 hold 16 bytes of a row.
    widest, along_k = element_type(problem.widest).bits, warps_along_k(schedule)
    is_converted = any(element_type(each).is_converted_to for each in problem.stored)
    reads_rows = OperandKind.full in problem.region_kinds
    is_light = not reads_rows and not problem.has_math and along_k == 1 and not is_converted
    is_wide = schedule.multiply.atom == FMA or 2 * widest >= _WIDEST_BITS
    # In a narrow tile, 64 rows have fewer vectors than a warpgroup has threads.
    may_be_narrow = schedule.agents.has_producer and schedule.epilogue.tile is None
    is_narrow = may_be_narrow and tile_of_d(schedule, problem)[1] * widest < 2 * _WIDEST_BITS
    by_threads = StorePath.direct if (is_wide or is_narrow) and is_light else StorePath.smem
    if problem.d_is_column_major and not by_tma:
        schedule = schedule.filled(_path_of_columns(schedule, problem))
    if problem.pairs is not None and (is_converted or len({*problem.stored}) > 1):
        by_threads = StorePath.direct  # the sums of pairs stay in registers, and one scratch buffer has one type
    schedule = schedule.filled({"epilogue.path": StorePath.tma if by_tma else by_threads})
    # Full operands are read in whole rows. Without them, the traffic is half as much if elements are converted first.
    # Results of several types leave the scratch together, as sums.
    wants_rows = reads_rows or along_k > 1 or is_converted or len({*problem.stored}) > 1
    rows = schedule.epilogue.path is StorePath.smem and wants_rows
    return schedule.filled({"epilogue.math": EpilogueMath.rows if rows else EpilogueMath.registers})


def _path_of_columns(schedule: Schedule, problem: Problem) -> Mapping[str, Any]:
    """The path of a D by columns without TMA. It goes through transposed scratch if its elements have 16 bits and a
    store takes several of them; otherwise the path is direct. D is not packed, so rows of D must be multiples of a
    store."""
    d, widest, path = element_type(problem.d), schedule.epilogue.store or _WIDEST_BITS // 8, schedule.epilogue.path
    store = gcd((problem.row_of_d or 1) * d.bytes, widest)
    if path is None:
        gains = schedule.multiply.by_warpgroups and len({*problem.stored}) == 1
        gains = gains and d.bits == STMATRIX_BITS and store > d.bytes
        path = StorePath.smem if gains else StorePath.direct
    return {"epilogue.path": path} | ({"epilogue.store": store} if path is StorePath.smem and store < widest else {})


def parts(schedule: Schedule, problem: Problem, target: Target) -> Schedule:
    """Decides tile, buffers and hints; and the swizzle of scratch that TMA stores."""
    if not schedule.agents.has_producer:
        return schedule.filled({"epilogue.tile": _tile(schedule, problem)})
    if schedule.epilogue.path is not StorePath.tma:
        schedule = schedule.filled({"epilogue.tile": _tile_beside_roles(schedule, problem)})
        if schedule.epilogue.path is StorePath.smem and problem.d_is_column_major:
            schedule = schedule.filled(_width_of_stores(schedule, problem))
        ahead = _prefetch(schedule, problem, target)
        return schedule.filled({"epilogue.prefetch": ahead}) if ahead else schedule
    schedule = schedule.filled(_boxes(schedule, problem, target))
    if _outgrows_l2(problem, target):
        schedule = schedule.filled({"epilogue.cache": CacheHint.evict_first})
    schedule = schedule.filled({"epilogue.buffers": _buffers(schedule, problem, target)})
    if staged_operands(schedule, problem):
        return schedule.filled({"epilogue.prefetch": _slots(schedule, problem, target)})
    early = schedule.filled({"epilogue.start": EpilogueStart.first_rows})
    is_legal = not any(start(early, problem.compiled, target))
    return early if is_legal and _gains_by_first_rows(schedule, problem) else schedule


def _gains_by_first_rows(schedule: Schedule, problem: Problem) -> bool:
    """Whether to store the first rows early: if D is a bare sum of many K steps.

    If the epilogue computes anything else, ptxas might order all wgmmas one after the other. CTAs in step would all
    wait for the slot, which is released later.
    """
    has_steps = problem.k is not None and problem.k >= _STEPS_BEFORE_FIRST_ROWS * schedule.tile_mnk[2]
    is_bare = not problem.region_kinds and not problem.has_math and not problem.beside and problem.pairs is None
    is_bare = is_bare and not problem.reductions
    return has_steps and is_bare and schedule.grid.waves is not WavesKind.synchronized


def _tile(schedule: Schedule, problem: Problem) -> Extents2:
    """The tallest part of the CTA tile, full width, that fits into the drained ring, or `_SCRATCH_BYTES` without one.

    If operands are read in rows, a thread holds operands, accumulators and the result at once, and each narrow store
    takes a register: a thread then has at most `_ROWS_VALUES` elements. If the epilogue calls functions, a thread has
    at most `_FUNCTION_VALUES`.
    """
    m, n = tile_of_d(schedule, problem)
    most = (
        (ring_bytes(schedule, problem) or _SCRATCH_BYTES) * 8 // element_type(scratch_element(schedule, problem)).bits
    )
    if runs_ahead(schedule):
        most = _SCRATCH_BESIDE_RING * 8 // element_type(scratch_element(schedule, problem)).bits
    most //= warps_along_k(schedule)
    if schedule.epilogue.math is EpilogueMath.rows or schedule.epilogue.store is not None:
        most = min(most, _ROWS_VALUES * threads_of(schedule))
    elif problem.has_math:
        most = min(most, _FUNCTION_VALUES // problem.sums * threads_of(schedule))
    step = schedule.multiply.step[0]
    rows = m
    while rows > step and (rows * n > most or m % rows):
        rows -= step
    return rows, n


def _tile_beside_roles(schedule: Schedule, problem: Problem) -> Extents2:
    """The widest part of the tile whose scratch takes at most `_SCRATCH_BYTES`.

    Parts are narrower with operands, function calls and narrow stores: these need registers while threads still hold
    the accumulators of the other parts.
    """
    m, n = tile_of_d(schedule, problem)
    most = _SCRATCH_BYTES * 8 // (m * element_type(scratch_element(schedule, problem)).bits)
    if problem.region_kinds and schedule.epilogue.math is EpilogueMath.rows:
        most = min(most, _COLUMNS_BESIDE_ROWS // max(1, problem.region_kinds.count(OperandKind.full)))
        if sums_per_thread(schedule) > _MANY_SUMS:
            most = min(most, _VALUES_BESIDE_SUMS * multiplying_threads(schedule) // m)
    elif problem.region_kinds:
        most = min(most, _COLUMNS_BESIDE_OPERANDS)
    if schedule.epilogue.store is not None:
        most = min(most, _ROWS_VALUES * multiplying_threads(schedule) // m)
    if problem.has_math and results_fill_registers(problem):
        most = min(most, _COLUMNS_OF_FUNCTIONS)
    widths = [width for width in range(8, n + 1, 8) if n % width == 0 and width <= most]
    if not problem.d_is_column_major:
        widths = [width for width in widths if width & (width - 1) == 0]
    return m, max(widths, default=n)


def _width_of_stores(schedule: Schedule, problem: Problem) -> Mapping[str, Any]:
    """Stores of 8 bytes for a D by columns, if threads cannot divide the columns of a part in stores of 16."""
    try:
        epilogue_rows(schedule, problem, multiplying_threads(schedule))
    except ScheduleError:
        return {"epilogue.store": _NARROWER_STORE}
    return {}


def _prefetch(schedule: Schedule, problem: Problem, target: Target) -> int:
    """The number of parts of full operands that fit in the registers left for them; 0 unless they are read in rows."""
    full = [dtype for kind, dtype in zip(problem.kinds, problem.operands, strict=True) if kind is OperandKind.full]
    if not full or schedule.epilogue.math is not EpilogueMath.rows:
        return 0
    (m, n, _), part = schedule.tile_mnk, schedule.epilogue.tile
    assert part is not None
    held = schedule.agents.consumer.registers or registers_at_entry(threads_of(schedule), target)
    elements = part[0] * part[1] // multiplying_threads(schedule)
    beside = held - m * n // multiplying_threads(schedule) - (2 + problem.functions) * elements
    share = _PREFETCHED if stores_whole_rows(problem.compiled) else _PREFETCHED_OF_ANY_ROWS
    most = min(_PREFETCH_BYTES, int(share * beside) * _REGISTER_BYTES)
    a_part = elements * sum(element_type(dtype).bytes for dtype in full)
    others = m // max(1, part[0]) * (n // max(1, part[1])) - 1
    return max(0, min(most // max(1, a_part), others))


def _boxes(schedule: Schedule, problem: Problem, target: Target) -> Mapping[str, Any]:
    """Parts of one box per warpgroup, as wide as a swizzle's row can be."""
    unit = swizzle_base(problem.d)
    _, n = tile_of_d(schedule, problem)
    if problem.d_is_column_major:
        return _boxes_of_columns(schedule, problem)
    if schedule.epilogue.tile is not None:
        width = schedule.epilogue.tile[1]
        bits = next((bits for bits in (3, 2, 1) if width % (1 << (bits + unit)) == 0), 0)
    elif schedule.k_division is not None and schedule.k_division.is_scattered:  # of whole boxes in each share
        share = n // schedule.k_division.parts
        bits = next((bits for bits in (3, 2, 1) if share % (1 << (bits + unit)) == 0), 0)
    else:  # as wide as a box can be; the rest of N is a narrower part
        bits = next((bits for bits in (3, 2, 1) if n >= 1 << (bits + unit)), 0)
    parts = {bits: _part_of_boxes(schedule, bits, unit) for bits in (bits, max(1, bits - 1))}
    return parts[max(1, bits - 1) if _has_few_slots(schedule.filled(parts[bits]), problem, target) else bits]


def _part_of_boxes(schedule: Schedule, bits: int, unit: int) -> Mapping[str, Any]:
    """Parts as wide as a row of this swizzle."""
    return {
        "epilogue.tile": (WGMMA_ROWS * schedule.agents.consumer.warpgroups, 1 << (bits + unit)),
        "epilogue.swizzle": (bits, unit, 3),
    }


def _has_few_slots(schedule: Schedule, problem: Problem, target: Target) -> bool:
    """Whether consumers that share a tile wait for full operands, because two slots and two buffers do not fit beside
    the least number of stages. With narrower parts, eight such products take 0.98 to 1.01 of the time, 0.99 on average,
    and one with two operands, which had two stages, takes 0.65 (H200)."""
    if not _waits_for_operands(schedule, problem):
        return False
    return fitting_stages(schedule.with_(buffers=2, prefetch=2), problem, target) < _FEWEST_STAGES


def _boxes_of_columns(schedule: Schedule, problem: Problem) -> Mapping[str, Any]:
    """Parts of a D by columns, with the widest swizzle: all columns of the tile, or about equal parts of them."""
    division, (_, columns, _) = schedule.k_division, schedule.tile_mnk
    if division is not None and division.is_scattered:  # the parts are of each share
        columns //= division.parts
        dividing = (width for width in range(8, _COLUMNS_OF_BOXES + 1, 8) if columns % width == 0)
        width = max(dividing, default=8)  # a rule refuses other shares
    else:
        width = 8 * ceil(columns / ceil(columns / _COLUMNS_OF_BOXES) / 8)
    return {
        "epilogue.tile": (WGMMA_ROWS * schedule.agents.consumer.warpgroups, width),
        "epilogue.swizzle": (3, swizzle_base(problem.d), 3),
    }


def _buffers(schedule: Schedule, problem: Problem, target: Target) -> int:
    """One buffer per part if they fit beside the stages: then no part waits for a store of the same tile.

    In a grid of one wave, no store overlaps the products of a next tile, so a further stage gains more than a further
    buffer. In several waves, it gains more for tiles with fewer than 256 columns: their wgmmas read shared memory more
    often, and TMA's writes to a stage take longer. Consumers hold two stages, so of three only one is loaded ahead. If
    TMA also loads full operands of the epilogue, this was not measured: two buffers stay.

    If tiles of 256 columns read the larger operand once, from memory, as many stages as fit are best: with one more
    stage, 8 products of 250 to 256 rows take 0.76 to 1.01 of the time, 0.895 on average (H200). Narrower tiles were not
    measured.
    """
    n = schedule.tile_mnk[1]
    number = _parts_of(schedule, problem)
    counts = [count for count in range(_MOST_BUFFERS, 0, -1) if number % count == 0]
    if _waits_for_operands(schedule, problem):  # more slots for operands save more time than more buffers (`_slots`)
        counts = counts[-2:]
    stages = {count: fitting_stages(schedule.with_(buffers=count), problem, target) for count in counts}
    is_one_wave = _is_one_wave(schedule, problem, target)
    streams = n >= _FULL_COLUMNS and _reads_once(schedule, problem)
    gains = is_one_wave or streams or n < _FULL_COLUMNS  # by a fourth stage
    may_wait = is_one_wave or (gains and not staged_operands(schedule, problem))
    fewest = 1 if may_wait else min(_FEWEST_BUFFERS, counts[0])
    most = max(stages[count] for count in counts if count >= fewest)
    enough = most if streams else _STAGES if gains else _FEWEST_STAGES
    wanted = schedule.mainloop.stages or max(_FEWEST_STAGES, min(enough, most))
    return next((count for count in counts if stages[count] >= wanted), counts[-1])


def _slots(schedule: Schedule, problem: Problem, target: Target) -> int:
    """The number of parts of full operands that TMA loads ahead. Their slots may not take the place of a stage. If
    consumers take turns, two, or one if products hide the epilogue. If consumers share a tile, as many as the tile has,
    since no products hide the wait for a part: with three slots and two buffers, products with a residual in tiles of
    128×256 take 0.92 to 1.00 of the time that they take with one slot and four buffers, 0.97 on average (7 products of
    4096 or 8192 rows, K of 1024 to 14336, H200)."""
    steps = ceil((problem.k or 0) / schedule.tile_mnk[2])
    if schedule.agents.consumer.turns > 1 and steps >= _HIDING_STEPS:
        return 1
    most = _parts_of(schedule, problem) if _waits_for_operands(schedule, problem) else 2
    stages = [fitting_stages(schedule.with_(prefetch=slots), problem, target) for slots in range(1, most + 1)]
    wanted = schedule.mainloop.stages or min(stages[0], _STAGES)
    return max((slots for slots, count in enumerate(stages, 1) if count >= wanted), default=1)


def _waits_for_operands(schedule: Schedule, problem: Problem) -> bool:
    """Whether consumers that share a tile read full operands that TMA loads."""
    return schedule.agents.consumer.turns == 1 and bool(staged_operands(schedule, problem))


def _parts_of(schedule: Schedule, problem: Problem) -> int:
    """The number of parts of a tile. A narrower last part of a row of parts does not count."""
    assert schedule.epilogue.tile is not None
    rows, columns = schedule.epilogue.tile
    return max(1, schedule.tile_mnk[0] // max(1, rows) * (stored_columns(schedule, problem) // max(1, columns)))


def _is_one_wave(schedule: Schedule, problem: Problem, target: Target) -> bool:
    tiles = problem.tiles(schedule.tile_mnk)
    return tiles is not None and tiles <= target.sm_count


def _reads_once(schedule: Schedule, problem: Problem) -> bool:
    """Whether one row or one column of tiles covers D, so that the larger operand is read once."""
    m, n, _ = schedule.tile_mnk
    return any(extent is not None and extent <= side for extent, side in ((problem.m, m), (problem.n, n)))


def _outgrows_l2(problem: Problem, target: Target) -> bool:
    """Whether the full results are larger than L2: then they are evicted first, so that A and B stay in L2."""
    elements, bits = problem.tiles((1, 1)), sum(element_type(each).bits for each in problem.stored)
    return elements is not None and elements // problem.sums * bits // 8 > target.l2_bytes


def scratch_swizzle(schedule: Schedule, problem: Problem) -> SwizzleChoice:
    """The swizzle of the scratch: the one with the fewest bank conflicts of fragment stores and row loads."""
    access, by_columns = epilogue_rows(schedule, problem, multiplying_threads(schedule)), problem.d_is_column_major
    shape = schedule.epilogue.tile
    assert shape is not None
    element_bytes = element_type(access.scratch_element).bits // 8
    tv = part_of(tiled_mma(schedule, problem), shape).tv("c", shape)
    vector = access.rows.vector
    run = min(neighbours(tv, shape, by_columns), access.widest)
    if by_columns and 8 * element_bytes == STMATRIX_BITS:
        written = targets.stmatrix_access(tv, shape, matrices_of_stmatrix(shape[1]), transposed=True)
    else:
        written = targets.fragment_access(f"st.shared.{run * element_bytes}", tv, shape, run, by_columns)
    read = targets.fragment_access(f"ld.shared.{vector * element_bytes}", access.rows.tv, shape, vector, by_columns)
    return targets.choose_swizzle(read.stored_shape, [written, read], element_bytes)
