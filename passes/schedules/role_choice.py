"""How a schedule with roles is chosen: the cheapest legal CTA tile, and the fields that follow from the tile."""

from collections.abc import Iterator
from math import log2, sqrt

from lowtide.dialects.tile.layouts import SwizzleBits
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.asked_for import asks_for_tma_stores, may_store_by_tma, wgmma_width
from lowtide.passes.schedules.facts import ring_bytes, shared_memory_bytes, swizzle_base
from lowtide.passes.schedules.role_rules import swizzle_bits
from lowtide.passes.schedules.role_tiles import Tile, candidate_tiles, tile_cost
from lowtide.passes.schedules.rules import broken_rule
from lowtide.passes.support.atoms import stored_shape
from lowtide.passes.support.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import WGMMA_ROWS, Operand

_SHOWN = 6  # tiles in the reason
_MOST_STAGES = 8
_FEWEST_STAGES = 3  # below, a wait for L2 shows
_MOST_EPILOGUE_BUFFERS = 4
_SCRATCH_BYTES = 32768  # of an epilogue through shared memory without TMA
# Columns of a part of an epilogue without TMA. ptxas spills wider ones beside the accumulators of the largest tiles.
_COLUMNS_BESIDE_OPERANDS = 64
_COLUMNS_BESIDE_ROWS = 32  # of one full operand
_COLUMNS_OF_FUNCTIONS = 32  # of f32


def choose_roles(problem: Problem, target: Target, given: Schedule, reasons: dict[str, str]) -> Schedule:
    """The cheapest legal schedule with roles that agrees with what is given.

    Raises ScheduleError where there is none: the rule that the cheapest breaks.
    """

    def rank(tile: Tile) -> tuple[float, int]:
        """Among equals the larger tile, which moves fewer bytes."""
        (m, n, _), consumers = tile
        return tile_cost(tile[0], consumers, problem, target), -m * n

    # The rules take longer than the cost: they are asked until a tile passes.
    refused: list[str] = []
    for attempt, consumer_numbers in _attempts(given):
        tiles = sorted(candidate_tiles(attempt, consumer_numbers, problem, target), key=rank)
        for cta, consumers in tiles:
            candidate = _follow_roles(attempt.with_(cta=cta, roles=("cooperative", consumers)), problem, target)
            # Swizzles of the scratch do not change what is legal; any stands in for them.
            trial = candidate if candidate.swizzle_d is not None else candidate.with_(swizzle_d=(0, 3, 3))
            message = broken_rule(trial, problem, target)
            if message is None:
                _explain(candidate, tiles, given, problem, target, reasons)
                return candidate
            refused.append(message)
    raise ScheduleError(refused[0])


def _attempts(given: Schedule) -> Iterator[tuple[Schedule, tuple[int, ...]]]:
    """What is given, with the numbers of consumers to try: first what is usually best, then what else there is.

    What is given may go with three consumers alone, or with an epilogue without TMA.
    """
    numbers: tuple[tuple[int, ...], ...] = ((1, 2), (3,))
    if given.roles is not None:
        numbers = ((given.roles[1],),)
    elif given.cta is not None:
        numbers = ((2, 1, 3),)
    for consumers in numbers:
        yield given, consumers
    if given.epilogue is None and not asks_for_tma_stores(given):
        for consumers in numbers:
            yield given.with_(epilogue="smem"), consumers


def _follow_roles(schedule: Schedule, problem: Problem, target: Target) -> Schedule:
    """The fields that follow for a producer warpgroup and cooperative consumers, from the CTA tile."""
    assert schedule.cta is not None and schedule.roles is not None
    n = schedule.cta[1]
    consumers = schedule.roles[1]
    if schedule.epilogue is None:
        schedule = schedule.with_(epilogue="tma" if may_store_by_tma(schedule, problem) else "smem")
    if schedule.epilogue_math is None:
        rows = schedule.epilogue == "smem" and "full" in problem.kinds
        schedule = schedule.with_(epilogue_math="rows" if rows else "registers")
    chosen: dict[str, object] = {
        "warps": (consumers, 1, 1),
        "permutation": (WGMMA_ROWS * consumers, wgmma_width(schedule) or n, 16),
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
    return problem.m * problem.n * element_type(problem.d).bits // 8 > target.l2_bytes


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
    """The widest part of the tile whose scratch stays within `_SCRATCH_BYTES`; narrow beside operands and functions.

    The accumulators of the rest of the tile stay in registers meanwhile, so that these have little room.
    """
    assert schedule.cta is not None
    m, n, _ = schedule.cta
    element = problem.d if schedule.epilogue_math == "registers" else problem.acc
    most = _SCRATCH_BYTES * 8 // (m * element_type(element).bits)
    if problem.kinds and schedule.epilogue_math == "rows":
        most = min(most, _COLUMNS_BESIDE_ROWS // max(1, problem.kinds.count("full")))
    elif problem.kinds:
        most = min(most, _COLUMNS_BESIDE_OPERANDS)
    if problem.has_math and element_type(problem.d).bits >= element_type(problem.acc).bits:
        most = min(most, _COLUMNS_OF_FUNCTIONS)
    widths = [width for width in range(8, n + 1, 8) if n % width == 0 and width <= most and width & (width - 1) == 0]
    return m, max(widths, default=n)


def _explain(
    best: Schedule,
    tiles: list[Tile],
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
