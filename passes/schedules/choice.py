"""How a schedule is chosen: a table of candidates, a cost in cycles, and a reason for each field.

The cost model is deliberately small. A CTA tile costs the larger of its tensor-core time and its shared-memory
traffic; the grid runs in waves of as many CTAs as fit at once. Extents known only at run time are taken as 4096.
"""

from dataclasses import dataclass, field
from math import ceil

from lowtide import targets
from lowtide.dialects.tile.layouts import SwizzleBits
from lowtide.dialects.tile.schedule import Extents3, Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.asked_for import asks_for_no_roles, asks_for_roles
from lowtide.passes.schedules.facts import multiplying_threads, ring_bytes, shared_memory_bytes, threads_of
from lowtide.passes.schedules.role_choice import choose_roles
from lowtide.passes.schedules.role_rules import has_wgmma
from lowtide.passes.schedules.role_tiles import ASSUMED_EXTENT
from lowtide.passes.schedules.rules import broken_field, broken_rule
from lowtide.passes.support.atoms import epilogue_rows, fill_copy, is_transposed, part_of, stored_shape, tiled_mma
from lowtide.passes.support.kernels import is_specialized
from lowtide.passes.support.problem import Problem
from lowtide.targets import SwizzleChoice, Target
from lowtide.targets.atoms import Operand

# CTA tile, warps, stages: large tiles reuse operands more, small ones fill the GPU on small problems.
Candidate = tuple[Extents3, Extents3, int]
_CANDIDATES: tuple[Candidate, ...] = (
    ((128, 256, 64), (2, 4, 1), 3),
    ((128, 256, 32), (2, 4, 1), 4),
    ((256, 128, 32), (4, 2, 1), 4),
    ((128, 128, 64), (2, 2, 1), 3),
    ((128, 128, 32), (2, 2, 1), 4),
    ((128, 64, 64), (2, 2, 1), 3),
    ((64, 128, 64), (2, 2, 1), 3),
    ((64, 64, 64), (2, 2, 1), 4),
    ((64, 64, 32), (2, 2, 1), 4),
)

# Warps for tiles that the common ones do not divide, or whose copies they cannot share.
_UNCOMMON_WARPS: tuple[Extents3, ...] = (
    (2, 4, 1),
    (4, 2, 1),
    (2, 2, 1),
    (4, 1, 1),
    (1, 4, 1),
    (2, 1, 1),
    (1, 2, 1),
    (1, 1, 1),
)

# Elements of the epilogue tile that a thread holds where the epilogue reads whole rows, or calls functions.
_ROWS_VALUES = 32
_FUNCTION_VALUES = 64

# Cycles an SM spends outside the main loop of a CTA: launch, first loads, epilogue.
_CTA_OVERHEAD = 2000


@dataclass(frozen=True)
class Choice:
    """A complete schedule, a sentence for each field that was decided, and the conflict counts of `auto` swizzles."""

    schedule: Schedule
    reasons: dict[str, str]
    swizzles: dict[str, SwizzleChoice] = field(default_factory=dict)


def choose(problem: Problem, target: Target, given: Schedule) -> Choice:
    """Decides every field that `given` leaves open. Raises ScheduleError where no candidate is legal."""
    message = broken_field(given, problem, target)
    if message is not None:
        raise ScheduleError(message)
    reasons: dict[str, str] = {}
    schedule = _choose_tile(problem, target, given, reasons)
    schedule, swizzles = _choose_swizzles(schedule, problem, reasons)
    return Choice(schedule, reasons, swizzles)


def _choose_tile(problem: Problem, target: Target, given: Schedule, reasons: dict[str, str]) -> Schedule:
    """CTA tile, warps and stages by cost; every other field but the swizzles follows from them."""
    if is_specialized(given):
        return choose_roles(problem, target, given, reasons)
    why_no_roles = ""
    if given.roles is None and has_wgmma(target):
        try:
            return choose_roles(problem, target, given, reasons)
        except ScheduleError as error:  # what is given may ask for instructions of every target
            why_no_roles = str(error)
    refused: list[str] = []
    for candidates in (_CANDIDATES, _uncommon(given)):
        best = _cheapest(candidates, problem, target, given, reasons, refused)
        if best is not None:
            reasons["roles"] += f"; a producer and consumers would not do: {why_no_roles}" * bool(why_no_roles)
            return best
    raise ScheduleError(_why_none_fits(refused[0] if refused else "", why_no_roles, given, problem))


