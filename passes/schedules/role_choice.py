"""How a schedule with roles is chosen: CTA tiles by cost, and the fields that follow from the tile.

The cost is in cycles of one SM, calibrated on an H200 (docs/performance.md): wgmma's own time, made longer by the bytes
that a tile moves for its flops (the power limit rules there, and L2 traffic is what costs power), in whole waves of
CTAs. Extents known only at run time are taken as 4096.
"""

from math import ceil, log2, sqrt

from lowtide.dialects.tile.layouts import SwizzleBits
from lowtide.dialects.tile.schedule import Extents3, Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.epilogue_rules import TMA_HINTS, stores_whole_rows
from lowtide.passes.schedules.facts import ring_bytes, shared_memory_bytes, swizzle_base
from lowtide.passes.schedules.role_rules import contiguous_extent, swizzle_bits
from lowtide.passes.schedules.rules import broken_rule
from lowtide.passes.support.atoms import stored_shape
from lowtide.passes.support.problem import ELEMENT_BITS, Problem, b_is_nk
from lowtide.targets import Target
from lowtide.targets.atoms import WGMMA_ROWS, Operand

ASSUMED_EXTENT = 4096

# Rows of a CTA tile and the consumer warpgroups that share them, with the widest N whose accumulators fit. Any N in
# steps of 8 is a tile: the one that fills the last wave is the cheapest.
_ROWS: tuple[tuple[int, int, int], ...] = ((256, 2, 192), (192, 3, 200), (128, 2, 256), (64, 1, 256))
_NARROWEST, _N_STEP = 64, 8
_DEPTH = 64  # K of a stage: rows of 128 bytes

_MULTIPLY_ADDS_A_CYCLE = 2048  # wgmma of 16-bit operands, an SM
_TILE_OVERHEAD = 2000  # cycles: fill and epilogue of a tile
_PART_OVERHEAD = 150  # cycles more for a part of the epilogue that is narrower than the others
# How much longer a tile takes, measured under the power limit: for what L2 gives it, (M + N) / (M · N) a step, and for
# what a wgmma reads from shared memory, (64 + N) / (64 · N).
_L2_WEIGHT, _SHARED_WEIGHT = 14.3, 5.0
_UNALIGNED_WEIGHT = 2.0  # of an operand whose rows start within L2's lines: each row of a box touches two
_LINE_BYTES = 128
_TALL_OVERHEAD = 3000  # cycles more of two blocks of 64 rows a warpgroup: a tile that starts and ends later
_IDLE_GAIN = 0.4  # of a last wave's idle SMs: the power that they save speeds up the others

_SHOWN = 6  # tiles in the reason
_MOST_STAGES = 8
_FEWEST_STAGES = 3  # below, a wait for L2 shows
_MOST_EPILOGUE_BUFFERS = 4
_SCRATCH_BYTES = 32768  # of an epilogue through shared memory without TMA
_ACCUMULATORS_BESIDE_ROWS = 128  # a thread's, where the epilogue holds rows of a full operand too


def choose_roles(problem: Problem, target: Target, given: Schedule, reasons: dict[str, str]) -> Schedule:
    """The cheapest legal schedule with roles that agrees with what is given.

    Raises ScheduleError where there is none: the rule that the cheapest breaks.
    """

    def rank(tile: tuple[Extents3, int]) -> tuple[float, int]:
        """Among equals the larger tile, which moves fewer bytes."""
        (m, n, _), consumers = tile
        return tile_cost(tile[0], consumers, problem, target), -m * n

    # The rules take longer than the cost: they are asked until a tile passes.
    tiles = sorted(_tiles(given, problem), key=rank)
    refused: list[str] = []
    for cta, consumers in tiles:
        candidate = _follow_roles(given.with_(cta=cta, roles=("cooperative", consumers)), problem, target)
        # Swizzles of the scratch do not change what is legal; any stands in for them.
        trial = candidate if candidate.swizzle_d is not None else candidate.with_(swizzle_d=(0, 3, 3))
        message = broken_rule(trial, problem, target)
        if message is None:
            _explain(candidate, tiles, given, problem, target, reasons)
            return candidate
        refused.append(message)
    raise ScheduleError(refused[0])


