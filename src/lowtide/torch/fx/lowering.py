"""Inductor's lowering of `lowtide::gemm`, `lowtide::gemm_results` and `lowtide::grouped_gemm`: calls of Python
functions, not of the dispatcher.

D of `gemm` is an output that Inductor allocates, as for aten.mm, and can place in memory that it reuses. Results of
`gemm_results`, and D of `grouped_gemm`, are allocated by the call.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import config, ir
from torch._inductor.lowering import fallback_handler, register_lowering
from torch._inductor.select_algorithm import extern_kernels
from torch._inductor.virtualized import V

from lowtide.compiler.fx.rule import is_odd
from lowtide.compiler.matmul.matmul import matmul
from lowtide.elements import element_type
from lowtide.errors import Error
from lowtide.torch.calls import How, default_type, read
from lowtide.torch.dtypes import name_of
from lowtide.torch.fx.beginning import are_known, begin, begin_groups, begin_results
from lowtide.torch.fx.calling import run, run_groups, run_results
from lowtide.torch.grouped import grouped_gemm
from lowtide.torch.ops import gemm
from lowtide.torch.several import gemm_results

_NAME, _RESULTS, _GROUPS = "lowtide_gemm", "lowtide_gemm_results", "lowtide_grouped_gemm"
_ASKED = ("epilogue", "numerics", "precision")
_TIMED_BITS = 16  # the bits of f16 and bf16


def lowtide_mm(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> None:
    """A product for `torch._inductor.config.external_matmul`: Inductor times it beside its own, and takes the faster.

    Products that are not worth timing, or that no kernel multiplies in place, are left to torch.
    """
    if a.is_cuda and element_type(name_of(a.dtype)).bits == _TIMED_BITS:
        with contextlib.suppress(Error):
            matmul(a, b, out=out)
            return
    torch.mm(a, b, out=out)


class Gemm(ir.ExternKernelOut):
    """The call, with the layouts of its tensors if they are known when code is written."""

    is_begun = False

    def codegen(self, wrapper: Any) -> None:
        self.kwargs["lies"] = _lies([*self.inputs, self], *(self.kwargs[name] for name in _ASKED))
        self.begin()
        super().codegen(wrapper)

    def begin(self) -> None:
        """Have the kernel compiled while Inductor compiles the graph, once the layouts are known."""
        self.is_begun = self.is_begun or begin(self, How(**{name: self.kwargs[name] for name in _ASKED}))


class GemmResults(ir.FallbackKernel):
    """The call for several results, with the layouts of its inputs if they are known when code is written."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.python_kernel_name = f"extern_kernels.{_RESULTS}"

    def codegen(self, wrapper: Any) -> None:
        self.kwargs["lies"] = _lies(self.inputs, *self.constant_args)
        (a, b, _, epilogue, _, *second), _ = self.unflatten_args(self.inputs, self.constant_args)
        begin_results(a, b, epilogue, *second)
        super().codegen(wrapper)


class GroupedGemm(ir.FallbackKernel):
    """The call of `run_groups`, with types, sizes and strides of A, B and the ends if they are known when code is
    written."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.python_kernel_name = f"extern_kernels.{_GROUPS}"

    def codegen(self, wrapper: Any) -> None:
        (a, b, ends, out_dtype), _ = self.unflatten_args(self.inputs, self.constant_args)
        self.kwargs["lies"] = _lies(self.inputs, out_dtype)
        begin_groups(a, b, ends, out_dtype)
        super().codegen(wrapper)


def _lies(nodes: Sequence[Any], *asked: Any) -> str | None:
    """Types, sizes, strides and device of the tensors, and what is asked for; None if any is known only at run time."""
    if not are_known(nodes):
        return None
    lie = (f"{name_of(node.get_dtype())} {[*node.get_size(), *node.get_stride()]}" for node in nodes)
    return f"{nodes[0].get_device()}: {'; '.join(lie)}; {asked}"


def lower(a: Any, b: Any, operands: Sequence[Any], *arguments: Any) -> Any:
    """The op as a node of Inductor's IR."""
    how = How(*arguments)
    if how.scalars or V.graph.cpp_wrapper:
        return _fallback(a, b, operands, *how)
    asked = read(how.epilogue)
    dtype = (how.out_dtype or default_type(a.get_dtype(), b.get_dtype())) if asked is None else asked.d
    outer = a.get_size()[:-1] if len(a.get_size()) >= len(b.get_size()) else [*b.get_size()[:-2], a.get_size()[-2]]
    made = Gemm(
        layout=_aligned(ir.FixedLayout(a.get_device(), dtype, [*outer, b.get_size()[-1]])),
        inputs=[_matrix(a), _matrix(b), *map(_by_rows, operands)],
        kwargs={name: getattr(how, name) for name in _ASKED},
        python_kernel_name=f"extern_kernels.{_NAME}",
    )
    made.begin()
    return ir.TensorBox.create(made)


def lower_groups(a: Any, b: Any, ends: Any, out_dtype: Any = None, *at: Any) -> Any:
    """The op as a node of Inductor's IR."""
    if V.graph.cpp_wrapper or any(each is not None for each in at):
        return _groups_fallback(a, b, ends, out_dtype, *at)
    a, b, ends = (ir.ExternKernel.realize_input(x) for x in (a, b, ends))
    begin_groups(a, b, ends, out_dtype)
    return ir.TensorBox.create(GroupedGemm.create(grouped_gemm, a, b, ends, out_dtype))


def _aligned(layout: Any) -> Any:
    """The layout of D. If its rows are not multiples of 16 bytes, they are padded as Inductor pads those of its own
    tensors, so that the launch need not copy D."""
    columns = layout.size[-1]
    is_known = isinstance(columns, int) or columns.is_Integer
    if not config.comprehensive_padding or not is_known or not is_odd(int(columns), name_of(layout.dtype)):
        return layout
    padded = ir.Layout._pad_strides(layout.stride, layout.size, layout.dtype)
    return ir.FixedLayout(layout.device, layout.dtype, layout.size, padded)


def lower_results(
    a: Any, b: Any, operands: Sequence[Any], epilogue: str, halves: Sequence[str], second: Any = None
) -> Any:
    """The op as a node of Inductor's IR with several outputs."""
    if V.graph.cpp_wrapper:
        return _results_fallback(a, b, operands, epilogue, halves, second)
    inputs = _matrix(a), _matrix(b), [_by_rows(x) for x in operands]
    more = [] if second is None else [_matrix(second)]
    begin_results(inputs[0], inputs[1], epilogue, *more)
    made = GemmResults.create(gemm_results, *inputs, epilogue, list(halves), *more)
    return [ir.TensorBox.create(each) for each in made]


def _matrix(x: Any) -> Any:
    return ir.ExternKernel.require_stride1(ir.ExternKernel.realize_input(x))


def _by_rows(x: Any) -> Any:
    order = list(reversed(range(len(x.get_size()))))
    return ir.ExternKernel.require_stride_order(ir.ExternKernel.realize_input(x), order)


_fallback = fallback_handler(gemm, add_to_fallback_set=False)
_results_fallback = fallback_handler(gemm_results, add_to_fallback_set=False)
_groups_fallback = fallback_handler(grouped_gemm, add_to_fallback_set=False)
setattr(extern_kernels, _NAME, run)
setattr(extern_kernels, _GROUPS, run_groups)
setattr(extern_kernels, _RESULTS, run_results)
register_lowering(gemm, type_promotion_kind=None)(lower)
register_lowering(gemm_results, type_promotion_kind=None)(lower_results)
register_lowering(grouped_gemm, type_promotion_kind=None)(lower_groups)
