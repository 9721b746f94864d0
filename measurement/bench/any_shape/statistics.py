"""Estimates for all shapes from the ratios of drawn ones, with 95 % intervals.

Intervals are percentiles of the bootstrap (Efron, Bootstrap Methods: Another Look at the Jackknife, 1979): the measured
shapes are resampled with replacement. If a contender failed, its shape has no ratio. It counts as below every limit,
and is left out of means and quantiles.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

QUANTILES = (0.01, 0.05, 0.25, 0.50)
LIMITS = (0.90, 0.80)
_RESAMPLES, _COVERED = 2000, 95

Interval = tuple[float, float, float]
"""An estimate, then the ends of its interval."""


@dataclass(frozen=True)
class Statistics:
    """Of the ratios of one population. Above 1, the contender is faster. `quantiles`: one for each of QUANTILES."""

    ratios: tuple[float, ...]
    failed: int
    mean: Interval
    quantiles: tuple[Interval, ...]

    @property
    def count(self) -> int:
        """All shapes, including those that failed."""
        return len(self.ratios) + self.failed

    @property
    def least(self) -> float:
        """The least ratio; 0 if a shape failed."""
        return 0.0 if self.failed else min(self.ratios)

    def share_below(self, limit: float) -> float:
        """The share of shapes, from 0 to 1."""
        return (sum(ratio < limit for ratio in self.ratios) + self.failed) / self.count


def statistics_of(ratios: Sequence[float | None]) -> Statistics:
    """`ratios`: one for each shape; None if it failed. If there is no ratio, means and quantiles are 0."""
    known = [ratio for ratio in ratios if ratio is not None]
    failed = len(ratios) - len(known)
    if not known:
        nothing = (0.0, 0.0, 0.0)
        return Statistics((), failed, nothing, (nothing,) * len(QUANTILES))
    logs = np.log(np.array(known))
    # The legacy generator, whose numbers are the same in every version of numpy.
    drawn = logs[np.random.RandomState(0).randint(0, len(logs), (_RESAMPLES, len(logs)))]
    quantiles = (_interval(float(np.quantile(logs, share)), np.quantile(drawn, share, axis=1)) for share in QUANTILES)
    return Statistics(tuple(known), failed, _interval(float(logs.mean()), drawn.mean(axis=1)), tuple(quantiles))


def median_interval(values: Sequence[float]) -> Interval:
    """The median of independent values, and an interval that covers the median of their distribution in at least 95 %
    of cases, for any distribution. Its ends are two of the values (David and Nagaraja, Order Statistics, 2003, section
    7.1). Fewer than six values cannot give 95 %: then the interval goes from the least value to the greatest one."""
    ordered, count = sorted(values), len(values)
    outside, place = 2.0**-count, 0  # the chance that the median is beyond `place` values of one end
    while place + 1 < count / 2 and outside + math.comb(count, place + 1) / 2**count <= (100 - _COVERED) / 200:
        place += 1
        outside += math.comb(count, place) / 2**count
    return statistics.median(ordered), ordered[place], ordered[-1 - place]


def _interval(estimate: float, resampled: NDArray[np.float64]) -> Interval:
    """The estimate and the ends of its interval, from logarithms."""
    outside = (100 - _COVERED) / 2
    low, high = np.percentile(resampled, (outside, 100 - outside))
    return float(np.exp(estimate)), float(np.exp(low)), float(np.exp(high))
