"""Products of wide numbers as sums of products of narrower pieces: the only description of them in Lowtide.

An element x is x₀ + x₁ + … + r. The piece x₀ is x rounded to the type of the pieces, x₁ is the remainder rounded to it,
and so on; r is the last remainder. The differences are exact, because each has no more significant bits than x. A
product a·b is the sum of some aᵢ·bⱼ, each exact in a tensor core's sum. `Decomposition.error` bounds the rest.

Pieces have the exponents of the elements, but fewer subnormal numbers: anything below half of the smallest one is
lost (`Decomposition.lost`). Elements that round to infinity count as infinite (`Decomposition.overflow`). Only the
product of the first pieces has infinities and NaN; the others have zeros instead, so that ∞ · 1 is ∞ as in f32.

This module needs only the standard library, so that all parts can import it, as `lowtide.elements`.

Sources: Markidis et al., "NVIDIA Tensor Core Programmability, Performance & Precision", 2018 (three products of f16);
Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
performance", 2022 (sums rounded outside of the tensor cores, tf32); Henry, Tang and Heinecke, "Leveraging the
bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", 2019 (three pieces of bf16, and which of
their nine products count).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from lowtide.elements import LONGEST_PARTIAL_SUM, element_type, roundings_of_sum

UNIT_BYTES = 16  # bytes of pieces that a thread writes at once; K is padded to them
_LARGEST_EXTENT = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """One way to compute products of `whole` numbers."""

    name: str
    """The name in specs, on the command line and in IR."""
    whole: str
    """The type of the elements."""
    piece: str
    """The type of the pieces."""
    products: tuple[tuple[int, int], ...]
    """The products of pieces (of A, of B), in the order in which they are added. Piece 0 is the largest; (0, 0) is
    last."""

    @property
    def pieces(self) -> int:
        """The number of pieces of an element."""
        return 1 + max(max(pair) for pair in self.products)

    @property
    def unit(self) -> int:
        """The number of pieces that are written at once."""
        return UNIT_BYTES // element_type(self.piece).bytes

    def block(self, k: int) -> int:
        """K of the products of one pair of pieces, padded to whole units."""
        return -(-k // self.unit) * self.unit

    def depth(self, k: int) -> int:
        """K of the product of all pieces."""
        return len(self.products) * self.block(k)

    @property
    def longest(self) -> int:
        """The largest K for which the extent of the pieces is legal."""
        return _LARGEST_EXTENT // len(self.products) // self.unit * self.unit

    @property
    def rounding(self) -> float:
        """The largest relative error of a piece: half a unit in the last place, 2⁻ᵖ for p bits."""
        return 2.0 ** -element_type(self.piece).precision

    @property
    def rest(self) -> float:
        """The largest relative difference between an element and the sum of its pieces; 0 if they have all of its bits.

        Rounding n bits to p leaves a remainder of n − p bits, because its sign saves one.
        """
        bits = self.pieces * element_type(self.piece).precision
        return 0.0 if bits >= element_type(self.whole).precision else self.rounding**self.pieces

    @property
    def error(self) -> float:
        """The largest relative difference between a product and the sum of the products of its pieces.

        |xᵢ| ≤ uⁱ(1 + u)|x| with u = `rounding`. The omitted products add up; so do the products of each remainder
        with the other number or its pieces.
        """
        pairs = product(range(self.pieces), repeat=2)
        left_out = sum(self.rounding ** (i + j) for i, j in pairs if (i, j) not in self.products)
        return float((left_out + self.rest * (2 + self.rest)) * (1 + self.rounding) ** 2)

    @property
    def lost(self) -> float:
        """The most that subnormal pieces of an element omit: half of the smallest number."""
        return element_type(self.piece).smallest / 2

    @property
    def overflow(self) -> float:
        """The smallest magnitude of an element that counts as infinite, because its first piece does."""
        row = element_type(self.piece)
        return row.largest + row.spacing / 2 * 2.0 ** _exponent(row.largest)

    def stages(self, accumulator: str, k: int, is_fast: bool = False) -> tuple[tuple[int, float], ...]:
        """The roundings of a sum of K products, as in `lowtide.elements.stages_of_sum`. Tensor cores truncate sums
        within a K step; sums of K steps are rounded to nearest. With `is_fast`, all of them are truncated."""
        spacing, depth = element_type(accumulator).spacing, self.depth(k)
        if is_fast:
            return ((roundings_of_sum(depth), spacing),)
        partial, promotions = roundings_of_sum(min(depth, LONGEST_PARTIAL_SUM)), -(-depth // self.unit) + 2
        return (partial, spacing), (promotions, spacing / 2)


def _exponent(value: float) -> int:
    """The exponent of the largest power of two that is not above a positive number."""
    return int(value).bit_length() - 1


_ROWS = {
    row.name: row
    for row in (
        Decomposition(name="tf32x3", whole="f32", piece="tf32", products=((1, 0), (0, 1), (0, 0))),
        Decomposition(
            name="bf16x6",
            whole="f32",
            piece="bf16",
            products=((2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)),
        ),
    )
}
DECOMPOSITIONS: Mapping[str, Decomposition] = MappingProxyType(_ROWS)


def decompositions_of(whole: str) -> tuple[str, ...]:
    """The names of the decompositions of products of a type."""
    return tuple(row.name for row in DECOMPOSITIONS.values() if row.whole == whole)
