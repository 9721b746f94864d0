"""Flags with growing epochs: by them a rank tells other ranks that its data have arrived.

The epoch is a counter on the device, so that it also grows when a CUDA graph is replayed. After the data, in stream
order, a copy of 4 bytes writes the epoch to the flag of each peer. A wait ends when the flag has this epoch or a later
one, so a rank never takes data of an earlier epoch for those of this one. A kernel with `arrivals` waits: either the
product itself, or a product of one tile for each rank, which does nothing else. If a flag is late, the kernel writes
the status and ends.
"""

import torch

import lowtide as lt
from lowtide.errors import LaunchError
from lowtide.torch.distributed.launching import Launches
from lowtide.torch.distributed.ranks import Ranks
from lowtide.torch.distributed.symmetric import Window

_LIMIT = 30_000  # ms, the longest wait for a flag
_SIDE = 64  # M, N and K of the product that only waits


class Flags:
    """The flags of one kind in a window. `arrived`, `turn` and `status` are the operands of kernels with `arrivals`."""

    def __init__(self, window: Window, kind: int, ranks: Ranks, device: torch.device, launches: Launches) -> None:
        self.arrived = window.flags(ranks.rank, kind)
        self.turn = torch.tensor([ranks.rank, 0, _LIMIT], dtype=torch.int32, device=device)
        self.status = torch.zeros(4, dtype=torch.int32, device=device)
        self._seen = torch.zeros(4, dtype=torch.int32, pin_memory=device.type == "cuda")
        self._epoch = self.turn[1:2]
        self._on = [window.flags(peer, kind)[ranks.rank : ranks.rank + 1] for peer in range(ranks.size)]
        self._ranks, self._launches = ranks, launches
        self._factors = torch.zeros(ranks.size, _SIDE, _SIDE, dtype=torch.bfloat16, device=device)
        self._product = torch.zeros_like(self._factors)
        self._waiting = lt.GemmSpec(
            m=_SIDE, n=_SIDE, k=_SIDE, batch=ranks.size, arrivals=True, a="bf16", b="bf16", d="bf16"
        )

    def begin(self) -> None:
        """Begins the next epoch, in the order of the current stream."""
        self._epoch.add_(1)

    def tell(self, rank: int) -> None:
        """Sets this rank's flag on another rank, after the earlier work of the current stream."""
        self._on[rank].copy_(self._epoch, non_blocking=True)

    def tell_all(self) -> None:
        """As `tell`, on all ranks. torch may launch a kernel for it, so no kernel of this rank may wait for these flags
        at the same time."""
        torch._foreach_copy_(self._on, [self._epoch] * len(self._on), non_blocking=True)

    def wait(self, stream: torch.cuda.Stream) -> None:
        """The stream waits until all ranks, with this one, have set their flags to this epoch."""
        operands = {"a": self._factors, "b": self._factors[0], "d": self._product}
        self._launches.run(self._waiting, "repeatable", operands | self.operands(), {}, stream)

    def operands(self) -> dict[str, torch.Tensor]:
        """The operands of a kernel with `arrivals`, by name."""
        return {"arrived": self.arrived, "turn": self.turn, "status": self.status}

    def marks(self, count: int) -> torch.Tensor:
        """f32 (count,): zeros, or NaN if a flag was late. Added to a sum, they turn a sum of earlier data into NaN."""
        return torch.special.xlogy(self.status[:1].expand(count), -1.0)  # 0 for a status of 0, else NaN

    def report(self) -> None:
        """Copies the status to the host, in the order of the current stream."""
        self._seen.copy_(self.status, non_blocking=True)

    def check(self) -> None:
        """Raises LaunchError if the status on the host says that a rank was late in a call, once for each such call."""
        late, rank, seen, wanted = self._seen.tolist()
        if late:
            limit = self.turn[2].item() / 1000
            self.status.zero_()
            self._seen.zero_()
            raise LaunchError(
                f"rank {self._ranks.rank} waited {limit:g} s for rank {rank}, whose flag is at epoch {seen} and not at "
                f"{wanted}: the results of that call are not complete. Find out why that rank is late, or has ended"
                " [ranks-late]"
            )
