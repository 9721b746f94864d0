"""Products of wide numbers as sums of products of narrower pieces: the only place where Lowtide describes them.

An element x is x₀ + x₁ + … + r: x₀ is x rounded to the type of the pieces, x₁ what is left rounded to it, and so on;
r is the last rest. Differences are exact, since each has no more significant bits than x. A product a·b is the sum of
some aᵢ·bⱼ, each of which is exact in a tensor core's sum; what is left out is bounded by `Decomposition.error`.

Pieces have the exponents of the elements, but fewer subnormal numbers: what is below half of the smallest of them is
lost (`Decomposition.lost`). Elements that round to infinity count as infinite (`Decomposition.overflow`). Infinities
and NaN are in the product of the first pieces alone, and in all others zeros, so that ∞ · 1 is ∞ as in f32.

This module needs only the standard library, as `lowtide.elements`, and is read by the same.

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

UNIT_BYTES = 16  # of pieces, to which K is padded: what a thread writes at once
_LARGEST_EXTENT = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """One way to compute products of `whole` numbers."""

    name: str
    """In specs, on the command line and in IR."""
    whole: str
    """The type of the elements."""
    piece: str
    """The type of the pieces."""
    products: tuple[tuple[int, int], ...]
    """Which piece of A by which of B, in the order in which they are added, piece 0 being the largest; (0, 0) is
    last."""

    @property
    def pieces(self) -> int:
        """How many an element has."""
        return 1 + max(max(pair) for pair in self.products)

    @property
    def unit(self) -> int:
        """Pieces that are written at once."""
        return UNIT_BYTES // element_type(self.piece).bytes

    def block(self, k: int) -> int:
        """K of the products of one pair of pieces: whole units."""
        return -(-k // self.unit) * self.unit

    def depth(self, k: int) -> int:
        """K of the product of all pieces."""
        return len(self.products) * self.block(k)

    @property
    def longest(self) -> int:
        """The largest K whose pieces have an extent."""
        return _LARGEST_EXTENT // len(self.products) // self.unit * self.unit

    @property
    def rounding(self) -> float:
        """The most that a piece differs from what it is rounded from, relative to that: half a unit in the last place,
        2⁻ᵖ of p bits."""
        return 2.0 ** -element_type(self.piece).precision

    @property
    def rest(self) -> float:
        """The most of an element that its pieces leave out, relative to it; nothing where they have all of its bits.

        A rest of rounding n bits to p has n − p, since one is saved by its sign.
        """
        bits = self.pieces * element_type(self.piece).precision
        return 0.0 if bits >= element_type(self.whole).precision else self.rounding**self.pieces

    @property
    def error(self) -> float:
        """The most that a product differs from the sum of those of its pieces, relative to it.

        |xᵢ| ≤ uⁱ(1 + u)|x| with u = `rounding`. The products that are left out add up, and so do those of each rest, by
        the other number or by its pieces.
        """
        pairs = product(range(self.pieces), repeat=2)
        left_out = sum(self.rounding ** (i + j) for i, j in pairs if (i, j) not in self.products)
        return float((left_out + self.rest * (2 + self.rest)) * (1 + self.rounding) ** 2)

    @property
    def lost(self) -> float:
        """The most that the pieces of an element leave out where they are subnormal: half of the smallest number."""
        return element_type(self.piece).smallest / 2

    @property
    def overflow(self) -> float:
        """The least magnitude of an element that is taken for infinite, since its first piece is."""
        row = element_type(self.piece)
        return row.largest + row.spacing / 2 * 2.0 ** _exponent(row.largest)

    def stages(self, accumulator: str, k: int, is_fast: bool = False) -> tuple[tuple[int, float], ...]:
        """The roundings of a sum of K products, as `lowtide.elements.stages_of_sum` has them: tensor cores cut those
        within steps of K, whose sums are rounded to nearest, or all of them where sums are fast."""
        spacing, depth = element_type(accumulator).spacing, self.depth(k)
        if is_fast:
            return ((roundings_of_sum(depth), spacing),)
        partial, promotions = roundings_of_sum(min(depth, LONGEST_PARTIAL_SUM)), -(-depth // self.unit) + 2
        return (partial, spacing), (promotions, spacing / 2)


def _exponent(value: float) -> int:
    """Of the power of two that is the largest of those not above a positive number."""
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
    """The names of those of products of a type."""
    return tuple(row.name for row in DECOMPOSITIONS.values() if row.whole == whole)
