"""The custom op `lowtide::grouped_epilogue`: a product of groups of rows with an epilogue.

    grouped_epilogue(Tensor a, Tensor b, Tensor ends, Tensor[] operands, str epilogue, Tensor? a_rows) -> Tensor

A is (rows, K) and B (groups, K, N), or (groups, K, 2·N) for pairs of columns: the columns of the first accumulator come
before those of the second. Groups and `ends` are those of `lt.grouped_matmul`, and so is `a_rows`, the rows of A that
are taken. `epilogue` is a text with one result, `operands` its tensors in order. Rows of D that belong to no group may
have any values, as those of torch._grouped_mm. The op has no gradient: it is for graphs of inference.

If a kernel cannot be compiled or cannot read a tensor, torch computes the product, and a warning says so once.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from lowtide.compiler.epilogue.text import TextEpilogue
from lowtide.compiler.matmul.grouped import grouped_matmul as multiply_groups
from lowtide.errors import Error, LaunchError
from lowtide.torch.dtypes import dtype_of
from lowtide.torch.evaluation import evaluate_results
from lowtide.torch.grouped import grouped_gemm, readable
from lowtide.torch.grouped_arguments import At, check
from lowtide.torch.ops import LIBRARY
from lowtide.torch.results import PAIRED
from lowtide.torch.several import read_text, warn

LIBRARY.define(
    "grouped_epilogue(Tensor a, Tensor b, Tensor ends, Tensor[] operands, str epilogue, Tensor? a_rows) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _grouped_epilogue(
    a: torch.Tensor,
    b: torch.Tensor,
    ends: torch.Tensor,
    operands: Sequence[torch.Tensor],
    epilogue: str,
    a_rows: torch.Tensor | None,
) -> torch.Tensor:
    asked = read_text(epilogue)
    _check(a, b, ends, asked, operands, a_rows)
    if a.is_cuda and 0 not in (*a.shape, *b.shape, *(() if a_rows is None else a_rows.shape)):
        try:
            return _by_kernel(a, b, ends, asked, operands, a_rows)
        except Error as error:
            warn(str(error))
    wide = grouped_gemm(a, b, ends, dtype_of(asked.acc), a_rows)
    given = {operand.name: tensor for operand, tensor in zip(asked.operands, operands, strict=True)}
    (found,) = evaluate_results(asked.graph(), wide.chunk(asked.sums, dim=1), given).values()
    return found


def _by_kernel(
    a: torch.Tensor,
    b: torch.Tensor,
    ends: torch.Tensor,
    epilogue: TextEpilogue,
    operands: Sequence[torch.Tensor],
    a_rows: torch.Tensor | None,
) -> torch.Tensor:
    more: dict[str, Any] = {
        operand.name: x.contiguous() for operand, x in zip(epilogue.operands, operands, strict=True)
    }
    if a_rows is not None:
        more["a_rows"] = a_rows.contiguous()
    a, b = readable(a, b)
    with torch.no_grad():
        pairs = PAIRED if epilogue.sums > 1 else None
        found = multiply_groups(a, b, ends.contiguous(), epilogue=epilogue, pairs=pairs, **more)
    d: torch.Tensor
    (d,) = found.values() if isinstance(found, dict) else (found,)
    return d


def _check(
    a: torch.Tensor,
    b: torch.Tensor,
    ends: torch.Tensor,
    epilogue: TextEpilogue,
    operands: Sequence[torch.Tensor],
    a_rows: torch.Tensor | None,
) -> tuple[int, int]:
    """D's shape. Raises LaunchError for tensors that do not fit."""
    rows, columns = check(a, b, ends, At(a_rows))[-2:]
    if b.dim() != 3 or len(operands) != len(epilogue.operands) or len(epilogue.results) != 1:
        raise LaunchError(
            f"b {tuple(b.shape)}, {len(operands)} operands and the epilogue {epilogue.text}: pass b (groups, K, N), an"
            " epilogue with one result, and its operands [grouped-epilogue-arguments]"
        )
    return rows, columns // epilogue.sums


def _fake(
    a: torch.Tensor,
    b: torch.Tensor,
    ends: torch.Tensor,
    operands: Sequence[torch.Tensor],
    epilogue: str,
    a_rows: torch.Tensor | None,
) -> torch.Tensor:
    asked = read_text(epilogue)
    return a.new_empty(_check(a, b, ends, asked, operands, a_rows), dtype=dtype_of(asked.d))


LIBRARY.impl("grouped_epilogue", _grouped_epilogue, "CompositeExplicitAutograd")
torch.library.register_fake("lowtide::grouped_epilogue", _fake, lib=LIBRARY)

#: The op as a function, with the arguments of its schema.
grouped_epilogue = torch.ops.lowtide.grouped_epilogue.default


def _flops(a: Sequence[int], b: Sequence[int], *arguments: object, out_shape: Sequence[int], **more: object) -> int:
    return 2 * int(out_shape[0]) * int(a[1]) * int(b[2])


register_flop_formula(torch.ops.lowtide.grouped_epilogue)(_flops)
