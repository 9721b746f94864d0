"""`lt.grouped_matmul(a, b, ends)`: rows in groups, each with its own matrix of B; or K in groups, each with its own
matrix of D. With `counts`, groups are padded: A and D have a matrix for each group, and only its first rows are
multiplied. Only the device reads `ends` and `counts`.

A kernel is compiled for the types, the extents that are not grouped and the number of groups. Its schedule is chosen
for the mean number of rows (or K) per group, or the most rows of a padded one, rounded up to a power of two. So calls
of similar sizes share a kernel.
"""

import importlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.matmul.calls import wants_gradients
from lowtide.compiler.matmul.family import check_not_packed, fields_of_weights, result_type, sums_of
from lowtide.compiler.matmul.listed import fields_anywhere, pairs_of
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.native import target_of
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import GROUPED_LAYOUTS, K_GROUPED_LAYOUT, PAIRED_LAYOUTS, Groups, extent_of
from lowtide.errors import CompileError, LaunchError, ScheduleError
from lowtide.runtime import driver
from lowtide.runtime.allocation import allocate
from lowtide.runtime.call_keys import Recent
from lowtide.runtime.lists import Lists
from lowtide.runtime.operands import Operand, view
from lowtide.runtime.streams import handle_of

# These import MLIR, which takes half a second.
_COMPILE, _CHOSEN, _TARGETS = "lowtide.compiler.compile", "lowtide.compiler.chosen", "lowtide.targets"
_SCHEDULE = "lowtide.dialects.tile.schedule"
_MOST_KERNELS = 1024
_LEAST_SHARE, _MOST_SHARE = 16, 4096  # rows of a group for which a schedule is chosen
_ROW_BYTES = 16  # rows of D that are allocated begin at multiples of it
_FACTOR_RANKS = (2, 3)  # of A and B, if rows are grouped; if K is, B has two dimensions

Epilogue = Callable[..., Any]


class Grouped(NamedTuple):
    """A grouped product with any number of rows, or any K: the types of A, B and D, the layout, N, K (if rows are
    grouped) or M (if K is), the number of groups, the rows or K per group for which the schedule is chosen (`share`),
    the target, the epilogue, how pairs of columns lie in B, whether rows of A are taken, or rows of D stored, at an
    index, whether groups are padded, which matrices are a list, whether these lie at any addresses, and the fields of
    `GemmSpec` for its sums, by name."""

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
        share = _share(rows, self.groups or 1)
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
        return Grouped(types, K_GROUPED_LAYOUT, n, m, groups_of_k, _share(k, groups_of_k), target, epilogue)
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
    return Grouped(types, layout, n, k, groups, _share(a.shape[0], groups), target, epilogue, lists=lists)


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
    share = _share(rows if wanted is None else wanted, 1)
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


