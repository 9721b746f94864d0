"""How a schedule is chosen: the cheapest legal candidate, the fields that follow from it, and a reason for each.

`candidates.py` lists the candidates, `cost/` estimates their time, `rules/` says whether they are legal, and
`search.py` applies the three in order. `parts.py` derives the other fields from a candidate, and `reasons.py` gives the
reasons. `ranked` also gives the schedules that are not chosen, for callers that measure them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from typing import NamedTuple

from lowtide.dialects.tile import OperandsKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, without_codes
from lowtide.passes.schedules.choice import arrivals, groups, lists, pairs, placed_rows, sender, swap, taken_rows
from lowtide.passes.schedules.choice.parts import with_swizzles
from lowtide.passes.schedules.choice.reasons import SEE_TILE, reasons
from lowtide.passes.schedules.choice.search import legal
from lowtide.passes.schedules.choice.sparing import WHY, holds_too_many_sums, sparing
from lowtide.passes.schedules.cost.cost import cost
from lowtide.passes.schedules.facts.alignment import multiplied
from lowtide.passes.schedules.rules.arrivals import WHY as WHY_OF_ARRIVALS
from lowtide.passes.schedules.rules.groups import WHY as WHY_OF_GROUPS
from lowtide.passes.schedules.rules.lists import WHY as WHY_OF_LISTS
from lowtide.passes.schedules.rules.pairs import WHY as WHY_OF_PAIRS
from lowtide.passes.schedules.rules.placed_rows import WHY as WHY_OF_PLACED_ROWS
from lowtide.passes.schedules.rules.rules import broken_field
from lowtide.passes.schedules.rules.taken_rows import WHY as WHY_OF_TAKEN_ROWS
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import SwizzleChoice, Target

_CLUSTER, _PREFETCH = "grid.cluster", "epilogue.prefetch"
_BEFORE = 3  # choices
# The factor by which a kernel takes longer if it loads operands of its epilogue less far ahead: 1.06 and 1.14 in two
# kernels of dSwiGLU (8192×14336×4096, H200).
_LATER_LOADS = 1.1


@dataclass(frozen=True)
class Choice:
    """A complete schedule, a sentence for each decided field, and the choices of swizzles with their conflict counts.

    Fields are named by their paths.
    """

    schedule: Schedule
    reasons: dict[str, str]
    swizzles: dict[str, SwizzleChoice] = field(default_factory=dict)


def choose(problem: Problem, target: Target, given: Schedule, passed_over: Sequence[Schedule] = ()) -> Choice:
    """Decides every field that `given` leaves open. The schedule is none of `passed_over`, nor one that
    `holds_too_many_sums` excludes. Raises ScheduleError if no legal schedule is left.

    If the operands are swapped, the other fields describe the swapped problem.
    """
    choices = ranked(problem, target, given)
    for choice in _with_sparing(choices, problem, target, given) if passed_over else choices:
        if choice.schedule not in passed_over and not holds_too_many_sums(choice.schedule, passed_over):
            return choice
    raise ScheduleError(
        f"no schedule is left: {len(passed_over)} are passed over, and no other legal one holds few enough sums per "
        "thread [no-schedule-left]"
    )


def _with_sparing(choices: Iterator[Choice], problem: Problem, target: Target, given: Schedule) -> Iterator[Choice]:
    """Each choice, followed by choices with the same tile that need fewer registers. Some may take much longer: those
    without the cluster, and those that load fewer operands of the epilogue ahead. They follow the next choices with
    lower estimates, but at most `_BEFORE` of them."""
    waiting: list[tuple[float, int, Choice]] = []  # with the estimated cycles, and the number of the last choice before
    for number, choice in enumerate(choices):
        cycles = estimated_cycles(choice, problem, target)
        due = [each for each in waiting if each[0] <= cycles or each[1] < number]
        waiting = [each for each in waiting if each not in due]
        yield from (other for _, _, other in due)
        yield choice
        for changes in sparing(choice.schedule, given):
            try:
                other = next(ranked(problem, target, choice.schedule.set(changes)))
            except ScheduleError:
                continue
            changed = {path: WHY for path, value in changes.items() if value is not None}
            other = replace(other, reasons=other.reasons | choice.reasons | changed)
            loads_later = changes.get(_PREFETCH) is not None
            if _CLUSTER in changes or loads_later:
                slower = _LATER_LOADS if loads_later else 1.0
                waiting.append((estimated_cycles(other, problem, target) * slower, number + _BEFORE, other))
            else:
                yield other
    yield from (other for _, _, other in waiting)


def estimated_cycles(choice: Choice, problem: Problem, target: Target) -> float:
    """The estimated cycles of a choice for a problem as it was asked for."""
    is_swapped = choice.schedule.grid.operands is OperandsKind.swapped and not problem.swapped
    return cost(choice.schedule, problem.swap() if is_swapped else problem, target)


def ranked(problem: Problem, target: Target, given: Schedule) -> Iterator[Choice]:
    """Every legal schedule that is weighed: the one that `choose` takes, then the others. Each is made when asked for.

    Whole tiles and divisions of K are each ordered by their estimated cycles. The two take turns, since their estimates
    come from two models. Raises ScheduleError if no candidate is legal.
    """
    seen: list[Schedule] = []
    for choice in _weighed(problem, target, given):
        if choice.schedule not in seen:
            seen.append(choice.schedule)
            yield choice


class Way(NamedTuple):
    """A product to choose for, as the kernel computes it. `why`: the reason for swapped operands; None if the given
    fields decide or operands are not swapped."""

    problem: Problem
    given: Schedule
    why: str | None = None


def ways(problem: Problem, target: Target, given: Schedule) -> tuple[Way, ...]:
    """The product as given, the swapped one, or both. Of both, the one estimated to be faster is then chosen."""
    if problem.is_grouped or problem.k_is_grouped:
        return (Way(groups.expected(problem), given),)
    if (
        problem.swapped
        or problem.pairs is not None
        or problem.copied_by_threads
        or problem.places_rows
        or problem.has_arrivals
        or given.grid.operands is OperandsKind.as_given
    ):
        return (Way(problem, given),)
    if given.grid.operands is OperandsKind.swapped:
        return (Way(problem.swap(), given),)
    if problem.d_is_column_major:
        return (_swapped(problem, given, "D lies column by column: its transpose, Bᵀ · Aᵀ, lies row by row"),)
    if (why := swap.for_weights(given, problem, target)) is not None:
        return (_swapped(problem, given, why),)
    own = Way(problem, given)
    if not swap.may_pay(given, problem):
        return (own,)
    return own, _swapped(problem, given, "")


def _swapped(problem: Problem, given: Schedule, why: str) -> Way:
    """The product Dᵀ = Bᵀ · Aᵀ, with fields that say that the operands are swapped."""
    return Way(problem.swap(), given.set({"grid.operands": OperandsKind.swapped}), why)


def _weighed(problem: Problem, target: Target, given: Schedule) -> Iterator[Choice]:
    """As `ranked`; a schedule may come twice."""
    own, *others = (_complete(way, target) for way in ways(problem, target, given))
    return _of_both(own, others[0], problem, target) if others else own


def _of_both(own: Iterator[Choice], others: Iterator[Choice], problem: Problem, target: Target) -> Iterator[Choice]:
    """The choices for the product as given and for the swapped one: first the best of each, the one that
    `swap.reason` prefers before the other, then the rest by their estimates."""
    choice = next(own)
    try:
        other = next(others)
    except ScheduleError:  # no schedule is legal for the swapped product
        yield choice
        yield from own
        return
    why = swap.reason(choice.schedule, other.schedule, problem, target)
    if why is not None:
        yield replace(other, reasons=other.reasons | {"grid.operands": why})
    yield choice
    if why is None:
        yield other
    yield from merge(own, others, key=lambda each: estimated_cycles(each, problem, target))


def _complete(way: Way, target: Target) -> Iterator[Choice]:
    """The schedules of a product as the kernel computes it."""
    problem, asked, why_swapped = way
    message = broken_field(asked, problem, target)
    if message is not None:
        raise ScheduleError(message)
    tables = (
        (groups, WHY_OF_GROUPS),
        (pairs, WHY_OF_PAIRS),
        (taken_rows, WHY_OF_TAKEN_ROWS),
        (placed_rows, WHY_OF_PLACED_ROWS),
        (lists, WHY_OF_LISTS),
        (arrivals, WHY_OF_ARRIVALS),
        (sender, sender.WHY),
    )
    required = {path: (value, why) for part, why in tables for path, value in part.fields(asked, problem).items()}
    given = asked.set({path: value for path, (value, _) in required.items()}) if required else asked
    for found in legal(problem, target, given):
        own = multiplied(found.schedule, problem)
        schedule, swizzles = with_swizzles(found.schedule, own)
        why = reasons(schedule, own, target, found.why)
        why |= {path: choice.explain() for path, choice in swizzles.items()}
        if found.why_no_producer:
            why_not = without_codes(found.why_no_producer)
            why["mainloop.agents.single.instances"] += f"; a producer and consumers are not legal here: {why_not}"
        why |= {path: why_required for path, (_, why_required) in required.items()}
        if "grid.tile" in asked.decided() and why["mainloop.k"] == SEE_TILE:
            why["mainloop.k"] = found.why
        why |= dict.fromkeys(asked.decided(), "given")
        why |= {} if why_swapped is None else {"grid.operands": why_swapped}
        yield Choice(schedule, {path: why[path] for path in schedule.decided() if path in why}, swizzles)