def _why_none_fits(without_roles: str, with_roles: str, given: Schedule, problem: Problem) -> str:
    """The rule that stands against what is given: of the kind of schedule that it asks for, or of each kind."""
    for_roles, for_none = asks_for_roles(given), asks_for_no_roles(given, problem)
    if not with_roles or (for_none and not for_roles):
        return f"no schedule fits: {without_roles}"
    if with_roles == without_roles or (for_roles and not for_none):
        return f"no schedule fits: {with_roles}"
    return f"no schedule fits: {with_roles}; nor with roles = single: {without_roles}"


def _uncommon(given: Schedule) -> tuple[Candidate, ...]:
    """More to try, for a tile or a permutation that goes with none of the common candidates."""
    if given.cta is None and given.permutation is None:
        return ()
    tiles = [given.cta] if given.cta is not None else _known_tiles()
    return tuple((cta, warps, stages) for stages in (3, 2) for warps in _UNCOMMON_WARPS for cta in tiles)


def _cheapest(
    candidates: tuple[Candidate, ...],
    problem: Problem,
    target: Target,
    given: Schedule,
    reasons: dict[str, str],
    refused: list[str],
) -> Schedule | None:
    """The cheapest legal one of the candidates; None where none is legal, and the rules that they break."""
    ranked: list[tuple[float, int, Schedule]] = []
    for position, (cta, warps, stages) in enumerate(candidates):
        if given.cta is not None and given.warps is None and cta != given.cta and given.cta in _known_tiles():
            continue
        decided = {"cta": cta, "warps": warps, "stages": stages}
        candidate = given.with_(**{name: value for name, value in decided.items() if getattr(given, name) is None})
        try:
            candidate = _follow(candidate, problem)
        except ScheduleError as error:
            refused.append(str(error))
            continue
        if all(candidate != other for _, _, other in ranked):
            ranked.append((cost(candidate, problem, target), position, candidate))
    # The rules take longer than the cost: they are asked from the cheapest candidate on, until one passes.
    ranked.sort(key=lambda entry: entry[:2])
    for best_cost, _, best in ranked:
        # Swizzles do not change what is legal here; any stands in for them.
        trial = best.with_(**{name: (0, 3, 3) for name in _SWIZZLES if getattr(best, name) is None})
        message = broken_rule(trial, problem, target)
        if message is None:
            _explain_tile(best, best_cost, ranked, problem, given, reasons)
            return best
        refused.append(message)
    return None


def _known_tiles() -> list[tuple[int, int, int]]:
    return [cta for cta, _, _ in _CANDIDATES]


_SWIZZLES = ("swizzle_a", "swizzle_b", "swizzle_d")


def _follow(schedule: Schedule, problem: Problem) -> Schedule:
    """The fields that follow from tile, warps and stages."""
    assert schedule.cta is not None and schedule.warps is not None
    warps_m, warps_n, _ = schedule.warps
    chosen = {
        "mma": "mma.m16n8k16",
        # Two n-atoms a step, so that B's registers pair up into ldmatrix.x4.
        "permutation": (16 * warps_m, 16 * warps_n, 16),
        "copy": "cp.async.16",
        "roles": ("single", 0),
        "fragment_buffers": 2,
        "raster": ("grouped", 8),
        "scheduler": "one_shot",
        "epilogue": "smem",
        # Operands read for each element want whole rows; without them, converting first halves the traffic.
        "epilogue_math": "rows" if "full" in problem.kinds else "registers",
    }
    if schedule.mma == "mma.m16n8k8":
        chosen["permutation"] = (16 * warps_m, 16 * warps_n, 8)
    if schedule.epilogue == "direct":
        chosen["epilogue_math"] = "registers"
    schedule = schedule.with_(**{name: value for name, value in chosen.items() if getattr(schedule, name) is None})
    if schedule.epilogue_tile is None:
        schedule = schedule.with_(epilogue_tile=_epilogue_tile(schedule, problem))
    return schedule