def _share(extent: int, groups: int) -> int:
    """The rows, or K, of a group for which a schedule is chosen: the mean, rounded up to a power of two."""
    mean = max(1, -(-extent // max(1, groups)))
    return min(_MOST_SHARE, max(_LEAST_SHARE, 1 << (mean - 1).bit_length()))


def kernel_for(product: Grouped) -> Any:
    """The kernel, from the cache on disk or compiled. Raises the errors of `compile_gemm`."""
    compile_gemm = partial(importlib.import_module(_COMPILE).compile_gemm, product.spec(None), product.target)
    target = importlib.import_module(_TARGETS).get(product.target)
    expected = product.share * (1 if product.padded else product.groups or 1)
    given = None
    if product.anywhere:
        given = importlib.import_module(_SCHEDULE).Schedule.parse(fields_anywhere(product.types))
    schedule = importlib.import_module(_CHOSEN).chosen(product.spec(expected), target, given)
    try:
        kernel = compile_gemm(schedule)
        kernel.assembly  # noqa: B018  # code that spills is refused
    except (CompileError, ScheduleError):  # use the choice for an unknown number of rows
        return compile_gemm(*(() if given is None else (given,)))
    return kernel


class GroupedMatmul:
    """The function `lt.grouped_matmul`, with its kernels. Threads may share it."""

    def __init__(self) -> None:
        self._kernels = Recent(_MOST_KERNELS)
        self._lists = Lists(_MOST_KERNELS)

    def __call__(
        self,
        a: Any,
        b: Any,
        ends: Any = None,
        *,
        counts: Any = None,
        expected_rows: int | None = None,
        epilogue: Epilogue | None = None,
        pairs: str | None = None,
        a_rows: Any = None,
        d_rows: Any = None,
        weights: str | None = None,
        block_scales: BlockScales | None = None,
        precision: str | None = None,
        out: Any = None,
        stream: Any = None,
        **operands: Any,
    ) -> Any:
        """Multiply each group of rows of A (rows, K) by its own matrix of B (groups, K, N). Returns D (rows, N).

        All arrays are on the GPU. A has K contiguous, and B has K or N contiguous, so B may be a transposed view of
        (groups, N, K). `ends` is int32 (groups,). Group g consists of the rows `ends[g - 1]` (0 for the first group) to
        `ends[g] - 1`, and may be empty. Only the device reads `ends`, so a captured graph may be replayed with other
        ends. An end that is less than the end before it, or greater than the number of rows, is clamped. Rows of D
        after the last end are not written. `epilogue`, its operands by name, `out` and `stream` are those of
        `lt.matmul`. A full operand is (rows, N); a per-column operand is (groups, N), or (N,) if all groups share it.
        `pairs`: how pairs of columns lie in B (groups, K, 2 · N), as in `lt.GemmSpec`; K is contiguous in B, and the
        epilogue takes two accumulators. `a_rows`, int32 (rows,): row i of the product is computed from row
        `a_rows[i]` of A, or from zeros if A has no such row. A then has any number of rows. `d_rows`, int32 (rows,):
        row i of the product is stored into row `d_rows[i]` of D, or nowhere if D has no such row. D then has any number
        of rows, and must be given as `out`; its other rows are not written. Elements of `d_rows` must be different: if
        two are equal, either row may be stored. `weights`, `block_scales`: as in `lt.matmul`, for each group: B is the
        transpose of the bytes of `lt.pack_weights` for weights (groups, N, K), with `scales` and `zeros` (groups,
        K / group, N); or `scale_a` (⌈K / 128⌉, rows) and `scale_b` (groups, ⌈N / 128⌉, ⌈K / 128⌉) or
        (groups, ⌈K / 128⌉, N) are operands. `precision`: as in `lt.matmul`. The launch is asynchronous.

        `b` may be a list of matrices (K, N), one for each group, of one shape, with N or K contiguous in all, such as
        the weights of experts that are modules of their own; or a list made by `lt.matrix_list`. None is copied. Their
        addresses are copied to the GPU, at the first call with these matrices.

        With A (M, K) and B (K, N), K is grouped. D is (groups, M, N): for each group, the product over its K, which is
        0 for an empty group. A has M contiguous, such as `x.mT` for x (K, M), and B has N contiguous. Elements of K
        that belong to no group are not multiplied.

        With `counts`, int32 (groups,), in place of `ends`, groups are padded, as in DeepGEMM's masked layout: A is
        (groups, rows, K), B (groups, K, N) and D (groups, rows, N). Group g has the first `counts[g]` of its rows; the
        other rows are not computed, and those of D are not written. A count is clamped to 0 … rows. One of the last two
        dimensions of A and of B is contiguous. Operands of the epilogue are those of a batch: a per-column operand is
        (groups, N) or (N,), a per-row operand (groups, rows) or (rows,). `expected_rows`: the number of rows of a group
        for which the kernel is chosen, by default all; it does not change what is computed. `a_rows` and `d_rows` are
        not supported.

        Raises LaunchError for arrays that do not fit, and if autograd would record the call; SpecError for types or an
        epilogue that groups do not support; DeviceError without a GPU; and the errors of `compile_gemm`.
        """
        if isinstance(a, list | tuple):
            others = {"ends": ends, "counts": counts, "expected_rows": expected_rows, "pairs": pairs, "a_rows": a_rows}
            others |= {"d_rows": d_rows, "weights": weights, "block_scales": block_scales, "precision": precision}
            return self._of_lists((a, b, out), epilogue, stream, operands, others)
        if wants_gradients([a, b, out, *operands.values()]):
            raise LaunchError(
                "an operand requires a gradient, and lt.grouped_matmul is not recorded by autograd: call it under"
                " torch.no_grad() [grouped-autograd]"
            )
        if (ends is None) == (counts is None):
            raise LaunchError(
                f"{'both ends and counts are' if ends is not None else 'neither ends nor counts is'} given; pass ends "
                "for a (rows, K), or counts for a (groups, rows, K) [grouped-ends]"
            )
        b = self._lists.of(b) if isinstance(b, list | tuple) else b
        left, right = view(a, "a"), view(b, "b")
        d = None if out is None else view(out, "out").dtype
        device = driver.pointer_device(left.address) if left.device is None else left.device
        target = target_of(driver.device(device or 0)).name
        if counts is not None:
            product = padded_product_of(left, right, d, target, epilogue, expected_rows).of_pairs(pairs)
        else:
            groups_of_k = math.prod(view(ends, "ends").shape) if len(right.shape) == len(left.shape) else 0
            product = product_of(left, right, d, target, epilogue, groups_of_k).of_pairs(pairs)
        options = Options(precision=precision, weights=weights, block_scales=block_scales)
        product = product.scaled_by(options, operands)
        given = {"a_rows": a_rows, "d_rows": d_rows}
        indices = {name: index for name, index in given.items() if index is not None}
        if indices:
            rows = max(math.prod(view(index, name).shape) for name, index in indices.items())
            product, operands = product.at_indices(rows, indices), operands | indices
        kernel = self._kernels[product]
        if kernel is None:
            kernel = self._kernels[product] = kernel_for(product)
        a = a if product.layout[0] == "t" else _transposed(a, left)
        matrices = b if product.layout[1] == "t" else _transposed(b, right)
        operands |= {"ends": ends} if counts is None else {"counts": counts}
        return kernel(a, matrices, out=out, stream=stream, **operands)

    def _of_lists(
        self,
        matrices: tuple[Sequence[Any], Any, Any],
        epilogue: Epilogue | None,
        stream: Any,
        operands: Mapping[str, Any],
        others: Mapping[str, Any],
    ) -> list[Any]:
        """The products of two lists of matrices, A (M, K) and B (K, N): a list of D (M, N). `others`: the arguments
        that lists do not support."""
        a, b, out = matrices
        given = [name for name, value in others.items() if value is not None]
        if not isinstance(b, list | tuple) or not isinstance(out, list | tuple | None) or given:
            what = given[0] if given else "one array in place of a list"
            raise LaunchError(
                f"a is a list of matrices, and then b, out and the result are lists too; {what} is not supported "
                "beside them: pass one array for a, or multiply the pairs one by one [grouped-lists]"
            )
        if wants_gradients([*a, *b, *(out or ()), *operands.values()]):
            raise LaunchError(
                "a matrix requires a gradient, and lt.grouped_matmul is not recorded by autograd: call it under"
                " torch.no_grad() [listed-autograd]"
            )
        lefts, rights = ([view(each, name) for each in list_] for name, list_ in (("a", a), ("b", b)))
        pairs = pairs_of(lefts, rights)
        first, dtype = lefts[0], None if not out else view(out[0], "out").dtype
        types = first.dtype, rights[0].dtype, dtype or result_type(first.dtype, rights[0].dtype)
        target = target_of(driver.device(first.device or 0)).name
        share = _share(sum(pairs.rows), len(pairs.rows))
        product = Grouped(
            types, pairs.layout, pairs.n, pairs.k, None, share, target, epilogue, padded=True, lists="abd"
        )
        if out is None:
            handle = None if stream is None else handle_of(stream)
            out = [allocate(a[0], first.library, shape, types[2], _ROW_BYTES, handle) for shape in pairs.shapes_of_d]
        lists = [self._lists.of(each) for each in (a, b, out)]
        if any(each.listed is not None and each.listed.alignment % _ROW_BYTES for each in lists):
            product = product._replace(anywhere=True)
        kernel = self._kernels[product]
        if kernel is None:
            kernel = self._kernels[product] = kernel_for(product)
        left, right = (
            listed if letter == "t" else _transposed(listed, listed)
            for letter, listed in zip(pairs.layout, lists, strict=False)
        )
        counts = self._lists.counts(a[0], pairs.rows)
        kernel(left, right, counts=counts, out=lists[2], stream=stream, **operands)
        return list(out)


def _transposed(b: Any, record: Operand) -> Any:
    """The transposes of matrices, as an array of the same library if it can make them, else as a record."""
    if hasattr(b, "swapaxes"):
        return b.swapaxes(-1, -2)
    (*shape, rows, columns), (*strides, row, column) = record.shape, record.strides
    return replace(record, shape=(*shape, columns, rows), strides=(*strides, column, row), library="")


grouped_matmul = GroupedMatmul()
