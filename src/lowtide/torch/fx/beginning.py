"""Has kernels compiled while Inductor still compiles the graph that calls them (`compiler/ahead.py`).

A kernel is begun when its call is lowered. If Inductor has not chosen the strides of A and B by then, it is begun when
the code of the call is written. If Inductor changes strides later, the call compiles the kernel that it needs.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

from torch._inductor.ir import FlexibleLayout
from torch._inductor.virtualized import V

from lowtide.compiler.matmul.grouped import grouped_matmul
from lowtide.compiler.matmul.matmul import matmul
from lowtide.errors import Error
from lowtide.runtime.operands import Operand
from lowtide.torch.calls import How, default_type, read
from lowtide.torch.dtypes import name_of
from lowtide.torch.results import wanted_of
from lowtide.torch.several import layout_of, pairs_of, read_text


def begin(node: Any, how: How) -> None:
    """Begin the kernel of a call of `run`: a node with A, B and the operands as inputs."""
    if _gpu_of(node) is None or not all(map(_lies_fixed, node.inputs[:2])):
        return
    asked, (a, b, *operands) = read(how.epilogue), map(_record, node.inputs)
    records = {"a": a, "b": b, "d": _record(node), **dict(zip(asked.names if asked else (), operands, strict=True))}
    with contextlib.suppress(Error):  # the call raises it, or copies what cannot be read
        matmul.begin(
            records,
            epilogue=asked.function if asked else None,
            numerics=how.numerics,
            precision=how.precision,
            alone=are_known([*node.inputs, node]),
        )


def begin_results(a: Any, b: Any, epilogue: str, second: Any = None) -> None:
    """Begin the kernel of a call of `run_results`."""
    if _gpu_of(a) is None or not (_lies_fixed(a) and _lies_fixed(b)):
        return
    asked, a, b = read_text(epilogue), _record(a), _record(b)
    pairs, (m, k), n = pairs_of(asked, second), a.shape, b.shape[1] // (asked.sums if second is None else 1)
    if 0 not in (m, n, k):
        with contextlib.suppress(Error):
            layout = layout_of(b.strides, pairs)
            wanted_of((m, n, k), a.dtype, a.device, asked, layout, pairs).begin()


def begin_groups(a: Any, b: Any, ends: Any, out_dtype: Any) -> None:
    """Begin the kernel of a call of `run_groups` (lowtide/torch/fx/calling.py)."""
    if _gpu_of(a) is None or not (_lies_fixed(a) and _lies_fixed(b)):
        return
    d = name_of(out_dtype or default_type(a.get_dtype(), b.get_dtype()))
    with contextlib.suppress(Error):  # the call raises it, or copies what cannot be read
        grouped_matmul.begin(_record(a), _record(b), _record(ends), d)


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
    device = node.get_device()
    return None if device.type != "cuda" else device.index or 0


def _hints(expressions: Sequence[Any]) -> list[int]:
    sizes = V.graph.sizevars
    of_each = getattr(sizes, "optimization_hints", None) or sizes.size_hints  # its name since torch 2.12
    return [int(hint) for hint in of_each(expressions, fallback=1)]
