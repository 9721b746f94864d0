"""Product and reduce-scatter: one kernel stores each rank's rows to their owner's window, and the owner adds the parts.

The kernel is a batch: product q has the rows that rank q owns, and D is a list of windows on the peers
(`GemmSpec(batch=ranks, lists="d")`). It begins with the rows of the next rank, so that ranks do not all store to one
peer. Parts are in D's type. The owner adds them in f32 from rank 0 on, so the bits do not depend on which part arrives
first.
"""

from typing import Any

import torch

import lowtide as lt
from lowtide.runtime.call_keys import Recent
from lowtide.runtime.lists import matrix_list
from lowtide.torch.calls import read
from lowtide.torch.distributed.call import Call
from lowtide.torch.distributed.exchange import Exchange
from lowtide.torch.distributed.launching import by_name, readable_b, readable_rows
from lowtide.torch.distributed.ranks import Ranks
from lowtide.torch.distributed.sums import add_in_order

_MOST = 256  # lists that are kept


class Scattering:
    """The windows of a group on a device, and the lists of places in them."""

    def __init__(self, ranks: Ranks, device: torch.device) -> None:
        self._ranks, self.exchange = ranks, Exchange(ranks, device)
        self._lists = Recent(_MOST)
        # With arrivals, a kernel begins with the rank in its turn: here the next rank, so this rank's rows come last.
        # All of A is there, so the kernel never waits.
        turn = torch.tensor([(ranks.rank + 1) % ranks.size, 0, 1], dtype=torch.int32, device=device)
        arrived, status = (turn.new_zeros(count) for count in (ranks.size, 4))
        self._order = {"arrived": arrived, "turn": turn, "status": status}

    def run(self, call: Call, out: torch.Tensor) -> None:
        """out (M / ranks, N) = epilogue(this rank's rows of the sum over ranks of A · B) for A (M, K)."""
        exchange, ranks = self.exchange, self._ranks
        stream = exchange.begin(out.numel() * out.itemsize * ranks.size)
        (rows, n), k, (layout, lies) = out.shape, call.a.shape[1], readable_b(call.b)
        batch = readable_rows(call.a).view(ranks.size, rows, k)
        operands, how = call.part
        asked = read(how.epilogue)
        spec = lt.GemmSpec(
            m=rows,
            n=n,
            k=k,
            batch=ranks.size,
            lists="d",
            arrivals=True,
            layout=layout,
            epilogue=None if asked is None else asked.function,
            **call.types,
        )
        tensors, scalars = by_name(operands, how, ranks.size)
        given = {"a": batch, "b": lies, "d": self._list(out)} | self._order | tensors
        exchange.launches.run(spec, how.numerics, given, scalars, stream)
        exchange.flags.tell_all()
        exchange.flags.wait(stream)
        parts = [exchange.part(ranks.rank, source, (rows, n), out.dtype) for source in range(ranks.size)]
        add_in_order(parts, *call.sum, call.a.dtype, out, exchange.flags.marks(n))
        exchange.end(stream)

    def _list(self, out: torch.Tensor) -> Any:
        """This rank's places on all ranks, in this epoch's slot. The lists for all slots are made at once, because a
        capture cannot make one. They are kept, because launches read their tables."""
        exchange, key = self.exchange, (out.shape, out.dtype, self.exchange.window)
        if self._lists[key] is None:
            places = [
                exchange.parts(owner, self._ranks.rank, tuple(out.shape), out.dtype)
                for owner in range(self._ranks.size)
            ]
            self._lists[key] = [matrix_list(list(of_slot)) for of_slot in zip(*places, strict=True)]
        return self._lists[key][exchange.slot]
