"""The schedules to measure: those that the cost model considers, and neighbours of its choice.

All come from `passes/schedules/choice`, which completes an empty schedule or one with some fields. So each is legal,
and improvements of the choice apply here too.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from re import sub
from typing import Any

from tensor_layouts import Layout

from lowtide.compiler.numerics import fixed_by
from lowtide.compiler.numerics_words import ANY, REPEATABLE, check_numerics
from lowtide.compiler.problem_ir import seen_by_passes
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile import OperandsKind
from lowtide.dialects.tile.agents import AGENT_PATHS
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.measurement.bench.cublaslt_search import alternate
from lowtide.passes.schedules.choice.choice import choose, ranked
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

MOST = 24
_LOOKED_AT = 2  # times as many are generated per source as are needed: some may sum in another order
_ORDERS = ("grouped(4)", "grouped(8)", "grouped(16)", "hilbert", "row")
_CLUSTERS = ((2, 1), (1, 2))
_DIVIDED = ("grid.k_division", "grid.operands", "mainloop.k")  # fields of the choice that divide K in the same way
_KEPT = (*_DIVIDED, "grid.tile", *AGENT_PATHS)  # fields that its neighbours keep


def candidates(
    spec: GemmSpec,
    target: Target,
    numerics: str = REPEATABLE,
    most: int = MOST,
    passed_over: Sequence[Schedule] = (),
) -> list[Schedule]:
    """At most `most` different, complete schedules, the model's own choice first, without those in `passed_over`.

    Unless `numerics` is "any", schedules known to sum in another order than that choice are left out; only the compiled
    kernel decides with certainty (`compiler/summation.py`). Raises ScheduleError if no schedule is legal, SpecError for
    unknown numerics.
    """
    check_numerics(numerics)
    problem = seen_by_passes(spec, target)
    fixed, expected = fixed_by(spec, target, None, numerics)
    own = choose(problem.expecting(expected), target, fixed or Schedule(), passed_over).schedule
    found, order = [own], order_of(own)
    first, *others = (
        (each for each in _legal(given, problem, target, most) if numerics == ANY or order_of(each) == order)
        for given in _sources(own, problem, target, numerics)
    )
    for schedule in (*islice(first, max(1, most // 2)), *alternate([first, *others])):
        if len(found) >= most:
            break
        if schedule not in (*found, *passed_over):
            found.append(schedule)
    return found


def order_of(schedule: Schedule) -> tuple[Any, ...]:
    """What the fields of a schedule determine of the order of sums: the kind of atom, its K, and where sums begin
    anew."""
    multiply, division = schedule.multiply, schedule.k_division
    assert multiply.atoms is not None and multiply.permutation is not None
    warps, along_k = multiply.atoms[2], multiply.permutation[2]
    step = schedule.mainloop.k if division is not None or warps > 1 or schedule.promotes else 0
    atom = sub(r"m\d+n\d+", "", multiply.atom or "")
    return atom, warps, str(along_k) if isinstance(along_k, Layout) else "", division, step


def _sources(own: Schedule, problem: Problem, target: Target, numerics: str) -> Iterator[Schedule]:
    """Fields to make schedules from, the most promising first."""
    kept = Schedule().set({path: own.get(path) for path in _KEPT})
    if own.k_division is not None and numerics != ANY:
        yield Schedule().set({path: own.get(path) for path in _DIVIDED})
    else:
        yield Schedule()
    for order in _ORDERS:
        yield kept.with_(order=order)
    if own.agents.has_producer and own.k_division is None and target.max_cluster > 1:
        for cluster in _CLUSTERS:
            yield kept.with_(cluster=cluster)
            yield Schedule().with_(cluster=cluster)
    if not problem.d_is_column_major and not problem.is_batched:
        is_swapped = own.grid.operands is OperandsKind.swapped
        yield Schedule().set({"grid.operands": OperandsKind.as_given if is_swapped else OperandsKind.swapped})
    if own.agents.has_producer and numerics == ANY:
        yield Schedule().with_(roles="single")


def _legal(given: Schedule, problem: Problem, target: Target, most: int) -> Iterator[Schedule]:
    """The schedules of a source; none if its fields do not fit together."""
    try:
        for choice in islice(ranked(problem, target, given), _LOOKED_AT * most):
            yield choice.schedule
    except ScheduleError:
        return
