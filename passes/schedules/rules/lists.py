"""Rules of lists of matrices: threads copy them, each thread from the address of its work item's matrix."""

from collections.abc import Iterator
from math import gcd
from types import MappingProxyType

from lowtide.dialects.tile import OperandsKind, PackKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.rules.required import Table, not_taken
from lowtide.passes.support.agents.atoms import CP_ASYNC_COPIES, GLOBAL_LOADS, RING_COPIES
from lowtide.passes.support.problem.matrix_layouts import b_is_nk
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

WHY = "the matrices of B are a list, whose addresses only the device reads"
_WIDEST = 16  # bytes of a copy


def taken_with_lists(problem: Problem) -> Table:
    """The values of fields that the problem's lists support, by path; empty without lists. The first is the default: of
    the copy, the widest one for rows that lie one behind the other."""
    if problem.lists is None:
        return MappingProxyType({})
    columns = (problem.k if b_is_nk(problem.layout) else problem.n) or 0
    width = gcd(columns * element_type(problem.b).bytes, _WIDEST)
    widest = f"cp.async.{width}"
    others = [copy for copy in (*RING_COPIES, *GLOBAL_LOADS) if copy != widest]
    return {
        "grid.operands": (None, OperandsKind.as_given),
        "mainloop.b.copy": (widest, *others) if widest in CP_ASYNC_COPIES else (CP_ASYNC_COPIES[-1], *others),
        "mainloop.b.pack": (None, PackKind.none),
    }


def lists(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """For each given field with a value that is not legal with lists, a message."""
    for field, way_out in not_taken(taken_with_lists(problem), schedule):
        yield f"{field}: {WHY}; {way_out} [lists-field]"
