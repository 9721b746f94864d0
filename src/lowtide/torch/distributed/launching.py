"""Kernels and prepared launches for products with collectives, and operands in the form that kernels read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import copysign
from typing import Any

import torch

import lowtide as lt
from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.runtime import driver
from lowtide.runtime.call_keys import Recent
from lowtide.runtime.kernel import Kernel
from lowtide.runtime.operands import view
from lowtide.torch.calls import How, read

_MOST = 512  # kernels and launches that are kept
_UNIT = 16  # bytes, of bases and rows
Launch = Callable[[int], None]  # launches a kernel in the stream with this handle


class Launches:
    """Compiles a kernel for each problem, and prepares a launch for each set of addresses and scalars. Kernels and
    launches are kept, tensors are not."""

    def __init__(self) -> None:
        self._kernels, self._launches = Recent(_MOST), Recent(_MOST)

    def prepared(
        self, spec: lt.GemmSpec, numerics: str, operands: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> Launch:
        """Returns a function that launches the kernel of a spec in a stream. `operands`: tensors and lists of matrices,
        by name; the caller keeps them until the launches have run. Raises LaunchError, and the errors of
        `compile_gemm`."""
        lie = tuple(
            (x.data_ptr(), x.shape, x.stride()) if isinstance(x, torch.Tensor) else x.address for x in operands.values()
        )
        signed = tuple((value, copysign(1.0, value)) for value in scalars.values())  # 0.0 == -0.0, but they differ
        key = spec, numerics, lie, signed
        found: Launch | None = self._launches[key]
        if found is None:
            records = {name: view(x, name) if isinstance(x, torch.Tensor) else x for name, x in operands.items()}
            run = self._kernel(spec, numerics).prepare(records, scalars)[0].run
            context = driver.api().cuCtxGetCurrent
            found = self._launches[key] = lambda stream: run(stream, context()[1])
        return found

    def _kernel(self, spec: lt.GemmSpec, numerics: str) -> Kernel:
        found: Kernel | None = self._kernels[spec, numerics]
        if found is None:
            schedule = "grid.sender = kernel" if spec.peers else None
            made = lt.compile_gemm(spec, "native", schedule, numerics=numerics)
            found = self._kernels[spec, numerics] = Kernel(made.manifest, made.ptx, made.cubin)
        return found


def copies(taken: Iterable[torch.Tensor], given: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors of `taken` whose address is not that of a tensor in `given`, so they are copies. The caller keeps
    them until all work that reads them is in its stream."""
    own = {x.data_ptr() for x in given}
    return [x for x in taken if x.data_ptr() not in own]


def readable_rows(x: torch.Tensor) -> torch.Tensor:
    """The tensor, if it is contiguous and its address is a multiple of 16 bytes; otherwise a copy that is."""
    return x if x.is_contiguous() and not x.data_ptr() % _UNIT else x.clone(memory_format=torch.contiguous_format)


def readable_b(b: torch.Tensor) -> tuple[str, torch.Tensor]:
    """The layout of a product with B (K, N), and B in the order of its memory: (N, K) for tn, (K, N) for tt. B is
    copied if neither of its strides is 1, or if its rows in memory do not begin at multiples of 16 bytes."""
    by_columns = b.stride(-2) == 1 and b.stride(-1) != 1
    lies = b.mT if by_columns else b
    if lies.stride(-1) != 1 or lies.data_ptr() % _UNIT or lies.stride(-2) * lies.itemsize % _UNIT:
        lies = lies.clone(memory_format=torch.contiguous_format)
    return ("tn" if by_columns else "tt"), lies


def padded(x: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
    """x (sum of `rows`, …) as (ranks, most rows, …). If all ranks have the same number of rows, it is a view of
    `readable_rows(x)`. Otherwise it is a copy, in which the rows after those of a rank are not initialized."""
    most = max(rows)
    if min(rows) == most:
        return readable_rows(x).view(len(rows), most, *x.shape[1:])
    made = x.new_empty(len(rows), most, *x.shape[1:])
    for place, part in zip(made, x.split([*rows]), strict=True):
        place[: part.shape[0]].copy_(part)
    return made


def by_name(
    operands: Sequence[torch.Tensor], how: How, rows: Sequence[int] = ()
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors and the scalars of an epilogue, by name. If `rows` is given, tensors that have rows are `padded`."""
    asked = read(how.epilogue)
    if asked is None:
        return {}, {}
    tensors: dict[str, torch.Tensor] = {}
    for operand, x in zip(asked.tensors(), operands, strict=True):
        is_shared = operand.kind is OperandKind.PER_COLUMN
        tensors[operand.name] = (
            readable_rows(x).flatten() if is_shared else padded(x, rows) if rows else readable_rows(x)
        )
    return tensors, {scalar.name: value for scalar, value in zip(asked.scalars(), how.scalars, strict=True)}
