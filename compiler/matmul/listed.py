"""Products of lists: the product of each pair of matrices, all in one launch. Pairs may have different sizes.

They are padded groups whose matrices may lie anywhere in memory. The kernel takes any number of pairs: A, B and D as
lists, and the number of rows of each pair. N and K are known to the kernel if they are those of all pairs.
"""

from collections.abc import Sequence
from typing import NamedTuple

from lowtide.elements import ElementType, element_type
from lowtide.errors import LaunchError
from lowtide.runtime.operands import Operand

_RANK = 2
_WORD = 4  # bytes


class Pairs(NamedTuple):
    """Pairs of matrices: their layout, and M, N and K of each product."""

    layout: str
    sizes: tuple[tuple[int, int, int], ...]

    @property
    def n(self) -> int | None:
        """N, if it is that of all products."""
        return _only({n for _, n, _ in self.sizes})

    @property
    def k(self) -> int | None:
        """K, if it is that of all products."""
        return _only({k for _, _, k in self.sizes})

    @property
    def rows(self) -> tuple[int, ...]:
        """M of each product."""
        return tuple(m for m, _, _ in self.sizes)

    @property
    def shapes_of_d(self) -> tuple[tuple[int, int], ...]:
        """The shape of each product."""
        return tuple((m, n) for m, n, _ in self.sizes)


def fields_anywhere(types: tuple[str, str, str]) -> str:
    """The fields of a schedule whose kernel takes matrices at any addresses, with any row strides: threads copy aligned
    vectors and shift their elements, or copy single elements, and store single elements. All threads copy and multiply:
    a producer that shifts elements has too few registers on sm_90a."""
    a, b, d = map(element_type, types)
    copies = (f"mainloop.{name}.copy = {_copy_of(row)}" for name, row in (("a", a), ("b", b)))
    return ", ".join(("roles = single", *copies, f"epilogue.path = direct, epilogue.store = {d.bytes}"))


def _copy_of(row: ElementType) -> str:
    return f"staged.{row.bytes}" if row.bytes >= _WORD else "realigned.16"


def pairs_of(a: Sequence[Operand], b: Sequence[Operand]) -> Pairs:
    """The pairs of matrices A (M, K) and B (K, N), as records. Raises LaunchError for matrices that do not fit."""
    if len(a) != len(b) or not a:
        raise LaunchError(
            f"{len(a)} matrices of A and {len(b)} of B; give lists of the same length, of at least one [listed-count]"
        )
    for number, (left, right) in enumerate(zip(a, b, strict=True)):
        if (len(left.shape), len(right.shape)) != (_RANK, _RANK) or left.shape[1] != right.shape[0]:
            raise LaunchError(
                f"matrices {number} have shapes {left.shape} and {right.shape}; a product takes (M, K) and (K, N)"
                " [listed-shapes]"
            )
    sizes = tuple((left.shape[0], right.shape[1], left.shape[1]) for left, right in zip(a, b, strict=True))
    return Pairs("".join("t" if _lies_by_rows(each) else "n" for each in (a, b)), sizes)


def _lies_by_rows(records: Sequence[Operand]) -> bool:
    """Whether the last dimension is contiguous in all matrices; if not, the other one must be (`matrix_list`)."""
    return all(each.strides[1] == 1 or each.shape[1] <= 1 or not each.shape[0] for each in records)


def _only(values: set[int]) -> int | None:
    return values.pop() if len(values) == 1 else None
