"""Estimates the warp instructions, the time and the memory of a run before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from lowtide.interpreter.launching import Parsed
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES
from lowtide.interpreter.numbers.domains import domain
from lowtide.interpreter.placing import element_of
from lowtide.launches import Launch, LaunchRecord, Parameter, Pointer, Struct, TensorMap
from lowtide.ptx.judging import DOMAIN
from lowtide.ptx.walk import Walk

PER_SECOND = 100_000
"""Warp instructions per second of the interpreter, a low estimate. docs/interpreter.md has a table of measured
speeds."""
_PER_BYTE = 12  # bytes of the interpreter's memory for a byte of an array
_STEPS = 20_000  # the most instructions of all walks of a launch
_CTAS, _WARPS = 3, 4  # the most CTAs that are walked, and the most warps of each


@dataclass(frozen=True)
class Estimate:
    """An estimate of a run: warp instructions, and bytes of memory. `is_rough`: some branches depend on data in memory,
    or a walk met its limit. A loop that ends at such a branch is counted as one or two iterations."""

    instructions: int
    memory: int
    is_rough: bool

    @property
    def seconds(self) -> float:
        return self.instructions / PER_SECOND

    def as_dict(self) -> dict[str, float]:
        """As data for JSON; memory is in bytes."""
        return {
            "instructions": self.instructions,
            "seconds": self.seconds,
            "memory": self.memory,
            "rough": self.is_rough,
        }

    def __str__(self) -> str:
        how = "roughly" if self.is_rough else "about"
        return f"{how} {self.instructions:,} warp instructions, {_time(self.seconds)}, {_size(self.memory)} of memory"


def estimate(source: Parsed, record: LaunchRecord) -> Estimate:
    """The estimate for a record of launches, each of a kernel of the text. Nothing is run."""
    found = [_walked(source, launch) for launch in record.launches if launch.kernel in source.module.entries]
    memory = sum(prod(each.shape) * ELEMENT_BYTES[element_of(each.dtype)] for each in record.arrays.values())
    return Estimate(sum(count for count, _ in found), _PER_BYTE * memory, any(rough for _, rough in found))


def _walked(source: Parsed, launch: Launch) -> tuple[int, bool]:
    """The warp instructions of a launch, from walks of some warps of the first, the middle and the last CTA."""
    entry = source.module.entries[launch.kernel]
    pairs = zip(entry.parameters, launch.parameters, strict=False)
    bits = {variable.name: known for variable, value in pairs if (known := _bits(value)) is not None}
    walk = Walk(source.module, entry, domain(DOMAIN), bits)
    ctas, threads = prod(launch.grid), prod(launch.block)
    warps = -(-threads // WARP)
    if ctas < 1 or warps < 1:
        return 0, False
    chosen = [(cta, warp) for cta in _some(ctas, _CTAS) for warp in _some(warps, _WARPS)]
    found = [walk.steps(_special(launch, *each), _STEPS // len(chosen)) for each in chosen]
    total = sum(count for count, _ in found) * ctas * warps // len(chosen)
    return total, any(is_rough for _, is_rough in found)


def _some(count: int, most: int) -> list[int]:
    """Some of the numbers below `count`: the first, the last, and those between them at equal distances."""
    if count <= most:
        return list(range(count))
    return [at * (count - 1) // (most - 1) for at in range(most)]


def _bits(value: Parameter) -> int | None:
    """The bits of a parameter; None for addresses and tensor maps."""
    if isinstance(value, Pointer | TensorMap):
        return None
    return int.from_bytes(value.data if isinstance(value, Struct) else value, "little")


def _special(launch: Launch, cta: int, warp: int) -> dict[str, int]:
    """The special registers of the first thread of a warp."""
    found = {"%laneid": 0, "%warpid": warp, "WARP_SZ": WARP}
    sides = {"tid": launch.block, "ctaid": launch.grid}
    for name, at in (("tid", warp * WARP), ("ctaid", cta)):
        for axis, side in zip("xyz", sides[name], strict=True):
            found[f"%{name}.{axis}"], found[f"%n{name}.{axis}"] = at % side, side
            at //= side
    return found


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{-(-count // 2**20)} MiB"


def _time(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.0f} hours"
