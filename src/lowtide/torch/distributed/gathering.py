"""All-gather and product: each rank sends its rows to the others, while one kernel multiplies.

The kernel computes a batch: each product reads the rows of one rank (`GemmSpec(batch=ranks, arrivals=True)`). It begins
with the rows of its own rank, then takes those of the next ranks, in a ring. It waits for a rank's flag before it reads
that rank's rows. A rank sends its rows first to the peer that needs them first. The copy engine sends them, or the
kernel itself before it multiplies (`kernel_sends`).
"""

from dataclasses import dataclass, replace
from typing import cast

import torch

import lowtide as lt
from lowtide.runtime.call_keys import Recent
from lowtide.torch.calls import read
from lowtide.torch.distributed.call import Call
from lowtide.torch.distributed.exchange import Exchange
from lowtide.torch.distributed.launching import Launch, by_name, copies, readable_b, readable_rows
from lowtide.torch.distributed.ranks import Ranks
from lowtide.torch.distributed.sending import kernel_sends

_MOST = 512  # tables of places that are kept


@dataclass(frozen=True)
class _Work:
    """A prepared call. `held`: tensors that the work uses and that were made for it, such as copies of operands.
    `source`, `size`: the address and the bytes of this rank's rows. `places`: the addresses to which they go, on each
    rank. `sends`: whether the kernel sends them, not the copy engine. `whole`: the gathered rows of A, (ranks, most
    rows, K). `d`: None if the kernel stores D in `out`; otherwise D as (ranks, most rows, N)."""

    held: list[torch.Tensor]
    source: int
    size: int
    places: tuple[int, ...]
    sends: bool
    launch: Launch
    whole: torch.Tensor
    d: torch.Tensor | None


class Gathering:
    """All-gathers and products on the GPU of a rank, for one group."""

    def __init__(self, ranks: Ranks, device: torch.device) -> None:
        self._ranks, self.exchange = ranks, Exchange(ranks, device)
        self._peers = Recent(_MOST)
        self._sent = torch.zeros(ranks.size, dtype=torch.int32, device=device)  # the kernels leave zeros

    def run(self, call: Call, out: torch.Tensor) -> torch.Tensor | None:
        """out (rows of all ranks, N) = epilogue(gathered A · B) for A (rows of this rank, K). Returns the gathered A if
        the call keeps it."""
        exchange, rank, rows = self.exchange, self._ranks.rank, call.shares(self._ranks.size)
        main = exchange.begin(len(rows) * max(rows) * call.a.shape[1] * call.a.itemsize)
        streams, work = exchange.streams, exchange.prepared(call, out, self._prepare)
        if not work.sends:
            streams.order(main, streams.beside)
            for peer in reversed(self._ranks.around(rank)[1:]):  # the rank before this one needs its rows first
                streams.copy(work.places[peer], work.source, work.size, streams.beside)
                exchange.flags.tell(peer, streams.beside)
        # A copy within a GPU may be a kernel, and the product leaves it no free SM. So it runs before the product.
        streams.copy(work.places[rank], work.source, work.size, main)
        work.launch(main)
        if work.d is not None:
            _unpad(work.d, rows, out)
        kept = None
        if call.keeps:  # a copy, because the call after the next one writes to the same slot
            kept = _unpad(work.whole, rows, call.a.new_empty(sum(rows), call.a.shape[1]))
        exchange.end(main)
        return kept

    def _prepare(self, call: Call, out: torch.Tensor) -> _Work:
        exchange, (rank, size) = self.exchange, (self._ranks.rank, self._ranks.size)
        a, rows, k, n = call.a.contiguous(), call.shares(size), call.a.shape[1], out.shape[1]
        most = max(rows)
        places = [exchange.part(peer, rank, (most, k), a.dtype).data_ptr() for peer in range(size)]
        whole = exchange.part(rank, 0, (size, most, k), a.dtype)
        (layout, lies), (operands, how) = readable_b(call.b), call.part
        d = _place(out, rows)
        tensors, scalars = by_name(operands, how, rows)
        asked, counts = read(how.epilogue), exchange.counts(rows)
        given = {"a": whole, "b": lies, "d": out.new_empty(size, most, n) if d is None else d} | tensors
        spec = lt.GemmSpec(
            m=most,
            n=n,
            k=k,
            batch=size,
            arrivals=True,
            peers=True,
            counts=bool(counts),
            layout=layout,
            epilogue=None if asked is None else asked.function,
            **call.types,
        )
        sends = kernel_sends(spec, call.sender)
        spec = spec if sends else replace(spec, peers=False)
        sending = {"peers": self._places((most, k), a.dtype), "sent": self._sent} if sends else {}
        given |= exchange.flags.operands() | counts | sending
        launch = exchange.launches.prepared(spec, how.numerics, given, scalars)
        held = copies([a, lies, given["d"], *tensors.values()], (call.a, call.b, out, *call.operands))
        kept = given["d"] if d is None else None
        return _Work(held, a.data_ptr(), a.nbytes, tuple(places), sends, launch, whole, kept)

    def _places(self, shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
        """The operand `peers` for this epoch's slot, s32 (ranks, 4). The tables for all slots are made together,
        because none can be made in a capture. They are kept, because launches read them."""
        exchange, rank, key = self.exchange, self._ranks.rank, (shape, dtype, self.exchange.window)
        if self._peers[key] is None:
            places = [exchange.parts(peer, rank, shape, dtype) for peer in range(self._ranks.size)]
            pairs = [
                [[0, 0] if peer == rank else [place.data_ptr(), exchange.flags.on[peer]] for peer, place in of_slot]
                for of_slot in map(enumerate, zip(*places, strict=True))
            ]
            self._peers[key] = torch.tensor(pairs, device=exchange.device).view(torch.int32)
        return cast(torch.Tensor, self._peers[key][exchange.slot])


def _place(out: torch.Tensor, rows: tuple[int, ...]) -> torch.Tensor | None:
    """`out` as (ranks, most rows of a rank, N); None if a kernel cannot store D there. If the last rank has fewer rows,
    the view extends past the end of `out`; the kernel does not write there."""
    most, columns = max(rows), out.shape[1]
    is_front = all(each == most for each in rows[:-1])
    room = out.untyped_storage().nbytes() // out.itemsize - out.storage_offset()
    if not is_front or room < len(rows) * most * columns or readable_rows(out) is not out:
        return None
    return out.as_strided((len(rows), most, columns), (most * columns, columns, 1))


def _unpad(x: torch.Tensor, rows: tuple[int, ...], out: torch.Tensor) -> torch.Tensor:
    """Copies the rows of each rank in (ranks, most rows, …) to `out`."""
    if min(rows) == max(rows):
        return out.copy_(x.flatten(0, 1))
    for place, part in zip(out.split([*rows]), x, strict=True):
        place.copy_(part[: place.shape[0]])
    return out
