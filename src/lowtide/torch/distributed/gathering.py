"""All-gather and product: each rank pushes its rows to the others by the copy engine, and multiplies rows that arrived.

The peer that needs them first gets them first: rank p multiplies the shards p, p + 1, … round the ring.
"""

from collections.abc import Sequence

import torch

from lowtide.torch.calls import How
from lowtide.torch.distributed.exchange import Exchange
from lowtide.torch.distributed.plain import rows_of
from lowtide.torch.distributed.ranks import Ranks
from lowtide.torch.ops import compute_out


class Gathering:
    """The windows of a group on a device, and the stream that pushes."""

    def __init__(self, ranks: Ranks, device: torch.device) -> None:
        self._ranks, self._exchange = ranks, Exchange(ranks, device)
        self._side = torch.cuda.Stream(device)

    def run(
        self, a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], how: How, out: torch.Tensor
    ) -> None:
        """out (ranks · S, N) = epilogue(gathered A · B) for A (S, K)."""
        a, exchange, rank = a.contiguous(), self._exchange, self._ranks.rank
        main = exchange.begin(a.numel() * a.itemsize * self._ranks.size)
        self._side.wait_stream(main)
        with torch.cuda.stream(self._side):
            self._push(a)
        for shard in self._ranks.around(rank):
            rows = slice(shard * a.shape[0], (shard + 1) * a.shape[0])
            if shard != rank:
                exchange.epochs.wait(shard)
            own = a if shard == rank else exchange.part(rank, shard, tuple(a.shape), a.dtype)
            compute_out(own, b, rows_of(operands, how, rows), how, out[rows])
        main.wait_stream(self._side)  # A may be written again after the call
        exchange.end(main)

    def _push(self, a: torch.Tensor) -> None:
        rank, size = self._ranks.rank, self._ranks.size
        for step in range(1, size):
            peer = (rank - step) % size
            self._exchange.part(peer, rank, tuple(a.shape), a.dtype).copy_(a, non_blocking=True)
            self._exchange.epochs.tell(peer)
