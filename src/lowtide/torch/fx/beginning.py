"""Has kernels compiled while Inductor still compiles the graph that calls them (`compiler/ahead.py`).

If all rows of a call are multiples of 16 bytes, its kernel is begun before Inductor lowers the graph: Inductor's own
processes have nothing to compile then. Other rows may be padded by Inductor, so the kernel is begun when the call is
lowered. If Inductor has not chosen the strides of A and B by then, it is begun when the code of the call is written. If
Inductor chooses other strides after a kernel was begun, the call compiles the kernel that it needs.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch._inductor.ir import FlexibleLayout
from torch._inductor.virtualized import V
from torch.utils._pytree import tree_leaves

from lowtide.compiler.matmul.arrangement import ALIGNED
from lowtide.compiler.matmul.grouped import grouped_matmul
from lowtide.compiler.matmul.matmul import matmul
from lowtide.errors import Error
from lowtide.runtime.operands import Operand
from lowtide.torch.calls import How, default_type, read
from lowtide.torch.dtypes import name_of
from lowtide.torch.grouped import grouped_gemm
from lowtide.torch.ops import gemm
from lowtide.torch.results import wanted_of
from lowtide.torch.several import gemm_results, layout_of, pairs_of, read_text


def begin_calls(graph: torch.fx.Graph) -> None:
    """Begin the kernels of the calls in a graph of aten ops. It skips calls with sizes that are known only at run time,
    and calls with a matrix whose rows are not multiples of 16 bytes."""
    begun = set()
    for node in graph.nodes:
        begin_call = _CALLS.get(node.target)
        if begin_call is None or not all(map(_is_plain, _matrices(node))):
            continue
        arguments = torch.fx.map_arg(node.args, lambda other: _of_tensor(other.meta["val"]))
        key = node.target, repr(arguments)
        if key not in begun:
            begun.add(key)
            begin_call(arguments, tree_leaves(node.meta["val"])[0])


def begin(node: Any, how: How) -> bool:
    """Begin the kernel of a call of `run`: a node with A, B and the operands as inputs. Returns whether the
    strides of all inputs are final, so that it need not be begun again."""
    if _gpu_of(node) is None or not all(map(_lies_fixed, node.inputs[:2])):
        return False
    _begin(list(map(_record, node.inputs)), _record(node), how, are_known([*node.inputs, node]))
    return all(map(_lies_fixed, node.inputs))


def begin_results(a: Any, b: Any, epilogue: str, second: Any = None) -> None:
    """Begin the kernel of a call of `run_results`."""
    if _gpu_of(a) is not None and _lies_fixed(a) and _lies_fixed(b):
        _begin_results(_record(a), _record(b), epilogue, second)


def begin_groups(a: Any, b: Any, ends: Any, out_dtype: Any) -> None:
    """Begin the kernel of a call of `run_groups` (lowtide/torch/fx/calling.py)."""
    if _gpu_of(a) is not None and _lies_fixed(a) and _lies_fixed(b):
        d = name_of(out_dtype or default_type(a.get_dtype(), b.get_dtype()))
        _begin_groups(_record(a), _record(b), _record(ends), d)


def _begin(inputs: list[Operand], d: Operand, how: How, alone: bool) -> None:
    asked, (a, b, *operands) = read(how.epilogue), inputs
    records = {"a": a, "b": b, "d": d, **dict(zip(asked.names if asked else (), operands, strict=True))}
    with contextlib.suppress(Error):  # the call raises it, or copies what cannot be read
        matmul.begin(
            records,
            epilogue=asked.function if asked else None,
            numerics=how.numerics,
            precision=how.precision,
            alone=alone,
        )


def _begin_results(a: Operand, b: Operand, epilogue: str, second: Any) -> None:
    asked = read_text(epilogue)
    pairs, (m, k), n = pairs_of(asked, second), a.shape, b.shape[1] // (asked.sums if second is None else 1)
    if 0 not in (m, n, k):
        with contextlib.suppress(Error):
            layout = layout_of(b.strides, pairs)
            wanted_of((m, n, k), a.dtype, a.device, asked, layout, pairs).begin()


def _begin_groups(a: Operand, b: Operand, ends: Operand, d: str) -> None:
    with contextlib.suppress(Error):  # the call raises it, or copies what cannot be read
        grouped_matmul.begin(a, b, ends, d)


def _gemm(arguments: Sequence[Any], d: torch.Tensor) -> None:
    a, b, operands, *more = arguments
    how = How(*more)
    if not how.scalars:
        _begin([a, b, *operands], _of_tensor(d), how, alone=True)


def _gemm_results(arguments: Sequence[Any], d: torch.Tensor) -> None:
    a, b, _, epilogue, _, *second = arguments
    _begin_results(a, b, epilogue, second[0] if second else None)


def _grouped_gemm(arguments: Sequence[Any], d: torch.Tensor) -> None:
    a, b, ends, _, *at = arguments
    if all(each is None for each in at):
        _begin_groups(a, b, ends, name_of(d.dtype))


_CALLS: Mapping[Any, Callable[[Sequence[Any], torch.Tensor], None]] = MappingProxyType(
    {gemm: _gemm, gemm_results: _gemm_results, grouped_gemm: _grouped_gemm}
)


def _matrices(node: Any) -> Iterator[torch.Tensor]:
    """A, B, the operands and the results of a call."""
    yield from (other.meta["val"] for other in node.all_input_nodes)
    yield from tree_leaves(node.meta["val"])


def _is_plain(x: torch.Tensor) -> bool:
    """Whether a tensor is on a GPU, with known sizes, and its rows, if it is a matrix, are multiples of 16 bytes."""
    lie = (x.storage_offset(), *x.shape, *x.stride())
    is_even = x.dim() < 2 or all(stride in (0, 1) or stride * x.itemsize % ALIGNED == 0 for stride in x.stride())
    return _gpu_of(x) is not None and all(isinstance(extent, int) for extent in lie) and is_even


def _of_tensor(x: torch.Tensor) -> Operand:
    return Operand(x.storage_offset() * x.itemsize, tuple(x.shape), x.stride(), name_of(x.dtype), _gpu_of(x))


def are_known(nodes: Sequence[Any]) -> bool:
    """Whether all sizes and strides of these nodes are known when the graph is compiled. Their layouts must be
    fixed."""
    return all(str(extent).isdecimal() for node in nodes for extent in (*node.get_size(), *node.get_stride()))


def _record(node: Any) -> Operand:
    """The operand for a tensor of Inductor's IR. Run-time sizes have the values with which the graph was traced.
    Allocations are taken to begin at multiples of 16 bytes."""
    dtype, (offset, *extents) = (
        node.get_dtype(),
        _hints([node.get_layout().offset, *node.get_size(), *node.get_stride()]),
    )
    rank = len(extents) // 2
    lie = tuple(extents[:rank]), tuple(extents[rank:])
    return Operand(offset * dtype.itemsize, *lie, name_of(dtype), _gpu_of(node))


def _lies_fixed(node: Any) -> bool:
    return not isinstance(node.get_layout(), FlexibleLayout)


def _gpu_of(node: Any) -> int | None:
    device = node.device if isinstance(node, torch.Tensor) else node.get_device()
    return None if device.type != "cuda" else device.index or 0


def _hints(expressions: Sequence[Any]) -> list[int]:
    sizes = V.graph.sizevars
    of_each = getattr(sizes, "optimization_hints", None) or sizes.size_hints  # its name since torch 2.12
    return [int(hint) for hint in of_each(expressions, fallback=1)]
