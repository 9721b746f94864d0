"""Products of groups: their types, extents and options as a value, from the arrays of a call.

Rows in groups, each with its own matrix of B; K in groups, each with its own matrix of D; or padded groups, with a
matrix of A and of D for each.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from lowtide.compiler.epilogue.text import TextEpilogue
from lowtide.compiler.matmul.family import check_not_packed, fields_of_weights, result_type, sums_of
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import GROUPED_LAYOUTS, K_GROUPED_LAYOUT, PAIRED_LAYOUTS, Groups, extent_of
from lowtide.errors import LaunchError
from lowtide.runtime.operands import Operand, view

_LEAST_SHARE, _MOST_SHARE = 16, 4096  # rows of a group for which a schedule is chosen
_FACTOR_RANKS = (2, 3)  # of A and B, if rows are grouped; if K is, B has two dimensions

Epilogue = Callable[..., Any]


class Grouped(NamedTuple):
    """A grouped product with any number of rows, or any K.

    `types`: those of A, B and D. `other`: K if rows are grouped, M if K is grouped. `share`: the rows or K per group
    for which the schedule is chosen. `pairs`: how pairs of columns lie in B. `a_rows`, `d_rows`: whether rows of A are
    taken, or rows of D stored, at an index. `padded`: whether groups are padded. `lists`: which matrices are a list.
    `anywhere`: whether these lie at any addresses. `scaled`: the fields of `GemmSpec` for the sums, by name.
    """

    types: tuple[str, str, str]
    layout: str
    n: int | None
    other: int | None
    groups: int | None
    share: int
    target: str
    epilogue: Epilogue | None
    pairs: str | None = None
    a_rows: bool = False
    d_rows: bool = False
    padded: bool = False
    lists: str | None = None
    anywhere: bool = False
    scaled: tuple[tuple[str, Any], ...] = ()

    @property
    def is_of_k(self) -> bool:
        """Whether K is grouped."""
        return self.layout == K_GROUPED_LAYOUT and not self.padded

    def of_pairs(self, pairs: str | None) -> "Grouped":
        """This product with pairs of columns in B; the same product if `pairs` is None. Raises LaunchError if B has an
        odd number of columns, or K is not contiguous in it."""
        if pairs is None:
            return self
        if self.layout not in PAIRED_LAYOUTS or self.n is None or self.n % 2:
            raise LaunchError(
                f"pairs={pairs!r}: b has {self.n} columns and the layout {self.layout}; it must be (groups, K, 2·N) "
                "with K contiguous, such as w.mT for w (groups, 2·N, K) [grouped-pairs]"
            )
        return self._replace(n=self.n // 2, pairs=pairs)

    def scaled_by(self, options: Options, operands: Mapping[str, Any]) -> "Grouped":
        """This product with a precision, block scales, or packed weights in B, whose scales are among the `operands`.
        Raises LaunchError for weights and scales that do not fit, and for a B that must be packed."""
        (a, b, d), layout = self.types, self.layout
        if options.weights is None:
            check_not_packed(a, b)
            own = {"block_scales": options.block_scales, "precision": options.precision}
            return self._replace(scaled=tuple((name, value) for name, value in own.items() if value is not None))
        assert self.n is not None and self.other is not None
        n = self.n * options.columns_per_byte
        given = {name: view(operands[name], name) for name in options.kinds(operands)}
        fields = fields_of_weights((layout, b), n, self.other, given, groups=True)
        return self._replace(types=(a, options.weights, d), n=n, scaled=tuple(fields.items()))

    def at_indices(self, rows: int, names: Collection[str]) -> "Grouped":
        """This product with `rows` rows and the indices `names`: "a_rows", "d_rows" or both. Raises LaunchError for
        groups of K and for padded groups."""
        if self.is_of_k or self.padded:
            raise LaunchError(
                f"{' and '.join(names)} with {'padded groups' if self.padded else 'groups of K'}: there D has a matrix "
                "for each group; pass a (rows, K), b (groups, K, N) and ends, or gather or scatter rows in another "
                "kernel [grouped-row-index]"
            )
        share = share_of(rows, self.groups or 1)
        return self._replace(share=share, a_rows="a_rows" in names, d_rows="d_rows" in names)

    def spec(self, grouped: int | None) -> GemmSpec:
        """The problem with this number of rows, or this K. Raises SpecError."""
        (a, b, d), of_k = self.types, self.is_of_k
        groups: dict[str, Any] = {"groups": Groups(self.groups, "k") if of_k else self.groups}
        groups = {"batch": self.groups, "counts": True} if self.padded else groups
        return GemmSpec(
            m=self.other if of_k else grouped,
            n=self.n,
            k=grouped if of_k else self.other,
            **groups,
            a=a,
            b=b,
            d=d,
            acc=sums_of(a, b),
            layout=self.layout,
            pairs=self.pairs,
            a_rows=self.a_rows,
            d_rows=self.d_rows,
            lists=self.lists,
            epilogue=self.epilogue,
            result_types=self.epilogue.result_types if isinstance(self.epilogue, TextEpilogue) else {},
            **dict(self.scaled),
        )


def product_of(
    a: Operand, b: Operand, d: str | None, target: str, epilogue: Epilogue | None, groups_of_k: int = 0
) -> Grouped:
    """The product of A (rows, K) with K contiguous, and B (groups, K, N) with K or N contiguous. With `groups_of_k`:
    the product of A (M, K) with M contiguous, and B (K, N) with N contiguous. `d`: the type of D; None for the default.
    Raises LaunchError for other shapes and strides."""
    types = a.dtype, b.dtype, d or result_type(a.dtype, b.dtype)
    if groups_of_k and len(a.shape) == len(b.shape) and a.shape[1] == b.shape[0]:
        _check_rows_of_k(a, b)
        (m, k), n = a.shape, b.shape[1]
        return Grouped(types, K_GROUPED_LAYOUT, n, m, groups_of_k, share_of(k, groups_of_k), target, epilogue)
    if (len(a.shape), len(b.shape)) != _FACTOR_RANKS or a.shape[1] != b.shape[1]:
        raise LaunchError(
            f"a of shape {a.shape} and b of shape {b.shape}: a grouped product takes a (rows, K) and b (groups, K, N),"
            " or, with groups of K, a (M, K) and b (K, N) [grouped-shapes]"
        )
    if a.strides[1] != 1 and a.shape[1] > 1:
        raise LaunchError(
            f"a has strides {a.strides}: a grouped product takes an a with K contiguous; pass a.contiguous()"
            " [grouped-rows]"
        )
    (groups, k, n), by_n, by_k = b.shape, *GROUPED_LAYOUTS[::-1]
    if b.strides[2] != 1 != b.strides[1] and k > 1 and n > 1:
        raise LaunchError(
            f"b has strides {b.strides}: a grouped product takes a b with K or N contiguous; pass b.contiguous()"
            " [grouped-matrices]"
        )
    layout = by_n if b.strides[2] == 1 or n == 1 else by_k
    lists = None if b.listed is None else "b"
    return Grouped(types, layout, n, k, groups, share_of(a.shape[0], groups), target, epilogue, lists=lists)


def padded_product_of(
    a: Operand, b: Operand, d: str | None, target: str, epilogue: Epilogue | None, expected_rows: int | None = None
) -> Grouped:
    """The product of A (groups, rows, K) and B (groups, K, N) with counts of rows, each with either of its last two
    dimensions contiguous. `expected_rows`: the rows of a group for which the schedule is chosen. Raises LaunchError for
    other arrays, SpecError for another `expected_rows`."""
    if (len(a.shape), len(b.shape)) != (3, 3) or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise LaunchError(
            f"a of shape {a.shape} and b of shape {b.shape}: with counts, a is (groups, rows, K) and b (groups, K, N)"
            " [padded-shapes]"
        )
    lies = []
    for name, x in (("a", a), ("b", b)):
        if x.strides[2] != 1 != x.strides[1] and min(x.shape[1:]) > 1:
            raise LaunchError(
                f"{name} has strides {x.strides}: one of its last two dimensions must be contiguous; pass "
                f"{name}.contiguous() [padded-strides]"
            )
        lies.append("t" if x.strides[2] == 1 or x.shape[2] == 1 else "n")
    types = a.dtype, b.dtype, d or result_type(a.dtype, b.dtype)
    (groups, rows, k), wanted = a.shape, extent_of("expected_rows", expected_rows)
    share = share_of(rows if wanted is None else wanted, 1)
    return Grouped(types, "".join(lies), b.shape[2], k, groups, share, target, epilogue, padded=True)


def _check_rows_of_k(a: Operand, b: Operand) -> None:
    """Raises LaunchError unless each element of K is a row of contiguous elements in A and in B."""
    for name, operand, contiguous in (("a", a, 0), ("b", b, 1)):
        if operand.strides[contiguous] != 1 and operand.shape[contiguous] > 1:
            way_out = "a.mT.contiguous().mT" if name == "a" else "b.contiguous()"
            raise LaunchError(
                f"{name} has strides {operand.strides}: with groups of K, a must have M contiguous, and b must have N "
                f"contiguous; pass {way_out} [grouped-k-rows]"
            )


def share_of(extent: int, groups: int) -> int:
    """The rows, or K, of a group for which a schedule is chosen: the mean, rounded up to a power of two."""
    mean = max(1, -(-extent // max(1, groups)))
    return min(_MOST_SHARE, max(_LEAST_SHARE, 1 << (mean - 1).bit_length()))
