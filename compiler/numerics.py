"""Keeps promises on the order of sums: schedule fields to fix, and checks of compiled kernels."""

from collections.abc import Callable, Mapping

from lowtide.compiler.chosen import chosen
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import Lowered
from lowtide.compiler.numerics_words import ANY, BATCH_INVARIANT, INVARIANT_ROWS, REPEATABLE
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.summation import Summation, summation_of
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import KDivisionKind
from lowtide.dialects.tile.division import KDivision
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.targets import Target

_WHOLE = {"grid.k_division": KDivision(KDivisionKind.none)}


def fixed_by(
    spec: GemmSpec, target: Target, given: Schedule | None, numerics: str
) -> tuple[Schedule | None, Mapping[str, int]]:
    """The fields to fix before the rest is chosen, and the extents, by name, to choose for in place of the problem's.
    Raises ScheduleError."""
    if numerics == REPEATABLE and (given is None or given.grid.k_division is None):
        by_ctas = _follows_ctas(chosen(spec, target, given))
        return (given or Schedule()).filled(_WHOLE) if by_ctas else given, {}
    if numerics != BATCH_INVARIANT:
        return given, {}
    whole = (given or Schedule()).filled(_WHOLE)
    return whole, {"m": INVARIANT_ROWS} if given is None and spec.m is not None else {}


def chosen_with(spec: GemmSpec, target: Target, numerics: str) -> Schedule:
    """The first choice of `compile_gemm` with these numerics, "any" or "repeatable", without compiling it. Its code may
    spill. Raises ScheduleError."""
    if numerics == REPEATABLE and not _follows_ctas(own := chosen(spec, target)):
        return own  # `fixed_by` would fix nothing, so the choice would be the same
    return chosen(spec, target, fixed_by(spec, target, None, numerics)[0])


def _follows_ctas(schedule: Schedule) -> bool:
    return schedule.k_division is not None and schedule.k_division.follows_ctas


def promise(numerics: str, order: str | None = None) -> Callable[[Lowered], None]:
    """A check for the kernels of successive attempts. It raises ScheduleError if a kernel breaks the promise.

    `order`: the order of sums to keep. Without it, batch_invariant requires the order of the first kernel, whose choice
    does not depend on M.
    """
    wanted = order

    def check(lowered: Lowered) -> None:
        nonlocal wanted
        if numerics == ANY:
            return
        summation = summation_in(lowered)
        confirm(summation, numerics)
        if wanted is not None:
            confirm_equal(str(summation), wanted)
        elif numerics == BATCH_INVARIANT:
            wanted = str(summation)

    return check


def summation_in(lowered: Lowered) -> Summation | None:
    """The order of sums of a compiled kernel; None if the input was below level `epilogue`."""
    texts = [lowered.levels[str(level)] for level in (Level.EPILOGUE, Level.ATOMS) if str(level) in lowered.levels]
    if not texts:
        return None
    with make_context() as context:
        return summation_of(parse_text(texts[0], context, "<sums>"))


def confirm_equal(summation: str | None, chosen_one: str) -> None:
    """Raises ScheduleError if the order of sums differs from that of the chosen schedule."""
    if summation != chosen_one:
        raise ScheduleError(
            f"it sums in the order {summation}, the chosen schedule in {chosen_one}: D would have other bits"
            " [other-order]"
        )


def confirm(summation: Summation | None, numerics: str) -> None:
    """Raises ScheduleError if a kernel breaks the promise."""
    if numerics == ANY or summation is None:
        return
    if summation.cut_by_ctas:
        raise ScheduleError(
            f"numerics={numerics!r}: {summation}, so that the order of sums depends on the number of SMs; take"
            " k_division = split(n), scatter(n) or none [order-by-sms]"
        )
    if numerics == BATCH_INVARIANT and summation.over_rows is not None:
        raise ScheduleError(
            f"numerics={numerics!r}: the result {summation.over_rows} is reduced over the rows of D, so that its bits "
            "depend on the number of rows; reduce each row (dim=1), or take numerics='repeatable' [reduction-over-rows]"
        )
    if numerics == BATCH_INVARIANT and (summation.is_divided or len(summation.sums) > 1):
        raise ScheduleError(
            f"numerics={numerics!r}: {summation}; every element of D must be one sum in one order: take"
            " k_division = none [more-than-one-sum]"
        )
