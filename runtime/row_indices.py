"""Indices of rows of D, into which rows of a product are stored: what they name, and drawn ones for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

_OUTSIDE = 0.1  # of the elements of a drawn index


def places_in(index: Any, rows_of_d: int) -> np.ndarray:
    """For each row of the product, the row of D into which it is stored; −1 if there is none."""
    places = np.asarray(index).astype(np.int64)
    return np.where((places >= 0) & (places < rows_of_d), places, -1)


def drawn_rows_of_d(rows: int) -> int:
    """The number of rows of D for which `random_places` draws."""
    return rows + rows // 4 + 1


def random_places(rng: np.random.Generator, rows: int) -> np.ndarray:
    """An index of `rows` rows, s32. Elements inside of D are different, in any order, and do not name all rows of D.
    Of two rows or more, at least one element is outside of D."""
    of_d = drawn_rows_of_d(rows)
    index = rng.permutation(of_d)[:rows]
    outside = rng.random(rows) < _OUTSIDE
    if rows > 1:
        outside[rng.integers(rows)] = True
    index[outside] = rng.choice([-(2**31), -1, of_d, 2**31 - 1], np.count_nonzero(outside))
    return index.astype(np.int32)
