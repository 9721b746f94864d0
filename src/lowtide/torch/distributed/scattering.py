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
from lowtide.torch.distributed.launching import by_name, padded, readable_b
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
        """out (rows of this rank, N) = epilogue(these rows of the sum over ranks of A · B) for A (M, K)."""
        exchange, ranks, rows = self.exchange, self._ranks, call.shares(self._ranks.size)
        own, n, most = rows[ranks.rank], out.shape[1], max(rows)
        stream = exchange.begin(ranks.size * most * n * out.itemsize)
        (layout, lies), (operands, how) = readable_b(call.b), call.part
        asked, counts = read(how.epilogue), exchange.counts(rows)
        spec = lt.GemmSpec(
            m=most,
            n=n,
            k=call.a.shape[1],
            batch=ranks.size,
            lists="d",
            arrivals=True,
            counts=bool(counts),
            layout=layout,
            epilogue=None if asked is None else asked.function,
            **call.types,
        )
        tensors, scalars = by_name(operands, how, rows)
        given = {"a": padded(call.a, rows), "b": lies, "d": self._list((most, n), out.dtype)}
        exchange.launches.run(spec, how.numerics, given | self._order | counts | tensors, scalars, stream)
        exchange.flags.tell_all()
        exchange.flags.wait(stream)
        parts = [exchange.part(ranks.rank, source, (most, n), out.dtype)[:own] for source in range(ranks.size)]
        if own:
            add_in_order(parts, *call.sum, call.a.dtype, out, exchange.flags.marks(n))
        exchange.end(stream)

    def _list(self, shape: tuple[int, int], dtype: torch.dtype) -> Any:
        """This rank's places on all ranks, in this epoch's slot. The lists for all slots are made at once, because a
        capture cannot make one. They are kept, because launches read their tables."""
        exchange, key = self.exchange, (shape, dtype, self.exchange.window)
        if self._lists[key] is None:
            places = [exchange.parts(owner, self._ranks.rank, shape, dtype) for owner in range(self._ranks.size)]
            self._lists[key] = [matrix_list(list(of_slot)) for of_slot in zip(*places, strict=True)]
        return self._lists[key][exchange.slot]
