"""The adapter of torch's symmetric memory: memory of this rank that other ranks can access, and their memory.

Its interface is alpha, so only this file uses it. The back end is CUDA; those of NVSHMEM and NCCL are not used, and
neither is multicast. Written for torch 2.11 to 2.13. If torch lacks these functions, all ranks take the plain ops.
"""

import importlib
from typing import Any

import torch
import torch.distributed as dist

_ALIGNED = 256  # bytes, of each part of a window
_BACK_END = "CUDA"
_WORD = 4  # bytes of a flag
KINDS = 3  # of flags


class Window:
    """Memory of the same size on each rank of a group: `slots` slots of `size` bytes, and some kinds of flags, s32.

    The constructor is a collective. The memory lives as long as the window, because graphs and late peers may use it.
    """

    def __init__(self, device: torch.device, group: dist.ProcessGroup, slots: int, size: int) -> None:
        shared, ranks = _module(), dist.get_world_size(group)
        self.size = _aligned(size)
        self._flags_at, self._flags_size = slots * self.size, _aligned(ranks * _WORD)
        bytes_ = self._flags_at + KINDS * self._flags_size
        self._whole = shared.empty(bytes_, dtype=torch.uint8, device=device)
        self._handle = shared.rendezvous(self._whole, group)
        self._whole[self._flags_at :].zero_()
        torch.cuda.synchronize(device)
        dist.barrier(group=group)  # no rank sets a flag before all are zero

    def part(self, rank: int, slot: int, shape: tuple[int, ...], dtype: torch.dtype, offset: int = 0) -> torch.Tensor:
        """A tensor in a slot of a rank, `offset` bytes after its start."""
        place = slot * self.size + offset
        found: torch.Tensor = self._handle.get_buffer(rank, shape, dtype, place // dtype.itemsize)
        return found

    def flags(self, rank: int, kind: int = 0) -> torch.Tensor:
        """The flags of a kind on a rank, s32 (ranks,)."""
        at = (self._flags_at + kind * self._flags_size) // _WORD
        found: torch.Tensor = self._handle.get_buffer(rank, (self._handle.world_size,), torch.int32, at)
        return found


def why_not(device: torch.device, group: dist.ProcessGroup) -> str:
    """Why tensors on this device cannot be shared; "" if no reason is known before a try."""
    if device.type != "cuda":
        return f"tensors are on {device.type}"
    if "nccl" not in str(dist.get_backend(group)):
        return f"the group's back end is {dist.get_backend(group)}"
    try:
        shared = _module()
    except ImportError as error:
        return f"torch {torch.__version__} has no symmetric memory ({error})"
    back_end = getattr(shared, "get_backend", lambda _: _BACK_END)(device)
    return "" if back_end in (None, _BACK_END) else f"symmetric memory has the back end {back_end}"


def try_to_share(device: torch.device, group: dist.ProcessGroup) -> str:
    """Shares some memory. Returns the error of torch; "" without one. It is a collective."""
    try:
        window = Window(device, group, 1, _ALIGNED)
        for rank in range(dist.get_world_size(group)):
            window.flags(rank)
    except (RuntimeError, AttributeError, TypeError) as error:
        return f"torch's symmetric memory refuses: {str(error).splitlines()[0]}"
    return ""


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _module() -> Any:
    """torch's module, imported late because torch may lack it."""
    return importlib.import_module("torch.distributed._symmetric_memory")


def name_of_gpu(device: torch.device) -> str:
    """A name that differs between the GPUs of a host; "" for a CPU."""
    if device.type != "cuda":
        return ""
    found = torch.cuda.get_device_properties(device)
    return str(getattr(found, "uuid", device.index))
