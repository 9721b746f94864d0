"""Counts the bank conflicts of an access to shared memory, and the sectors and lines of one to global memory.

Shared memory has 32 banks of 4-byte words. A warp's access is served in phases: 32 lanes per phase at up to 4 bytes
per lane, 16 lanes (half-warps) at 8 bytes, 8 lanes (quarter-warps) at 16 bytes. ldmatrix takes one phase per matrix,
for its eight 16-byte rows. Within a phase a bank serves one word at a time, to all lanes that ask for it. The ways of
a phase are the number of distinct words in its fullest bank. (CUDA C++ Programming Guide, "Shared Memory"; the split
into phases is how the profiler counts wavefronts.)
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
    """The worst phase of an access, with a witness, and the cost of the whole access."""

    ways: int
    """The number of words that the fullest bank serves in sequence; 1 means no conflict."""
    bank: int
    """The first bank of the witness."""
    lanes: tuple[int, ...]
    """For each distinct word of the bank, the first lane that asks for it."""
    addresses: tuple[int, ...]
    """The byte address that each of those lanes accesses."""
    wavefronts: int
    """The ways, summed over all phases."""
    ideal: int
    """The number of phases: the wavefronts of an access without conflicts."""


def worst_conflict(addresses: NDArray[np.int64], bytes_per_lane: int, kind: AccessKind = "shared") -> Conflict:
    """The worst of many accesses: byte addresses [access, lane], negative for an inactive lane.

    `wavefronts` and `ideal` are summed over the accesses. Raises ScheduleError for an unknown access width or an
    address that is not a multiple of the width.
    """
    if bytes_per_lane not in _LANES_PER_PHASE or (kind == "ldmatrix" and bytes_per_lane != 16):
        raise ScheduleError(
            f"a {kind} access cannot have {bytes_per_lane} bytes per lane; "
            f"{'ldmatrix rows are 16 bytes' if kind == 'ldmatrix' else 'take 1, 2, 4, 8 or 16'} [access-bytes]"
        )
    active = addresses >= 0
    misaligned = active & (addresses % bytes_per_lane != 0)
    if misaligned.any():
        access, lane = np.argwhere(misaligned)[0]
        raise ScheduleError(
            f"lane {lane} accesses {bytes_per_lane} bytes at address {addresses[access, lane]}, not a multiple "
            f"of {bytes_per_lane}; align the rows or take narrower accesses [access-aligned]"
        )
    phases = _phases(addresses, bytes_per_lane)
    units, slots = _units(phases, bytes_per_lane)
    counts = _distinct_units_per_slot(units, slots)
    ways = counts.max(axis=1)
    issued = int((ways > 0).sum())
    if not issued:
        return Conflict(1, 0, (), (), 0, 0)
    phase = int(ways.argmax())
    slot = int(counts[phase].argmax())
    group = phases.shape[1]
    first_lane = phase % (len(phases) // len(addresses)) * group
    first_of_unit = {int(units[phase, lane]): lane for lane in range(group - 1, -1, -1)}
    witness = sorted(lane for number, lane in first_of_unit.items() if number >= 0 and number % slots == slot)
    return Conflict(
        ways=int(ways[phase]),
        bank=slot * BANKS // slots,
        lanes=tuple(first_lane + lane for lane in witness),
        addresses=tuple(int(phases[phase, lane]) for lane in witness),
        wavefronts=int(ways.sum()),
        ideal=issued,
    )


def lane_ways(addresses: NDArray[np.int64], bytes_per_lane: int) -> NDArray[np.int64]:
    """For each lane, the number of words that its bank serves in its phase: [access, lane] as `addresses`.

    Addresses are bytes, multiples of `bytes_per_lane`; a negative one marks an inactive lane, which gets 0.
    """
    phases = _phases(addresses, bytes_per_lane)
    units, slots = _units(phases, bytes_per_lane)
    counts = _distinct_units_per_slot(units, slots)
    ways = np.where(units < 0, 0, np.take_along_axis(counts, units % slots, axis=1))
    return ways.reshape(len(addresses), -1)[:, : addresses.shape[1]]


def wavefronts_by_group(addresses: NDArray[np.int64], groups: NDArray[np.int64], bytes_per_lane: int) -> int:
    """Wavefronts of accesses that serve lanes group by group, from [access, lane] byte addresses and group numbers.

    A group has at most as many lanes as a phase.
    """
    lanes = _LANES_PER_PHASE[bytes_per_lane]
    served = []
    for own, group in zip(addresses, groups, strict=True):
        for number in np.unique(group):
            together = own[group == number]
            served.append(np.pad(together, (0, -len(together) % lanes), constant_values=-1))
    return sum(worst_conflict(one[None, :], bytes_per_lane).wavefronts for one in served)


def _phases(addresses: NDArray[np.int64], bytes_per_lane: int) -> NDArray[np.int64]:
    """The addresses of the lanes that are served together: [phase, lane of the phase], -1 for no lane."""
    group = _LANES_PER_PHASE[bytes_per_lane]
    padding = -addresses.shape[1] % group
    padded = np.pad(np.where(addresses >= 0, addresses, -1), ((0, 0), (0, padding)), constant_values=-1)
    return padded.reshape(-1, group)


def _units(phases: NDArray[np.int64], bytes_per_lane: int) -> tuple[NDArray[np.int64], int]:
    """The unit of adjacent banks that each lane accesses, and the number of such units.

    An aligned access of 8 or 16 bytes takes 2 or 4 banks.
    """
    unit = max(WORD_BYTES, bytes_per_lane)
    return np.where(phases < 0, -1, phases // unit), BANKS * WORD_BYTES // unit


def _distinct_units_per_slot(units: NDArray[np.int64], slots: int) -> NDArray[np.int64]:
    """[phase, lane] to [phase, slot]: the number of different units in each slot of banks; unit -1 is no access."""
    ordered = np.sort(units, axis=1)
    first = np.ones_like(ordered, dtype=bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    phase, position = np.nonzero(first & (ordered >= 0))
    index = phase * slots + ordered[phase, position] % slots
    return np.bincount(index, minlength=len(units) * slots).reshape(len(units), slots)


def conflicts(
    addresses: Sequence[int] | NDArray[np.int64], bytes_per_lane: int, kind: AccessKind = "shared"
) -> Conflict:
    """The conflicts of one warp-wide access: a byte address for each lane, negative if it is inactive."""
    return worst_conflict(np.asarray(addresses, dtype=np.int64)[None, :], bytes_per_lane, kind)


@dataclass(frozen=True)
class Sectors:
    """The 32-byte sectors of a warp's request to global memory."""

    touched: int
    ideal: int
    """The number of sectors that its distinct bytes would fill if they were contiguous."""


def sectors_per_request(addresses: ArrayLike, bytes_per_lane: int) -> Sectors:
    """The sectors of one warp-wide access: a byte address for each lane, negative if it is inactive."""
    touched = _touched_bytes(addresses, bytes_per_lane)
    return Sectors(len(np.unique(touched // SECTOR_BYTES)), -(-len(touched) // SECTOR_BYTES))


def worst_request(requests: Sequence[Sectors]) -> Sectors:
    """The request that touches the most sectors; among these, the one that needs the fewest."""
    return max(requests, key=lambda request: (request.touched, -request.ideal))


def lines_per_request(addresses: ArrayLike, bytes_per_lane: int) -> int:
    """The 128-byte lines of global memory that an access touches; addresses as for `sectors_per_request`."""
    return len(np.unique(_touched_bytes(addresses, bytes_per_lane) // LINE_BYTES))


def _touched_bytes(addresses: ArrayLike, bytes_per_lane: int) -> NDArray[np.int64]:
    lanes = np.asarray(addresses, dtype=np.int64).reshape(-1)
    return np.unique(lanes[lanes >= 0][:, None] + np.arange(bytes_per_lane))
