"""The custom op `lowtide::gemm_results`: a product with several results, with a fake implementation.

    gemm_results(Tensor a, Tensor b, Tensor[] operands, str epilogue, str[] halves) -> Tensor[]

A is (M, K) and B (K, N), or (K, 2·N) for pairs of columns: the columns of the first accumulator come before those of
the second. `epilogue` is a text (`compiler/epilogue/text.py`), `operands` its tensors in order. The op returns the
results in the order of the text. `halves` is empty, or has the names of two full results of one type: they are the
halves of one matrix (M, 2·N), which is returned in the place of the first. The op has no gradient: graphs that call it
hold the backward pass too.

If a kernel cannot be compiled or cannot read a tensor, torch computes the results, and a warning says so once.
"""

import functools
import warnings
from collections.abc import Sequence

import torch
from torch.utils.flop_counter import register_flop_formula

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.epilogue.results import ResultKind
from lowtide.compiler.epilogue.text import TextEpilogue
from lowtide.elements import ELEMENTS
from lowtide.errors import Error, LaunchError
from lowtide.torch.dtypes import dtype_of
from lowtide.torch.ops import LIBRARY
from lowtide.torch.results import PAIRED, by_rows, by_torch, results

LIBRARY.define(
    "gemm_results(Tensor a, Tensor b, Tensor[] operands, str epilogue, str[] halves) -> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag,),
)


@functools.lru_cache(maxsize=4096)
def read_text(text: str) -> TextEpilogue:
    """The epilogue of a text; the same object for the same text. Raises SpecError."""
    return TextEpilogue(text)


def _gemm_results(
    a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], epilogue: str, halves: Sequence[str]
) -> list[torch.Tensor]:
    asked, returned = read_text(epilogue), _fake(a, b, operands, epilogue, halves)
    names = [name for name, _, _ in asked.results if name not in halves[1:]]
    whole = returned[names.index(halves[0])] if halves else None
    out = {} if whole is None else dict(zip(halves, whole.chunk(2, dim=1), strict=True))
    given = {operand.name: tensor for operand, tensor in zip(asked.operands, operands, strict=True)}
    try:
        found = None if 0 in (*a.shape, *b.shape) else _by_kernel(a, b, asked, given, out)
    except Error as error:
        warn(str(error))
        found = None
    if found is None:
        found = by_torch(a, b, asked, given, sums=asked.sums)
        for name, half in out.items():
            half.copy_(found[name])
    return [whole if whole is not None and name == halves[0] else found[name] for name in names]


def _by_kernel(
    a: torch.Tensor,
    b: torch.Tensor,
    epilogue: TextEpilogue,
    given: dict[str, torch.Tensor],
    out: dict[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    kinds = {operand.name: operand.kind for operand in epilogue.operands}
    lying = {name: by_rows(x) if kinds[name] is OperandKind.FULL else x.contiguous() for name, x in given.items()}
    a, pairs = by_rows(a), PAIRED if epilogue.sums > 1 else None
    if pairs is not None or b.stride(0) == 1:
        return results(a, by_rows(b.mT), epilogue, lying, out=out, pairs=pairs)
    return results(a, by_rows(b), epilogue, lying, out=out, layout="tt")


@functools.lru_cache(maxsize=1024)
def warn(error: str) -> None:
    """Warn once that torch computes a product, since kernels raised an error."""
    warnings.warn(f"torch computes a product of a compiled graph, because no kernel does: {error}", stacklevel=4)


def _fake(
    a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], epilogue: str, halves: Sequence[str]
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
    m, n = a.shape[0], b.shape[1] // asked.sums
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


def _flops(a: Sequence[int], b: Sequence[int], *arguments: object, out_shape: object, **keywords: object) -> int:
    return 2 * int(a[0]) * int(a[1]) * int(b[1])


register_flop_formula(torch.ops.lowtide.gemm_results)(_flops)
