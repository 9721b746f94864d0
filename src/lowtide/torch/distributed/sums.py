"""Sums over ranks in a fixed order: a product with K = 0, whose epilogue adds one full operand of each rank.

So D = epilogue(part 0 + part 1 + …), summed in f32 from rank 0 on and rounded once, by a kernel on a GPU, and by torch
on a CPU. Bits do not depend on which part arrived first.
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
    parts: Sequence[torch.Tensor], operands: Sequence[torch.Tensor], how: How, like: torch.dtype, out: torch.Tensor
) -> None:
    """out (M, N) = epilogue(sum of the parts (M, N)). `like`: the type of A and B of the product. Gradients are not
    recorded. Raises LaunchError for operands that do not fit."""
    m, n = out.shape
    text = _text_of_sum(len(parts), name_of(parts[0].dtype), how.epilogue, sums_type(like, like), name_of(out.dtype))
    empty = out.new_empty(0, dtype=like)
    asked = How(how.scalars, text, how.numerics, None, out.dtype)
    compute_out(empty.view(m, 0), empty.view(0, n), [*parts, *operands], asked, out)


@functools.lru_cache(maxsize=1024)
def _text_of_sum(count: int, part: str, epilogue: str, sums: str, d: str) -> str:
    asked = read(epilogue)
    return epilogue_text(_sum(count, part, None if asked is None else asked.function), sums, d)


def _sum(count: int, part: str, then: Callable[..., Any] | None) -> Callable[..., Any]:
    """The epilogue. Its operands are the parts, then those of the epilogue that follows."""
    others = [] if then is None else [*inspect.signature(then).parameters.values()][1:]
    taken, prefix = {each.name for each in others}, "part"
    while any(f"{prefix}{number}" in taken for number in range(count)):
        prefix += "x"

    def total(acc: Any, *given: Any) -> Any:
        value = given[0]
        for each in given[1:count]:
            value = value + each
        return value if then is None else then(value, *given[count:])

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [
        inspect.Parameter(f"{prefix}{number}", kind, annotation=OperandType(OperandKind.FULL, part))
        for number in range(count)
    ]
    total.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("acc", kind), *own, *others]
    )
    return total
