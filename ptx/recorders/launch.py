"""Writes a recorded launch as the files of a record, with the arrays before and after the launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LaunchError
from lowtide.interpreter.launching import parsed
from lowtide.interpreter.ptx.syntax import Entry
from lowtide.launches import Array, Launch, LaunchRecord
from lowtide.ptx.judging import Expected
from lowtide.ptx.launch_files import AFTER
from lowtide.ptx.recorders.memory import MOST_BYTES, Memory, Reader, Region
from lowtide.ptx.recorders.tensors import region_of
from lowtide.ptx.recording import write_arrays, write_launch


@dataclass(frozen=True)
class RecordOptions:
    """What a recorder records.

    kernel: the name of the only kernel whose launches are recorded; None: launches of all kernels.
    launches: the number of launches to record of each kernel.
    arrays: tensors, by name, to which pointers in structs or in memory point.
    after: whether to record the arrays after the launch, with which results are compared.
    storage: whether the array of a tensor is its whole storage, not only the tensor's elements.
    rtol, atol: tolerances: a result x matches the recorded y if |x - y| <= atol + rtol · |y|.
    most_bytes: the largest number of bytes of arrays to copy for a launch.

    Raises LaunchError for values out of range, and for `arrays` without names.
    """

    kernel: str | None = None
    launches: int = 1
    arrays: Mapping[str, Any] | None = None
    after: bool = True
    storage: bool = False
    rtol: float = 0.0
    atol: float = 0.0
    most_bytes: int = MOST_BYTES

    def __post_init__(self) -> None:
        Expected(rtol=self.rtol, atol=self.atol)  # checks the tolerances
        if self.launches < 1:
            raise LaunchError(f"launches = {self.launches}: it is at least 1 [record-launches]")
        if self.arrays is not None and not isinstance(self.arrays, Mapping):
            kind = type(self.arrays).__name__
            raise LaunchError(f"arrays: tensors by name are expected, as in {{'x': x}}, not a {kind} [record-arrays]")


def entry_of(text: str, name: str | None) -> Entry:
    """The kernel `name` of a PTX text; None: its only kernel. Raises LaunchError if there is none."""
    entries = parsed(text).module.entries
    if name is None and len(entries) == 1:
        return next(iter(entries.values()))
    if name not in entries:
        raise LaunchError(
            f"the PTX has no kernel {name}; it has {', '.join(entries) or 'none'}: pass the PTX of the launched"
            " kernel [recorded-kernel]"
        )
    return entries[name]


def extra_regions(options: RecordOptions, device: Reader) -> list[Region]:
    """The memory of the tensors in `options.arrays`."""
    given = options.arrays or {}
    return [region_of(name, tensor, device, options.storage) for name, tensor in given.items()]


class Folders:
    """The folders of the recorded launches, one for each launch: `root/KERNEL` for the first launch of a kernel, then
    `root/KERNEL-2` and so on."""

    def __init__(self, root: str | Path, options: RecordOptions) -> None:
        self.root, self.options = Path(root), options
        self.written: list[Path] = []
        self.seen: dict[str, int] = {}

    def next(self, kernel: str) -> Path | None:
        """The folder of the next launch of a kernel; None if it is not recorded."""
        wanted = self.options.kernel
        if (wanted is not None and kernel != wanted) or self.seen.get(kernel, 0) >= self.options.launches:
            return None
        number = self.seen[kernel] = self.seen.get(kernel, 0) + 1
        return self.root / (kernel if number == 1 else f"{kernel}-{number}")

    def require_any(self) -> None:
        """Raises LaunchError if nothing was recorded."""
        if not self.written:
            which = "" if self.options.kernel is None else f" of {self.options.kernel}"
            raise LaunchError(
                f"the block has no launch{which} that can be recorded; launch the kernel in the block, as docs/ptx.md"
                " describes [recorded-nothing]"
            )


@dataclass(frozen=True)
class Seen:
    """A launch of the kernel `entry` of `text`, before it runs."""

    text: str
    entry: Entry
    launch: Launch
    memory: Memory
    scratch: Mapping[str, Array]

    def record(self, folder: Path, options: RecordOptions, launch: Callable[[], Any]) -> Any:
        """Write the launch, run it, and write the arrays that it changed. Returns the result of `launch`.

        If the launch hangs or fails, its files have been written, except after.npz.
        """
        arrays = self.memory.arrays()
        record = LaunchRecord({**arrays, **self.scratch}, (self.launch,))
        expected = Expected(rtol=options.rtol, atol=options.atol)
        write_launch(folder, self.text, self.entry.parameters, record, expected)
        result = launch()
        if options.after:
            after = self.memory.contents()
            write_arrays(folder / AFTER, {name: each for name, each in after.items() if _changed(each, arrays[name])})
        return result


def _changed(after: NDArray[Any], before: Array) -> bool:
    return before.values is None or after.tobytes() != np.ascontiguousarray(before.values).tobytes()
