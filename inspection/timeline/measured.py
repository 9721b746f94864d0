"""The timeline that a kernel compiled with stamps recorded (`passes/nvvm/stamp_agents.py`). It needs no MLIR.

An agent stamps each of its work tiles four times: at the start, before its first load or product, after the last one,
and at the end. A stamp is %clock, which counts the cycles of the SM, and %globaltimer_lo, which counts nanoseconds in
coarser steps. All agents of a CTA run on one SM, so within a CTA the clock orders them; the timer orders CTAs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import Error
from lowtide.inspection.timeline.timeline import Interval, Timeline, What

STAMPS, WORDS = 4, 2  # of a tile; of a stamp
_RECORD = STAMPS * WORDS + 1  # words of a tile: its stamps, and the number of the SM
PRODUCER = "producer"


@dataclass(frozen=True)
class Stamps:
    """`times` are [CTA, agent, tile, stamp] in microseconds from the first stamp of the launch, NaN where there is no
    tile. `clock_mhz` is the mean clock of the SMs. `sms` has the number of the SM of each CTA, -1 without a tile."""

    agents: tuple[str, ...]
    times: NDArray[np.float64]
    clock_mhz: float
    sms: NDArray[np.int64]

    @property
    def tiles(self) -> int:
        """The most tiles of an agent that are stamped."""
        return self.times.shape[2]

    @property
    def is_whole(self) -> bool:
        """Whether all tiles are known to be stamped: no agent of a persistent CTA has used all places."""
        return self.tiles == 1 or bool(np.isnan(self.times[:, :, -1]).all())

    @property
    def total(self) -> float:
        """Microseconds from the first stamp to the last."""
        return float(np.nanmax(self.times))


def stamps_of(words: NDArray[np.integer], agents: Sequence[str], tiles: int) -> Stamps:
    """Read the buffer of a launch: [CTA, agent, tile, word] of 32 bits, zero before the launch. The words are four
    pairs of clock and timer, and the number of the SM. Raises Error if the size is wrong, or no agent has stamped."""
    each = len(agents) * tiles * _RECORD
    if not words.size or words.size % each:
        raise Error(
            f"{words.size} words are not the stamps of whole CTAs, {each} each; give the whole buffer [stamp-words]"
        )
    records = np.asarray(words).astype(np.int64).reshape(-1, len(agents), tiles, _RECORD) & 0xFFFFFFFF
    found = records[..., :-1].reshape(*records.shape[:-1], STAMPS, WORDS)
    written = (found != 0).any(axis=(-1, -2))
    if not written.any():
        raise Error("no agent has stamped a tile; launch the kernel with this buffer first [stamps-none]")
    count = 1 + int(np.flatnonzero(written.any(axis=(1, 2)))[-1])  # no CTA may use the end of the buffer
    found, written = found[:count], written[:count]
    sms = np.where(written, records[:count, ..., -1], -1).max(axis=(1, 2))
    clock, timer = (_since_first(found[..., word], written) for word in range(WORDS))
    # The timer gives the time of a CTA's first stamp; the clock gives the others.
    cycles, nanoseconds = (np.nan_to_num(each).max(axis=(1, 2, 3)).sum() for each in (clock, timer))
    rate = float(cycles / max(1.0, nanoseconds))  # cycles per nanosecond
    starts = _starts(found[..., 1], written)
    times = (clock / max(rate, 1e-9) + starts[:, None, None, None]) / 1000
    return Stamps(tuple(agents), times, rate * 1000, sms)


def _first(values: NDArray[np.int64], written: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The value of the earliest stamp of each CTA. Counters wrap at 2^32, but a launch is far shorter than that."""
    flat = np.where(written[..., None], values, -1).reshape(len(values), -1)
    any_of_cta = flat.max(axis=1)
    distance = np.where(flat < 0, np.nan, (flat - any_of_cta[:, None] + 2**31) % 2**32 - 2**31)
    with np.errstate(invalid="ignore"):
        least = np.where(written.any(axis=(1, 2)), np.nanmin(np.where(flat < 0, np.inf, distance), axis=1), np.nan)
    return np.where(any_of_cta < 0, np.nan, any_of_cta + least)


def _since_first(values: NDArray[np.int64], written: NDArray[np.bool_]) -> NDArray[np.float64]:
    since = (values - _first(values, written)[:, None, None, None]) % 2**32
    return np.where(written[..., None], since, np.nan)


def _starts(timer: NDArray[np.int64], written: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Nanoseconds from the first stamp of the launch to the first stamp of each CTA."""
    first = _first(timer, written)
    some = first[np.isfinite(first)][0]
    since = (first - some + 2**31) % 2**32 - 2**31
    return np.asarray(since - np.nanmin(since))


def measured_timeline(stamps: Stamps, cta: int) -> Timeline:
    """The timeline of a CTA. Its title names the CTA and the SM that it ran on."""
    intervals = [each for number in range(len(stamps.agents)) for each in _intervals(stamps, cta, number)]
    return Timeline(f"measured, CTA {cta} on SM {stamps.sms[cta]}", tuple(intervals))


def _intervals(stamps: Stamps, cta: int, agent: int) -> Iterator[Interval]:
    name = stamps.agents[agent]
    for tile, times in enumerate(stamps.times[cta, agent]):
        if np.isnan(times).any():
            continue
        for what, begin, end in zip(_phases(name), times, times[1:], strict=False):
            if end > begin:
                yield Interval(name, what, float(begin), float(end), tile)


def _phases(agent: str) -> tuple[What, What, What]:
    """What an agent does between two stamps."""
    return (What.WAIT, What.LOAD, What.WAIT) if agent == PRODUCER else (What.WAIT, What.MULTIPLY, What.EPILOGUE)


def means(stamps: Stamps) -> Mapping[tuple[str, What], float]:
    """Microseconds of each agent and phase, summed over the tiles of a CTA, as the mean over CTAs."""
    spans = np.nansum(np.diff(stamps.times, axis=-1), axis=2).mean(axis=0)
    found: dict[tuple[str, What], float] = {}
    for name, row in zip(stamps.agents, spans, strict=True):
        for what, span in zip(_phases(name), row, strict=True):
            found[name, what] = found.get((name, what), 0.0) + float(span)
    return found
