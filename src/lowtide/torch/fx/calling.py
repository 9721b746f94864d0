"""The functions that a compiled graph calls for `lowtide::gemm`, `lowtide::gemm_results` and `lowtide::grouped_gemm`.

The types, shapes and strides of the tensors are known when the graph's code is written, so they come as one text. Each
call reads only addresses: reading shapes, strides and types of three tensors takes longer than a launch.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from lowtide.compiler.matmul.arrangement import ALIGNED
from lowtide.compiler.matmul.grouped import grouped_matmul
from lowtide.compiler.matmul.matmul import matmul
from lowtide.runtime.call_keys import Recent
from lowtide.torch.calls import How, read
from lowtide.torch.grouped import empty_or_zeros, grouped_gemm, readable
from lowtide.torch.ops import compute_out
from lowtide.torch.several import compute

_MOST_LAUNCHES, _MOST_PLANS = 8192, 4096
_LAUNCHES = Recent(_MOST_LAUNCHES)  # by everything that a call depends on except the stream
_PLANS = Recent(_MOST_PLANS)  # by the text of a call: a plan; except for `run`, also the places of its addresses
_MAKERS = Recent(_MOST_PLANS)  # allocators of results, or shape and type of D with groups, by the text of a call
_OF_GROUPS = ("a", "b", "ends", "d")  # the addresses of a call of `run_groups`, in its key
_cuda_empty: Any = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)  # takes half the time of torch.empty


def run(
    a: torch.Tensor, b: torch.Tensor, *operands: torch.Tensor, out: torch.Tensor, lies: str | None, **asked: Any
) -> None:
    """`lies`: types, sizes, strides and device of the tensors, and `asked`; None if any is known only at run time. If
    it is not None, the call has a kernel of this shape alone. `asked`: fields of `How`. Raises as `lowtide::gemm_out`
    does."""
    key = (lies, a.data_ptr(), b.data_ptr(), out.data_ptr(), *[x.data_ptr() for x in operands])
    launch = _LAUNCHES[key] or _launch_at(key)
    if launch is not None:
        launch.again()
        return
    how = How(**asked, out_dtype=out.dtype)
    compute_out(a, b, operands, how, out, alone=lies is not None)
    if a.is_cuda and lies is not None:
        _LAUNCHES[key], plan = _known(a, b, operands, how, out)
        if plan is not None and _are_aligned(key):
            _PLANS[lies] = plan


def _launch_at(key: tuple[Any, ...]) -> Any:
    """The launch for new addresses, by the plan of an earlier call; None if there is none. Raises LaunchError."""
    lies, *addresses = key
    plan = _PLANS[lies]
    if plan is None or not _are_aligned(key):
        return None
    launch = _LAUNCHES[key] = plan.prepare(addresses)
    return launch


def _are_aligned(key: tuple[Any, ...]) -> bool:
    """A plan is for addresses that are multiples of 16 bytes."""
    return not any(address % ALIGNED for address in key[1:])


def run_results(
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    epilogue: str,
    halves: Sequence[str],
    second: torch.Tensor | None = None,
    *,
    lies: Any,
) -> list[torch.Tensor]:
    """`lies`: types, sizes, strides and device of A, B and the operands, with `epilogue` and `halves`; None if they are
    not known. Results are allocated on the current device, which is that of A. With two matrices of B, a launch and a
    plan are kept for each distance between them. Raises as `lowtide::gemm_results` does."""
    of_b = b.data_ptr()
    if second is not None:
        apart = second.data_ptr() - of_b
        of_b, lies = min(of_b, of_b + apart), None if lies is None else (lies, apart)
    makers, made = _MAKERS[lies], None
    if makers is not None:
        made = [make() for make in makers]
        key = _key(lies, a, of_b, operands, made)
        launch = _LAUNCHES[key] or _results_launch_at(key)
        if launch is not None:
            launch.again()
            return made
    results, (launch, plan, _), places = compute(a, b, operands, epilogue, halves, made, second)
    if lies is not None and launch is not None:
        key = _key(lies, a, of_b, operands, results)
        _LAUNCHES[key] = launch
        if plan is not None and _are_aligned(key):
            _PLANS[lies] = plan, places
        if makers is None:
            _MAKERS[lies] = [_maker(x) for x in results]
    return results


def run_groups(
    a: torch.Tensor,
    b: torch.Tensor,
    ends: torch.Tensor,
    out_dtype: torch.dtype | None = None,
    *at: Any,
    lies: str | None,
) -> torch.Tensor:
    """D of `lowtide::grouped_gemm`. `lies`: types, sizes, strides and device of A, B and the ends, and `out_dtype`;
    None if any is known only at run time. `at`: the further arguments of the op, all None: with rows at an index, or
    weights of rows, a compiled graph calls the op. Raises as the op does."""
    if lies is None or not a.is_cuda:
        found: torch.Tensor = grouped_gemm(a, b, ends, out_dtype, *at)
        return found
    made = _MAKERS[lies]
    if made is not None:
        out = empty_or_zeros(made, a, b)
        key = (lies, a.data_ptr(), b.data_ptr(), ends.data_ptr(), out.data_ptr())
        launch = _LAUNCHES[key] or _results_launch_at(key)
        if launch is not None:
            launch.again()
            return out
    out = grouped_gemm(a, b, ends, out_dtype, *at)
    read = zip(readable(a, b), (a, b), strict=True)
    is_read_in_place = all(x.data_ptr() == y.data_ptr() for x, y in read) and ends.is_contiguous()
    if is_read_in_place and out.numel():
        with torch.no_grad():
            launch, plan, names = grouped_matmul.known(a, b, ends, out=out)
        if launch is not None:
            key = (lies, a.data_ptr(), b.data_ptr(), ends.data_ptr(), out.data_ptr())
            _LAUNCHES[key], _MAKERS[lies] = launch, (tuple(out.shape), out.dtype)
            if plan is not None and _are_aligned(key):
                _PLANS[lies] = plan, [(_OF_GROUPS.index(name), 0) for name in names]
    return out


def _results_launch_at(key: tuple[Any, ...]) -> Any:
    """As `_launch_at`, for several results or groups."""
    lies, *addresses = key
    known = _PLANS[lies]
    if known is None or not _are_aligned(key):
        return None
    plan, places = known
    launch = _LAUNCHES[key] = plan.prepare([addresses[number] + offset for number, offset in places])
    return launch


def _key(
    lies: Any, a: torch.Tensor, of_b: int, operands: Sequence[torch.Tensor], results: Sequence[torch.Tensor]
) -> tuple[Any, ...]:
    addresses = [x.data_ptr() for x in operands]
    return (lies, a.data_ptr(), of_b, *addresses, *[x.data_ptr() for x in results])


def _maker(like: torch.Tensor) -> Callable[[], torch.Tensor]:
    """The function that allocates a tensor of this shape, strides and type on this device."""
    shape, strides = tuple(like.shape), like.stride()
    if like.is_cuda and _cuda_empty is not None:
        return functools.partial(_cuda_empty, shape, strides, like.dtype)
    return functools.partial(torch.empty_strided, shape, strides, dtype=like.dtype, device=like.device)


def _known(a: torch.Tensor, b: torch.Tensor, operands: tuple[torch.Tensor, ...], how: How, out: torch.Tensor) -> Any:
    """The launch of the preceding call and its plan, as by `lt.matmul`. None if its tensors were copied."""
    asked = read(how.epilogue)
    named = dict(zip(asked.names, operands, strict=True)) if asked else {}
    return matmul.known(
        a,
        b,
        out,
        epilogue=asked.function if asked else None,
        numerics=how.numerics,
        precision=how.precision,
        alone=True,
        **named,
    )