def _epilogue_tile(schedule: Schedule, problem: Problem) -> tuple[int, int]:
    """The tallest part of the CTA tile, full width, that fits into the drained ring.

    Where operands are read in rows, a thread holds them, the accumulators and the result at once: then it is also
    low enough for `_ROWS_VALUES` elements a thread, and for `_FUNCTION_VALUES` where it calls functions.
    """
    assert schedule.cta is not None
    m, n, _ = schedule.cta
    in_registers = schedule.epilogue_math == "registers"
    element = problem.d if in_registers else problem.acc
    most = ring_bytes(schedule, problem) * 8 // element_type(element).bits
    if not in_registers:
        most = min(most, _ROWS_VALUES * threads_of(schedule))
    elif problem.has_math:
        most = min(most, _FUNCTION_VALUES * threads_of(schedule))
    step = schedule.tiled_mma_tile[0]
    rows = m
    while rows > step and (rows * n > most or m % rows):
        rows -= step
    return rows, n


def cost(schedule: Schedule, problem: Problem, target: Target) -> float:
    """Estimated cycles of the whole grid on the target."""
    assert schedule.cta is not None
    m, n, k = (extent or ASSUMED_EXTENT for extent in (problem.m, problem.n, problem.k))
    tile_m, tile_n, tile_k = schedule.cta
    warps = threads_of(schedule) // 32
    steps = ceil(k / tile_k)
    # mma.sync: 1024 multiply-adds a cycle and SM; four sub-cores need a warp each to reach it.
    mma_cycles = tile_m * tile_n * tile_k / 1024 * max(1.0, 4 / warps)
    # Fragments come through shared memory at 128 bytes a cycle: each warp reads its rows of A and of B.
    warp_m, warp_n = tile_m // schedule.warps[0], tile_n // schedule.warps[1]  # type: ignore[index]
    fragment_bytes = warps * (warp_m + warp_n) * tile_k * element_type(problem.ab).bits // 8
    # L2 gives an SM about 32 bytes a cycle.
    fill_bytes = (tile_m + tile_n) * tile_k * element_type(problem.ab).bits // 8
    step_cycles = max(mma_cycles, fragment_bytes / 128, fill_bytes / 32)
    ctas = ceil(m / tile_m) * ceil(n / tile_n)
    at_once = target.sm_count * ctas_per_sm(schedule, problem, target)
    sharing = max(1, min(at_once, ctas) / target.sm_count)  # CTAs on one SM share its units
    return ceil(ctas / at_once) * (steps * step_cycles * sharing + _CTA_OVERHEAD)


def ctas_per_sm(schedule: Schedule, problem: Problem, target: Target) -> int:
    """CTAs that one SM holds at once, by shared memory, threads and an estimate of the registers."""
    assert schedule.cta is not None
    if is_specialized(schedule):
        return 1  # its ring takes most of the shared memory, and its roles share out all registers
    threads = threads_of(schedule)
    accumulators = schedule.cta[0] * schedule.cta[1] * element_type(problem.acc).bits // 32 // threads
    registers = min(target.registers_per_thread, accumulators + 96)
    return max(1, target.ctas_per_sm(threads, shared_memory_bytes(schedule, problem), registers))


