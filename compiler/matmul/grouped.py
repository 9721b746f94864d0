"""`lt.grouped_matmul(a, b, ends)`: rows in groups, each with its own matrix of B; or K in groups, each with its own
matrix of D. With `counts`, groups are padded: A and D have a matrix for each group, and only its first rows are
multiplied. Only the device reads `ends` and `counts`. With lists of A and B, each pair of matrices gives a product.

A kernel is compiled for the types, the extents that are not grouped and the number of groups. Its schedule is chosen
for a number of rows (or K) per group: the mean, or with padded groups the largest, rounded up to a power of two. So
calls of similar sizes share a kernel.
"""

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lowtide.compiler.ahead import AHEAD
from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.matmul.calls import wants_gradients
from lowtide.compiler.matmul.family import result_type
from lowtide.compiler.matmul.grouped_products import Epilogue, Grouped, padded_product_of, product_of, share_of
from lowtide.compiler.matmul.listed import fields_anywhere, pairs_of
from lowtide.compiler.matmul.options import Options, check_epilogue
from lowtide.compiler.native import target_of
from lowtide.errors import CompileError, LaunchError, ScheduleError
from lowtide.runtime import driver
from lowtide.runtime.allocation import allocate
from lowtide.runtime.call_keys import Recent
from lowtide.runtime.kernel import Prepared
from lowtide.runtime.lists import Lists
from lowtide.runtime.operands import Operand, view
from lowtide.runtime.plan import LaunchPlan
from lowtide.runtime.streams import handle_of

# These import MLIR, which takes half a second.
_COMPILE, _CHOSEN, _TARGETS = "lowtide.compiler.compile", "lowtide.compiler.chosen", "lowtide.targets"
_SCHEDULE = "lowtide.dialects.tile.schedule"
_MOST_KERNELS = 1024
_ROW_BYTES = 16  # rows of D that are allocated begin at multiples of it


def kernel_for(product: Grouped) -> Any:
    """The kernel, from the cache on disk or compiled. Raises the errors of `compile_gemm`."""
    known: str | None = AHEAD.result(product)
    return _made(product)[0] if known is None else _with(product, known)


def schedule_of(product: Grouped) -> str:
    """Makes the kernel, so that the cache on disk has it. Returns the schedule that was given to `compile_gemm`, as
    text; "" if `compile_gemm` chose one. Raises the errors of `compile_gemm`."""
    found: str = _made(product)[1]
    return found


def _made(product: Grouped) -> tuple[Any, str]:
    """The kernel, and the schedule that was given to `compile_gemm`, as text; "" if `compile_gemm` chose one."""
    target = importlib.import_module(_TARGETS).get(product.target)
    expected = product.share * (1 if product.padded else product.groups or 1)
    given = None
    if product.anywhere:
        given = importlib.import_module(_SCHEDULE).Schedule.parse(fields_anywhere(product.types))
    schedule = importlib.import_module(_CHOSEN).chosen(product.spec(expected), target, given).shorthand()
    try:
        kernel = _with(product, schedule)
        kernel.cubin  # noqa: B018  # code that spills is refused
        return kernel, schedule
    except (CompileError, ScheduleError):  # use the choice for an unknown number of rows
        schedule = fields_anywhere(product.types) if product.anywhere else ""
        return _with(product, schedule), schedule


