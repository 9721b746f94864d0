"""`lt.grouped_matmul(a, b, ends)`: rows in groups, each with its own matrix of B. Only the device reads `ends`.

A kernel is compiled for the types, N, K and the number of groups. Its schedule is chosen for the mean number of rows
per group, rounded up to a power of two, so that calls with similar numbers of rows share a kernel.
"""

import importlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from lowtide.compiler.matmul.calls import wants_gradients
from lowtide.compiler.matmul.family import result_type, sums_of
from lowtide.compiler.native import target_of
from lowtide.compiler.spec import GROUPED_LAYOUTS, GemmSpec
from lowtide.errors import CompileError, LaunchError, ScheduleError
from lowtide.runtime import driver
from lowtide.runtime.call_keys import Recent
from lowtide.runtime.operands import Operand, view

# These import MLIR, which takes half a second.
_COMPILE, _CHOSEN, _TARGETS = "lowtide.compiler.compile", "lowtide.compiler.chosen", "lowtide.targets"
_MOST_KERNELS = 1024
_LEAST_SHARE, _MOST_SHARE = 16, 4096  # rows of a group for which a schedule is chosen
_FACTOR_RANKS = (2, 3)  # of A and B

Epilogue = Callable[..., Any]


class Grouped(NamedTuple):
    """A grouped product with any number of rows: the types of A, B and D, the layout, N, K, the number of groups, the
    rows per group for which the schedule is chosen (`share`), the target, and the epilogue."""

    types: tuple[str, str, str]
    layout: str
    n: int
    k: int
    groups: int
    share: int
    target: str
    epilogue: Epilogue | None

    def spec(self, m: int | None) -> GemmSpec:
        """The problem with M rows. Raises SpecError."""
        a, b, d = self.types
        return GemmSpec(
            m=m,
            n=self.n,
            k=self.k,
            groups=self.groups,
            a=a,
            b=b,
            d=d,
            acc=sums_of(a, b),
            layout=self.layout,
            epilogue=self.epilogue,
        )


def product_of(a: Operand, b: Operand, d: str | None, target: str, epilogue: Epilogue | None) -> Grouped:
    """The product of A (rows, K), with K contiguous, and B (groups, K, N), with K or N contiguous. `d`: the type of D;
    None for the default. Raises LaunchError for other shapes and strides."""
    if (len(a.shape), len(b.shape)) != _FACTOR_RANKS or a.shape[1] != b.shape[1]:
        raise LaunchError(
            f"a of shape {a.shape} and b of shape {b.shape}: a grouped product takes a (rows, K) and b (groups, K, N)"
            " [grouped-shapes]"
        )
    if a.strides[1] != 1 and a.shape[1] > 1:
        raise LaunchError(
            f"a has strides {a.strides}: a grouped product takes an a with K contiguous; pass a.contiguous()"
            " [grouped-rows]"
        )
    (groups, k, n), by_n, by_k = b.shape, *GROUPED_LAYOUTS[::-1]
    if b.strides[2] != 1 != b.strides[1] and k > 1 and n > 1:
        raise LaunchError(
            f"b has strides {b.strides}: a grouped product takes a b with K or N contiguous; pass b.contiguous()"
            " [grouped-matrices]"
        )
    layout = by_n if b.strides[2] == 1 or n == 1 else by_k
    rows = max(1, -(-a.shape[0] // max(1, groups)))
    share = min(_MOST_SHARE, max(_LEAST_SHARE, 1 << (rows - 1).bit_length()))
    types = a.dtype, b.dtype, d or result_type(a.dtype, b.dtype)
    return Grouped(types, layout, n, k, groups, share, target, epilogue)


def kernel_for(product: Grouped) -> Any:
    """The kernel, from the cache on disk or compiled. Raises the errors of `compile_gemm`."""
    compile_gemm = partial(importlib.import_module(_COMPILE).compile_gemm, product.spec(None), product.target)
    target = importlib.import_module(_TARGETS).get(product.target)
    schedule = importlib.import_module(_CHOSEN).chosen(product.spec(product.share * product.groups), target)
    try:
        return compile_gemm(schedule)
    except (CompileError, ScheduleError):  # such as for spills: use the choice for an unknown number of rows
        return compile_gemm()


class GroupedMatmul:
    """The function `lt.grouped_matmul`, with its kernels. Threads may share it."""

    def __init__(self) -> None:
        self._kernels = Recent(_MOST_KERNELS)

    def __call__(
        self,
        a: Any,
        b: Any,
        ends: Any,
        *,
        epilogue: Epilogue | None = None,
        out: Any = None,
        stream: Any = None,
        **operands: Any,
    ) -> Any:
        """Multiply each group of rows of A (rows, K) by its own matrix of B (groups, K, N). Returns D (rows, N).

        All arrays are on the GPU. A has K contiguous, and B has K or N contiguous, so B may be a transposed view of
        (groups, N, K). `ends` is int32 (groups,). Group g consists of the rows `ends[g - 1]` (0 for the first group) to
        `ends[g] - 1`, and may be empty. Only the device reads `ends`, so a captured graph may be replayed with other
        ends. An end that is less than the end before it, or greater than the number of rows, is clamped. Rows of D
        after the last end are not written. `epilogue`, its operands by name, `out` and `stream` are those of
        `lt.matmul`. A full operand is (rows, N); all groups share per-column operands. The launch is asynchronous.

        Raises LaunchError for arrays that do not fit, and if autograd would record the call; SpecError for types or an
        epilogue that groups do not support; DeviceError without a GPU; and the errors of `compile_gemm`.
        """
        if wants_gradients([a, b, out, *operands.values()]):
            raise LaunchError(
                "an operand requires a gradient, and lt.grouped_matmul is not recorded by autograd: call it under"
                " torch.no_grad() [grouped-autograd]"
            )
        left, right = view(a, "a"), view(b, "b")
        d = None if out is None else view(out, "out").dtype
        device = driver.pointer_device(left.address) if left.device is None else left.device
        target = target_of(driver.device(device or 0)).name
        product = product_of(left, right, d, target, epilogue)
        kernel = self._kernels[product]
        if kernel is None:
            kernel = self._kernels[product] = kernel_for(product)
        matrices = b if product.layout == GROUPED_LAYOUTS[1] else _transposed(b, right)
        return kernel(a, matrices, ends=ends, out=out, stream=stream, **operands)


def _transposed(b: Any, record: Operand) -> Any:
    """The transposes of matrices, as an array of the same library if it can make them, else as a record."""
    if hasattr(b, "swapaxes"):
        return b.swapaxes(-1, -2)
    (*shape, rows, columns), (*strides, row, column) = record.shape, record.strides
    return replace(record, shape=(*shape, columns, rows), strides=(*strides, column, row), library="")


grouped_matmul = GroupedMatmul()
