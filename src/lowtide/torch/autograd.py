"""The derivative of `lowtide::gemm`: products of the gradient with the transposed operands, by the same op.

With dZ the gradient of the sums, dA = dZ · Bᵀ and dB = Aᵀ · dZ. Both read A, B and dZ in place, and have the layouts of
A and B. Without an epilogue dZ is dD, otherwise dD times the derivative of the epilogue. If the derivative depends on
the sums, one kernel computes them again, with the derivative as its epilogue: a call keeps only the A, B and operands
that are read again, as with activation checkpointing. dZ is rounded to A's type before it is multiplied; products are
summed in f32.
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
    """The form of a gradient: its number of dimensions, its type, and whether the tensor is stored by columns."""

    rank: int
    dtype: torch.dtype
    by_columns: bool

    @classmethod
    def of(cls, x: torch.Tensor) -> "_Like":
        return cls(x.dim(), x.dtype, x.dim() > 1 and x.stride(-1) != 1 and x.stride(-2) == 1)


class Gemm(torch.autograd.Function):
    """`lowtide::gemm` with the operands as separate arguments, then the fields of `How`. With `is_weight`, B is given
    as (N, K), and its gradient has the type that `Tensor.grad_dtype` asks for."""

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
    """`gemm`, without the dispatcher if it has nothing to do. Raises the same errors."""
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
    """The type that derivatives are rounded to: A's type, or D's if A has 8 bits and thus no gradient."""
    asked = read(epilogue)
    row = element_type(name_of(a.dtype))
    return asked.graph.d if asked is not None and row.bits == 8 else row.name


def _check_types(tensors: Sequence[torch.Tensor]) -> None:
    """Raises LaunchError for 8-bit floats that require a gradient."""
    for tensor in tensors:
        if tensor.requires_grad and element_type(name_of(tensor.dtype)).bits == 8:
            raise LaunchError(
                f"an operand of {tensor.dtype} requires a gradient, but its type is too narrow for one: detach it, and"
                " scale and convert in a torch.autograd.Function of your own [gradient-type]"
            )


def _derivatives(
    ctx: Any,
    a: torch.Tensor | None,
    b: torch.Tensor | None,
    operands: Sequence[torch.Tensor | None],
    gradient: torch.Tensor,
) -> Mapping[str | None, torch.Tensor]:
    """Derivatives by text, each computed once: by a kernel if it depends on the sums, else by torch."""
    asked = read(ctx.how.epilogue)
    given = dict(zip(asked.names, (*operands, *ctx.how.scalars), strict=True)) if asked else {}
    found: dict[str | None, torch.Tensor] = {}
    for text in {ctx.plan.of_sums, *ctx.plan.of_operands} - {None}:
        wanted = read(text)
        if wanted is None:
            found[ITSELF] = gradient.to(ctx.like[0].dtype)
            continue
        tensors = wanted.tensors()
        values = [given.get(name, gradient) for name in wanted.names]  # the added operand is dD
        given_tensors, scalars = values[: len(tensors)], values[len(tensors) :]
        if wanted.reads_sums:
            how = ctx.how._replace(scalars=scalars, epilogue=text, out_dtype=None)
            found[text] = multiply(a, b, given_tensors, how)
        else:
            found[text] = evaluate(wanted, None, given_tensors, scalars).expand(gradient.shape)
    return found


def _of_first(of_sums: torch.Tensor, b: torch.Tensor, like: _Like, how: How) -> torch.Tensor:
    """dA = dZ · Bᵀ; if a batch shares A, the sum over the batch in f32."""
    if like.rank == of_sums.dim():
        return _product(of_sums, b.mT, like, how)
    sums = torch.promote_types(like.dtype, torch.float32)
    each = _product(of_sums, b.mT, _Like(of_sums.dim(), sums, False), how)
    return each.sum([*range(each.dim() - 2)]).to(like.dtype)


def _of_second(of_sums: torch.Tensor, a: torch.Tensor, like: _Like, how: How) -> torch.Tensor:
    """dB = Aᵀ · dZ; if a batch shares B, over the rows of the whole batch. It depends on all rows, whatever numerics
    promise for one row."""
    how = how._replace(numerics=REPEATABLE) if how.numerics == BATCH_INVARIANT else how
    if like.rank == 2 and of_sums.dim() > 2:
        a, of_sums = a.reshape(-1, a.shape[-1]), of_sums.reshape(-1, of_sums.shape[-1])
    return _product(a.mT, of_sums, like, how)


def _product(first: torch.Tensor, second: torch.Tensor, like: _Like, how: How) -> torch.Tensor:
    """The product, with the numerics and the precision asked for."""
    plain = How(numerics=how.numerics, precision=how.precision, out_dtype=like.dtype)
    if like.by_columns:
        return multiply(second.mT, first.mT, [], plain).mT
    return multiply(first, second, [], plain)


def _reduced(whole: torch.Tensor, kind: OperandKind, like: _Like) -> torch.Tensor:
    """A gradient of D's shape, summed over the dimensions that the operand lacks, in f32 or wider."""
    if kind is OperandKind.FULL:
        return whole.to(like.dtype)
    of_columns = [*range(whole.dim() - 1)] if like.rank == 1 else [-2]
    return whole.sum([-1] if kind is OperandKind.PER_ROW else of_columns, dtype=like.dtype)
