"""Matrices as pieces of their elements, next to each other along K."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.decompositions import DECOMPOSITIONS, Decomposition
from lowtide.dialects.tile import Precision
from lowtide.elements import element_type
from lowtide.interpreter.numbers import storage
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.program.decoded import DecodedOp


def decomposition(op: DecodedOp) -> Decomposition:
    """The decomposition of an op."""
    return DECOMPOSITIONS[str(Precision(op.attributes["precision"]))]


def blocks(values: NDArray[Any], row: Decomposition, side: int, domain: Domain) -> NDArray[Any]:
    """Rows of pieces (rows, K') from rows of elements (rows, K); `side` is 0 for A, 1 for B.

    The first piece is the element, rounded; each further one is what the pieces before it leave, rounded. If the first
    piece is not finite, it is in the last block, and all other blocks are 0 there.
    """
    rows, k = values.shape
    padded = np.zeros((rows, row.block(k)), values.dtype)
    padded[:, :k] = values
    rest, whole, pieces = padded, None, []
    for _ in range(row.pieces):
        piece = _rounded(rest, row, domain)
        if whole is None:
            whole, is_finite = piece, ~np.isnan(np.asarray(piece - piece, np.float64))
        pieces.append(np.where(is_finite, piece, padded.dtype.type(0)))
        rest = domain.subtract(rest, piece, element_type(row.whole).ir)
    assert whole is not None
    return np.concatenate([*(pieces[pair[side]] for pair in row.products[:-1]), whole], axis=1)


def _rounded(values: NDArray[Any], row: Decomposition, domain: Domain) -> NDArray[Any]:
    name = element_type(row.piece).ir
    return storage.rounded(values, name) if storage.is_cut(name) else domain.round(values, name)