def _tiles(given: Schedule, problem: Problem) -> list[tuple[Extents3, int]]:
    """The CTA tiles and numbers of consumers to choose among."""
    wanted = given.roles[1] if given.roles is not None else None
    if given.cta is not None:
        fitting = [consumers for consumers in (2, 1, 3) if given.cta[0] % (WGMMA_ROWS * consumers) == 0]
        return [(given.cta, consumers) for consumers in ([wanted] if wanted is not None else fitting or [1])]
    most = _ACCUMULATORS_BESIDE_ROWS if "full" in problem.kinds else 256
    # Panels of N-contiguous B and rows of the epilogue's scratch want whole swizzle spans.
    by_tma = given.epilogue == "tma" or (given.epilogue is None and _may_store_by_tma(given, problem))
    any_width = b_is_nk(problem.layout) and by_tma
    step = _N_STEP if any_width else _NARROWEST
    widths = list(range(_NARROWEST, 257, step))
    if problem.n is not None and problem.n < _NARROWEST:
        widths.insert(0, 16 << max(0, (problem.n - 1) // 16).bit_length())
    return [
        ((rows, n, _DEPTH), consumers)
        for rows, consumers, widest in _ROWS
        for n in widths
        if n <= widest
        and rows * n // (128 * consumers) <= most
        # Three consumers are only taken when asked for.
        and (consumers == wanted if wanted is not None else consumers != 3)
    ]


def _follow_roles(schedule: Schedule, problem: Problem, target: Target) -> Schedule:
    """The fields that follow for a producer warpgroup and cooperative consumers, from the CTA tile."""
    assert schedule.cta is not None and schedule.roles is not None
    n = schedule.cta[1]
    consumers = schedule.roles[1]
    if schedule.epilogue is None:
        schedule = schedule.with_(epilogue="tma" if _may_store_by_tma(schedule, problem) else "smem")
    if schedule.epilogue_math is None:
        rows = schedule.epilogue == "smem" and "full" in problem.kinds
        schedule = schedule.with_(epilogue_math="rows" if rows else "registers")
    chosen: dict[str, object] = {
        "warps": (consumers, 1, 1),
        "permutation": (WGMMA_ROWS * consumers, n, 16),
        "mma": f"wgmma.m64n{n}k16",
        "copy": "tma",
        "registers": _registers(consumers),
        "fragment_buffers": 1,
        "swizzle_a": _panel_swizzle("a", schedule, problem),
        "swizzle_b": _panel_swizzle("b", schedule, problem),
        "raster": _raster(schedule, target),
        "scheduler": "persistent",
    }
    schedule = _fill(schedule, chosen)
    if schedule.epilogue == "tma":
        return _follow_tma_stores(schedule, problem, target)
    schedule = _fill(schedule, {"epilogue_tile": _epilogue_tile(schedule, problem)})
    return _fill(schedule, {"stages": max(2, _fitting_stages(schedule, problem, target))})


def _may_store_by_tma(schedule: Schedule, problem: Problem) -> bool:
    """Not where a full operand is read in whole rows, for which parts of the tile go through shared memory as they are;
    nor where D's rows may end within 16 bytes, which TMA would write beyond; nor for hints that are not TMA's."""
    reads_rows = "full" in problem.kinds or schedule.epilogue_math == "rows"
    hint = schedule.cache_hints[2] if schedule.cache_hints is not None else "normal"
    return not reads_rows and hint in TMA_HINTS and stores_whole_rows(problem)


def _fill(schedule: Schedule, chosen: dict[str, object]) -> Schedule:
    return schedule.with_(**{name: value for name, value in chosen.items() if getattr(schedule, name) is None})


def _follow_tma_stores(schedule: Schedule, problem: Problem, target: Target) -> Schedule:
    """Parts of one box a warpgroup, as wide as a swizzle's row can be; buffers for all of them if they fit.

    A part that has a buffer of its own waits for no store of this tile.
    """
    assert schedule.cta is not None and schedule.roles is not None
    m, n, _ = schedule.cta
    unit = swizzle_base(problem.d)
    width = schedule.epilogue_tile[1] if schedule.epilogue_tile is not None else n
    if schedule.epilogue_tile is not None:
        bits = next((bits for bits in (3, 2, 1) if width % (1 << (bits + unit)) == 0), 0)
    else:  # as wide as a box can be; what is left of N is a narrower part
        bits = next((bits for bits in (3, 2, 1) if width >= 1 << (bits + unit)), 0)
    part: dict[str, object] = {
        "epilogue_tile": (WGMMA_ROWS * schedule.roles[1], 1 << (bits + unit)),
        "swizzle_d": (bits, unit, 3),
    }
    schedule = _fill(schedule, part)
    assert schedule.epilogue_tile is not None
    parts = max(1, m // max(1, schedule.epilogue_tile[0]) * (n // max(1, schedule.epilogue_tile[1])))
    counts = [count for count in range(_MOST_EPILOGUE_BUFFERS, 0, -1) if parts % count == 0]
    if schedule.epilogue_buffers is not None:
        counts = [schedule.epilogue_buffers]
    if _outgrows_l2(problem, target):
        schedule = _fill(schedule, {"cache_hints": ("normal", "normal", "evict_first")})
    stages = {count: _fitting_stages(schedule.with_(epilogue_buffers=count), problem, target) for count in counts}
    wanted = schedule.stages or _FEWEST_STAGES
    buffers = next((count for count in counts if stages[count] >= wanted), counts[-1])
    return _fill(schedule, {"epilogue_buffers": buffers, "stages": max(2, stages[buffers])})


def _outgrows_l2(problem: Problem, target: Target) -> bool:
    """Whether D is larger than L2, so that nobody finds it there: it may then leave first, for A and B to stay."""
    if problem.m is None or problem.n is None:
        return False
    return problem.m * problem.n * ELEMENT_BITS[problem.d] // 8 > target.l2_bytes


def _fitting_stages(schedule: Schedule, problem: Problem, target: Target) -> int:
    """Stages that fit beside the epilogue's scratch, at most `_MOST_STAGES`."""
    fitting = range(_MOST_STAGES, 0, -1)
    limit = target.smem_bytes_per_cta
    return next((n for n in fitting if shared_memory_bytes(schedule.with_(stages=n), problem) <= limit), 0)


def _registers(consumers: int) -> tuple[int, int]:
    """Registers of producer and consumer. With fewer than 40 a producer that starts a box a panel spills.

    One consumer has what it needs from the start.
    """
    return {2: (40, 232), 3: (32, 160)}.get(consumers, (0, 0))


def _panel_swizzle(operand: Operand, schedule: Schedule, problem: Problem) -> SwizzleBits:
    """The widest swizzle whose panels divide the stage's rows; the narrowest stands in where none does."""
    _, columns = stored_shape(operand, schedule, problem.layout)
    return swizzle_bits(columns) or 1, 3, 3


def _raster(schedule: Schedule, target: Target) -> tuple[str, int]:
    """Bands so high that the tiles in flight cover about a square of D: they share the most operands in L2."""
    assert schedule.cta is not None
    height = sqrt(target.sm_count * schedule.cta[1] / schedule.cta[0])
    return "grouped", 2 ** max(0, round(log2(height)))


def _epilogue_tile(schedule: Schedule, problem: Problem) -> tuple[int, int]:
    """The widest part of the tile whose scratch stays within `_SCRATCH_BYTES`; narrow beside operands.

    The accumulators of the rest of the tile stay in registers meanwhile, so that operands have little room.
    """
    assert schedule.cta is not None
    m, n, _ = schedule.cta
    element = problem.d if schedule.epilogue_math == "registers" else problem.acc
    most = _SCRATCH_BYTES * 8 // (m * ELEMENT_BITS[element])
    if problem.kinds:
        most = min(most, 32 if schedule.epilogue_math == "rows" else 64)
    widths = [width for width in range(8, n + 1, 8) if n % width == 0 and width <= most and width & (width - 1) == 0]
    return m, max(widths, default=n)


def _unaligned(operand: Operand, problem: Problem) -> float:
    """How much dearer an operand's bytes are than those of rows that start on L2's lines."""
    _, extent_ = contiguous_extent(operand, problem)
    is_aligned = extent_ is None or extent_ * ELEMENT_BITS[problem.ab] // 8 % _LINE_BYTES == 0
    return 1.0 if is_aligned else _UNALIGNED_WEIGHT


def tile_cost(cta: Extents3, consumers: int, problem: Problem, target: Target) -> float:
    """Estimated cycles of the whole grid on the target."""
    m, n, k = (extent or ASSUMED_EXTENT for extent in (problem.m, problem.n, problem.k))
    tile_m, tile_n, tile_k = cta
    step = tile_m * tile_n * tile_k / _MULTIPLY_ADDS_A_CYCLE
    # A step's elements of A are worth 1 / tile_n of its multiply-adds each, those of B 1 / tile_m.
    from_l2 = _unaligned("a", problem) / tile_n + _unaligned("b", problem) / tile_m
    slowed = 1 + _L2_WEIGHT * from_l2 + _SHARED_WEIGHT * (1 / WGMMA_ROWS + 1 / tile_n)
    filled = ceil(m / tile_m) * ceil(n / tile_n) / target.sm_count
    waves = ceil(filled) - _IDLE_GAIN * (ceil(filled) - filled)
    overhead = _TILE_OVERHEAD + (_PART_OVERHEAD if tile_n % 64 else 0)
    if tile_m > WGMMA_ROWS * consumers:
        overhead += _TALL_OVERHEAD
    return waves * (ceil(k / tile_k) * step * slowed + overhead)


def _explain(
    best: Schedule,
    tiles: list[tuple[Extents3, int]],
    given: Schedule,
    problem: Problem,
    target: Target,
    reasons: dict[str, str],
) -> None:
    assert best.roles is not None and best.cta is not None
    own = best.cta, best.roles[1]
    shown = [own, *(tile for tile in tiles if tile != own)][:_SHOWN]
    costs = ", ".join(f"{'×'.join(map(str, tile[0]))}: {tile_cost(*tile, problem, target):,.0f}" for tile in shown)
    consumers = best.roles[1]
    why = {
        "cta": f"least estimated cycles ({tile_cost(*own, problem, target):,.0f}) of {len(tiles)} tiles: {costs}",
        "warps": "one for each consumer warpgroup",
        "permutation": "the consumers take blocks of 64 rows in turn; columns in order",
        "mma": "wgmma as wide as the tile: the fewest reads of A from shared memory",
        "copy": "TMA: one thread copies, and the boxes come swizzled",
        "stages": f"as many as fit beside the epilogue's scratch, up to {_MOST_STAGES}; "
        f"{ring_bytes(best, problem)} bytes of ring",
        "roles": f"a producer runs ahead of {consumers} consumer warpgroup{'s' if consumers > 1 else ''}",
        "registers": "moved from the producer, which needs few, to the accumulators"
        if best.registers != (0, 0)
        else "one consumer has enough from the start",
        "fragment_buffers": "wgmma reads shared memory: no fragments of A and B",
        "swizzle_a": "the widest that TMA and wgmma share for its rows: no conflict",
        "swizzle_b": "the widest that TMA and wgmma share for its rows: no conflict",
        "swizzle_d": "TMA's own: stmatrix writes without conflict",
        "raster": "bands so high that the tiles in flight cover about a square of D, for L2",
        "scheduler": "the producer fetches the next tile while the consumers finish this one",
        "epilogue": "stores by TMA are under way while the next tile is multiplied"
        if best.epilogue == "tma"
        else "rows of 16-byte stores: a full operand is read in rows, or D's rows may end within 16 bytes",
        "epilogue_math": "a full operand is read in whole rows"
        if best.epilogue_math == "rows"
        else "converting before shared memory halves its traffic",
        "epilogue_tile": "one box of TMA for each warpgroup" if best.epilogue == "tma" else "what the scratch holds",
        "cache_hints": "D is larger than L2: it leaves first, and A and B stay",
        "epilogue_buffers": "a part with a buffer of its own waits for no store of this tile",
    }
    for name, reason in why.items():
        if getattr(best, name) is not None:
            reasons[name] = "given" if getattr(given, name) is not None else reason
