"""The custom op `lowtide::gemm_results`: a product with several results, with a fake implementation.

    gemm_results(Tensor a, Tensor b, Tensor[] operands, str epilogue, str[] halves, Tensor? second=None) -> Tensor[]

A is (M, K) and B (K, N), or (K, 2·N) for pairs of columns: the columns of the first accumulator come before those of
the second. With `second` (K, N), B (K, N) has the columns of the first accumulator, and `second` those of the other; in
both, K is contiguous, with equal strides. `epilogue` is a text (`compiler/epilogue/text.py`), `operands` its tensors in
order. The op returns the results in the order of the text. `halves` is empty, or has the names of two full results of
one type: they are the halves of one matrix (M, 2·N), which is returned in the place of the first. The op has no
gradient: graphs that call it hold the backward pass too.

If a kernel cannot be compiled or cannot read a tensor, torch computes the results, and a warning says so once.
"""

import functools
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.utils.flop_counter import register_flop_formula

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.epilogue.results import ResultKind
from lowtide.compiler.epilogue.text import TextEpilogue
from lowtide.compiler.matmul.arrangement import ALIGNED
from lowtide.elements import ELEMENTS
from lowtide.errors import Error, LaunchError
from lowtide.torch.dtypes import dtype_of
from lowtide.torch.ops import LIBRARY
from lowtide.torch.results import PAIRED, Known, by_rows, by_torch, known, results
from lowtide.torch.two_weights import as_one, exchanged
from lowtide.words import APART

LIBRARY.define(
    "gemm_results(Tensor a, Tensor b, Tensor[] operands, str epilogue, str[] halves, Tensor? second=None) -> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag,),
)


@functools.lru_cache(maxsize=4096)
def read_text(text: str) -> TextEpilogue:
    """The epilogue of a text; the same object for the same text. Raises SpecError."""
    return TextEpilogue(text)


class Computed(NamedTuple):
    """The results of a product, in the order of the op, and what is known of the launch that wrote them: nothing if
    tensors were copied, or if torch computed the results. `places`: for each tensor that the plan takes, its number
    among A, B, the operands and the results, and its offset in bytes."""

    results: list[torch.Tensor]
    known: Known
    places: tuple[tuple[int, int], ...] = ()


def compute(
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    epilogue: str,
    halves: Sequence[str],
    made: list[torch.Tensor] | None = None,
    second: torch.Tensor | None = None,
) -> Computed:
    """`gemm_results` without the dispatcher. `made`: tensors for the results, as an earlier call gave them. The plan's
    address of B is the lower one of two. Raises LaunchError and SpecError."""
    asked, made = read_text(epilogue), _fake(a, b, operands, epilogue, halves, second) if made is None else made
    names = [name for name, _, _ in asked.results if name not in halves[1:]]
    whole = dict(zip(names, made, strict=True))
    out = dict(zip(halves, whole[halves[0]].chunk(2, dim=1), strict=True)) if halves else {}
    given = {operand.name: tensor for operand, tensor in zip(asked.operands, operands, strict=True)}
    if all(map(_has_aligned_rows, made)):  # otherwise the kernel's own results have rows that it can store
        out = whole | out
    computed = None
    try:
        computed = None if 0 in (*a.shape, *b.shape) else _by_kernel(a, b, asked, given, out, second)
    except Error as error:
        warn(str(error))
    if computed is not None:
        found, launched = computed
    else:
        columns = b if second is None else torch.cat([b, second], dim=1)
        found, launched = by_torch(a, columns, asked, given, sums=asked.sums), Known()
        for name in halves:
            out[name].copy_(found[name])
    results = [whole[name] if name in halves else found[name] for name in names]
    places = {name: (number, 0) for number, name in enumerate(("a", "b", *given, *names))}
    for name in halves:
        places[name] = places[halves[0]][0], out[name].data_ptr() - whole[halves[0]].data_ptr()
    if not all(name in places for name in launched.names):  # such as a D that is not stored
        launched = launched._replace(plan=None, names=())
    return Computed(results, launched, tuple(places[name] for name in launched.names))


def _gemm_results(
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    epilogue: str,
    halves: Sequence[str],
    second: torch.Tensor | None = None,
) -> list[torch.Tensor]:
    return compute(a, b, operands, epilogue, halves, second=second).results


def _has_aligned_rows(x: torch.Tensor) -> bool:
    return x.dim() < 2 or x.stride(0) * x.itemsize % ALIGNED == 0


