"""The alignment that a kernel requires of its operands' bases and row strides. The way the schedule moves them decides.

One function serves all: the manifest, whose checks refuse other operands; the inputs of `check`, `fuzz` and the tests;
and `explain`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import gcd
from types import MappingProxyType
from typing import TypeAlias

from mlir import ir

from lowtide import targets
from lowtide.dialects.tile import PackKind, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.facts.resources import multiplying_threads
from lowtide.passes.schedules.facts.staged_operands import staged_operands
from lowtide.passes.support.agents.atoms import (
    GLOBAL_LOADS,
    TMA_RANKS,
    epilogue_rows,
    fragment_run,
    part_of,
    stored_at_once,
    tiled_mma,
)
from lowtide.passes.support.problem.matrix_layouts import turned_layout
from lowtide.passes.support.problem.problem import Problem, problem_in

# Base and strides of a tensor map (CUDA driver API, cuTensorMapEncodeTiled); the widest access of a thread.
WIDEST = 16
MATRICES = ("a", "b", "d")
FULL = "full"  # each full operand of the epilogue
Alignment: TypeAlias = Callable[[str, Schedule, Problem], int]
PACK_FIELDS: Mapping[str, str] = MappingProxyType(
    {"a": "mainloop.a.pack", "b": "mainloop.b.pack", "d": "epilogue.pack"}
)
"""The field that says whether a matrix is packed."""
WIDEST_OF_ALL: Mapping[str, int] = MappingProxyType(dict.fromkeys(MATRICES, WIDEST))


def alignment_of(name: str, schedule: Schedule, problem: Problem) -> int:
    """The alignment in bytes of the base and the row stride of a matrix, `a`, `b` or `d`: one element if it is packed
    or split into pieces. If the schedule does not yet say how it is moved, the alignment of the widest access."""
    if name != "d" and problem.decomposition is not None:
        return element_type(problem.decomposition.whole).bytes
    if is_packed(name, schedule):
        return element_type(problem.d if name == "d" else problem.stream(name).element).bytes
    return moved_alignment(name, schedule, problem)


def is_packed(name: str, schedule: Schedule) -> bool:
    """Whether a matrix, `a`, `b` or `d`, may lie anywhere because the schedule packs it."""
    return schedule.get(PACK_FIELDS[name]) in (PackKind.rows, PackKind.transposed)


def is_packed_transposed(name: str, schedule: Schedule) -> bool:
    """Whether the schedule transposes a matrix on its way to a workspace."""
    return schedule.get(PACK_FIELDS[name]) is PackKind.transposed


def multiplied(schedule: Schedule, problem: Problem) -> Problem:
    """The product that the kernel computes: with the transposes of operands that the schedule packs `transposed`,
    unless the problem has them already."""
    if problem.transposed is None:  # the problem of a kernel, which already reads transposes from workspaces
        return problem
    turned = [name for name in "ab" if is_packed_transposed(name, schedule) and name not in problem.transposed]
    if not turned:
        return problem
    layout = turned_layout(problem.layout, "".join(turned))
    return replace(problem, layout=layout, transposed=problem.transposed + "".join(turned))


def moved_alignment(name: str, schedule: Schedule, problem: Problem) -> int:
    """`alignment_of` the memory that the kernel itself reads or writes: the matrix or, if it is packed, a workspace."""
    return _of_output(schedule, problem) if name == "d" else _of_input(name, schedule, problem)


def sent_at_once(schedule: Schedule, problem: Problem) -> int:
    """The bytes of a shard of A that one access copies to another GPU. If K is known: the most to which both A and the
    length of its rows are aligned. Otherwise: those of an element."""
    element = element_type(problem.a).bytes
    return element if problem.k is None else gcd(moved_alignment("a", schedule, problem), problem.k * element)


def alignments_of(schedule: Schedule, problem: Problem, of: Alignment = alignment_of) -> dict[str, int]:
    """`alignment_of`, or `moved_alignment`, of each matrix by its given name: if swapped, A is the kernel's B. If TMA
    loads the epilogue's full operands, also theirs, by the name `FULL`; otherwise these may lie anywhere."""
    of_kernel = {"a": "b", "b": "a"} if problem.swapped else {}
    found = {name: of(of_kernel.get(name, name), schedule, problem) for name in MATRICES}
    return found | ({FULL: WIDEST} if staged_operands(schedule, problem) else {})


def alignments_in(module: ir.Module, of: Alignment = alignment_of) -> Mapping[str, int]:
    """`alignments_of` the schedule and problem that a module of any level carries; `WIDEST` if it carries none."""
    schedule, problem = Schedule.carried_by(module), problem_in(module)
    return WIDEST_OF_ALL if schedule is None or problem is None else alignments_of(schedule, problem, of)


def _of_input(name: str, schedule: Schedule, problem: Problem) -> int:
    copy = schedule.mainloop.operand(name).copy
    if copy is None or copy in TMA_RANKS:
        return WIDEST
    element = element_type(problem.stream(name).element).bytes
    if copy in GLOBAL_LOADS:  # a thread loads single elements if its vectors are not aligned
        return element
    atom = targets.copy_atom(copy)
    return element if atom.realigns else max(atom.bytes_per_thread, element)


def _of_output(schedule: Schedule, problem: Problem) -> int:
    path = schedule.epilogue.path
    if path is None or path is StorePath.tma or schedule.multiply.atoms is None or schedule.grid.tile is None:
        return WIDEST
    if path is StorePath.direct:
        shape, d = problem.tile_of_d(schedule.grid.tile), element_type(problem.d)
        tv, by_columns = part_of(tiled_mma(schedule, problem), shape).tv("c", shape), problem.d_is_column_major
        held, widest = fragment_run(tv, shape, d.bits, by_columns), element_type(problem.widest).bytes
        return d.bytes * stored_at_once(held, widest, schedule.epilogue.store)
    atom = epilogue_rows(schedule, problem, multiplying_threads(schedule)).store(problem.d)
    return targets.copy_atom(atom).bytes_per_thread
