"""The ranks of a process group, with what they agreed on and the engines of their ops."""

import functools
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from lowtide.errors import LaunchError


@dataclass(eq=False)
class Ranks:
    """`rank`: the number of this process among the `size` ranks of the group. `agreed`: for the arguments of a call,
    why all ranks take the plain ops; "" if they take the kernels. `engines`: by kind of op and device."""

    group: dist.ProcessGroup
    rank: int
    size: int
    agreed: dict[Any, str] = field(default_factory=dict)
    engines: dict[Any, Any] = field(default_factory=dict)

    def around(self, first: int) -> list[int]:
        """All ranks in a ring: `first`, the next ones, and after the last rank those from 0 on."""
        return [(first + step) % self.size for step in range(self.size)]

    def gathered(self, value: Any) -> list[Any]:
        """The objects of all ranks, in the order of ranks. It is a collective, and the host waits for it. Raises
        LaunchError if a rank does not take part within the time-out of the group."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        try:
            dist.all_gather_object(found, value, group=self.group)
        except RuntimeError as error:
            raise LaunchError(
                f"rank {self.rank} could not exchange the arguments of a call with the {self.size} ranks of the group"
                f" ({str(error).splitlines()[0]}); all ranks must make the same calls: find out which has ended, or"
                " makes another one [ranks-exchange]"
            ) from error
        return found


def ranks_of(group: dist.ProcessGroup | None) -> Ranks:
    """The ranks of a group; None: of the default group. Raises LaunchError if torch.distributed is not initialized, or
    if this process is not in the group."""
    if not dist.is_available() or not dist.is_initialized():
        raise LaunchError(
            "torch.distributed is not initialized; call torch.distributed.init_process_group first [ranks-group]"
        )
    given = dist.group.WORLD if group is None else group
    if given is None or given is dist.GroupMember.NON_GROUP_MEMBER:
        raise LaunchError("this process is not in the group; call the op on the group's ranks only [ranks-member]")
    return _ranks_of(given)


@functools.cache
def _ranks_of(group: dist.ProcessGroup) -> Ranks:
    return Ranks(group, dist.get_rank(group), dist.get_world_size(group))


def is_capturing(device: torch.device) -> bool:
    """Whether the current stream records a CUDA graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
