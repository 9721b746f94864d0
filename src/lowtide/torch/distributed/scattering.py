"""Product and reduce-scatter: each rank sends the parts of the sum to the windows of their owners, which add them.

There are two ways to send (`sending.py`). In the first, one kernel stores all parts in the windows: it computes a
batch, product q has the rows that rank q owns, and D is a list of places in the windows
(`GemmSpec(batch=ranks, lists="d")`). In the second, each part is a product of its own, and the copy engine sends it
while the next product runs. Both begin with the rows of the next rank, so that ranks do not all send to one peer. Parts
are in D's type. The owner adds them in f32, from rank 0 on, so the bits do not depend on which part arrives first.

For an all-reduce, the owner's copy engine then sends its sums to all ranks.
"""

from dataclasses import dataclass
from typing import Any

import torch

import lowtide as lt
from lowtide.runtime.call_keys import Recent
from lowtide.runtime.lists import matrix_list
from lowtide.torch.calls import read
from lowtide.torch.distributed.call import REDUCE, Call, rows_of, slice_of
from lowtide.torch.distributed.exchange import Exchange
from lowtide.torch.distributed.launching import (
    Launch,
    by_name,
    copies,
    padded,
    readable_b,
    readable_rows,
)
from lowtide.torch.distributed.ranks import Ranks
from lowtide.torch.distributed.sending import alone, sends_copies
from lowtide.torch.distributed.sums import add_in_order

_MOST = 256  # lists that are kept


@dataclass(frozen=True)
class _Part:
    """A launch, and the copy of its product. `launch`: None if the part has no rows. `owner`: the rank to which the
    product is copied; None if it is not copied. `copy`: the arguments of the copy: to, from, bytes."""

    launch: Launch | None
    owner: int | None = None
    copy: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class _Work:
    """A prepared call. `held`: copies of operands that the products read. `products`: in the order of launches.
    `parts`: the parts that this rank adds, in the order of ranks. For an all-reduce, otherwise empty: `sent` has each
    peer with the address of this rank's sums there; `received` has the rows of D that each peer sends, with the words
    of the window where they arrive."""

    held: list[torch.Tensor]
    products: tuple[_Part, ...]
    parts: tuple[torch.Tensor, ...]
    sent: tuple[tuple[int, int], ...]
    received: tuple[tuple[slice, torch.Tensor], ...]


