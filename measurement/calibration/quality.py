"""How good the model is on measured schedules: errors of time, and what its choices lose.

The loss of a shape is the time of the schedule that the model estimates fastest, over the least time measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lowtide.measurement.calibration.samples import Samples

RANGES = ((1, 16), (17, 64), (65, 256), (257, 1024), (1025, 4096), (4097, 1 << 30))  # of M
FOLDS = 5


@dataclass(frozen=True)
class Quality:
    """`error`: the median of |ln(estimate / time)|. `lost`, `most_lost`: the geometric mean and the 95 % quantile of
    the losses. `repeated`: the same two for choices by measurement, where each round judges what the others choose;
    they show what noise loses."""

    shapes: int
    schedules: int
    error: float
    lost: float
    most_lost: float
    repeated: tuple[float, float]


def quality_of(samples: Samples, estimated: np.ndarray) -> Quality:
    """Raises ValueError without samples."""
    lost, most_lost = _mean_and_quantile(losses(samples.seconds, estimated, samples))
    error = float(np.median(np.abs(np.log(estimated / samples.seconds))))
    return Quality(len(samples.first), len(samples), error, lost, most_lost, _mean_and_quantile(_of_rounds(samples)))


def losses(seconds: np.ndarray, estimated: np.ndarray, samples: Samples) -> np.ndarray:
    """The logarithm of the loss of each shape."""
    logs = np.log(seconds)
    chosen = np.lexsort((estimated, samples.shape))[samples.first]
    return logs[chosen] - np.minimum.reduceat(logs, samples.first)


def _of_rounds(samples: Samples) -> np.ndarray:
    """The losses of choices by measurement: each round judges what the others choose."""
    rounds = samples.rounds
    others = (np.median(np.delete(rounds, one, axis=1), axis=1) for one in range(rounds.shape[1]))
    return np.concatenate([losses(rounds[:, one], by, samples) for one, by in enumerate(others)])


def _mean_and_quantile(lost: np.ndarray) -> tuple[float, float]:
    return float(np.exp(lost.mean())), float(np.exp(np.quantile(lost, 0.95)))


def of_ranges(samples: Samples, estimated: np.ndarray) -> list[tuple[str, Quality]]:
    """All shapes, then those of each range of M that has any."""
    found = [("all", quality_of(samples, estimated))]
    for least, most in RANGES:
        mask = (samples.m >= least) & (samples.m <= most)
        if mask.any():
            name = f"{least} to {most}" if most < RANGES[-1][1] else f"from {least}"
            found.append((name, quality_of(samples.where(mask), estimated[mask])))
    return found


def folds_of(samples: Samples) -> Sequence[np.ndarray]:
    """Masks of the samples that are held out. Each pair of N and K is in one of them."""
    return [samples.pair % FOLDS == fold for fold in range(FOLDS)]
