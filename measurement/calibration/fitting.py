"""Fits the constants of the estimate of wgmma tiles to measured schedules, by least squares.

There are three kinds of residuals. Errors of the estimates of one shape's schedules relative to each other count most,
because these decide the choice. Errors of absolute time count half. The third kind is the loss that is expected of a
shape if one of the schedules with about equal estimates is taken at random. Slow schedules count less, and so do noisy
ones: at high power, clocks change from round to round. Constants are fitted as logarithms. A constant that the rows say
nothing about keeps the value with which it starts. A soft loss limits the weight of outliers.
"""

from collections.abc import Callable
from dataclasses import asdict, fields, replace

import numpy as np

from lowtide.measurement.calibration.least_squares import least_squares
from lowtide.measurement.calibration.samples import Samples
from lowtide.passes.schedules.cost.constants import Constants
from lowtide.targets import Target

_SLOW, _NOISE, _NOISE_OF_SHAPE = 0.25, 0.02, 0.01  # of time, at which weights fall
_ABSOLUTE, _LOSS, _START = 0.5, 2.0, 0.03  # weights
_EQUAL = 0.02  # estimates that are about equal
_ROUNDED_LOSS = 0.002  # added to an expected loss, so that the slope of its square root is finite at 0
_OUTLIER = 0.08
_DIGITS = 3  # of a constant
_BEGIN = "FITTED = Constants(\n"


def fitted(samples: Samples, start: Constants, target: Target, most_steps: int = 100) -> Constants:
    """The constants for the samples, from `start`."""
    names = [field.name for field in fields(Constants)]
    before = np.log([getattr(start, name) for name in names])

    def constants(logs: np.ndarray) -> Constants:
        return replace(start, **dict(zip(names, map(float, np.exp(logs)), strict=True)))

    of_samples = _residuals(samples)
    weight = _START * np.sqrt(len(samples) / 1000)

    def residuals(logs: np.ndarray) -> np.ndarray:
        estimated = samples.estimated(constants(logs), target)
        return np.concatenate([of_samples(estimated), weight * (logs - before)])

    return rounded(constants(least_squares(residuals, before, _OUTLIER, most_steps)))


def _residuals(samples: Samples) -> Callable[[np.ndarray], np.ndarray]:
    """Residuals of estimates in seconds."""
    shape, first, beyond = samples.shape, samples.first, samples.beyond_best
    weight = samples.weight / np.sqrt((1 + (np.expm1(beyond) / _SLOW) ** 2) * (1 + (samples.spread / _NOISE) ** 2))
    sum_of_weights = np.bincount(shape, weight)
    noise = np.bincount(shape, samples.spread) / np.bincount(shape)
    of_loss = _LOSS * samples.weight[first] / np.sqrt(1 + (noise / _NOISE_OF_SHAPE) ** 2)

    def residuals(estimated: np.ndarray) -> np.ndarray:
        error = np.log(estimated / samples.seconds)
        mean = np.bincount(shape, error * weight) / sum_of_weights
        logs = np.log(estimated) / _EQUAL
        chance = np.exp(np.minimum.reduceat(logs, first)[shape] - logs)
        expected = np.bincount(shape, chance * beyond) / np.bincount(shape, chance)
        loss = of_loss * (np.sqrt(expected + _ROUNDED_LOSS) - np.sqrt(_ROUNDED_LOSS))
        return np.concatenate([weight * (error - mean[shape]), _ABSOLUTE * weight * error, loss])

    return residuals


def rounded(constants: Constants) -> Constants:
    """The constants, rounded to the digits that their text has."""
    return replace(constants, **{name: float(f"{value:.{_DIGITS}g}") for name, value in asdict(constants).items()})


def with_constants(text: str, constants: Constants) -> str:
    """The text of passes/schedules/cost/fitted.py with these constants."""
    lines = [f"    {name}={value:g},\n" for name, value in asdict(constants).items()]
    return f"{text.partition(_BEGIN)[0]}{_BEGIN}{''.join(lines)})\n"
