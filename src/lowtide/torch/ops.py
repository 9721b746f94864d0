"""The custom ops `lowtide::gemm` and `lowtide::gemm_out`, with fake implementations.

    gemm(Tensor a, Tensor b, Tensor[] operands, float[] scalars, str epilogue, str numerics, str? precision,
         ScalarType? out_dtype) -> Tensor
    gemm_out(Tensor a, Tensor b, Tensor[] operands, float[] scalars, str epilogue, str numerics, str? precision,
             Tensor(a!) out) -> ()

A is (…, M, K), B (…, K, N) and D (…, M, N), as in `lt.matmul`: transposes, slices and batches are read in place.
Tensors that no kernel can read, such as an expanded gradient, are copied first, as by torch.matmul. `epilogue` is the
text of an epilogue (`compiler/epilogue/text.py`), "" for none; `operands` are its tensors in the order of the text,
`scalars` its scalars. `numerics` and `precision` are those of `lt.matmul`; `out_dtype` is D's type if no epilogue says
it. D of `gemm` is contiguous. From `scalars` on the arguments are the fields of `How`.

Tensors on the CPU are multiplied by torch (`evaluation.py`).
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from lowtide.compiler.matmul.arrangement import result_shape
from lowtide.compiler.matmul.matmul import matmul
from lowtide.errors import LaunchError
from lowtide.torch.calls import How, check, d_type, read, sums_type
from lowtide.torch.dtypes import name_of
from lowtide.torch.evaluation import evaluate, product, rounded

LIBRARY = torch.library.Library("lowtide", "DEF")
_ASKED = "Tensor a, Tensor b, Tensor[] operands, float[] scalars, str epilogue, str numerics, str? precision"
for _schema in (f"gemm({_ASKED}, ScalarType? out_dtype) -> Tensor", f"gemm_out({_ASKED}, Tensor(a!) out) -> ()"):
    LIBRARY.define(_schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout))


def compute(a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], how: How) -> torch.Tensor:
    """`gemm` without the dispatcher, on tensors whose gradients are not recorded. Raises LaunchError, SpecError."""
    d = d_type(a, b, how)
    if a.device.type == "cuda":
        is_default = d is a.dtype and d.itemsize > 1  # as lt.matmul allocates
        out = None if is_default else a.new_empty(result_shape(a, b), dtype=d)
        return _multiply(a, b, operands, how, out)
    return _by_torch(a, b, operands, how, d)


def compute_out(
    a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], how: How, out: torch.Tensor, alone: bool = False
) -> None:
    """`gemm_out` without the dispatcher; `how.out_dtype` is the dtype of `out`. `alone`: as in `lt.matmul`. Raises
    SpecError, and LaunchError, also if autograd would record the call."""
    d = d_type(a, b, how)
    if a.device.type == "cuda":
        _multiply(a, b, operands, how, out, alone)
        return
    _check_out(a, b, operands, how, out)
    if torch.is_grad_enabled() and any(x.requires_grad for x in (a, b, *operands, out)):
        raise LaunchError(
            "out: autograd does not record a call with out=; call it under torch.no_grad(), or without [out-autograd]"
        )
    out.copy_(_by_torch(a, b, operands, how, d))


def _gemm(a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], *how: Any) -> torch.Tensor:
    return compute(a, b, operands, How(*how))


def _gemm_out(a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], *rest: Any) -> None:
    *asked, out = rest
    compute_out(a, b, operands, How(*asked)._replace(out_dtype=out.dtype), out)


def _gemm_fake(a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], *how: Any) -> torch.Tensor:
    asked = How(*how)
    return a.new_empty(check(a, b, operands, asked), dtype=d_type(a, b, asked))


def _gemm_out_fake(a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], *rest: Any) -> None:
    *asked, out = rest
    how = How(*asked)._replace(out_dtype=out.dtype)
    d_type(a, b, how)
    _check_out(a, b, operands, how, out)


for _name, _function, _fake in (("gemm", _gemm, _gemm_fake), ("gemm_out", _gemm_out, _gemm_out_fake)):
    LIBRARY.impl(_name, _function, "CompositeExplicitAutograd")  # for sparse tensors too, which it refuses
    torch.library.register_fake(f"lowtide::{_name}", _fake, lib=LIBRARY)


def _flops(a: Sequence[int], b: Sequence[int], *arguments: Any, out_shape: Sequence[int], **keywords: Any) -> int:
    return 2 * prod(out_shape) * a[-1]


register_flop_formula(torch.ops.lowtide.gemm)(_flops)


def _multiply(
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    how: How,
    out: torch.Tensor | None,
    alone: bool = False,
) -> torch.Tensor:
    """Multiply by a kernel. Tensors that no kernel can read are copied."""
    asked = read(how.epilogue)
    names = asked.names if asked else ()
    if len(names) != len(operands) + len(how.scalars):
        check(a, b, operands, how)
    named = dict(zip(names, (*operands, *how.scalars), strict=True))
    function = asked.function if asked else None
    try:
        found: torch.Tensor = matmul(
            a, b, epilogue=function, out=out, numerics=how.numerics, precision=how.precision, alone=alone, **named
        )
        return found
    except LaunchError:
        given = (a, b, *operands)
        if any(x.layout is not torch.strided for x in given):
            raise
        lying = [_readable(x) for x in given]
        if all(x is copy for x, copy in zip(given, lying, strict=True)):
            raise
    return _multiply(lying[0], lying[1], lying[2:], how, out, alone)


def _readable(x: torch.Tensor) -> torch.Tensor:
    """The tensor if its last two dimensions form a matrix and the others collapse to one, else a copy."""
    lie = x.stride()[-2:]
    is_matrix = 1 in lie and 0 not in lie and x.dim() <= 3
    return x if is_matrix or x.is_contiguous() else x.contiguous()


def _by_torch(
    a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], how: How, d: torch.dtype
) -> torch.Tensor:
    shape, asked = check(a, b, operands, how), read(how.epilogue)
    if a.device.type != "cpu":
        raise LaunchError(
            f"operand a: on {a.device}; operands are on an NVIDIA GPU, or on the CPU: move them [torch-gpu]"
        )
    acc = product(a, b, sums_type(a.dtype, b.dtype), how.precision)
    if asked is None:
        return rounded(acc, name_of(d))
    return evaluate(asked, acc, operands, how.scalars).expand(shape).contiguous()


def _check_out(a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], how: How, out: torch.Tensor) -> None:
    shape = check(a, b, operands, how)
    if tuple(out.shape) != shape or out.device != a.device:
        raise LaunchError(
            f"out: {tuple(out.shape)} on {out.device}, but the product is {shape} on {a.device}: pass such a tensor"
            " [out-shape]"
        )


#: The ops as functions, with the arguments of their schemas.
gemm = torch.ops.lowtide.gemm.default
gemm_out = torch.ops.lowtide.gemm_out.default