def _by_kernel(
    a: torch.Tensor,
    b: torch.Tensor,
    epilogue: TextEpilogue,
    given: dict[str, torch.Tensor],
    out: dict[str, torch.Tensor],
    second: torch.Tensor | None,
) -> tuple[dict[str, torch.Tensor], Known]:
    """The results by name, and the launch if it wrote all of them to `out` and no tensor was copied."""
    kinds = {operand.name: operand.kind for operand in epilogue.operands}
    lying = {name: by_rows(x) if kinds[name] is OperandKind.FULL else x.contiguous() for name, x in given.items()}
    pairs = pairs_of(epilogue, second)
    layout = layout_of(b.stride(), pairs)
    b = b.mT if layout == "tn" else b
    if second is not None:
        b, is_exchanged = as_one(b, second.mT)
        epilogue = read_text(exchanged(epilogue.text)) if is_exchanged else epilogue
    matrices = by_rows(a), by_rows(b)
    found = results(*matrices, epilogue, lying, out=out, layout=layout, pairs=pairs)
    taken = zip((*matrices, *lying.values()), (a, b, *given.values()), strict=True)
    if not a.is_cuda or len(out) < len(found) or any(x is not y for x, y in taken):
        return found, Known()
    return found, known(*matrices, epilogue, lying, out=out, layout=layout, pairs=pairs)


def pairs_of(epilogue: TextEpilogue, second: Any) -> str | None:
    """How pairs of columns lie in B; None without them."""
    return (PAIRED if second is None else APART) if epilogue.sums > 1 else None


def layout_of(strides: Sequence[int], pairs: str | None) -> str:
    """The layout of the kernel for B (K, N) with these strides. Pairs of columns always take tn."""
    return "tn" if pairs is not None or strides[0] == 1 else "tt"


@functools.lru_cache(maxsize=1024)
def warn(error: str) -> None:
    """Warn once that torch computes a product, since kernels raised an error."""
    warnings.warn(f"torch computes a product of a compiled graph, because no kernel does: {error}", stacklevel=4)


def _fake(
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    epilogue: str,
    halves: Sequence[str],
    second: torch.Tensor | None = None,
) -> list[torch.Tensor]:
    asked = read_text(epilogue)
    if a.dim() != 2 or b.dim() != 2 or len(operands) != len(asked.operands):
        raise LaunchError(
            f"a {tuple(a.shape)}, b {tuple(b.shape)} and {len(operands)} operands: pass matrices (M, K) and (K, N), and"
            f" {len(asked.operands)} operands for {epilogue} [results-arguments]"
        )
    types = [asked.result_types.get(name) for name in halves]
    if halves and (len({*halves}) != 2 or len({*types}) != 1 or None in types):
        raise LaunchError(f"halves are {[*halves]}; pass the names of two full results of one type [halves-results]")
    if second is not None and (asked.sums == 1 or second.shape != b.shape):
        raise LaunchError(
            f"b is {tuple(b.shape)} and second {tuple(second.shape)}; pass matrices of one shape, and an epilogue of"
            " two accumulators [results-second]"
        )
    m, n = a.shape[0], b.shape[1] // (asked.sums if second is None else 1)
    shapes = {"row": (m,), "column": (n,), "all": (1,)}
    found = []
    for name, word, _ in asked.results:
        if name in halves[1:]:
            continue
        if word in ELEMENTS:
            found.append(a.new_empty(m, 2 * n if name in halves else n, dtype=dtype_of(word)))
        else:
            reduction = ResultKind(word).reduction
            assert reduction is not None
            found.append(a.new_empty(shapes[reduction.axis], dtype=torch.float32))
    return found


LIBRARY.impl("gemm_results", _gemm_results, "CompositeExplicitAutograd")
torch.library.register_fake("lowtide::gemm_results", _fake, lib=LIBRARY)

#: The op as a function, with the arguments of its schema.
gemm_results = torch.ops.lowtide.gemm_results.default


_OF_SECOND = 3  # its place after A and B


def _flops(a: Sequence[int], b: Sequence[int], *arguments: object, out_shape: object, **keywords: object) -> int:
    both = len(arguments) > _OF_SECOND and arguments[_OF_SECOND] is not None
    return 2 * int(a[0]) * int(a[1]) * int(b[1]) * (1 + both)


register_flop_formula(torch.ops.lowtide.gemm_results)(_flops)
