"""Chooses the permutation of a tiled mma for stages that TMA lays out: the one with the fewest bank conflicts.

TMA swizzles units of 16 bytes by the row of 128 bytes that they lie in. If lanes load fewer bytes from consecutive
rows, some of them meet in a bank. From rows that are apart, in the order (4,2):(2,1), they do not.
"""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import product
from math import prod

from tensor_layouts import Layout, Swizzle, compose, size

from lowtide.dialects.tile.fields import Mode, Permutation
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.rules.tma import panel_swizzle
from lowtide.passes.support.agents.atoms import is_transposed, tiled_mma
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.operand_loads import operand_access
from lowtide.passes.support.streams.panels import panel_layout
from lowtide.targets import shared_access_conflicts
from lowtide.targets.atoms import Operand

_OPERANDS: tuple[Operand, ...] = ("a", "b")
# Orders of eight neighbouring rows. Each group of four lanes takes one row (PTX ISA, "Matrix Fragments").
_ROWS = (((4, 2), (2, 1)), ((2, 4), (4, 1)), ((2, 2, 2), (4, 2, 1)))


def of_fewest_conflicts(schedule: Schedule, usual: Permutation, problem: Problem) -> Permutation:
    """The usual permutation, or another order of rows and K, whichever loads fragments with the fewest conflicts."""
    loads = cache(partial(_of_operand, schedule=schedule, problem=problem))  # an order of rows of A meets all of B
    found: list[tuple[tuple[int, int], Permutation]] = []
    for each in _candidates(usual):
        m, n, k = each
        found.append((_together([loads("a", (m, usual[1], k)), loads("b", (usual[0], n, k))]), each))
        if found[-1][0][0] == 1:
            break
    return min(found, key=lambda entry: entry[0])[1]


def conflicts(schedule: Schedule, problem: Problem) -> tuple[int, int]:
    """The most wavefronts of a phase in which fragments of A or of B are loaded, and all wavefronts of a K step."""
    assert schedule.multiply.permutation is not None
    return _together([_of_operand(name, schedule.multiply.permutation, schedule, problem) for name in _OPERANDS])


def _together(counts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return max(ways for ways, _ in counts), sum(wavefronts for _, wavefronts in counts)


def _of_operand(name: Operand, permutation: Permutation, schedule: Schedule, problem: Problem) -> tuple[int, int]:
    """As `conflicts`, of A or of B alone. Those of A do not depend on the order of columns, nor those of B on that of
    rows."""
    schedule = schedule.set({"multiply.permutation": permutation})
    shape, element = problem.stream(name).box(schedule.tile_mnk), problem.stream(name).element
    swizzle = schedule.mainloop.operand(name).swizzle or panel_swizzle(shape[1], element)
    m, n, k = schedule.tile_mnk
    extents = (m if name == "a" else n, k)
    if swizzle is None:  # the rules say why
        return 1, prod(extents)
    try:
        access = operand_access(
            tiled_mma(schedule, problem), name, extents, is_transposed(name, problem.layout), element
        )
        stage = compose(Swizzle(*swizzle), panel_layout(shape, swizzle))
        conflict = shared_access_conflicts(stage, access, element_type(element).bytes)
    except ScheduleError:
        return 32, 32 * prod(extents)
    return conflict.ways, conflict.wavefronts


def _candidates(usual: Permutation) -> Iterator[Permutation]:
    """The usual one first."""
    rows, columns, depth = usual
    depths = tuple(_orders(size(depth)))
    depths = depths if isinstance(depth, int) else (depth, *depths)
    for k, m, n in product(depths, _orders(rows), _orders(columns)):
        yield m, n, k


def _orders(entry: Mode) -> Iterator[Mode]:
    yield entry
    if isinstance(entry, int) and entry % 8 == 0:
        for shape, stride in _ROWS:
            rest = entry // 8
            yield Layout((*shape, rest), (*stride, 8)) if rest > 1 else Layout(shape, stride)
