"""Least squares with a soft loss, by the method of Levenberg and Marquardt (Marquardt, An Algorithm for Least-Squares
Estimation of Nonlinear Parameters, 1963).

The loss of a residual r is that of "soft L1", 2 s² (√(1 + (r/s)²) - 1) for a scale s: its square if it is small, and
linear if it is large, so that outliers do not decide. It is minimized by weights that follow the residuals.
"""

from collections.abc import Callable

import numpy as np

_STEP = 1e-5  # of a derivative
_DAMPING, _MOST_DAMPING = 1e-2, 1e8
_ENOUGH = 1e-7  # relative gain of a step that ends the search

Residuals = Callable[[np.ndarray], np.ndarray]


def least_squares(residuals: Residuals, start: np.ndarray, scale: float, most_steps: int = 100) -> np.ndarray:
    """The point near `start` with the least sum of losses."""
    at, damping = np.array(start, dtype=float), _DAMPING
    found = residuals(at)
    loss = _loss(found, scale)
    for _ in range(most_steps):
        weights = (1 + (found / scale) ** 2) ** -0.25
        slopes = _derivatives(residuals, at, found) * weights[:, None]
        normal, gradient = slopes.T @ slopes, slopes.T @ (found * weights)
        before = loss
        while damping < _MOST_DAMPING:
            diagonal = np.diag(damping * np.maximum(np.diag(normal), 1e-12))
            there = at - np.linalg.solve(normal + diagonal, gradient)
            tried = residuals(there)
            if (gained := _loss(tried, scale)) < loss:
                at, found, loss, damping = there, tried, gained, damping / 5
                break
            damping *= 4
        if before - loss <= _ENOUGH * before:
            break
    return at


def _loss(residuals: np.ndarray, scale: float) -> float:
    """Infinite for residuals that are no numbers."""
    loss = float(np.sum(np.sqrt(1 + (residuals / scale) ** 2) - 1))
    return loss if np.isfinite(loss) else np.inf


def _derivatives(residuals: Residuals, at: np.ndarray, found: np.ndarray) -> np.ndarray:
    steps = _STEP * np.eye(len(at))
    return np.stack([(residuals(at + step) - found) / _STEP for step in steps], axis=1)
