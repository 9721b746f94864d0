"""Sums over ranks in a fixed order: a product with K = 0, whose epilogue adds one full operand for each rank.

So D = epilogue(part 0 + part 1 + …). The sum is in f32, from rank 0 on, and D is rounded once. A kernel computes it on
a GPU, and torch on a CPU. The bits do not depend on which part arrives first.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from lowtide.compiler.epilogue.operands import OperandKind, OperandType
from lowtide.compiler.epilogue.text import epilogue_text
from lowtide.torch.calls import How, read, sums_type
from lowtide.torch.dtypes import name_of
from lowtide.torch.ops import compute_out


def add_in_order(
    parts: Sequence[torch.Tensor],
    operands: Sequence[torch.Tensor],
    how: How,
    like: torch.dtype,
    out: torch.Tensor,
    marks: torch.Tensor | None = None,
) -> None:
    """out (M, N) = epilogue(sum of the parts (M, N)). `like`: the type of A and B of the product. `marks`: f32 (N,),
    also added: zeros, or NaN if D must not be used. Gradients are not recorded. Raises LaunchError for operands that do
    not fit."""
    m, n = out.shape
    types = name_of(parts[0].dtype), sums_type(like, like), name_of(out.dtype)
    text = _text_of_sum(len(parts), types, how.epilogue, marks is not None)
    empty = out.new_empty(0, dtype=like)
    asked = How(how.scalars, text, how.numerics, None, out.dtype)
    compute_out(
        empty.view(m, 0), empty.view(0, n), [*parts, *([] if marks is None else [marks]), *operands], asked, out
    )


@functools.lru_cache(maxsize=1024)
def _text_of_sum(count: int, types: tuple[str, str, str], epilogue: str, has_marks: bool) -> str:
    part, sums, d = types
    kinds = [OperandType(OperandKind.FULL, part)] * count + [OperandType(OperandKind.PER_COLUMN, "f32")] * has_marks
    asked = read(epilogue)
    return epilogue_text(_sum(kinds, None if asked is None else asked.function), sums, d)


def _sum(kinds: Sequence[OperandType], then: Callable[..., Any] | None) -> Callable[..., Any]:
    """The epilogue of the sum. Its operands are the parts, then the operands of the epilogue `then` of the call."""
    others = [] if then is None else [*inspect.signature(then).parameters.values()][1:]
    taken, prefix, count = {each.name for each in others}, "part", len(kinds)
    while any(f"{prefix}{number}" in taken for number in range(count)):
        prefix += "x"

    def total(acc: Any, *given: Any) -> Any:
        value = given[0]
        for each in given[1:count]:
            value = value + each
        return value if then is None else then(value, *given[count:])

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [inspect.Parameter(f"{prefix}{number}", kind, annotation=each) for number, each in enumerate(kinds)]
    total.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("acc", kind), *own, *others]
    )
    return total
