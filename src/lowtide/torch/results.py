"""Products of torch tensors with several results, pairs of columns or reductions, each by one kernel.

A kernel is compiled for the types, the layout, N, K and the epilogue. Its schedule is chosen for the number of rows,
rounded up (`rows_to_choose_for`), so calls of similar sizes share a kernel. The same call gives the same bits in each
run. On the CPU, torch computes the same results.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from lowtide.compiler.epilogue.graph import trace
from lowtide.compiler.epilogue.text import TextEpilogue
from lowtide.compiler.matmul.family import rows_to_choose_for, sums_of
from lowtide.compiler.matmul.matmul import matmul
from lowtide.compiler.matmul.several import ResultsWanted
from lowtide.compiler.native import target_of
from lowtide.errors import LaunchError, MisalignedError
from lowtide.runtime import driver
from lowtide.runtime.call_keys import Recent
from lowtide.torch.dtypes import name_of
from lowtide.torch.evaluation import evaluate_results, product
from lowtide.words import APART

_KERNELS = Recent(1024)  # by `ResultsWanted`
PAIRED = "stacked"


class Known(NamedTuple):
    """`launch`: a launch that may be repeated; None if there is none. `plan`: a plan of launches that takes new
    addresses; None if there is none. `names`: the tensors whose addresses the plan takes, in this order."""

    launch: Any = None
    plan: Any = None
    names: tuple[str, ...] = ()


def results(
    a: torch.Tensor,
    b: torch.Tensor,
    epilogue: Callable[..., Any],
    operands: Mapping[str, torch.Tensor],
    *,
    out: Mapping[str, torch.Tensor] | None = None,
    layout: str = "tn",
    pairs: str | None = None,
) -> dict[str, torch.Tensor]:
    """The results, by name, of the product of A (M, K) and B. B is (N, K), or (K, N) if `layout` is "tt", or (2·N, K)
    with `pairs`, or (2, N, K) if they are apart. `out`: tensors for some of the results, which may be strided. Full
    results have the types that the text of an epilogue gives them, or that of A. Records no gradient. M, N and K are at
    least 1.

    Raises LaunchError for tensors that do not fit, SpecError for types that the epilogue does not support, and the
    errors of `compile_gemm`.
    """
    if a.device.type == "cpu":
        b = b.reshape(-1, b.shape[-1]) if pairs == APART else b
        own = by_torch(a, b if layout == "tt" else b.mT, epilogue, operands, sums=1 if pairs is None else 2)
        with torch.no_grad():
            return {name: out[name].copy_(value) if out and name in out else value for name, value in own.items()}
    if a.device.type != "cuda":
        raise LaunchError(
            f"a is on {a.device}; tensors must be on an NVIDIA GPU or on the CPU: move them [results-gpu]"
        )
    wanted = _wanted(a, b, epilogue, layout, pairs)
    kernel = _KERNELS[wanted]
    if kernel is None:
        kernel = _KERNELS[wanted] = wanted.kernel()
    with torch.no_grad():
        matrices, given = (a.detach(), b.detach()), {name: value.detach() for name, value in operands.items()}
        own = dict(out) if out else None
        try:
            found: dict[str, torch.Tensor] = kernel(*matrices, out=own, **given)
        except MisalignedError:  # the kernel of `compiled` copies the matrix
            kernel = _KERNELS[wanted] = wanted.compiled()
            found = kernel(*matrices, out=own, **given)
    return found


def known(
    a: torch.Tensor,
    b: torch.Tensor,
    epilogue: Callable[..., Any],
    operands: Mapping[str, torch.Tensor],
    *,
    out: Mapping[str, torch.Tensor],
    layout: str = "tn",
    pairs: str | None = None,
) -> Known:
    """The launch of an earlier call of `results` on GPU tensors with the same addresses and strides. `out` has all
    results."""
    kernel = _KERNELS[_wanted(a, b, epilogue, layout, pairs)]
    if kernel is None:
        return Known()
    launch, plan = kernel.known(a, b, out=dict(out), **operands)
    return Known(launch, plan, tuple(argument["name"] for argument in kernel.manifest["arguments"]))


def _wanted(
    a: torch.Tensor, b: torch.Tensor, epilogue: Callable[..., Any], layout: str, pairs: str | None
) -> ResultsWanted:
    n = b.shape[1] if layout == "tt" or pairs == APART else b.shape[0] // (1 if pairs is None else 2)
    return wanted_of((a.shape[0], n, a.shape[1]), name_of(a.dtype), a.device.index, epilogue, layout, pairs)


def wanted_of(
    extents: tuple[int, int, int],
    dtype: str,
    device: int | None,
    epilogue: Callable[..., Any],
    layout: str,
    pairs: str | None,
) -> ResultsWanted:
    """The kernel that `results` takes on a GPU. `extents`: M, N and K. Raises DeviceError, TargetError."""
    (m, n, k), target = extents, target_of(driver.device(device or 0)).name
    return ResultsWanted(dtype, layout, n, k, epilogue, pairs, rows_to_choose_for(m), target, _types(epilogue))


def _types(epilogue: Callable[..., Any] | None) -> tuple[tuple[str, str], ...]:
    """The types of the full results of an epilogue that a text denotes; other epilogues give none."""
    return tuple(epilogue.result_types.items()) if isinstance(epilogue, TextEpilogue) else ()


@torch.no_grad()
def by_torch(
    a: torch.Tensor,
    b: torch.Tensor,
    epilogue: Callable[..., Any] | None,
    operands: Mapping[str, torch.Tensor],
    d: torch.dtype | None = None,
    sums: int = 1,
) -> dict[str, torch.Tensor]:
    """The results, by name and by torch's operations, of the product of A (M, K) and B (K, N), or (K, 2·N) if an
    element of D has two `sums`. `d`: the type of D, by default that of A."""
    dtype = name_of(a.dtype)
    acc = sums_of(dtype, dtype)
    types = dict(_types(epilogue))
    graph = trace(epilogue, acc, dtype if d is None else name_of(d), types=types, sums=sums)
    return evaluate_results(graph, product(a, b, acc).chunk(sums, dim=1), operands)


def multiplied(
    a: torch.Tensor,
    b: torch.Tensor,
    epilogue: Callable[..., Any] | None = None,
    out: torch.Tensor | None = None,
    **operands: torch.Tensor,
) -> torch.Tensor:
    """D (M, N) = epilogue(A (M, K) · B (K, N), operands…) of A's type, or that of `out`, by `lt.matmul`; by torch on
    the CPU. Records no gradient. Raises the errors of `lt.matmul`."""
    with torch.no_grad():
        if a.device.type == "cuda":
            given = {name: value.detach() for name, value in operands.items()}
            found: torch.Tensor = matmul(
                _readable(a.detach()), _readable(b.detach()), epilogue=epilogue, out=out, **given
            )
            return found
        d = by_torch(a, b, epilogue, operands, None if out is None else out.dtype)["d"]
        return d if out is None else out.copy_(d)


def by_rows(x: torch.Tensor) -> torch.Tensor:
    """The matrix, copied if its rows are not contiguous or overlap."""
    return x if x.stride(-1) == 1 and x.stride(-2) >= x.shape[-1] else x.contiguous()


def _readable(x: torch.Tensor) -> torch.Tensor:
    """The matrix, copied if no dimension is contiguous or one has the stride 0."""
    return x if 1 in x.stride() and 0 not in x.stride() else x.contiguous()