def _with(product: Grouped, schedule: str) -> Any:
    """The kernel with this schedule. If it is "", `compile_gemm` chooses one."""
    compile_gemm = importlib.import_module(_COMPILE).compile_gemm
    return compile_gemm(product.spec(None), product.target, *([schedule] if schedule else []))


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
        """Products of groups of rows, of groups of K, or of pairs of matrices, in one launch. Returns D. All arrays are
        on the GPU. The launch is asynchronous.

        - Groups of rows: A (rows, K), B (groups, K, N), D (rows, N). Each group of rows of A is multiplied by its own
          matrix of B. K is contiguous in A, and K or N in B, so B may be a transposed view of (groups, N, K). Rows of D
          after the last end are not written.
        - Groups of K: A (M, K), B (K, N), D (groups, M, N). Each matrix of D is the product over the K of one group,
          and 0 for an empty group. M is contiguous in A, such as in `x.mT` for x (K, M), and N in B.
        - Padded groups, with `counts` in place of `ends`, as in DeepGEMM's masked layout: A (groups, rows, K), B
          (groups, K, N), D (groups, rows, N). Group g has the first `counts[g]` of its rows. The other rows are not
          computed, and those of D are not written. One of the last two dimensions of A and of B is contiguous.
        - Lists, without `ends` and `counts`: A and B are lists or tuples of matrices (m, k) and (k, n), of any sizes. D
          is the list of the products (m, n) of the pairs.

        Arguments:

        - `b`: with groups of rows, it may also be a list or tuple of matrices (K, N) of one shape, one for each group,
          such as the weights of experts that are modules of their own. N is contiguous in all, or K. No
          matrix is copied. Their addresses are copied to the GPU at the first call with these matrices. `b` may also be
          the result of `lt.matrix_list`.
        - `ends`: int32 (groups,). Group g consists of the rows, or of the elements of K, from `ends[g - 1]` (0 for the
          first group) to `ends[g] - 1`, and may be empty. An end that is less than the end before it, or greater than
          the number of rows or K, is clamped. `counts`: int32 (groups,). A count is clamped to 0 … rows. Only the
          device reads `ends` and `counts`, so a captured graph may be replayed with others.
        - `expected_rows`: with `counts`, the number of rows of a group for which the kernel is chosen, by default all.
          It does not change the results.
        - `epilogue`, its operands by name, `out` and `stream`: as in `lt.matmul`. With results by name, `out` is a dict
          of some of them, and the call returns a dict. A full operand has the shape of the product. A per-column
          operand is (groups, N), or (N,) if all groups share it. With padded groups, a per-row operand is (groups,
          rows) or (rows,).
        - `pairs`: how pairs of columns lie in B (groups, K, 2 · N), as in `lt.GemmSpec`. K is contiguous in B, and the
          epilogue takes two accumulators.
        - `a_rows`, with groups of rows: int32 (rows,). Row i of the product is computed from row `a_rows[i]` of A, or
          from zeros if A has no such row. A then has any number of rows.
        - `d_rows`, with groups of rows: int32 (rows,). Row i of the product is stored into row `d_rows[i]` of D, or
          nowhere if D has no such row. D then has any number of rows, and must be given as `out`; its other rows are
          not written. Elements that name rows of D must be different.
        - `weights`, `block_scales`: as in `lt.matmul`, with a part for each group. B is the transpose of the bytes of
          `lt.pack_weights` for weights (groups, N, K), with the operands `scales` and `zeros` (groups, K / group, N).
          Or, with groups of rows, the operands are `scale_a` (⌈K / 128⌉, rows) and `scale_b` (groups, ⌈N / 128⌉, ⌈K /
          128⌉) or (groups, ⌈K / 128⌉, N). `precision`: as in `lt.matmul`.

        Lists of A take only the epilogue with its operands, `out` (a list of matrices) and `stream`.

        Raises LaunchError for arrays that do not fit, and if autograd would record the call; SpecError for types or an
        epilogue that groups do not support; DeviceError without a GPU; and the errors of `compile_gemm`.
        """
        check_epilogue(epilogue)
        if isinstance(a, list | tuple):
            others = {"ends": ends, "counts": counts, "expected_rows": expected_rows, "pairs": pairs, "a_rows": a_rows}
            others |= {"d_rows": d_rows, "weights": weights, "block_scales": block_scales, "precision": precision}
            return self._of_lists((a, b, out), epilogue, stream, operands, others)
        given_out = out.values() if isinstance(out, Mapping) else (out,)
        if wants_gradients([a, b, *given_out, *operands.values()]):
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
        d = _type_of_d(out)
        if counts is not None:
            product = padded_product_of(left, right, d, _target_of(left), epilogue, expected_rows).of_pairs(pairs)
        else:
            product = _product_with(ends, left, right, d, epilogue).of_pairs(pairs)
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
        matrices = _by_layout(product, (a, left), (b, right))
        operands |= {"ends": ends} if counts is None else {"counts": counts}
        return kernel(*matrices, out=out, stream=stream, **operands)

    def known(self, a: Any, b: Any, ends: Any, *, out: Any) -> tuple[Prepared | None, LaunchPlan | None, list[str]]:
        """The launch and the plan of an earlier call with these arguments and no others, as `Kernel.known` returns
        them, and the names of the addresses that the plan takes, in its order: "a", "b", "ends" and "d". None, None and
        [] if there is no kernel yet. Raises as a call does."""
        left, right = view(a, "a"), view(b, "b")
        product = _product_with(ends, left, right, _type_of_d(out), None)
        kernel = self._kernels[product]
        if kernel is None:
            return None, None, []
        matrices = _by_layout(product, (a, left), (b, right))
        names = [argument["name"] for argument in kernel.manifest["arguments"]]
        return *kernel.known(*matrices, out=out, ends=ends), names

    def begin(self, a: Operand, b: Operand, ends: Operand, d: str) -> None:
        """Lets another process compile the kernel of a call that has these arguments, a D of the type `d`, and no other
        arguments. If A is (groups, rows, K), `ends` are the counts. Does nothing if `AHEAD` (compiler/ahead.py) was not
        started. Raises the errors of a call."""
        if len(a.shape) == len(ends.shape) + 2:
            product = padded_product_of(a, b, d, _target_of(a), None)
        else:
            product = _product_with(ends, a, b, d, None)
        if self._kernels[product] is None:
            AHEAD.begin(product, schedule_of, product)

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
        share = share_of(sum(pairs.rows), len(pairs.rows))
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
        left, right = _by_layout(product, *((listed, listed) for listed in lists[:2]))
        counts = self._lists.counts(a[0], pairs.rows)
        kernel(left, right, counts=counts, out=lists[2], stream=stream, **operands)
        return list(out)


