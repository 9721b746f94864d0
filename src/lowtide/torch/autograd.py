"""The derivative of `lowtide::gemm`: products of the gradient with the transposed operands, by the same op.

With dZ the gradient of the sums, dA = dZ · Bᵀ and dB = Aᵀ · dZ; both read A, B and dZ as they lie, and lie as A and B
do. dZ is dD where there is no epilogue, dD times the derivative of the epilogue otherwise. Where that depends on the
sums they are computed again, in one kernel with the derivative as its epilogue: of a call nothing is kept but what of
A, B and operands is read again, as with activation checkpointing. dZ is rounded to A's type before it is multiplied;
products are summed in f32.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.numerics_words import BATCH_INVARIANT, REPEATABLE
from lowtide.elements import element_type
from lowtide.errors import LaunchError
from lowtide.torch.calls import How, read
from lowtide.torch.derivatives import ITSELF, plan
from lowtide.torch.dispatch import is_eager, is_transformed, records_gradient
from lowtide.torch.dtypes import name_of
from lowtide.torch.evaluation import evaluate
from lowtide.torch.ops import LIBRARY, compute, gemm


@dataclass(frozen=True)
class _Like:
    """What a gradient has to be: of as many dimensions, of this type, and by columns where the tensor is."""

    rank: int
    dtype: torch.dtype
    by_columns: bool

    @classmethod
    def of(cls, x: torch.Tensor) -> "_Like":
        return cls(x.dim(), x.dtype, x.dim() > 1 and x.stride(-1) != 1 and x.stride(-2) == 1)


class Gemm(torch.autograd.Function):
    """`lowtide::gemm` with the operands one by one, then what is asked. With `is_weight` B is given as (N, K), and its
    gradient is of the type that `Tensor.grad_dtype` asks for."""

    @staticmethod
    def forward(a: torch.Tensor, b: torch.Tensor, *rest: Any) -> torch.Tensor:
        *operands, how, is_weight = rest
        with torch._C._AutoDispatchBelowAutograd():
            return multiply(a, b.mT if is_weight else b, operands, how)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        a, b, *operands, how, is_weight = inputs
        tensors = (a, b, *operands)
        ctx.plan = plan(how.epilogue, _type_of_gradient(a, how.epilogue), ctx.needs_input_grad[: len(tensors)])
        _check_types(tensors)
        ctx.save_for_backward(*(x if kept else None for x, kept in zip(tensors, ctx.plan.kept, strict=True)))
        ctx.like = [_Like.of(x) for x in tensors]
        if is_weight:
            ctx.like[1] = _Like(2, b.grad_dtype or b.dtype, by_columns=True)
        ctx.how, ctx.is_weight = how, is_weight

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        a, b, *operands = ctx.saved_tensors
        b = b.mT if ctx.is_weight and b is not None else b
        gradient = gradient.contiguous() if 0 in gradient.stride() else gradient  # once, for all products
        derivatives = _derivatives(ctx, a, b, operands, gradient)
        of_sums = derivatives.get(ctx.plan.of_sums)
        da = db = None
        if of_sums is not None and ctx.needs_input_grad[0]:
            da = _of_first(of_sums, b, ctx.like[0], ctx.how)
        if of_sums is not None and ctx.needs_input_grad[1]:
            db = _of_second(of_sums, a, ctx.like[1], ctx.how)
            db = db.mT if ctx.is_weight else db
        asked = read(ctx.how.epilogue)
        found = [
            None if text is None else _reduced(derivatives[text], operand.kind, like)
            for text, operand, like in zip(
                ctx.plan.of_operands, asked.tensors() if asked else (), ctx.like[2:], strict=True
            )
        ]
        return da, db, *found, None, None


def multiply(a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], how: How) -> torch.Tensor:
    """`gemm`, past the dispatcher where it has nothing to do. Raises what that raises."""
    tensors = (a, b, *operands)
    past = is_eager(tensors)
    if (past and records_gradient(tensors)) or (not past and is_transformed()):
        found: torch.Tensor = Gemm.apply(a, b, *operands, how, False)
        return found
    return compute(a, b, operands, how) if past else gemm(a, b, operands, *how)


def _differentiable(a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], *how: Any) -> torch.Tensor:
    tensors = (a, b, *operands)
    if records_gradient(tensors):
        found: torch.Tensor = Gemm.apply(a, b, *operands, How(*how), False)
        return found
    if is_eager(tensors):
        return compute(a, b, operands, How(*how))
    with torch._C._AutoDispatchBelowAutograd():
        return gemm(a, b, operands, *how)


LIBRARY.impl("gemm", _differentiable, "Autograd")


def _type_of_gradient(a: torch.Tensor, epilogue: str) -> str:
    """What derivatives are rounded to: A's type, D's beside an A of 8 bits, which itself has no gradient."""
    asked = read(epilogue)
    row = element_type(name_of(a.dtype))
    return asked.graph.d if asked is not None and row.bits == 8 else row.name


def _check_types(tensors: Sequence[torch.Tensor]) -> None:
    """Raises LaunchError for 8-bit floats that require a gradient."""
    for tensor in tensors:
        if tensor.requires_grad and element_type(name_of(tensor.dtype)).bits == 8:
            raise LaunchError(
                f"an operand of {tensor.dtype} requires a gradient, for which its type is too narrow: detach it, and"
                " scale and convert in a torch.autograd.Function of your own [gradient-type]"
            )


def _derivatives(
    ctx: Any,
    a: torch.Tensor | None,
    b: torch.Tensor | None,
    operands: Sequence[torch.Tensor | None],
    gradient: torch.Tensor,
) -> Mapping[str | None, torch.Tensor]:
    """By text, each computed once: by a kernel where it depends on the sums, else by torch."""
    asked = read(ctx.how.epilogue)
    given = dict(zip(asked.names, (*operands, *ctx.how.scalars), strict=True)) if asked else {}
    found: dict[str | None, torch.Tensor] = {}
    for text in {ctx.plan.of_sums, *ctx.plan.of_operands} - {None}:
        wanted = read(text)
        if wanted is None:
            found[ITSELF] = gradient.to(ctx.like[0].dtype)
            continue
        tensors = wanted.tensors()
        values = [given.get(name, gradient) for name in wanted.names]  # its own operand is the gradient
        given_tensors, scalars = values[: len(tensors)], values[len(tensors) :]
        if wanted.reads_sums:
            how = ctx.how._replace(scalars=scalars, epilogue=text, out_dtype=None)
            found[text] = multiply(a, b, given_tensors, how)
        else:
            found[text] = evaluate(wanted, None, given_tensors, scalars).expand(gradient.shape)
    return found


def _of_first(of_sums: torch.Tensor, b: torch.Tensor, like: _Like, how: How) -> torch.Tensor:
    """dA = dZ · Bᵀ; where A is shared by a batch, the sum over it in f32."""
    if like.rank == of_sums.dim():
        return _product(of_sums, b.mT, like, how)
    sums = torch.promote_types(like.dtype, torch.float32)
    each = _product(of_sums, b.mT, _Like(of_sums.dim(), sums, False), how)
    return each.sum([*range(each.dim() - 2)]).to(like.dtype)


def _of_second(of_sums: torch.Tensor, a: torch.Tensor, like: _Like, how: How) -> torch.Tensor:
    """dB = Aᵀ · dZ; where B is shared by a batch, over all its rows. It depends on all rows whatever is promised of one
    row."""
    how = how._replace(numerics=REPEATABLE) if how.numerics == BATCH_INVARIANT else how
    if like.rank == 2 and of_sums.dim() > 2:
        a, of_sums = a.reshape(-1, a.shape[-1]), of_sums.reshape(-1, of_sums.shape[-1])
    return _product(a.mT, of_sums, like, how)


def _product(first: torch.Tensor, second: torch.Tensor, like: _Like, how: How) -> torch.Tensor:
    """With the numerics and the precision asked for."""
    plain = How(numerics=how.numerics, precision=how.precision, out_dtype=like.dtype)
    if like.by_columns:
        return multiply(second.mT, first.mT, [], plain).mT
    return multiply(first, second, [], plain)


def _reduced(whole: torch.Tensor, kind: OperandKind, like: _Like) -> torch.Tensor:
    """A gradient of D's shape, summed over what the operand does not have, in f32 or more."""
    if kind is OperandKind.FULL:
        return whole.to(like.dtype)
    of_columns = [*range(whole.dim() - 1)] if like.rank == 1 else [-2]
    return whole.sum([-1] if kind is OperandKind.PER_ROW else of_columns, dtype=like.dtype)
