"""How Inductor compiles `lowtide::gemm`: a call with an output that Inductor allocates, as it does for aten.mm.

Without it the op would be called through torch's dispatcher, and would allocate its own D, which Inductor could not
place in memory that it reuses.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import fallback_handler, register_lowering
from torch._inductor.select_algorithm import extern_kernels
from torch._inductor.virtualized import V

from lowtide.compiler.matmul.matmul import matmul
from lowtide.compiler.numerics_words import REPEATABLE
from lowtide.elements import element_type
from lowtide.errors import Error, LaunchError
from lowtide.torch.calls import read
from lowtide.torch.dtypes import name_of
from lowtide.torch.ops import gemm, gemm_out

_NAME = "lowtide_gemm"
_TIMED_BITS = 16  # of elements of f16 and bf16


def run(
    a: torch.Tensor, b: torch.Tensor, *operands: torch.Tensor, epilogue: str, numerics: str, out: torch.Tensor
) -> None:
    """What a compiled graph calls. Raises as `lowtide::gemm_out` does."""
    if a.is_cuda:
        with contextlib.suppress(LaunchError):  # of tensors that lie as no kernel reads them, which the op copies
            _multiply(a, b, operands, epilogue, numerics, out)
            return
    gemm_out(a, b, list(operands), [], epilogue, numerics, out)


def _multiply(
    a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], epilogue: str, numerics: str, out: torch.Tensor
) -> None:
    asked = read(epilogue)
    if asked is None:
        matmul(a, b, out=out, numerics=numerics)
    else:
        named = dict(zip(asked.names, operands, strict=True))
        matmul(a, b, epilogue=asked.function, out=out, numerics=numerics, **named)


def lowtide_mm(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> None:
    """A product for `torch._inductor.config.external_matmul`: Inductor times it beside its own, and takes the faster.

    What is not worth timing, and what no kernel multiplies as it lies, is multiplied by torch.
    """
    if a.is_cuda and element_type(name_of(a.dtype)).bits == _TIMED_BITS:
        with contextlib.suppress(Error):
            _multiply(a, b, (), "", REPEATABLE, out)
            return
    torch.mm(a, b, out=out)


def lower(
    a: Any, b: Any, operands: Sequence[Any], scalars: Sequence[float], epilogue: str, out_dtype: Any, numerics: str
) -> Any:
    """The op as a node of Inductor's IR."""
    if scalars or V.graph.cpp_wrapper:
        return _fallback(a, b, operands, scalars, epilogue, out_dtype, numerics)
    asked = read(epilogue)
    dtype = (a.get_dtype() if out_dtype is None else out_dtype) if asked is None else asked.d
    outer = a.get_size()[:-1] if len(a.get_size()) >= len(b.get_size()) else [*b.get_size()[:-2], a.get_size()[-2]]
    made = ir.ExternKernelOut(
        layout=ir.FixedLayout(a.get_device(), dtype, [*outer, b.get_size()[-1]]),
        inputs=[_matrix(a), _matrix(b), *map(_by_rows, operands)],
        kwargs={"epilogue": epilogue, "numerics": numerics},
        python_kernel_name=f"extern_kernels.{_NAME}",
    )
    return ir.TensorBox.create(made)


def _matrix(x: Any) -> Any:
    return ir.ExternKernel.require_stride1(ir.ExternKernel.realize_input(x))


def _by_rows(x: Any) -> Any:
    order = list(reversed(range(len(x.get_size()))))
    return ir.ExternKernel.require_stride_order(ir.ExternKernel.realize_input(x), order)


_fallback = fallback_handler(gemm, add_to_fallback_set=False)
setattr(extern_kernels, _NAME, run)
register_lowering(gemm, type_promotion_kind=None)(lower)
