"""Flags with growing epochs: how a rank says that its data has arrived, and how others wait for it.

The epoch is a counter on the device, so that a CUDA graph counts on. After the data, in stream order, a copy of 4 bytes
brings it to the flag of each peer. A wait is for an epoch or a later one, so no data of an earlier epoch is taken for
that of this one. The wait is that of a kernel with `arrivals`: within the product, or in a product of one tile for each
rank, whose only use is to end when all flags are there. If a flag is late, the kernel says so in the status and ends.
"""

import torch

import lowtide as lt
from lowtide.errors import LaunchError
from lowtide.torch.distributed.launching import Launches
from lowtide.torch.distributed.ranks import Ranks
from lowtide.torch.distributed.symmetric import Window

_LIMIT = 30_000  # ms, the longest wait for a flag
_SIDE = 64  # of the matrices of a product that only waits


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
        """The next epoch, in order in the current stream."""
        self._epoch.add_(1)

    def tell(self, rank: int) -> None:
        """Sets this rank's flag on a rank, after all that the current stream has done."""
        self._on[rank].copy_(self._epoch, non_blocking=True)

    def tell_all(self) -> None:
        """As `tell`, on all ranks. One kernel may do it, so no kernel that waits for these flags runs at this time."""
        torch._foreach_copy_(self._on, [self._epoch] * len(self._on), non_blocking=True)

    def wait(self, stream: torch.cuda.Stream) -> None:
        """The stream waits until all ranks have told this epoch, this rank too."""
        operands = {"a": self._factors, "b": self._factors[0], "d": self._product}
        self._launches.run(self._waiting, "repeatable", operands | self.operands(), {}, stream)

    def operands(self) -> dict[str, torch.Tensor]:
        """The operands of a kernel with `arrivals`, by name."""
        return {"arrived": self.arrived, "turn": self.turn, "status": self.status}

    def marks(self, count: int) -> torch.Tensor:
        """f32 (count,): zeros; NaN if a flag was late, so that no sum with earlier data passes for a result."""
        return torch.special.xlogy(self.status[:1].expand(count), -1.0)  # 0 · log(−1) is 0 there

    def report(self) -> None:
        """Brings the status to the host, in order in the current stream."""
        self._seen.copy_(self.status, non_blocking=True)

    def check(self) -> None:
        """Raises LaunchError for a rank that was late in a call whose status has reached the host. It says so once."""
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
