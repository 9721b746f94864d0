"""All-gather and product: each rank pushes its rows to the others by the copy engine, while one kernel multiplies.

The kernel is a batch: each product reads the rows of one rank (`GemmSpec(batch=ranks, arrivals=True)`). It begins with
the rows of its own rank, then takes those of the next ranks in a ring. It waits for a rank's flag before it reads that
rank's rows. A rank sends its rows first to the peer that needs them first.
"""

from collections.abc import Sequence
from typing import Any

import torch

import lowtide as lt
from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.torch.calls import How, read
from lowtide.torch.distributed.exchange import Exchange
from lowtide.torch.distributed.launching import readable_b, readable_rows
from lowtide.torch.distributed.ranks import Ranks
from lowtide.torch.dtypes import name_of


class Gathering:
    """The windows of a group on a device, and the stream that sends this rank's rows."""

    def __init__(self, ranks: Ranks, device: torch.device) -> None:
        self._ranks, self.exchange = ranks, Exchange(ranks, device)
        self._side = torch.cuda.Stream(device)

    def run(
        self, a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], how: How, out: torch.Tensor
    ) -> None:
        """out (ranks · S, N) = epilogue(gathered A · B) for A (S, K)."""
        a, exchange, size = a.contiguous(), self.exchange, self._ranks.size
        main = exchange.begin(a.numel() * a.itemsize * size)
        self._side.wait_stream(main)
        with torch.cuda.stream(self._side):
            for step in range(1, size):
                self._copy(a, (self._ranks.rank - step) % size)
        # A copy within a GPU may be a kernel. It cannot run beside the product, which takes all SMs and waits for it.
        self._copy(a, self._ranks.rank)
        d, (layout, lies) = readable_rows(out), readable_b(b)
        whole = exchange.part(self._ranks.rank, 0, (size, *a.shape), a.dtype)
        given = {"a": whole, "b": lies, "d": d.view(size, a.shape[0], -1)} | exchange.flags.operands()
        tensors, scalars = _by_name(operands, how, size)
        spec = _spec(
            size, tuple(a.shape), b.shape[1], (name_of(a.dtype), name_of(b.dtype), name_of(out.dtype)), layout, how
        )
        exchange.launches.run(spec, how.numerics, given | tensors, scalars, main)
        if d is not out:
            out.copy_(d)
        main.wait_stream(self._side)  # A may be written again after the call
        exchange.end(main)

    def _copy(self, a: torch.Tensor, peer: int) -> None:
        """Copies this rank's rows to a rank, and then sets the flag there."""
        self.exchange.part(peer, self._ranks.rank, tuple(a.shape), a.dtype).copy_(a, non_blocking=True)
        self.exchange.flags.tell(peer)


def _spec(size: int, shape: tuple[int, ...], n: int, types: tuple[str, str, str], layout: str, how: How) -> lt.GemmSpec:
    asked, (a, b, d) = read(how.epilogue), types
    return lt.GemmSpec(
        m=shape[0],
        n=n,
        k=shape[1],
        batch=size,
        arrivals=True,
        layout=layout,
        a=a,
        b=b,
        d=d,
        epilogue=None if asked is None else asked.function,
    )


def _by_name(operands: Sequence[torch.Tensor], how: How, size: int) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors of an epilogue by name, with a batch dimension if they have rows, and its scalars."""
    asked = read(how.epilogue)
    if asked is None:
        return {}, {}
    tensors: dict[str, torch.Tensor] = {}
    for operand, x in zip(asked.tensors(), operands, strict=True):
        lies = readable_rows(x)
        is_shared = operand.kind is OperandKind.PER_COLUMN
        tensors[operand.name] = lies.flatten() if is_shared else lies.view(size, x.shape[0] // size, *x.shape[1:])
    return tensors, {scalar.name: value for scalar, value in zip(asked.scalars(), how.scalars, strict=True)}
