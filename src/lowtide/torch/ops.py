"""The custom ops `lowtide::gemm` and `lowtide::gemm_out`, with fake implementations.

    gemm(Tensor a, Tensor b, Tensor[] operands, float[] scalars, str epilogue, ScalarType? out_dtype, str numerics)
        -> Tensor
    gemm_out(Tensor a, Tensor b, Tensor[] operands, float[] scalars, str epilogue, str numerics, Tensor(a!) out) -> ()

A is (…, M, K), B (…, K, N) and D (…, M, N), as in `lt.matmul`: transposes, slices and batches are read as they lie.
What no kernel reads so, such as an expanded gradient, is copied first, as torch.matmul does. `epilogue` is the text of
an epilogue (`compiler/epilogue/text.py`), "" for none; `operands` are its tensors in the order of the text, `scalars`
its scalars. `out_dtype` is D's type where no epilogue says it. D of `gemm` is contiguous.

Tensors on the CPU are multiplied by torch (`evaluation.py`).
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from lowtide.compiler.matmul.arrangement import result_shape
from lowtide.compiler.matmul.matmul import matmul
from lowtide.compiler.numerics_words import check_numerics
from lowtide.errors import LaunchError
from lowtide.torch.calls import Epilogue, check, d_type, read, sums_type
from lowtide.torch.dtypes import name_of
from lowtide.torch.evaluation import evaluate, product, rounded

LIBRARY = torch.library.Library("lowtide", "DEF")
LIBRARY.define(
    "gemm(Tensor a, Tensor b, Tensor[] operands, float[] scalars, str epilogue, ScalarType? out_dtype, str numerics)"
    " -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
LIBRARY.define(
    "gemm_out(Tensor a, Tensor b, Tensor[] operands, float[] scalars, str epilogue, str numerics, Tensor(a!) out)"
    " -> ()",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def compute(
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    scalars: Sequence[float],
    epilogue: str,
    out_dtype: torch.dtype | None,
    numerics: str,
) -> torch.Tensor:
    """`gemm` without the dispatcher: what it does on tensors whose gradients are not recorded. Raises LaunchError,
    SpecError."""
    asked = read(epilogue)
    d = d_type(a, b, asked, out_dtype)
    if a.device.type == "cuda":
        is_default = d is a.dtype and d.itemsize > 1  # what lt.matmul allocates
        out = None if is_default else a.new_empty(result_shape(a, b), dtype=d)
        return _multiply(a, b, operands, scalars, asked, numerics, out)
    return _by_torch(a, b, operands, scalars, asked, d, numerics)


def compute_out(
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    scalars: Sequence[float],
    epilogue: str,
    numerics: str,
    out: torch.Tensor,
) -> None:
    """`gemm_out` without the dispatcher. Raises LaunchError, also where autograd would record it, and SpecError."""
    asked = read(epilogue)
    d = d_type(a, b, asked, out.dtype)
    if a.device.type == "cuda":
        _multiply(a, b, operands, scalars, asked, numerics, out)
        return
    _check_out(a, b, operands, scalars, asked, out)
    if torch.is_grad_enabled() and any(x.requires_grad for x in (a, b, *operands, out)):
        raise LaunchError("out: autograd does not record a call with out=; call it under torch.no_grad(), or without")
    out.copy_(_by_torch(a, b, operands, scalars, asked, d, numerics))


def _gemm_fake(
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    scalars: Sequence[float],
    epilogue: str,
    out_dtype: torch.dtype | None,
    numerics: str,
) -> torch.Tensor:
    asked = read(epilogue)
    check_numerics(numerics)
    return a.new_empty(check(a, b, operands, scalars, asked), dtype=d_type(a, b, asked, out_dtype))


def _gemm_out_fake(
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    scalars: Sequence[float],
    epilogue: str,
    numerics: str,
    out: torch.Tensor,
) -> None:
    asked = read(epilogue)
    check_numerics(numerics)
    d_type(a, b, asked, out.dtype)
    _check_out(a, b, operands, scalars, asked, out)


for _name, _function, _fake in (("gemm", compute, _gemm_fake), ("gemm_out", compute_out, _gemm_out_fake)):
    LIBRARY.impl(_name, _function, "CompositeExplicitAutograd")  # sparse tensors too, which are refused
    torch.library.register_fake(f"lowtide::{_name}", _fake, lib=LIBRARY)


def _flops(a: Sequence[int], b: Sequence[int], *arguments: Any, out_shape: Sequence[int], **keywords: Any) -> int:
    return 2 * prod(out_shape) * a[-1]


register_flop_formula(torch.ops.lowtide.gemm)(_flops)


def _multiply(
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    scalars: Sequence[float],
    asked: Epilogue | None,
    numerics: str,
    out: torch.Tensor | None,
) -> torch.Tensor:
    """By a kernel. What no kernel reads as it lies is copied."""
    names = asked.names if asked else ()
    if len(names) != len(operands) + len(scalars):
        check(a, b, operands, scalars, asked)
    function = asked.function if asked else None

    def product_of(a: torch.Tensor, b: torch.Tensor, *operands: torch.Tensor) -> torch.Tensor:
        named = dict(zip(names, (*operands, *scalars), strict=True))
        return matmul(a, b, epilogue=function, out=out, numerics=numerics, **named)

    try:
        return product_of(a, b, *operands)
    except LaunchError:
        given = (a, b, *operands)
        if any(x.layout is not torch.strided for x in given):
            raise
        copies = [_readable(x) for x in given]
        if all(x is copy for x, copy in zip(given, copies, strict=True)):
            raise
    return product_of(*copies)


def _readable(x: torch.Tensor) -> torch.Tensor:
    """The tensor where its last two dimensions lie as a matrix and the others are one, else a copy."""
    lie = x.stride()[-2:]
    is_matrix = 1 in lie and 0 not in lie and x.dim() <= 3
    return x if is_matrix or x.is_contiguous() else x.contiguous()


def _by_torch(
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    scalars: Sequence[float],
    asked: Epilogue | None,
    d: torch.dtype,
    numerics: str,
) -> torch.Tensor:
    check_numerics(numerics)
    shape = check(a, b, operands, scalars, asked)
    if a.device.type != "cpu":
        raise LaunchError(f"operand a: on {a.device}; operands are on an NVIDIA GPU, or on the CPU: move them")
    acc = product(a, b, sums_type(a.dtype, b.dtype))
    if asked is None:
        return rounded(acc, name_of(d))
    return evaluate(asked, acc, operands, scalars).expand(shape).contiguous()


def _check_out(
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    scalars: Sequence[float],
    asked: Epilogue | None,
    out: torch.Tensor,
) -> None:
    shape = check(a, b, operands, scalars, asked)
    if tuple(out.shape) != shape or out.device != a.device:
        raise LaunchError(
            f"out: {tuple(out.shape)} on {out.device}, but the product is {shape} on {a.device}: pass such a tensor"
        )


#: The ops as functions, with the arguments of their schemas.
gemm = torch.ops.lowtide.gemm.default
gemm_out = torch.ops.lowtide.gemm_out.default
