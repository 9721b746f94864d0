"""A kernel with the same code and a serialized launch."""

from collections.abc import Mapping
from typing import Any

from lowtide.runtime.kernel import Kernel

#: The text of a programmatic launch in a schedule, and of a serialized one.
LAUNCHES = "launch = programmatic", "launch = serialized"
_LAUNCH, _FLAG = "tile.launch", "programmatic"


def serialized(kernel: Kernel) -> Kernel:
    """The kernel, but it starts only after the kernels before it in the stream have ended. griddepcontrol.wait then
    returns at once (PTX ISA, "griddepcontrol"), so the code is the same."""
    manifest = kernel.manifest
    text = manifest["schedule"].replace(*LAUNCHES)
    host = [_without_flag(entry) if entry["op"] == _LAUNCH else entry for entry in manifest["host"]]
    return Kernel({**manifest, "schedule": text, "host": host}, kernel.ptx, kernel.cubin)


def _without_flag(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, "attributes": {name: value for name, value in entry["attributes"].items() if name != _FLAG}}
