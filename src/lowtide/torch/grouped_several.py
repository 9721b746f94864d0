"""The custom op `lowtide::grouped_results`: a product of groups of rows with several results.

    grouped_results(Tensor a, Tensor b, Tensor ends, Tensor[] operands, str epilogue, str[] halves, Tensor? a_rows)
        -> Tensor[]

A, B, `ends` and `a_rows` are those of `lowtide::grouped_epilogue`. `operands`, `epilogue` and `halves` are those of
`lowtide::gemm_results`. So is the list of results, but here all are full results. Rows of no group may have any values.
The op has no gradient, because graphs that call it contain the backward pass, too.

If a kernel cannot be compiled or cannot read a tensor, torch computes the results, and a warning says so once.
"""

from collections.abc import Sequence

import torch
from torch.utils.flop_counter import register_flop_formula

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.epilogue.text import TextEpilogue
from lowtide.elements import ELEMENTS
from lowtide.errors import Error, LaunchError
from lowtide.torch.dtypes import dtype_of
from lowtide.torch.evaluation import evaluate_results
from lowtide.torch.grouped import grouped_gemm
from lowtide.torch.grouped_arguments import At, check
from lowtide.torch.grouped_results import grouped_results as by_kernel
from lowtide.torch.ops import LIBRARY
from lowtide.torch.results import PAIRED, by_rows
from lowtide.torch.several import read_text, warn

LIBRARY.define(
    "grouped_results(Tensor a, Tensor b, Tensor ends, Tensor[] operands, str epilogue, str[] halves, Tensor? a_rows)"
    " -> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _grouped_results(
    a: torch.Tensor,
    b: torch.Tensor,
    ends: torch.Tensor,
    operands: Sequence[torch.Tensor],
    epilogue: str,
    halves: Sequence[str],
    a_rows: torch.Tensor | None,
) -> list[torch.Tensor]:
    asked, returned = read_text(epilogue), _fake(a, b, ends, operands, epilogue, halves, a_rows)
    names = [name for name, _, _ in asked.results if name not in halves[1:]]
    whole = returned[names.index(halves[0])] if halves else None
    out = {} if whole is None else dict(zip(halves, whole.chunk(2, dim=1), strict=True))
    given = {operand.name: tensor for operand, tensor in zip(asked.operands, operands, strict=True)}
    found = None
    if a.is_cuda and 0 not in (*a.shape, *b.shape, *returned[0].shape):
        try:
            found = by_kernel(a, b, ends, asked, _lying(asked, given), out=out, a_rows=a_rows, pairs=_pairs(asked))
        except Error as error:
            warn(str(error))
    if found is None:
        wide = grouped_gemm(a, b, ends, dtype_of(asked.acc), a_rows)
        found = evaluate_results(asked.graph(), wide.chunk(asked.sums, dim=1), given)
        for name, half in out.items():
            half.copy_(found[name])
    return [whole if whole is not None and name == halves[0] else found[name] for name in names]


def _pairs(epilogue: TextEpilogue) -> str | None:
    return PAIRED if epilogue.sums > 1 else None


def _lying(epilogue: TextEpilogue, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The operands, copied if a kernel cannot read them as they lie."""
    kinds = {operand.name: operand.kind for operand in epilogue.operands}
    return {name: by_rows(x) if kinds[name] is OperandKind.FULL else x.contiguous() for name, x in given.items()}


def _fake(
    a: torch.Tensor,
    b: torch.Tensor,
    ends: torch.Tensor,
    operands: Sequence[torch.Tensor],
    epilogue: str,
    halves: Sequence[str],
    a_rows: torch.Tensor | None,
) -> list[torch.Tensor]:
    asked = read_text(epilogue)
    rows, columns = check(a, b, ends, At(a_rows))[-2:]
    types = {name: word for name, word, _ in asked.results}
    if b.dim() != 3 or len(operands) != len(asked.operands) or any(word not in ELEMENTS for word in types.values()):
        raise LaunchError(
            f"b {tuple(b.shape)}, {len(operands)} operands and the epilogue {epilogue}: pass b (groups, K, N), an"
            " epilogue whose results have the size of D, and its operands [grouped-results-arguments]"
        )
    if halves and (len({*halves}) != 2 or len({types.get(name) for name in halves}) != 1 or not {*halves} <= {*types}):
        raise LaunchError(f"halves are {[*halves]}; pass the names of two results of one type [grouped-halves]")
    n = columns // asked.sums
    widths = {name: 2 * n if name in halves else n for name in types if name not in halves[1:]}
    return [a.new_empty(rows, width, dtype=dtype_of(types[name])) for name, width in widths.items()]


LIBRARY.impl("grouped_results", _grouped_results, "CompositeExplicitAutograd")
torch.library.register_fake("lowtide::grouped_results", _fake, lib=LIBRARY)

#: The op as a function, with the arguments of its schema.
grouped_results = torch.ops.lowtide.grouped_results.default


def _flops(a: Sequence[int], b: Sequence[int], *arguments: object, out_shape: object, **keywords: object) -> int:
    a_rows = arguments[-1] if len(arguments) == 5 else None
    rows = a[0] if a_rows is None else a_rows[0]  # type: ignore[index]
    return 2 * int(rows) * int(a[1]) * int(b[2])


register_flop_formula(torch.ops.lowtide.grouped_results)(_flops)
