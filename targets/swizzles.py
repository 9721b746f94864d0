"""The choice of a shared-memory swizzle: the candidate with the fewest bank conflicts.

swizzle<B, M, S> exchanges units of 2^M elements: it xors B bits of the unit's number with the B bits S positions above.
A unit is 16 bytes here, the widest access. S = 3 mixes addresses 128 bytes (all banks) apart; a longer row needs its
own S, so that the bits of the row's number are mixed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from lowtide.errors import ScheduleError
from lowtide.targets.accesses import SwizzleBits, WarpAccess, shared_access_conflicts, swizzled
from lowtide.targets.banks import Conflict
from lowtide.targets.tv import Shape

_WIDE_BYTES = 8


@dataclass(frozen=True)
class SwizzleChoice:
    """The chosen swizzle<B, M, S> and, for each candidate, the conflicts of each access by name."""

    swizzle: SwizzleBits
    counts: dict[SwizzleBits, dict[str, Conflict]]

    @property
    def ways(self) -> int:
        """The most ways of any access under the chosen swizzle."""
        return max((conflict.ways for conflict in self.counts[self.swizzle].values()), default=1)

    def explain(self) -> str:
        """One line: each candidate with the ways of each access, and the chosen one."""
        tried = "; ".join(
            f"<{','.join(map(str, bits))}> " + ", ".join(f"{name} {c.ways}-way" for name, c in found.items())
            for bits, found in self.counts.items()
        )
        return f"swizzle<{','.join(map(str, self.swizzle))}>, the smallest of the fewest ways: {tried}"


def swizzle_candidates(stored_shape: Shape, element_bytes: int) -> list[list[SwizzleBits]]:
    """Each swizzle that permutes a tile of this stored shape within itself, in rounds, the simplest first.

    First <0…3, M, 3>; then the S of a longer row; then units of 32 bytes, for accesses in such blocks; then the S of
    rows 2, 4 or 8 apart, which a permutation of M or N brings into one phase. For elements of 8 bytes, where a phase
    reads few rows, each S that mixes in bits of the row's number. For bytes, where a thread loads 8, units of 32 bytes
    with a smaller S.
    """
    rows, columns = stored_shape
    unit = (16 // element_bytes).bit_length() - 1
    row_bits = (columns & -columns).bit_length() - 1  # the largest power of two that divides the row
    rounds = [[(bits, unit, 3) for bits in (0, 1, 2, 3)]]
    for base, shift in ((unit, row_bits - unit), (unit + 1, row_bits - unit - 1)):
        if (base, shift) != (unit, 3) and shift >= 3:
            rounds.append([(bits, base, shift) for bits in (1, 2, 3)])
    if element_bytes == _WIDE_BYTES:
        shifts = [(base, shift) for base in (unit, unit + 1, unit + 2) for shift in range(1, row_bits + 3)]
        rounds.append([(b, m, s) for m, s in shifts for b in (1, 2, 3) if b <= s and m + s >= row_bits])
    else:
        shifts = [(unit, row_bits - unit + apart) for apart in (1, 2, 3)]
        rounds.append([(b, m, s) for m, s in shifts for b in (1, 2, 3) if b <= s])
    if element_bytes == 1:
        shifts = [(unit + 1, shift) for shift in range(2, row_bits - unit)]
        rounds.append([(b, m, s) for m, s in shifts for b in (1, 2) if b <= s])
    return [[c for c in candidates if c[0] == 0 or rows * columns % (1 << sum(c)) == 0] for candidates in rounds]


def choose_swizzle(stored_shape: Shape, accesses: Sequence[WarpAccess], element_bytes: int) -> SwizzleChoice:
    """The swizzle of a row-major tile that gives the accesses the fewest ways of conflict.

    `stored_shape` is (rows, columns) in elements, columns contiguous. A round of candidates is tried only if the rounds
    before leave conflicts. Ties go to fewer wavefronts in total, then to the smaller M, S and B, in this order. Raises
    ScheduleError if two accesses have the same name.
    """
    if len({access.name for access in accesses}) != len(accesses):
        raise ScheduleError(
            f"accesses {[access.name for access in accesses]} share a name; give each its own [access-names]"
        )
    counts: dict[SwizzleBits, dict[str, Conflict]] = {}
    for candidates in swizzle_candidates(stored_shape, element_bytes):
        for bits in candidates:
            counts[bits] = {each.name: _conflicts(stored_shape, bits, each, element_bytes) for each in accesses}
        choice = SwizzleChoice(min(counts, key=lambda bits: _cost(bits, counts[bits])), counts)
        if choice.ways == 1:
            break
    return choice


@lru_cache(maxsize=512)
def _conflicts(stored_shape: Shape, bits: SwizzleBits, access: WarpAccess, element_bytes: int) -> Conflict:
    return shared_access_conflicts(swizzled(stored_shape, bits), access, element_bytes)


def _cost(bits: SwizzleBits, found: dict[str, Conflict]) -> tuple[int, int, int, int, int]:
    worst = max((conflict.ways for conflict in found.values()), default=1)
    return worst, sum(conflict.wavefronts for conflict in found.values()), bits[1], bits[2], bits[0]