class Scattering:
    """Products with sums over ranks, on the GPU of a rank, for one group.

    A slot has two places for each rank q of R, all with `most` rows. Place q is for the part that rank q sends. Place
    R + q is for the part that is copied to rank q; in an all-reduce, the sums of rank q arrive there later. These do
    not meet, because rank q sends its sums only after it has all parts.
    """

    def __init__(self, ranks: Ranks, device: torch.device) -> None:
        self._ranks, self.exchange = ranks, Exchange(ranks, device)
        self._lists = Recent(_MOST)
        # A kernel with arrivals begins with the rank in `turn`: here the next rank, so this rank's rows come last. The
        # epoch is 0, as the flags are, so the kernel never waits.
        turn = torch.tensor([(ranks.rank + 1) % ranks.size, 0, 1], dtype=torch.int32, device=device)
        arrived, status = (turn.new_zeros(count) for count in (ranks.size, 4))
        self._order = {"arrived": arrived, "turn": turn, "status": status}

    def run(self, call: Call, out: torch.Tensor) -> None:
        """out (rows of this rank, N) = epilogue(these rows of the sum over ranks of A · B) for A (M, K)."""
        stream = self._begin(call, out)
        self._scatter(call, out, stream)
        self.exchange.end(stream)

    def run_for_all(self, call: Call, out: torch.Tensor) -> None:
        """out (M, N) = epilogue(the sum over ranks of A · B) for A (M, K). Operands of the call that have rows have
        only the rows that this rank owns, as for `run`."""
        stream, own = self._begin(call, out), slice_of(call.shares(self._ranks.size), self._ranks.rank)
        d = readable_rows(out)
        work = self._scatter(call, d[own], stream)
        self._send_sums(work, d[own], d, stream)
        if d is not out:
            out.copy_(d)
        self.exchange.end(stream)

    def _begin(self, call: Call, out: torch.Tensor) -> int:
        most = max(call.shares(self._ranks.size))
        return self.exchange.begin(2 * self._ranks.size * most * out.shape[1] * out.itemsize)

    def _scatter(self, call: Call, out: torch.Tensor, stream: int) -> _Work:
        exchange = self.exchange
        work, flags, streams = exchange.prepared(call, out, self._prepare), exchange.flags, exchange.streams
        for part in work.products:
            if part.launch is not None:
                part.launch(stream)
            if part.owner is not None:
                streams.order(stream, streams.beside)
                streams.copy(*part.copy, streams.beside)
                flags.tell(part.owner, streams.beside)
        if len(work.products) == 1:  # it has stored all parts
            flags.tell_all(stream)
        flags.wait(stream)
        if out.shape[0]:
            add_in_order(work.parts, *call.sum, call.a.dtype, out, flags.marks(out.shape[1]))
        return work

    def _send_sums(self, work: _Work, own: torch.Tensor, out: torch.Tensor, stream: int) -> None:
        """Sends this rank's rows of `out` to all ranks, and copies theirs to `out`."""
        streams, flags = self.exchange.streams, self.exchange.sums
        flags.begin()
        streams.order(stream, streams.beside)
        for peer, place in work.sent:
            streams.copy(place, own.data_ptr(), own.nbytes, streams.beside)
            flags.tell(peer, streams.beside)
        flags.wait(stream)
        mask = flags.mask()
        for rows, words in work.received:
            torch.bitwise_or(words, mask, out=out[rows].view(mask.dtype))

    def _sums(self, call: Call, like: tuple[int, int]) -> tuple[Any, Any]:
        """`sent` and `received` of `_Work`. `like`: the shape of a place."""
        if call.op != REDUCE:
            return (), ()
        part, (rank, size), rows = (
            self.exchange.part,
            (self._ranks.rank, self._ranks.size),
            call.shares(self._ranks.size),
        )
        peers = self._ranks.around(rank)[1:]
        sent = tuple((peer, part(peer, size + rank, like, call.d).data_ptr()) for peer in peers)
        words = {peer: part(rank, size + peer, like, call.d)[: rows[peer]].view(torch.int32) for peer in peers}
        return sent, tuple((slice_of(rows, peer), words[peer]) for peer in peers if rows[peer])

    def _prepare(self, call: Call, out: torch.Tensor) -> _Work:
        exchange, ranks, rows = self.exchange, self._ranks, call.shares(self._ranks.size)
        n, most, own = out.shape[1], max(rows), rows[ranks.rank]
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
        parts = tuple(exchange.part(ranks.rank, source, (most, n), out.dtype)[:own] for source in range(ranks.size))
        if sends_copies(spec, rows, ranks.rank, n * out.itemsize):
            return _Work(*self._products(call, spec, readable_rows(call.a), lies), parts, *self._sums(call, (most, n)))
        tensors, scalars = by_name(operands, how, rows)
        given = {"a": padded(call.a, rows), "b": lies, "d": self._list((most, n), out.dtype)} | tensors
        launch = exchange.launches.prepared(spec, how.numerics, given | self._order | counts, scalars)
        held = copies([given["a"], lies, *tensors.values()], (call.a, call.b, *call.operands))
        return _Work(held, (_Part(launch),), parts, *self._sums(call, (most, n)))

    def _products(
        self, call: Call, spec: lt.GemmSpec, a: torch.Tensor, lies: torch.Tensor
    ) -> tuple[list[torch.Tensor], tuple[_Part, ...]]:
        """`held` and `products` of `_Work`, if parts are copied. The part of this rank's own rows is the last, and is
        not copied."""
        exchange, rank, size, rows = self.exchange, self._ranks.rank, self._ranks.size, call.shares(self._ranks.size)
        (operands, how), shape, found = call.part, (max(rows), call.b.shape[1]), []
        held = copies([a, lies], [call.a, call.b])
        for owner in self._ranks.around((rank + 1) % size):
            part, count = slice_of(rows, owner), rows[owner]
            place = exchange.part(rank, rank if owner == rank else size + owner, shape, call.d)[:count]
            launch = None
            if count:
                of_part = rows_of(operands, how, part)
                tensors, scalars = by_name(of_part, how)
                held += copies(tensors.values(), of_part)
                given = {"a": a[part], "b": lies, "d": place} | tensors
                launch = exchange.launches.prepared(alone(spec, count), how.numerics, given, scalars)
            to = 0 if owner == rank else exchange.part(owner, rank, shape, call.d).data_ptr()
            found.append(_Part(launch, None if owner == rank else owner, (to, place.data_ptr(), place.nbytes)))
        return held, tuple(found)

    def _list(self, shape: tuple[int, int], dtype: torch.dtype) -> Any:
        """This rank's places on all ranks, in this epoch's slot. The lists for all slots are made together, because
        none can be made in a capture. They are kept, because launches read their tables."""
        exchange, key = self.exchange, (shape, dtype, self.exchange.window)
        if self._lists[key] is None:
            places = [exchange.parts(owner, self._ranks.rank, shape, dtype) for owner in range(self._ranks.size)]
            self._lists[key] = [matrix_list(list(of_slot)) for of_slot in zip(*places, strict=True)]
        return self._lists[key][exchange.slot]
