"""Checks that PTX and cubin fit the manifest beside them.

Sources: PTX ISA, ".target", "Kernel Function Parameters", ".maxntid", ".reqntid", ".reqnctapercluster"; LLVM's ELF.h,
"EF_CUDA_SM", for the flags of a cubin; System V ABI, "ELF Header" and "Sections".
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lowtide.errors import LoadError
from lowtide.runtime.launch_shape import ARGUMENT_BYTES, LaunchShape

_HEADER_BYTES, _SECTION_BYTES = 64, 64
_CUDA_MACHINE = 190
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.[a-z]+(?P<bits>\d+)\s+"
    r"(?:\.ptr\s+(?:\.(?:global|shared|const|local|param)\s+)?(?:\.align\s+\d+\s+)?)?"
    r"[\w$%]+\s*(?:\[\s*(?P<count>\d+)\s*\])?\s*\Z"
)


class Section(NamedTuple):
    """A section of a cubin: its name and size in bytes."""

    name: bytes
    size: int


def check_code(
    name: str, target: str, capability: tuple[int, int], launches: Sequence[LaunchShape], ptx: str, cubin: bytes | None
) -> None:
    """Check that the code has the launched kernels, with these parameters and for this target. Raises LoadError."""
    try:
        text = _COMMENT.sub("", ptx)
        _check_target(text, target)
        for launch in launches:
            _check_entry(text, launch)
        if cubin is not None:
            _check_cubin(cubin, capability, launches)
    except ValueError as error:
        raise LoadError(f"{name}: {error}; compile and save the kernel again [ptx-code]") from None


def sections(cubin: bytes) -> Iterator[Section]:
    """The sections of a 64-bit ELF file. Raises ValueError for other or truncated files."""
    if len(cubin) < _HEADER_BYTES or cubin[:5] != b"\x7fELF\x02":
        raise ValueError("the machine code is not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", cubin, 40)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", cubin, 58)
    if entry_bytes != _SECTION_BYTES or table + count * _SECTION_BYTES > len(cubin) or names_index >= count:
        raise ValueError("the machine code's section table is cut off")
    # For each section: the offset of its name, and the offset and size of its bytes.
    places = [struct.unpack_from("<I20xQQ", cubin, table + i * _SECTION_BYTES) for i in range(count)]
    names = places[names_index][1]
    for start, _, size in places:
        yield Section(cubin[names + start : cubin.find(b"\0", names + start)], size)


def _check_target(text: str, target: str) -> None:
    found = re.search(r"^\s*\.target\s+([\w]+)", text, re.MULTILINE)
    if found is None or found[1] != target:
        says = f"is for {found[1]}" if found else "names no .target"
        raise ValueError(f"the PTX {says}, the manifest says target {target!r}; both must be the same")


def _check_entry(text: str, launch: LaunchShape) -> None:
    entry = re.search(rf"\.entry\s+{re.escape(launch.kernel)}(?![\w$])\s*(?:\((.*?)\))?([^{{]*)", text, re.DOTALL)
    if entry is None:
        raise ValueError(f"the PTX has no entry {launch.kernel!r}")
    sizes = [
        _parameter_bytes(parameter, launch.kernel) for parameter in (entry[1] or "").split(",") if parameter.strip()
    ]
    given = [ARGUMENT_BYTES[kind] for kind in launch.types]
    if len(given) != len(sizes):
        raise ValueError(f"the launch of {launch.kernel} has {len(given)} arguments, in the PTX it takes {len(sizes)}")
    for position, (kind, size) in enumerate(zip(launch.types, sizes, strict=True)):
        if ARGUMENT_BYTES[kind] != size:
            raise ValueError(
                f"argument {position} of the launch of {launch.kernel} is {kind!r}, {ARGUMENT_BYTES[kind]} bytes; in "
                f"the PTX it has {size}"
            )
    _check_threads(entry[2], launch)
    _check_cluster(entry[2], launch)


def _parameter_bytes(text: str, kernel: str) -> int:
    found = _PARAMETER.match(text.strip())
    if found is None:
        raise ValueError(f"parameter {text.strip()!r} of {kernel} in the PTX is not understood")
    return int(found["bits"]) // 8 * int(found["count"] or 1)


def _check_threads(directives: str, launch: LaunchShape) -> None:
    """.maxntid bounds the threads per CTA, .reqntid gives them for each axis."""
    for directive, exact in ((".maxntid", False), (".reqntid", True)):
        found = re.search(rf"\{directive}\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", directives)
        if found is None:
            continue
        limit = tuple(int(side or 1) for side in found.groups())
        if launch.block != limit if exact else math.prod(launch.block) > math.prod(limit):
            raise ValueError(f"block is {list(launch.block)}, {launch.kernel} in the PTX has {directive} {list(limit)}")


def _check_cluster(directives: str, launch: LaunchShape) -> None:
    """.reqnctapercluster gives the CTAs of a cluster for each axis."""
    found = re.search(r"\.reqnctapercluster\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", directives)
    required = tuple(int(side or 1) for side in found.groups()) if found else None
    if required is not None and (launch.cluster or (1, 1, 1)) != required:
        given = list(launch.cluster) if launch.cluster else None
        raise ValueError(f"cluster is {given}, {launch.kernel} in the PTX has .reqnctapercluster {list(required)}")


def _check_cubin(cubin: bytes, capability: tuple[int, int], launches: Sequence[LaunchShape]) -> None:
    names = {section.name for section in sections(cubin)}
    (machine,), (flags,) = struct.unpack_from("<H", cubin, 18), struct.unpack_from("<I", cubin, 48)
    if machine != _CUDA_MACHINE:
        raise ValueError(f"the cubin is for ELF machine {machine}, must be {_CUDA_MACHINE} (CUDA)")
    # By the ABI version, byte 8: up to 7 the capability is in the first byte of the flags, later in the second.
    found = flags >> 8 & 0xFF if cubin[8] >= 8 else flags & 0xFF
    wanted = 10 * capability[0] + capability[1]
    if found != wanted:
        raise ValueError(f"the cubin is for sm_{found}, the manifest's target for sm_{wanted}; both must be the same")
    for launch in launches:
        if f".text.{launch.kernel}".encode() not in names:
            raise ValueError(f"the cubin has no kernel {launch.kernel!r}")
