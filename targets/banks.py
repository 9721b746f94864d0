"""Bank conflicts of an access to shared memory, and sectors and lines of one to global memory, counted.

Shared memory has 32 banks of 4-byte words. A warp's access is served in phases: 32 lanes per phase at up to 4 bytes
per lane, 16 lanes (half-warps) at 8 bytes, 8 lanes (quarter-warps) at 16 bytes. ldmatrix takes one phase per matrix,
for its eight 16-byte rows. Within a phase a bank serves one word at a time, to all lanes that ask for it: the number
of distinct words in the fullest bank is the phase's ways. (CUDA C++ Programming Guide, "Shared Memory"; the split into
phases is how the profiler counts wavefronts.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowtide.errors import ScheduleError

BANKS = 32
WORD_BYTES = 4
SECTOR_BYTES = 32
LINE_BYTES = 128

AccessKind = Literal["shared", "ldmatrix"]
_LANES_PER_PHASE = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}


@dataclass(frozen=True)
class Conflict:
    """The worst phase of an access, with a witness, and what the whole access costs."""

    ways: int
    """Words that the fullest bank serves one after the other; 1 is free of conflicts."""
    bank: int
    """The first bank of the witness."""
    lanes: tuple[int, ...]
    """The first lane that asks for each of its distinct words."""
    addresses: tuple[int, ...]
    """The byte address that each of those lanes accesses."""
    wavefronts: int
    """Ways summed over all phases."""
    ideal: int
    """The phases: wavefronts where nothing conflicts."""


def worst_conflict(addresses: NDArray[np.int64], bytes_per_lane: int, kind: AccessKind = "shared") -> Conflict:
    """The worst of many accesses: byte addresses [access, lane], a negative one for a lane that is switched off.

    `wavefronts` and `ideal` are summed over the accesses. Raises ScheduleError for a width that no instruction has or
    an address that its width does not divide.
    """
    if bytes_per_lane not in _LANES_PER_PHASE or (kind == "ldmatrix" and bytes_per_lane != 16):
        raise ScheduleError(
            f"a {kind} access has no {bytes_per_lane} bytes per lane; "
            + ("ldmatrix rows are 16 bytes" if kind == "ldmatrix" else "take 1, 2, 4, 8 or 16")
        )
    active = addresses >= 0
    misaligned = active & (addresses % bytes_per_lane != 0)
    if misaligned.any():
        access, lane = np.argwhere(misaligned)[0]
        raise ScheduleError(
            f"lane {lane} accesses {bytes_per_lane} bytes at address {addresses[access, lane]}, which {bytes_per_lane} "
            "does not divide; align the rows or take narrower accesses"
        )
    group = _LANES_PER_PHASE[bytes_per_lane]
    padding = -addresses.shape[1] % group
    padded = np.pad(np.where(active, addresses, -1), ((0, 0), (0, padding)), constant_values=-1)
    phases = padded.reshape(-1, group)
    # An aligned access of 8 or 16 bytes takes 2 or 4 neighbouring banks together: count in such units.
    unit = max(WORD_BYTES, bytes_per_lane)
    slots = BANKS * WORD_BYTES // unit
    units = np.where(phases < 0, -1, phases // unit)
    counts = _distinct_units_per_slot(units, slots)
    ways = counts.max(axis=1)
    issued = int((ways > 0).sum())
    if not issued:
        return Conflict(1, 0, (), (), 0, 0)
    phase = int(ways.argmax())
    slot = int(counts[phase].argmax())
    first_lane = phase * group % padded.shape[1]
    first_of_unit = {int(units[phase, lane]): lane for lane in range(group - 1, -1, -1)}
    witness = sorted(lane for number, lane in first_of_unit.items() if number >= 0 and number % slots == slot)
    return Conflict(
        ways=int(ways[phase]),
        bank=slot * unit // WORD_BYTES,
        lanes=tuple(first_lane + lane for lane in witness),
        addresses=tuple(int(phases[phase, lane]) for lane in witness),
        wavefronts=int(ways.sum()),
        ideal=issued,
    )


def _distinct_units_per_slot(units: NDArray[np.int64], slots: int) -> NDArray[np.int64]:
    """[phase, lane] to [phase, slot]: how many different units fall on each slot of banks; unit -1 is none."""
    ordered = np.sort(units, axis=1)
    first = np.ones_like(ordered, dtype=bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    phase, position = np.nonzero(first & (ordered >= 0))
    index = phase * slots + ordered[phase, position] % slots
    return np.bincount(index, minlength=len(units) * slots).reshape(len(units), slots)


def conflicts(
    addresses: Sequence[int] | NDArray[np.int64], bytes_per_lane: int, kind: AccessKind = "shared"
) -> Conflict:
    """The conflicts of one warp-wide access: a byte address for each lane, negative where it is switched off."""
    return worst_conflict(np.asarray(addresses, dtype=np.int64)[None, :], bytes_per_lane, kind)


@dataclass(frozen=True)
class Sectors:
    """The 32-byte sectors of a warp's request to global memory."""

    touched: int
    ideal: int
    """Sectors that its distinct bytes would fill side by side."""


def sectors_per_request(addresses: ArrayLike, bytes_per_lane: int) -> Sectors:
    """The sectors of one warp-wide access: a byte address for each lane, negative where it is switched off."""
    touched = _touched_bytes(addresses, bytes_per_lane)
    return Sectors(len(np.unique(touched // SECTOR_BYTES)), -(-len(touched) // SECTOR_BYTES))


def lines_per_request(addresses: ArrayLike, bytes_per_lane: int) -> int:
    """The 128-byte lines of global memory that an access touches; addresses as for `sectors_per_request`."""
    return len(np.unique(_touched_bytes(addresses, bytes_per_lane) // LINE_BYTES))


def _touched_bytes(addresses: ArrayLike, bytes_per_lane: int) -> NDArray[np.int64]:
    lanes = np.asarray(addresses, dtype=np.int64).reshape(-1)
    return np.unique(lanes[lanes >= 0][:, None] + np.arange(bytes_per_lane))
