"""Flags by which a rank tells other ranks that its data have arrived.

The epoch is a counter on the device, so that it also grows when a CUDA graph is replayed. After the data, the epoch is
written to this rank's flag on a peer: by a copy of 4 bytes in the same stream, or by the kernel that sent the data. A
wait ends when the flag has this epoch or a later one, so a rank never takes data of an earlier epoch for those of this
one. A kernel with `arrivals` waits: either the product itself, or a product with one tile for each rank, whose result
is not used. If a flag is late, the kernel writes the status and ends.
"""

import torch

import lowtide as lt
from lowtide.errors import LaunchError
from lowtide.torch.distributed.launching import Launches
from lowtide.torch.distributed.ranks import Ranks
from lowtide.torch.distributed.streams import Streams
from lowtide.torch.distributed.symmetric import KINDS, Window

DATA, READY, SUMS = range(KINDS)
_LIMIT = 30_000  # ms, the longest wait for a flag
_SIDE = 64  # M, N and K of the product that only waits
_WORD = 4  # bytes of a flag


class Statuses:
    """The status of each kind of flags, s32 (KINDS, 4): on the device, and as last copied to the host."""

    def __init__(self, device: torch.device) -> None:
        self.on_device = torch.zeros(KINDS, 4, dtype=torch.int32, device=device)
        self.seen = torch.zeros(KINDS, 4, dtype=torch.int32, pin_memory=device.type == "cuda")

    def report(self, streams: Streams, stream: int) -> None:
        """Copies the status to the host, in stream order."""
        streams.copy(self.seen.data_ptr(), self.on_device.data_ptr(), self.seen.nbytes, stream)


class Flags:
    """The flags of one kind in a window. `arrived`, `turn` and `status`: operands of kernels with `arrivals`. `on`: the
    address of this rank's flag on each rank."""

    def __init__(
        self, window: Window, kind: int, statuses: Statuses, ranks: Ranks, launches: Launches, streams: Streams
    ) -> None:
        self.arrived, self.status = window.flags(ranks.rank, kind), statuses.on_device[kind]
        device, size = self.arrived.device, ranks.size
        self.turn = torch.tensor([ranks.rank, 0, _LIMIT], dtype=torch.int32, device=device)
        self._seen = statuses.seen[kind].numpy()
        self._epoch = self.turn[1:2].data_ptr()
        # Stream order is enough for this rank's own data, so `begin` already sets its own flag to the epoch.
        self._begun = [self.turn[1:2], self.arrived[ranks.rank : ranks.rank + 1]]
        self._peers = [peer for peer in ranks.around(ranks.rank) if peer != ranks.rank]
        self.on = [window.flags(peer, kind)[ranks.rank : ranks.rank + 1].data_ptr() for peer in range(size)]
        self._rank, self._streams = ranks.rank, streams
        factors = torch.zeros(size, _SIDE, _SIDE, dtype=torch.bfloat16, device=device)
        self._factors = factors, torch.zeros_like(factors)
        waiting = lt.GemmSpec(m=_SIDE, n=_SIDE, k=_SIDE, batch=size, arrivals=True, a="bf16", b="bf16", d="bf16")
        operands = {"a": factors, "b": factors[0], "d": self._factors[1]} | self.operands()
        self._waiting = launches.prepared(waiting, "repeatable", operands, {})

    def begin(self) -> None:
        """Begins the next epoch, in the order of torch's current stream."""
        torch._foreach_add_(self._begun, 1)

    def tell(self, rank: int, stream: int) -> None:
        """Sets this rank's flag on another rank, after the earlier work of a stream."""
        self._streams.copy(self.on[rank], self._epoch, _WORD, stream)

    def tell_all(self, stream: int) -> None:
        """Sets this rank's flag on all other ranks, after the earlier work of a stream."""
        for peer in self._peers:
            self.tell(peer, stream)

    def wait(self, stream: int) -> None:
        """The stream waits until all ranks have set their flags on this rank to this epoch, or until one is late."""
        self._waiting(stream)

    def operands(self) -> dict[str, torch.Tensor]:
        """The operands of a kernel with `arrivals`, by name."""
        return {"arrived": self.arrived, "turn": self.turn, "status": self.status}

    def marks(self, count: int) -> torch.Tensor:
        """f32 (count,): zeros, or NaN if a flag was late. A sum may then have data of an earlier call, so this is added
        to it."""
        return torch.special.xlogy(self.status[:1].expand(count), -1.0)  # 0 for a status of 0, else NaN

    def mask(self) -> torch.Tensor:
        """s32 (1,): 0, or -1 if a flag was late. A bitwise or with -1 makes each float of a word NaN."""
        return self.status[:1].neg()

    def check(self) -> None:
        """Raises LaunchError if the status on the host says that a rank was late. Clears the status before that, so
        later calls do not raise the error again."""
        if self._seen[0]:
            _, rank, seen, wanted = self._seen.tolist()
            limit = self.turn[2].item() / 1000
            self.status.zero_()
            self._seen[:] = 0
            raise LaunchError(
                f"rank {self._rank} waited {limit:g} s for rank {rank}, whose flag is at epoch {seen} and not at "
                f"{wanted}: the results of that call are not complete. Find out why that rank is late, or has ended"
                " [ranks-late]"
            )
