"""The cost of a call with unaligned matrices, if the schedule packs them."""

from dataclasses import dataclass
from math import prod

from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.facts.alignment import MATRICES, is_packed, is_packed_transposed, moved_alignment
from lowtide.passes.support.problem.problem import Problem

# Of the copying kernel, read and written: measured on an H200 at 4096×4096 bf16, partly held in L2.
_BYTES_PER_MICROSECOND = 3.2e6


@dataclass(frozen=True)
class Packing:
    """A matrix that is packed unless its base and row stride are multiples of `alignment` bytes.

    With `whole_rows`, the row length must be a multiple too. With `transposed`, it is always packed; but if it has
    `one_column`, only if its elements are not contiguous or its base is not aligned. The copy moves `bytes`, read and
    written, in about `microseconds`: None if the extents are known only at launch.
    """

    matrix: str
    alignment: int
    whole_rows: bool
    transposed: bool
    one_column: bool
    bytes: int | None
    microseconds: float | None


def packing_of(spec: GemmSpec, schedule: Schedule, problem: Problem) -> tuple[Packing, ...]:
    """The matrices that a schedule packs."""
    shapes = {"a": (spec.a_shape, spec.a), "b": (spec.b_shape, spec.stored_b), "d": (spec.d_shape, spec.d)}
    given = {"a": "b", "b": "a"} if problem.swapped else {}  # the kernel's A is B
    found = []
    for name in MATRICES:
        if not is_packed(name, schedule):
            continue
        shape, dtype = shapes[given.get(name, name)]
        known = [extent for extent in shape if extent is not None]
        size = 2 * prod(known) * element_type(dtype).bytes if len(known) == len(shape) else None
        found.append(
            Packing(
                matrix=given.get(name, name),
                alignment=moved_alignment(name, schedule, problem),
                whole_rows=name == "d" and str(schedule.epilogue.path) == "tma",
                transposed=is_packed_transposed(name, schedule),
                one_column=shape[-1] == 1,
                bytes=size,
                microseconds=None if size is None else round(size / _BYTES_PER_MICROSECOND, 1),
            )
        )
    return tuple(found)
