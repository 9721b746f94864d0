"""The division of K among CTAs by three choices: which tiles are divided, how their K is cut, who adds the sums.

Code reads the three choices. Each word of `#tile.k_division` is shorthand for one combination of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from types import MappingProxyType
from typing import NamedTuple

from lowtide.dialects._tile_enum_gen import KDivisionKind


class Tiles(Enum):
    """Which tiles are divided. The others are whole items, in waves that come first."""

    all = auto()
    last_wave = auto()
    """The tiles of a last wave that is not full."""
    last_waves = auto()
    """The tiles of such a wave, and those of the full wave before it; none if all waves are full."""


class Cut(Enum):
    """Where the K of these tiles is cut."""

    parts = auto()
    """Each tile in the same number of even parts, of whole steps."""
    shares = auto()
    """The steps of all tiles, one tile after the other, in even shares, one for each CTA."""


class Adder(Enum):
    """Who adds the partial sums of a tile, and stores it."""

    first = auto()
    """The CTA of part 0."""
    each = auto()
    """Each CTA adds and stores its share of the columns."""


class Axes(NamedTuple):
    tiles: Tiles
    cut: Cut
    adder: Adder


AXES: Mapping[KDivisionKind, Axes] = MappingProxyType(
    {
        KDivisionKind.split: Axes(Tiles.all, Cut.parts, Adder.first),
        KDivisionKind.scatter: Axes(Tiles.all, Cut.parts, Adder.each),
        KDivisionKind.stream_k: Axes(Tiles.all, Cut.shares, Adder.first),
        KDivisionKind.hybrid: Axes(Tiles.last_waves, Cut.shares, Adder.first),
        KDivisionKind.tail: Axes(Tiles.last_wave, Cut.parts, Adder.first),
        KDivisionKind.scatter_tail: Axes(Tiles.last_wave, Cut.parts, Adder.each),
    }
)


@dataclass(frozen=True)
class KDivision:
    """How CTAs share the K of a tile, as `#tile.k_division`: a word, and the number of parts, or 0.

    A schedule may give the word `none`, for which none of the three choices is made.
    """

    kind: KDivisionKind
    parts: int = 0

    def __str__(self) -> str:
        return f"{self.kind}({self.parts})" if self.parts else str(self.kind)

    @property
    def tiles(self) -> Tiles:
        return AXES[self.kind].tiles

    @property
    def cut(self) -> Cut:
        return AXES[self.kind].cut

    @property
    def adder(self) -> Adder:
        return AXES[self.kind].adder

    @property
    def is_scattered(self) -> bool:
        """Whether each CTA that shares a tile adds its share of the columns."""
        return self.adder is Adder.each

    @property
    def is_of_tail(self) -> bool:
        """Whether only tiles of a last wave are shared."""
        return self.tiles is Tiles.last_wave

    @property
    def needs_residents(self) -> bool:
        """Whether all CTAs must run at the same time: their number decides the work, or they wait for each other."""
        return AXES[self.kind] != Axes(Tiles.all, Cut.parts, Adder.first)

    @property
    def follows_ctas(self) -> bool:
        """Whether the number of CTAs decides where K is cut."""
        return self.cut is Cut.shares or self.tiles is not Tiles.all

    def added_by(self, adder: Adder) -> "KDivision":
        """The same division with another CTA that adds."""
        wanted = AXES[self.kind]._replace(adder=adder)
        return replace(self, kind=next(kind for kind, axes in AXES.items() if axes == wanted))
