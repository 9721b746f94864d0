"""A launch of a kernel that was compiled with stamps, and the buffer that it fills. It needs no MLIR."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LaunchError


def stamp_words(kernel: Any, a: Any, b: Any, d: Any) -> NDArray[np.int32]:
    """Launch the kernel once on torch tensors, and bring home the words of its stamps: [CTA, agent, tile, stamp, 2], as
    `inspection.timeline.measured.stamps_of` takes them.

    `kernel` is a compiled or a loaded one. Raises LaunchError for a kernel whose stamps are not its only workspace.
    """
    workspaces = [entry for entry in kernel.manifest["host"] if entry["op"] == "tile.workspace"]
    if len(workspaces) != 1:
        raise LaunchError(
            f"the kernel has {len(workspaces)} workspaces, not one with its stamps; compile it with stamps=True, and a"
            " schedule that packs nothing and does not keep waves in step [stamps-workspace]"
        )
    torch = importlib.import_module("torch")
    buffer = torch.zeros(kernel.workspace_bytes(a, b), dtype=torch.uint8, device=a.device)
    kernel(a, b, out=d, workspace=buffer)
    torch.cuda.synchronize()
    words: NDArray[np.int32] = buffer.cpu().numpy().view(np.int32)
    return words
