"""How a schedule is chosen: the cheapest legal tile, the fields that follow from it, and a reason for each.

Each part of the schedule is chosen in its own file; this file sets the order. Tiles, with or without roles, are sorted
by estimated cost, and the first that passes the rules is taken: checking the rules takes longer than the estimate.
`ranked` gives the others too, for callers that measure them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TypeVar

from lowtide.dialects.tile import OperandsKind, StorePath, TailKind
from lowtide.dialects.tile.fields import Roles, cooperative, pingpong
from lowtide.dialects.tile.layouts import NO_SWIZZLE
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, without_codes
from lowtide.passes.schedules.choice import division as division_choice
from lowtide.passes.schedules.choice import epilogue as epilogue_choice
from lowtide.passes.schedules.choice import grid as grid_choice
from lowtide.passes.schedules.choice import mainloop as mainloop_choice
from lowtide.passes.schedules.choice import multiply as multiply_choice
from lowtide.passes.schedules.choice import packing as packing_choice
from lowtide.passes.schedules.choice import short_k as short_k_choice
from lowtide.passes.schedules.choice import single_division as single_division_choice
from lowtide.passes.schedules.choice import swap as swap_choice
from lowtide.passes.schedules.choice.asked_for import asks_for_no_roles, asks_for_roles, asks_for_tma_stores
from lowtide.passes.schedules.choice.grid import Candidate
from lowtide.passes.schedules.choice.sparing import WHY, sparing
from lowtide.passes.schedules.cost.grid import RoleTile, reads_of_larger, role_cost, straddles_sectors
from lowtide.passes.schedules.cost.single_grid import cost
from lowtide.passes.schedules.facts.alignment import multiplied
from lowtide.passes.schedules.rules.mainloop import has_wgmma
from lowtide.passes.schedules.rules.rules import broken_field, broken_rule
from lowtide.passes.support.problem import Problem
from lowtide.targets import SwizzleChoice, Target
from lowtide.targets.atoms import multiplies_by_wgmma

_SWIZZLES = ("mainloop.a.swizzle", "mainloop.b.swizzle", "epilogue.swizzle")
_SHOWN = 6  # tiles in the reason

_Found = tuple[Schedule, str]  # a schedule except for swizzles, and the reason for its tile
_Each = TypeVar("_Each")


@dataclass(frozen=True)
class Choice:
    """A complete schedule, a sentence for each decided field, and the conflict counts of swizzles chosen by them.

    Fields are named by their paths.
    """

    schedule: Schedule
    reasons: dict[str, str]
    swizzles: dict[str, SwizzleChoice] = field(default_factory=dict)


def choose(problem: Problem, target: Target, given: Schedule, passed_over: Sequence[Schedule] = ()) -> Choice:
    """Decides every field that `given` leaves open, so that the schedule is none of those to pass over. Raises
    ScheduleError if no candidate is left, or legal.

    If the operands are swapped, the other fields are those of the swapped problem; if products are sums of products of
    pieces, they are those of the pieces.
    """
    choices = ranked(problem, target, given)
    for choice in _with_sparing(choices, problem, target, given) if passed_over else choices:
        if choice.schedule not in passed_over:
            return choice
    raise ScheduleError(
        f"no schedule is left: {len(passed_over)} are passed over, and no other is legal [no-schedule-left]"
    )


def _with_sparing(choices: Iterator[Choice], problem: Problem, target: Target, given: Schedule) -> Iterator[Choice]:
    """Each choice, and behind it those with the same tile that take fewer registers."""
    for choice in choices:
        yield choice
        for changes in sparing(choice.schedule, given):
            try:
                other = next(ranked(problem, target, choice.schedule.set(changes)))
            except ScheduleError:
                continue
            changed = {path: WHY for path, value in changes.items() if value is not None}
            yield replace(other, reasons=other.reasons | choice.reasons | changed)


def ranked(problem: Problem, target: Target, given: Schedule) -> Iterator[Choice]:
    """Every legal schedule that is weighed, made as it is asked for: the one that is chosen, then the others.

    Whole tiles come by their estimated cycles, and so do divisions of K; the two take turns, since their estimates are
    of two models. Raises ScheduleError where no candidate is legal.
    """
    seen: list[Schedule] = []
    for choice in _weighed(problem.split(), target, given):
        if choice.schedule not in seen:
            seen.append(choice.schedule)
            yield choice


def _weighed(problem: Problem, target: Target, given: Schedule) -> Iterator[Choice]:
    """As `ranked`; a schedule may come twice."""
    if problem.swapped or given.grid.operands is OperandsKind.as_given:
        return _complete(problem, target, given)
    if given.grid.operands is OperandsKind.swapped:
        return _complete(problem.swap(), target, given)
    if problem.d_is_column_major:
        return _swapped(problem, target, given, "D lies column by column: its transpose, Bᵀ · Aᵀ, lies row by row")
    if (why := swap_choice.for_weights(given, problem, target)) is not None:
        return _swapped(problem, target, given, why)
    own = _complete(problem, target, given)
    return _of_few_rows(own, problem, target, given) if swap_choice.may_pay(given, problem) else own


def _of_few_rows(own: Iterator[Choice], problem: Problem, target: Target, given: Schedule) -> Iterator[Choice]:
    """The choices as given and of the swapped product in turn, first the one that is estimated to be faster."""
    choice, others = next(own), _swapped(problem, target, given, "")
    try:
        other = next(others)
    except ScheduleError:  # for which no schedule is legal
        yield choice
        yield from own
        return
    why = swap_choice.reason(choice.schedule, other.schedule, problem, target)
    if why is not None:
        yield replace(other, reasons=other.reasons | {"grid.operands": why})
    yield choice
    if why is None:
        yield other
    yield from _in_turn(own, others)


def _swapped(problem: Problem, target: Target, given: Schedule, why: str) -> Iterator[Choice]:
    """The schedules of Dᵀ = Bᵀ · Aᵀ, which say that the operands are swapped."""
    for choice in _complete(problem.swap(), target, given.set({"grid.operands": OperandsKind.swapped})):
        yield replace(choice, reasons=choice.reasons | {"grid.operands": why})


def _complete(problem: Problem, target: Target, given: Schedule) -> Iterator[Choice]:
    """The schedules of a problem as the kernel computes it."""
    message = broken_field(given, problem, target)
    if message is not None:
        raise ScheduleError(message)
    for schedule, why_tile, why_no_roles in _tiles(problem, target, given):
        settled = multiplied(schedule, problem)
        yield _with_reasons(*_choose_swizzles(schedule, settled), settled, given, why_tile, why_no_roles)


def _with_reasons(
    schedule: Schedule,
    swizzles: dict[str, SwizzleChoice],
    problem: Problem,
    given: Schedule,
    why_tile: str,
    why_no_roles: str,
) -> Choice:
    reasons = _reasons(schedule, problem, why_tile)
    if why_tile == short_k_choice.REASONS["grid.tile"]:
        reasons |= short_k_choice.REASONS
    for path, choice in swizzles.items():
        reasons[path] = choice.explain()
    if schedule.epilogue.path is StorePath.direct:
        reasons["epilogue.swizzle"] = "direct stores have no scratch"
    if why_no_roles:
        reasons["mainloop.roles"] += f"; a producer and consumers would not do: {without_codes(why_no_roles)}"
    reasons |= {path: "given" for path in given.decided()}
    return Choice(schedule, {path: reasons[path] for path in schedule.decided() if path in reasons}, swizzles)


def _tiles(problem: Problem, target: Target, given: Schedule) -> Iterator[tuple[Schedule, str, str]]:
    """Schedules except for swizzles, the reason for each tile, and why it has no roles if they were tried."""
    for_roles = packing_choice.transposing(given, problem, target)
    of_roles, problem = multiplied(for_roles, problem), multiplied(given, problem)
    if given.consumers:
        yield from ((*found, "") for found in _with_roles(of_roles, target, for_roles))
        return
    why_no_roles = ""
    may_have_roles = given.mainloop.roles is None and not given.copied_by_threads
    converts_none_but_a = problem.packed == "a" or not any(problem.converted)
    takes_wgmma = converts_none_but_a and multiplies_by_wgmma(problem.a, problem.b)
    if may_have_roles and has_wgmma(target) and takes_wgmma:
        try:
            yield from ((*found, "") for found in _with_roles(of_roles, target, for_roles))
            return
        except ScheduleError as error:  # the given fields may ask for instructions that every target has
            why_no_roles = str(error)
    for found in _without_roles(problem, target, given, why_no_roles):
        yield *found, why_no_roles


def _without_roles(
    problem: Problem, target: Target, given: Schedule, why_no_roles: str
) -> Iterator[tuple[Schedule, str]]:
    """Legal schedules without roles: of few K steps, then of splits of K and of whole tiles."""
    some = False
    for values in short_k_choice.schedules(given, problem, target):
        schedule = _follow(given.filled(values), problem, target)
        if _broken_rule(schedule, problem, target) is None:
            some = True
            yield schedule, short_k_choice.REASONS["grid.tile"]
    refused: list[str] = []
    for candidates in grid_choice.candidates(given, problem, target):
        whole = _cheapest(candidates, problem, target, given, refused)
        for best in islice(whole, 1):
            some = True
            yield from _beside(best, whole, *_splits(given, best[0], problem, target))
        if some:
            return
    raise ScheduleError(_why_none_fits(refused[0] if refused else "", why_no_roles, given, problem))


def _beside(
    best: _Found, whole: Iterator[_Found], paying: Iterator[_Found], others: Iterator[_Found]
) -> Iterator[_Found]:
    """First a division of K that pays off against the best whole tiles, if there is one, then these, then the rest."""
    yield from islice(paying, 1)
    yield best
    yield from _in_turn(chain(paying, others), whole)


def _in_turn(first: Iterator[_Each], second: Iterator[_Each]) -> Iterator[_Each]:
    """One of each while there are both, then the rest."""
    for each in first:
        yield each
        yield from islice(second, 1)
    yield from second


def _splits(
    given: Schedule, whole: Schedule, problem: Problem, target: Target
) -> tuple[Iterator[_Found], Iterator[_Found]]:
    """Legal schedules without roles that split K, the cheapest first: those that pay off against whole tiles, and the
    others."""
    of_whole = cost(whole, problem, target)
    weighed: list[tuple[float, int, Schedule]] = []
    for position, values in enumerate(single_division_choice.splits(given, problem, target)):
        schedule = _follow(given.set(values), problem, target)
        weighed.append((cost(schedule, problem, target), position, schedule))
    weighed.sort(key=lambda entry: entry[:2])
    most = single_division_choice.most_cycles(of_whole, given, problem, target)
    paying = sum(cycles < most for cycles, _, _ in weighed)

    def legal(some: list[tuple[float, int, Schedule]]) -> Iterator[_Found]:
        for cycles, _, schedule in some:
            if _broken_rule(schedule, problem, target) is None:
                assert schedule.k_division is not None
                yield schedule, single_division_choice.reason(schedule.k_division.parts, cycles, of_whole)

    return legal(weighed[:paying]), legal(weighed[paying:])


def _why_none_fits(without_roles: str, with_roles: str, given: Schedule, problem: Problem) -> str:
    """The rule that the given fields break: for the kind of schedule that they ask for, or for both kinds."""
    for_roles, for_none = asks_for_roles(given), asks_for_no_roles(given, problem)
    if not with_roles or (for_none and not for_roles):
        return f"no schedule fits: {without_roles}"
    if with_roles == without_roles or (for_roles and not for_none):
        return f"no schedule fits: {with_roles}"
    return f"no schedule fits: {without_codes(with_roles)}; nor with roles = single: {without_roles}"


def _cheapest(
    candidates: tuple[Candidate, ...], problem: Problem, target: Target, given: Schedule, refused: list[str]
) -> Iterator[_Found]:
    """The legal candidates without roles, the cheapest first; `refused` collects the rules that the others break."""
    weighed: list[tuple[float, int, Schedule]] = []
    for position, candidate in enumerate(candidates):
        try:
            schedule = _follow(given.filled(candidate.values(has_ring=not given.is_direct)), problem, target)
        except ScheduleError as error:
            refused.append(str(error))
            continue
        if all(schedule != other for _, _, other in weighed):
            weighed.append((cost(schedule, problem, target), position, schedule))
    weighed.sort(key=lambda entry: entry[:2])
    of_all = ", ".join(f"{'×'.join(map(str, s.tile_mnk))}: {cycles:,.0f}" for cycles, _, s in weighed)
    least = "least "
    for cycles, _, schedule in weighed:
        message = _broken_rule(schedule, problem, target)
        if message is None:
            yield schedule, f"{least}estimated cycles ({cycles:,.0f}) of {of_all}"
            least = ""
        else:
            refused.append(message)


def _with_roles(problem: Problem, target: Target, given: Schedule) -> Iterator[_Found]:
    """The legal schedules with roles that agree with what is given. Raises ScheduleError if there are none."""
    whole = _whole_with_roles(problem, target, given)
    best = next(whole)
    yield from _beside(best, whole, *_divided(given, best[0], problem, target))


def _whole_with_roles(problem: Problem, target: Target, given: Schedule) -> Iterator[_Found]:
    """Of whole tiles, the cheapest first.

    Raises ScheduleError with the rule that the cheapest one breaks if none is legal.
    """

    def rank(tile: RoleTile) -> tuple[float, int, int]:
        """At equal cost the tile for which the larger operand is read less often, then the larger one."""
        m, n, _ = tile.shape
        return role_cost(tile, problem, target, tail), reads_of_larger(tile, problem), -m * n

    tail = None if grid_choice.may_split_tail(given, problem) else given.grid.tail or TailKind.whole
    refused: list[str] = []
    least = "least "
    for attempt, kinds in _attempts(given, problem):
        tiles = sorted(grid_choice.role_tiles(attempt, kinds, problem, target), key=rank)
        for tile in tiles:
            values = {"grid.tile": tile.shape[:2], "mainloop.k": tile.shape[2], "mainloop.roles": tile.roles}
            if tile.cluster != (1, 1):
                values["grid.cluster"] = tile.cluster
            schedule = _follow(attempt.set(values), problem, target)
            message = _broken_rule(schedule, problem, target)
            if message is None:
                yield schedule, least + _why_role_tile(tile, tiles, problem, target, tail)
                least = ""
            else:
                refused.append(message)
    if least:
        raise ScheduleError(refused[0])


def _divided(
    given: Schedule, whole: Schedule, problem: Problem, target: Target
) -> tuple[Iterator[_Found], Iterator[_Found]]:
    """Legal schedules that divide K, the cheapest first: those that pay off against whole tiles, and the others."""
    divisions = division_choice.divided(given, problem, target)
    paying = sum(division_choice.pays_off(division, whole, problem, target) for division in divisions)

    def legal(some: list[division_choice.Divided]) -> Iterator[_Found]:
        for division in some:
            schedule = _follow(given.set(division.values()), problem, target)
            if _broken_rule(schedule, problem, target) is None:
                yield schedule, division_choice.reason(division, whole, problem, target)

    return legal(divisions[:paying]), legal(divisions[paying:])


def _why_role_tile(
    own: RoleTile, tiles: list[RoleTile], problem: Problem, target: Target, tail: TailKind | None
) -> str:
    shown = [own, *(tile for tile in tiles if tile != own)][:_SHOWN]
    cycles = [f"{role_cost(tile, problem, target, tail):,.0f}" for tile in shown]
    costs = ", ".join(f"{_named(tile)}: {cost}" for tile, cost in zip(shown, cycles, strict=True))
    return f"estimated cycles ({cycles[0]}) of {len(tiles)} tiles: {costs}"


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
    if problem.weights:
        kinds = ((two, one),)
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
    schedule = schedule.filled(mainloop_choice.scales(schedule, problem))
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
    for name in ("a", "b"):
        if schedule.mainloop.operand(name).padding:  # in the place of a swizzle
            schedule = schedule.filled({f"mainloop.{name}.swizzle": NO_SWIZZLE})
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
        **multiply_choice.reasons(schedule, problem),
        **epilogue_choice.reasons(schedule, problem),
        **packing_choice.reasons(schedule, problem),
    }