def _target_of(a: Operand) -> str:
    """The name of the target for the GPU of A."""
    device = driver.pointer_device(a.address) if a.device is None else a.device
    return target_of(driver.device(device or 0)).name


def _product_with(ends: Any, a: Operand, b: Operand, d: str | None, epilogue: Epilogue | None) -> Grouped:
    """The product with groups of K if B has as many dimensions as A, otherwise with groups of rows. Raises as a call
    does."""
    groups_of_k = math.prod(view(ends, "ends").shape) if len(b.shape) == len(a.shape) else 0
    return product_of(a, b, d, _target_of(a), epilogue, groups_of_k)


def _type_of_d(out: Any) -> str | None:
    """The type of D, which full results by name share; None if none is given. Reductions have types of their own."""
    if not isinstance(out, Mapping):
        return None if out is None else view(out, "out").dtype
    records = [view(each, name) for name, each in out.items()]
    return next((each.dtype for each in records if len(each.shape) > 1), None)


def _by_layout(product: Grouped, *matrices: tuple[Any, Operand]) -> list[Any]:
    """A and B, each given with its record, as the kernel takes them in the layout of the product."""
    given = zip(product.layout, matrices, strict=True)
    return [x if letter == "t" else _transposed(x, record) for letter, (x, record) in given]


def _transposed(b: Any, record: Operand) -> Any:
    """The transposes of matrices, as an array of the same library if it can make them, else as a record."""
    if hasattr(b, "swapaxes"):
        return b.swapaxes(-1, -2)
    (*shape, rows, columns), (*strides, row, column) = record.shape, record.strides
    return replace(record, shape=(*shape, columns, rows), strides=(*strides, column, row), library="")


grouped_matmul = GroupedMatmul()
