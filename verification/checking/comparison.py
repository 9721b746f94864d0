"""Compares a kernel's D with the reference, by the error bound of each element."""

import math
from dataclasses import dataclass

import numpy as np

from lowtide.compiler.spec import GemmSpec
from lowtide.errors import SpecError
from lowtide.keywords import check_keywords
from lowtide.verification.checking.parts import row_blocks


@dataclass(frozen=True)
class Comparison:
    """The outcome of `compare`: the worst |d − reference| / bound, its place, and a sentence about it.

    In a batch, rows are numbered across matrices.

    `judged` counts the elements with a finite bound; without any there is no verdict, and `ok` is False. `failed`
    counts those out of their bounds.
    """

    max_ratio: float
    worst_index: tuple[int, int]
    ok: bool
    message: str
    judged: int
    failed: int = 0


@check_keywords
def compare(spec: GemmSpec, d: np.ndarray, ref: np.ndarray, bound: np.ndarray) -> Comparison:
    """Compare a kernel's D (as stored, of the spec's dtype) with `reference` and `error_bound`.

    An element with an infinite bound is not judged: a right kernel may give any number there, or NaN. Elsewhere NaN
    passes only if the reference is NaN, and is then required. `ok` if at least one element is judged, and all judged
    elements are within their bounds; or if D has no elements. Raises `SpecError` if the shapes differ.
    """
    if not d.shape == ref.shape == bound.shape:
        shapes = f"d is {d.shape}, the reference {ref.shape}, the bound {bound.shape}"
        raise SpecError(f"{shapes}; all three must have D's shape [compared-shapes]")
    if not ref.size:
        return Comparison(0.0, (0, 0), True, "d has no elements", 0)
    shape = d.shape
    d, ref, bound = (array.reshape(-1, shape[-1]) for array in (np.asarray(d), ref, bound))
    got = d.astype(np.float64)
    ratio = np.empty_like(ref)
    for rows in row_blocks(ref.shape):
        ratio[rows] = _ratio(got[rows], ref[rows], bound[rows])
    row, column = (int(index) for index in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
    worst = float(ratio[row, column])
    values = f"{got[row, column]:.9g}, float64 says {ref[row, column]:.9g}, bound {bound[row, column]:.3g}"
    place = np.unravel_index(row * shape[-1] + column, shape)
    at = f"d[{', '.join(map(str, place))}] = {values}"
    failed, unjudged = int(np.count_nonzero(ratio > 1.0)), int(np.count_nonzero(np.isinf(bound)))
    why = f"no finite bound: possible overflow, division by 0, NaN, or too many roundings for {spec.sums}"
    why += "; or rows that belong to no group" if spec.ends is not None else ""
    if unjudged == ratio.size:
        message = f"none of the {ratio.size} elements can be judged ({why}); take smaller inputs, or a smaller K"
        return Comparison(math.nan, (row, column), False, message, 0)
    if failed:
        message = f"{failed} of {ratio.size} elements are out of bound; the worst, by {worst:.3g}: {at}"
    else:
        number = f"all {ratio.size}" if not unjudged else f"{ratio.size - unjudged} of {ratio.size}"
        message = f"{number} elements within bound; the worst error is {worst:.3g} of it: {at}"
    if unjudged:
        message += f"; {unjudged} of {ratio.size} elements cannot be judged ({why})"
    return Comparison(worst, (row, column), failed == 0, message, ratio.size - unjudged, failed)


def _ratio(got: np.ndarray, ref: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """|got − ref| / bound: 0 if equal or both NaN, ∞ if one is NaN or the bound is 0; −1 if not judged."""
    with np.errstate(all="ignore"):
        ratio = np.abs(got - ref) / bound
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    same = (got == ref) | (np.isnan(got) & np.isnan(ref))
    return np.where(np.isinf(bound), -1.0, np.where(same, 0.0, ratio))
