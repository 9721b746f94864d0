"""How a schedule is chosen: the cheapest legal tile, the fields that follow from it, and a reason for each.

Each part of the schedule is chosen in its own file; this file sets the order. Tiles, with or without roles, are sorted
by estimated cost, and the first that passes the rules is taken: checking the rules takes longer than the estimate.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lowtide.dialects.tile import OperandsKind, StorePath, TailKind
from lowtide.dialects.tile.fields import Roles, cooperative, pingpong
from lowtide.dialects.tile.layouts import NO_SWIZZLE
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules import (
    division_choice,
    epilogue_choice,
    grid_choice,
    mainloop_choice,
    multiply_choice,
    packing_choice,
    short_k_choice,
    swap_choice,
)
from lowtide.passes.schedules.alignment import multiplied
from lowtide.passes.schedules.asked_for import asks_for_no_roles, asks_for_roles, asks_for_tma_stores
from lowtide.passes.schedules.grid_choice import Candidate
from lowtide.passes.schedules.grid_cost import RoleTile, cost, role_cost, straddles_sectors
from lowtide.passes.schedules.mainloop_rules import has_wgmma
from lowtide.passes.schedules.rules import broken_field, broken_rule
from lowtide.passes.support.problem import Problem
from lowtide.targets import SwizzleChoice, Target
from lowtide.targets.atoms import multiplies_by_wgmma

_SWIZZLES = ("mainloop.a.swizzle", "mainloop.b.swizzle", "epilogue.swizzle")
_SHOWN = 6  # tiles in the reason


@dataclass(frozen=True)
class Choice:
    """A complete schedule, a sentence for each decided field, and the conflict counts of swizzles chosen by them.

    Fields are named by their paths.
    """

    schedule: Schedule
    reasons: dict[str, str]
    swizzles: dict[str, SwizzleChoice] = field(default_factory=dict)


def choose(problem: Problem, target: Target, given: Schedule) -> Choice:
    """Decides every field that `given` leaves open. Raises ScheduleError where no candidate is legal.

    Where the operands are swapped, the other fields are those of the swapped problem.
    """
    if problem.swapped or given.grid.operands is OperandsKind.as_given:
        return _choose(problem, target, given)
    if given.grid.operands is OperandsKind.swapped:
        return _choose(problem.swap(), target, given)
    if problem.d_is_column_major:
        return _swapped(problem, target, given, "D lies column by column: its transpose, Bᵀ · Aᵀ, lies row by row")
    choice = _choose(problem, target, given)
    if not swap_choice.may_pay(given, problem):
        return choice
    try:
        other = _swapped(problem, target, given, "")
    except ScheduleError:  # for which no schedule is legal
        return choice
    why = swap_choice.reason(choice.schedule, other.schedule, problem, target)
    return choice if why is None else replace(other, reasons=other.reasons | {"grid.operands": why})


def _swapped(problem: Problem, target: Target, given: Schedule, why: str) -> Choice:
    """The schedule of Dᵀ = Bᵀ · Aᵀ, which says that the operands are swapped."""
    choice = _choose(problem.swap(), target, given.set({"grid.operands": OperandsKind.swapped}))
    return replace(choice, reasons=choice.reasons | {"grid.operands": why})


def _choose(problem: Problem, target: Target, given: Schedule) -> Choice:
    """The schedule of a problem as the kernel computes it."""
    message = broken_field(given, problem, target)
    if message is not None:
        raise ScheduleError(message)
    schedule, why_tile, why_no_roles = _choose_tile(problem, target, given)
    problem = multiplied(schedule, problem)
    schedule, swizzles = _choose_swizzles(schedule, problem)
    reasons = _reasons(schedule, problem, why_tile)
    if why_tile == short_k_choice.REASONS["grid.tile"]:
        reasons |= short_k_choice.REASONS
    for path, choice in swizzles.items():
        reasons[path] = choice.explain()
    if schedule.epilogue.path is StorePath.direct:
        reasons["epilogue.swizzle"] = "direct stores have no scratch"
    if why_no_roles:
        reasons["mainloop.roles"] += f"; a producer and consumers would not do: {why_no_roles}"
    reasons |= {path: "given" for path in given.decided()}
    return Choice(schedule, {path: reasons[path] for path in schedule.decided() if path in reasons}, swizzles)


def _choose_tile(problem: Problem, target: Target, given: Schedule) -> tuple[Schedule, str, str]:
    """The schedule except for swizzles, the reason for its tile, and why it has no roles if they were tried."""
    for_roles = packing_choice.transposing(given, problem, target)
    of_roles, problem = multiplied(for_roles, problem), multiplied(given, problem)
    if given.consumers:
        return *_with_roles(of_roles, target, for_roles), ""
    why_no_roles = ""
    may_have_roles = given.mainloop.roles is None and not given.copied_by_threads
    takes_wgmma = problem.weights is None and multiplies_by_wgmma(problem.a, problem.b)
    if may_have_roles and has_wgmma(target) and takes_wgmma:
        try:
            return *_with_roles(of_roles, target, for_roles), ""
        except ScheduleError as error:  # the given fields may ask for instructions that every target has
            why_no_roles = str(error)
    for values in short_k_choice.schedules(given, problem, target):
        schedule = _follow(given.filled(values), problem, target)
        if _broken_rule(schedule, problem, target) is None:
            return schedule, short_k_choice.REASONS["grid.tile"], why_no_roles
    refused: list[str] = []
    for candidates in grid_choice.candidates(given, problem, target):
        best = _cheapest(candidates, problem, target, given, refused)
        if best is not None:
            return *(_split(given, best[0], problem, target) or best), why_no_roles
    raise ScheduleError(_why_none_fits(refused[0] if refused else "", why_no_roles, given, problem))


def _split(given: Schedule, whole: Schedule, problem: Problem, target: Target) -> tuple[Schedule, str] | None:
    """The cheapest legal schedule without roles that splits K, if that pays off against whole tiles."""
    of_whole = cost(whole, problem, target)
    ranked: list[tuple[float, int, Schedule]] = []
    for position, values in enumerate(division_choice.splits(given, problem, target)):
        schedule = _follow(given.set(values), problem, target)
        ranked.append((cost(schedule, problem, target), position, schedule))
    for cycles, _, schedule in sorted(ranked, key=lambda entry: entry[:2]):
        if not division_choice.worth_splitting(cycles, of_whole):
            return None
        if _broken_rule(schedule, problem, target) is None:
            assert schedule.k_division is not None
            return schedule, division_choice.split_reason(schedule.k_division.parts, cycles, of_whole)
    return None


def _why_none_fits(without_roles: str, with_roles: str, given: Schedule, problem: Problem) -> str:
    """The rule that the given fields break: for the kind of schedule that they ask for, or for both kinds."""
    for_roles, for_none = asks_for_roles(given), asks_for_no_roles(given, problem)
    if not with_roles or (for_none and not for_roles):
        return f"no schedule fits: {without_roles}"
    if with_roles == without_roles or (for_roles and not for_none):
        return f"no schedule fits: {with_roles}"
    return f"no schedule fits: {with_roles}; nor with roles = single: {without_roles}"


def _cheapest(
    candidates: tuple[Candidate, ...], problem: Problem, target: Target, given: Schedule, refused: list[str]
) -> tuple[Schedule, str] | None:
    """The cheapest legal candidate without roles, or None; `refused` collects the rules that the others break."""
    ranked: list[tuple[float, int, Schedule]] = []
    for position, candidate in enumerate(candidates):
        try:
            schedule = _follow(given.filled(candidate.values(has_ring=not given.is_direct)), problem, target)
        except ScheduleError as error:
            refused.append(str(error))
            continue
        if all(schedule != other for _, _, other in ranked):
            ranked.append((cost(schedule, problem, target), position, schedule))
    ranked.sort(key=lambda entry: entry[:2])
    for cycles, _, best in ranked:
        message = _broken_rule(best, problem, target)
        if message is None:
            others = ", ".join(f"{'×'.join(map(str, s.tile_mnk))}: {c:,.0f}" for c, _, s in ranked)
            return best, f"least estimated cycles ({cycles:,.0f}) of {others}"
        refused.append(message)
    return None


def _with_roles(problem: Problem, target: Target, given: Schedule) -> tuple[Schedule, str]:
    """The cheapest legal schedule with roles that agrees with what is given.

    Raises ScheduleError with the rule that the cheapest one breaks if none is legal.
    """

    def rank(tile: RoleTile) -> tuple[float, int]:
        """At equal cost the larger tile, which moves fewer bytes."""
        m, n, _ = tile.shape
        return role_cost(tile, problem, target, tail), -m * n

    tail = None if grid_choice.may_split_tail(given) else given.grid.tail or TailKind.whole
    refused: list[str] = []
    for attempt, kinds in _attempts(given, problem):
        tiles = sorted(grid_choice.role_tiles(attempt, kinds, problem, target), key=rank)
        for tile in tiles:
            values = {"grid.tile": tile.shape[:2], "mainloop.k": tile.shape[2], "mainloop.roles": tile.roles}
            if tile.cluster != (1, 1):
                values["grid.cluster"] = tile.cluster
            schedule = _follow(attempt.set(values), problem, target)
            message = _broken_rule(schedule, problem, target)
            if message is None:
                shared = _divided(given, schedule, problem, target)
                return shared or (schedule, _why_role_tile(tile, tiles, problem, target, tail))
            refused.append(message)
    raise ScheduleError(refused[0])


def _divided(given: Schedule, whole: Schedule, problem: Problem, target: Target) -> tuple[Schedule, str] | None:
    """The cheapest legal schedule that divides K, if that pays off against whole tiles."""
    for division in division_choice.divided(given, whole, problem, target):
        schedule = _follow(given.set(division.values()), problem, target)
        if _broken_rule(schedule, problem, target) is None:
            return schedule, division_choice.reason(division, whole, problem, target)
    return None


def _why_role_tile(
    own: RoleTile, tiles: list[RoleTile], problem: Problem, target: Target, tail: TailKind | None
) -> str:
    shown = [own, *(tile for tile in tiles if tile != own)][:_SHOWN]
    cycles = [f"{role_cost(tile, problem, target, tail):,.0f}" for tile in shown]
    costs = ", ".join(f"{_named(tile)}: {cost}" for tile, cost in zip(shown, cycles, strict=True))
    return f"least estimated cycles ({cycles[0]}) of {len(tiles)} tiles: {costs}"


def _named(tile: RoleTile) -> str:
    in_cluster = "" if tile.cluster == (1, 1) else f" in clusters of {list(tile.cluster)}"
    return "×".join(map(str, tile.shape)) + in_cluster


def _attempts(given: Schedule, problem: Problem) -> Iterator[tuple[Schedule, tuple[Roles, ...]]]:
    """The given fields with the roles to try, the usually best ones first.

    Some given fields are legal only with three consumers, or only with an epilogue without TMA. Where requests to L2
    limit the loads, tiles of three compete with the others.
    """
    one, two, three = cooperative(1), cooperative(2), cooperative(3)
    in_turn = (pingpong(2),) if _may_take_turns(given) else ()
    kinds: tuple[tuple[Roles, ...], ...] = ((one, two, *in_turn), (three,))
    if straddles_sectors(problem):
        kinds = ((*kinds[0], three),)
    if given.mainloop.roles is not None:
        kinds = ((given.mainloop.roles,),)
    elif given.grid.tile is not None:
        kinds = ((two, one, three),)
    for roles in kinds:
        yield given, roles
    if given.epilogue.path is None and not asks_for_tma_stores(given):
        for roles in kinds:
            yield given.set({"epilogue.path": StorePath.smem}), roles


def _may_take_turns(given: Schedule) -> bool:
    """Whether consumers that take whole tiles in turn are tried: not beside fields that may mean shared tiles."""
    multiply, tile, registers = given.multiply, given.epilogue.tile, given.mainloop.registers
    fields = (multiply.atom, multiply.atoms, multiply.permutation, tile, registers)
    return fields == (None,) * len(fields) and given.grid.tail is not TailKind.halves


def _follow(schedule: Schedule, problem: Problem, target: Target) -> Schedule:
    """The fields that follow from tile, warps or consumers, except swizzles, which are chosen by their conflicts.

    With roles, stages come last: the most that fit beside the epilogue's scratch. Without, the candidate sets them.
    """
    schedule = schedule.filled(multiply_choice.follow(schedule, problem, target))
    schedule = epilogue_choice.path_and_math(schedule, problem)
    schedule = schedule.filled(mainloop_choice.follow(schedule, problem))
    schedule = schedule.filled(grid_choice.follow(schedule, problem, target))
    schedule = epilogue_choice.parts(schedule, problem, target)
    schedule = packing_choice.follow(schedule, problem)
    if schedule.mainloop.stages is not None or schedule.is_direct:
        return schedule
    return schedule.set({"mainloop.stages": max(2, mainloop_choice.fitting_stages(schedule, problem, target))})


def _broken_rule(schedule: Schedule, problem: Problem, target: Target) -> str | None:
    """As `broken_rule`. Undecided swizzles get a placeholder, since they do not change what is legal."""
    return broken_rule(schedule.filled(dict.fromkeys(_SWIZZLES, NO_SWIZZLE)), problem, target)


def _choose_swizzles(schedule: Schedule, problem: Problem) -> tuple[Schedule, dict[str, SwizzleChoice]]:
    """Resolves open swizzles by counting the conflicts of the accesses that the atoms at hand make."""
    if schedule.epilogue.path is StorePath.direct:
        schedule = schedule.filled({"epilogue.swizzle": NO_SWIZZLE})
    choices: dict[str, SwizzleChoice] = {}
    if schedule.mainloop.a.swizzle is None and not schedule.is_direct:
        choices["mainloop.a.swizzle"] = mainloop_choice.stage_swizzle("a", schedule, problem)
    if schedule.mainloop.b.swizzle is None and not schedule.is_direct:
        choices["mainloop.b.swizzle"] = mainloop_choice.stage_swizzle("b", schedule, problem)
    if schedule.epilogue.swizzle is None:
        choices["epilogue.swizzle"] = epilogue_choice.scratch_swizzle(schedule, problem)
    return schedule.set({path: choice.swizzle for path, choice in choices.items()}), choices


def _reasons(schedule: Schedule, problem: Problem, why_tile: str) -> dict[str, str]:
    """A sentence for each field."""
    return {
        "grid.tile": why_tile,
        "grid.k_division": why_tile,
        "mainloop.k": why_tile,
        **grid_choice.reasons(schedule),
        **mainloop_choice.reasons(schedule, problem),
        **multiply_choice.reasons(schedule),
        **epilogue_choice.reasons(schedule, problem),
        **packing_choice.reasons(schedule, problem),
    }
