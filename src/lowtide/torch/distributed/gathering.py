"""All-gather and product: each rank pushes its rows to the others by the copy engine, while one kernel multiplies.

The kernel is a batch: each product reads the rows of one rank (`GemmSpec(batch=ranks, arrivals=True)`). It begins with
the rows of its own rank, then takes those of the next ranks in a ring. It waits for a rank's flag before it reads that
rank's rows. A rank sends its rows first to the peer that needs them first.
"""

import torch

import lowtide as lt
from lowtide.torch.calls import read
from lowtide.torch.distributed.call import Call
from lowtide.torch.distributed.exchange import Exchange
from lowtide.torch.distributed.launching import by_name, readable_b, readable_rows
from lowtide.torch.distributed.ranks import Ranks


class Gathering:
    """The windows of a group on a device, and the stream that sends this rank's rows."""

    def __init__(self, ranks: Ranks, device: torch.device) -> None:
        self._ranks, self.exchange = ranks, Exchange(ranks, device)
        self._side = torch.cuda.Stream(device)

    def run(self, call: Call, out: torch.Tensor) -> torch.Tensor | None:
        """out (ranks · S, N) = epilogue(gathered A · B) for A (S, K). Returns the gathered A if the call keeps it."""
        a, exchange, size = call.a.contiguous(), self.exchange, self._ranks.size
        main = exchange.begin(a.numel() * a.itemsize * size)
        self._side.wait_stream(main)
        with torch.cuda.stream(self._side):
            for step in range(1, size):
                self._copy(a, (self._ranks.rank - step) % size)
        # A copy within a GPU may be a kernel. It cannot run beside the product, which takes all SMs and waits for it.
        self._copy(a, self._ranks.rank)
        d, (layout, lies) = readable_rows(out), readable_b(call.b)
        whole = exchange.part(self._ranks.rank, 0, (size, *a.shape), a.dtype)
        given = {"a": whole, "b": lies, "d": d.view(size, a.shape[0], -1)} | exchange.flags.operands()
        operands, how = call.part
        tensors, scalars = by_name(operands, how, size)
        asked = read(how.epilogue)
        spec = lt.GemmSpec(
            m=a.shape[0],
            n=call.b.shape[1],
            k=a.shape[1],
            batch=size,
            arrivals=True,
            layout=layout,
            epilogue=None if asked is None else asked.function,
            **call.types,
        )
        exchange.launches.run(spec, how.numerics, given | tensors, scalars, main)
        if d is not out:
            out.copy_(d)
        kept = whole.flatten(0, 1).clone() if call.keeps else None  # the window is written again two calls later
        main.wait_stream(self._side)  # A may be written again after the call
        exchange.end(main)
        return kept

    def _copy(self, a: torch.Tensor, peer: int) -> None:
        """Copies this rank's rows to a rank, and then sets the flag there."""
        self.exchange.part(peer, self._ranks.rank, tuple(a.shape), a.dtype).copy_(a, non_blocking=True)
        self.exchange.flags.tell(peer)