def _explain_tile(
    best: Schedule,
    best_cost: float,
    ranked: list[tuple[float, int, Schedule]],
    problem: Problem,
    given: Schedule,
    reasons: dict[str, str],
) -> None:
    others = ", ".join(
        f"{'×'.join(map(str, s.cta or ()))}: {c:,.0f}" for c, _, s in sorted(ranked, key=lambda e: e[:2])
    )
    why = {
        "cta": f"least estimated cycles ({best_cost:,.0f}) of {others}",
        "warps": "four or eight warps, each with a tile near square, to read the fewest fragment bytes",
        "stages": f"deep enough to cover the latency of global memory; {ring_bytes(best, problem)} bytes of ring",
        "permutation": "two n-atoms a step, so that B's registers pair up into ldmatrix.x4",
        "mma": "the largest mma.sync of 16-bit operands",
        "copy": "the widest cp.async; 16 bytes bypass L1",
        "roles": "every warp copies and multiplies; cp.async needs no warp of its own",
        "fragment_buffers": "the next k-slice loads while this one is multiplied",
        "raster": "bands of 8 tile rows keep the operands of CTAs in flight in L2",
        "scheduler": "one CTA a work tile; the hardware balances them",
        "epilogue": "rows of 16-byte stores need shared memory in between",
        "epilogue_math": (
            "a full operand is read in whole rows"
            if best.epilogue_math == "rows"
            else "converting before shared memory halves its traffic"
        ),
        "epilogue_tile": "the tallest part of the tile that fits the drained ring, and the registers beside operands",
    }
    for name, reason in why.items():
        reasons[name] = "given" if getattr(given, name) is not None else reason


def _choose_swizzles(
    schedule: Schedule, problem: Problem, reasons: dict[str, str]
) -> tuple[Schedule, dict[str, SwizzleChoice]]:
    """Resolves `auto` swizzles by counting the conflicts of the accesses that the atoms at hand make."""
    choices: dict[str, SwizzleChoice] = {}
    for name in _SWIZZLES:
        if getattr(schedule, name) is not None:
            reasons.setdefault(name, "given")  # what roles have chosen has its reason already
            continue
        if name == "swizzle_d" and schedule.epilogue == "direct":
            schedule = schedule.with_(swizzle_d=(0, 3, 3))
            reasons[name] = "direct stores have no scratch"
            continue
        choice = (
            scratch_swizzle(schedule, problem)
            if name == "swizzle_d"
            else stage_swizzle("a" if name == "swizzle_a" else "b", schedule, problem)
        )
        choices[name] = choice
        chosen: SwizzleBits = choice.swizzle
        schedule = schedule.with_(**{name: chosen})
        reasons[name] = choice.explain()
    return schedule, choices


def stage_swizzle(operand: Operand, schedule: Schedule, problem: Problem) -> SwizzleChoice:
    """Counts the fill's writes and ldmatrix's reads of one operand's stage."""
    shape = stored_shape(operand, schedule, problem.layout)
    bits = element_type(problem.ab).bits
    assert schedule.copy is not None and schedule.cta is not None
    copy = fill_copy(schedule.copy, shape, threads_of(schedule), bits)
    mma = tiled_mma(schedule, problem)
    rows = schedule.cta[0 if operand == "a" else 1]
    plan = targets.ldmatrix_source(mma, operand, (rows, schedule.cta[2]), is_transposed(operand, problem.layout))
    accesses = [targets.copy_access(copy, schedule.copy), targets.ldmatrix_access(plan, plan.atom_name)]
    return targets.choose_swizzle(shape, accesses, bits // 8)


def scratch_swizzle(schedule: Schedule, problem: Problem) -> SwizzleChoice:
    """Counts the fragments' stores and the rows' loads of the epilogue's scratch."""
    access = epilogue_rows(schedule, problem, multiplying_threads(schedule))
    assert schedule.epilogue_tile is not None
    element_bytes = element_type(access.scratch_element).bits // 8
    tv = part_of(tiled_mma(schedule, problem), schedule.epilogue_tile).tv("c", schedule.epilogue_tile)
    accesses = [
        targets.fragment_access(f"st.shared.{2 * element_bytes}", tv, schedule.epilogue_tile, 2),
        targets.fragment_access(
            f"ld.shared.{access.rows.vector * element_bytes}",
            access.rows.tv,
            schedule.epilogue_tile,
            access.rows.vector,
        ),
    ]
    return targets.choose_swizzle(schedule.epilogue_tile, accesses, element_bytes)
