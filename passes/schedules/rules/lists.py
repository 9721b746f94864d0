"""Rules for lists of matrices. Threads load and store them at the address of the matrix of their work item. Or TMA
loads and stores them, with tensor maps that a launch before the product makes; it stores only matrices of one shape."""

from collections.abc import Iterator
from math import gcd
from types import MappingProxyType
from typing import Any

from lowtide.dialects.tile import OperandsKind, PackKind, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.rules.required import Table, not_taken
from lowtide.passes.support.agents.atoms import CP_ASYNC_COPIES, GLOBAL_LOADS, RING_COPIES
from lowtide.passes.support.problem.matrix_layouts import k_is_last
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

WHY = "only the device knows where the matrices of a list lie"
_WIDEST = 16  # bytes of a copy
_BY_TMA = "tma"  # boxes of one panel, of a tensor map of two dimensions


def taken_with_lists(problem: Problem) -> Table:
    """The values of fields that the problem's lists support, by path; empty without lists. The first value is the
    default. That of a copy is the widest one for rows that lie one behind the other. If this is 16 bytes, it is None:
    the field is chosen as for other matrices, and TMA loads the list of a kernel with roles."""
    if not problem.lists:
        return MappingProxyType({})
    table: dict[str, tuple[Any, ...]] = {"grid.operands": (None, OperandsKind.as_given)}
    for name, by_k, other in zip("ab", k_is_last(problem.layout), (problem.m, problem.n), strict=True):
        if name in problem.lists:
            table |= _of_operand(name, (problem.k if by_k else other) or 0, problem)
    if "d" in problem.lists:
        # D of padded groups is not packed, and a TMA box could also store rows past the count
        by_tma = () if problem.is_padded else (None, StorePath.tma)
        table["epilogue.path"] = (*by_tma, StorePath.smem, StorePath.direct)
    return table


def _of_operand(name: str, columns: int, problem: Problem) -> Table:
    """The fields of A or B, whose rows have this length; 0 if it is known only at run time."""
    width = gcd(columns * element_type(problem.stream(name).element).bytes, _WIDEST)
    narrow = f"cp.async.{width}" if f"cp.async.{width}" in CP_ASYNC_COPIES else CP_ASYNC_COPIES[-1]
    copy = None if width == _WIDEST else narrow
    others = (each for each in (*RING_COPIES, *GLOBAL_LOADS, _BY_TMA) if each != copy)
    return {f"mainloop.{name}.copy": (copy, *others), f"mainloop.{name}.pack": (None, PackKind.none)}


def lists(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """For each given field with a value that is not legal with lists, a message."""
    if problem.k_is_of_matrices and schedule.agents.consumer.turns > 1:
        yield (
            "consumers that take turns need the same number of K steps in each tile, but each matrix of the list has "
            "its own K; take roles = cooperative(2) [lists-turns]"
        )
    for field, way_out in not_taken(taken_with_lists(problem), schedule):
        yield f"{field}: {WHY}; {way_out} [lists-field]"
