"""Places of the matrices of a run: the alignment of their bases and rows, which decides what is packed.

A kernel requires some alignment of each base and row stride, or none if the matrix is packed, and the host function
tests the given ones. Each test must fail by itself in some run: for one matrix, for its base or its row stride alone,
by half of what its accesses need.
"""

from typing import NamedTuple

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.facts.alignment import FULL, MATRICES, WIDEST, alignments_of, moved_alignment
from lowtide.passes.support.problem.problem import Problem

Bytes = tuple[int, int, int]
"""Of A, B and D."""


_ALIGNED: Bytes = (WIDEST, WIDEST, WIDEST)


class Place(NamedTuple):
    """Row strides, bases and batch strides are odd multiples of these bytes; from WIDEST on, any multiples."""

    strides: Bytes = _ALIGNED
    bases: Bytes = _ALIGNED
    batches: Bytes = _ALIGNED
    full: int = 1
    """Row strides of full operands are multiples of these bytes."""

    @property
    def of_matrices(self) -> tuple[Bytes, Bytes, Bytes]:
        """Without full operands."""
        return self[:3]

    @property
    def named(self) -> dict[str, dict[str, int]]:
        """By name of the matrix: `alignments` of row strides, `bases`, and `batches`."""
        alignments, bases, batches = (dict(zip(MATRICES, each, strict=True)) for each in self.of_matrices)
        alignments |= {FULL: self.full}
        return {"alignments": alignments, "bases": bases, "batches": batches}


ALIGNED = Place()


def places_of(schedule: Schedule, problem: Problem) -> list[Place]:
    """As aligned as the kernel requires and no more; as its own accesses need; and with one base or stride of a packed
    matrix aligned to half of that. Never less than required: accesses to pieces of a matrix may need less than its
    elements."""
    asked = _of_matrices(alignments_of(schedule, problem))
    own = _of_matrices(alignments_of(schedule, problem, moved_alignment))
    full = alignments_of(schedule, problem).get(FULL, 1)
    moved = max(asked[0], own[0]), max(asked[1], own[1]), max(asked[2], own[2])
    found = [Place(asked, asked), Place(moved, moved)]
    for at in range(len(MATRICES)):
        half = list(moved)
        half[at] //= 2
        less = half[0], half[1], half[2]
        if asked[at] <= half[at]:
            found += [Place(less, moved), Place(moved, less)]
            found += [Place(moved, moved, less)] if problem.is_batched else []
    return [place._replace(full=full) for place in dict.fromkeys(found)]


def _of_matrices(alignments: dict[str, int]) -> Bytes:
    return alignments["a"], alignments["b"], alignments["d"]
