"""Product and reduce-scatter: one kernel stores each rank's rows to their owner's window, and the owner adds the parts.

The kernel is a batch: product q is that of the rows that rank q owns, and D is a list of windows on the peers
(`GemmSpec(batch=ranks, lists="d")`). Parts are in D's type. The owner adds them in f32 from rank 0 on, so bits do not
depend on time.
"""

from collections.abc import Sequence
from typing import Any

import torch

import lowtide as lt
from lowtide.runtime import driver
from lowtide.runtime.call_keys import Recent
from lowtide.runtime.kernel import Kernel
from lowtide.runtime.lists import matrix_list
from lowtide.runtime.operands import view
from lowtide.torch.calls import How
from lowtide.torch.distributed.exchange import Exchange
from lowtide.torch.distributed.ranks import Ranks
from lowtide.torch.distributed.sums import add_in_order
from lowtide.torch.dtypes import name_of

_MOST = 256  # kernels, lists and launches that are kept
_UNIT = 16  # bytes, of bases and rows


class Scattering:
    """The windows of a group on a device, with the kernels that store to them."""

    def __init__(self, ranks: Ranks, device: torch.device) -> None:
        self._ranks, self._exchange = ranks, Exchange(ranks, device)
        self._kernels, self._lists, self._launches = Recent(_MOST), Recent(_MOST), Recent(_MOST)

    def run(
        self, a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], how: How, out: torch.Tensor
    ) -> None:
        """out (M / ranks, N) = epilogue(this rank's rows of the sum over ranks of A · B) for A (M, K)."""
        exchange, ranks = self._exchange, self._ranks
        stream = exchange.begin(out.numel() * out.itemsize * ranks.size)
        launch = self._launch(_readable(a, by_rows=True), _readable(b), how, out)
        launch.run(stream.cuda_stream, driver.api().cuCtxGetCurrent()[1])
        peers = ranks.around(ranks.rank + 1)[:-1]
        for peer in peers:
            exchange.epochs.tell(peer)
        for peer in peers:
            exchange.epochs.wait(peer)
        parts = [exchange.part(ranks.rank, source, tuple(out.shape), out.dtype) for source in range(ranks.size)]
        add_in_order(parts, operands, how, a.dtype, out)
        exchange.end(stream)

    def _launch(self, a: torch.Tensor, b: torch.Tensor, how: How, out: torch.Tensor) -> Any:
        """The launch for operands at these addresses."""
        lie = tuple((x.data_ptr(), x.shape, x.stride(), x.dtype) for x in (a, b))
        key = (*lie, out.shape, out.dtype, how.numerics, *self._place())
        found = self._launches[key]
        if found is None:
            by_rows = b.stride(-1) == 1
            kernel = self._kernel(a, b, how, out, "tt" if by_rows else "tn")
            batch = a.view(self._ranks.size, out.shape[0], a.shape[1])
            windows = self._list(out)
            records = {"a": view(batch, "a"), "b": view(b if by_rows else b.mT, "b"), "d": windows}
            found = self._launches[key] = kernel.prepare(records, {})[0]
        return found

    def _kernel(self, a: torch.Tensor, b: torch.Tensor, how: How, out: torch.Tensor, layout: str) -> Kernel:
        key = (out.shape, a.shape[1], a.dtype, b.dtype, out.dtype, how.numerics, layout)
        found: Kernel | None = self._kernels[key]
        if found is None:
            spec = lt.GemmSpec(
                m=out.shape[0],
                n=out.shape[1],
                k=a.shape[1],
                batch=self._ranks.size,
                lists="d",
                layout=layout,
                a=name_of(a.dtype),
                b=name_of(b.dtype),
                d=name_of(out.dtype),
            )
            made = lt.compile_gemm(spec, "native", numerics=how.numerics)
            found = self._kernels[key] = Kernel(made.manifest, made.ptx, made.cubin)
        return found

    def _place(self) -> tuple[Any, int]:
        return self._exchange.window, self._exchange.slot

    def _list(self, out: torch.Tensor) -> Any:
        """This rank's places on all ranks. The list is kept, since a launch reads its table."""
        key = (out.shape, out.dtype, *self._place())
        if self._lists[key] is None:
            own, shape = self._ranks.rank, tuple(out.shape)
            places = [self._exchange.part(owner, own, shape, out.dtype) for owner in range(self._ranks.size)]
            self._lists[key] = matrix_list(places)
        return self._lists[key]


def _readable(x: torch.Tensor, *, by_rows: bool = False) -> torch.Tensor:
    """The matrix if the kernel can read it in place, else a copy: rows, or columns, at multiples of 16 bytes."""
    lies = (x.stride(-1) == 1, x.stride(-2)) if by_rows or x.stride(-1) == 1 else (x.stride(-2) == 1, x.stride(-1))
    is_aligned = not x.data_ptr() % _UNIT and not lies[1] * x.itemsize % _UNIT
    if by_rows and not x.is_contiguous():
        return x.contiguous()
    return x if lies[0] and is_aligned else x.clone(memory_format=torch.contiguous_format)
