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
        """out (rows of all ranks, N) = epilogue(gathered A · B) for A (rows of this rank, K). Returns the gathered A if
        the call keeps it."""
        a, exchange, size = call.a.contiguous(), self.exchange, self._ranks.size
        rows, k = call.shares(size), a.shape[1]
        most = (max(rows), k)
        main = exchange.begin(size * max(rows) * k * a.itemsize)
        self._side.wait_stream(main)
        with torch.cuda.stream(self._side):
            for step in range(1, size):
                self._copy(a, (self._ranks.rank - step) % size, most)
        # A copy within a GPU may be a kernel. It cannot run beside the product, which takes all SMs and waits for it.
        self._copy(a, self._ranks.rank, most)
        whole = exchange.part(self._ranks.rank, 0, (size, *most), a.dtype)
        d = self._launch(call, whole, out, main)
        if d is not None:
            _unpad(d, rows, out)
        kept = None
        if call.keeps:  # the window is written again two calls later
            kept = _unpad(whole, rows, a.new_empty(sum(rows), k))
        main.wait_stream(self._side)  # A may be written again after the call
        exchange.end(main)
        return kept

    def _launch(
        self, call: Call, whole: torch.Tensor, out: torch.Tensor, stream: torch.cuda.Stream
    ) -> torch.Tensor | None:
        """Multiplies the rows of all ranks. Returns D, padded, if it is not in `out`."""
        (size, m, k), n, rows = whole.shape, out.shape[1], call.shares(whole.shape[0])
        (layout, lies), (operands, how) = readable_b(call.b), call.part
        d = _place(out, rows)
        tensors, scalars = by_name(operands, how, rows)
        asked, counts = read(how.epilogue), self.exchange.counts(rows)
        given = {"a": whole, "b": lies, "d": out.new_empty(size, m, n) if d is None else d}
        spec = lt.GemmSpec(
            m=m,
            n=n,
            k=k,
            batch=size,
            arrivals=True,
            counts=bool(counts),
            layout=layout,
            epilogue=None if asked is None else asked.function,
            **call.types,
        )
        given |= self.exchange.flags.operands() | counts | tensors
        self.exchange.launches.run(spec, how.numerics, given, scalars, stream)
        return given["d"] if d is None else None

    def _copy(self, a: torch.Tensor, peer: int, most: tuple[int, int]) -> None:
        """Copies this rank's rows to a rank, and then sets the flag there."""
        place = self.exchange.part(peer, self._ranks.rank, most, a.dtype)
        place[: a.shape[0]].copy_(a, non_blocking=True)
        self.exchange.flags.tell(peer)


def _place(out: torch.Tensor, rows: tuple[int, ...]) -> torch.Tensor | None:
    """`out` as (ranks, most rows of a rank, N); None if a kernel cannot store the rows there. If the last rank has
    fewer rows, the view extends past the end of `out`; no kernel writes these rows."""
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
