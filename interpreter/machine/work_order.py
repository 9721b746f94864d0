"""The work tiles of each CTA, in order: the meaning of `tile.work_tiles`, without MLIR.

Each word of the dialect's enums has an entry here; one without is refused.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lowtide.dialects.tile import RasterKind, SchedulerKind, WorkPart
from lowtide.errors import InterpreterError

Place = tuple[int, int]


@dataclass(frozen=True)
class WorkOrder:
    """The scheduler, the order of tiles with its numbers (`group` and `columns`, 0 where it has none), and the part of
    the tiles that is taken."""

    scheduler: SchedulerKind
    kind: RasterKind
    group: int = 0
    columns: int = 0
    part: WorkPart = WorkPart.all

    def __post_init__(self) -> None:
        """Raises InterpreterError for a word that has no meaning here."""
        for word, known in ((self.scheduler, SCHEDULERS), (self.kind, ORDERS), (self.part, PARTS)):
            if word not in known:
                names = ", ".join(each.name for each in known)
                raise InterpreterError(f"tile.work_tiles: {word.name} is not interpreted; known are {names}")

    @property
    def pieces(self) -> int:
        """How many work tiles, one below the other, are a tile of the order."""
        return PARTS[self.part].pieces

    def count(self, ctas: int, total: int) -> int:
        """The number of work tiles of all CTAs; `total` counts the tiles of the order."""
        return len(PARTS[self.part].taken(total, ctas)) * self.pieces

    def tile_at(self, index: int, tiles: Place) -> Place:
        """The tile (m, n) at place `index` of the order, of `tiles` tiles along M and N."""
        return ORDERS[self.kind](index, tiles, self)

    def places(self, cta: int, ctas: int, total: int) -> range:
        """Positions in the tile order of the tiles that a CTA of the launch computes, in sequence."""
        return SCHEDULERS[self.scheduler](cta, ctas, total)

    def tiles_of(self, cta: int, ctas: int, tiles: Place) -> Iterator[Place]:
        """The work tiles (m, n) that a CTA computes, in sequence; `tiles` counts those of the order."""
        total, pieces = tiles[0] * tiles[1], self.pieces
        taken = PARTS[self.part].taken(total, ctas)
        for place in self.places(cta, ctas, self.count(ctas, total)):
            m, n = self.tile_at(taken[place // pieces], tiles)
            yield m * pieces + place % pieces, n


@dataclass(frozen=True)
class Part:
    """Which tiles of the order, by their number and that of the CTAs, are taken, each in how many pieces along M."""

    taken: Callable[[int, int], range]
    pieces: int = 1


def _split(total: int, ctas: int) -> range:
    """The tiles of a last wave that is at most half full; none if it is fuller."""
    over = total % ctas
    return range(total - over, total) if 2 * over <= ctas else range(total, total)


def _one_shot(cta: int, ctas: int, total: int) -> range:
    return range(cta, min(cta + 1, total))


def _persistent(cta: int, ctas: int, total: int) -> range:
    return range(cta, total, ctas)


def _even_split(cta: int, ctas: int, total: int) -> range:
    """A run of neighbouring tiles; if the tiles do not divide evenly, the first CTAs take one more."""
    start, end = (index * (total // ctas) + min(index, total % ctas) for index in (cta, cta + 1))
    return range(start, end)


def _row(index: int, tiles: Place, order: WorkOrder) -> Place:
    return index // tiles[1], index % tiles[1]


def _column(index: int, tiles: Place, order: WorkOrder) -> Place:
    return index % tiles[0], index // tiles[0]


def _band(index: int, tiles: Place, order: WorkOrder) -> tuple[int, int, int]:
    """Of the band of `group` tile rows: its first row, how many it has (fewer in the last), and the place in it."""
    top = index // (order.group * tiles[1]) * order.group
    return top, min(tiles[0] - top, order.group), index - top * tiles[1]


def _grouped(index: int, tiles: Place, order: WorkOrder) -> Place:
    """Down each column of a band."""
    top, height, within = _band(index, tiles, order)
    return top + within % height, within // height


def _groups(index: int, tiles: Place, order: WorkOrder) -> Place:
    """Groups of `columns` tile columns in a band, each row by row."""
    top, height, within = _band(index, tiles, order)
    left = within // (height * order.columns) * order.columns
    row, column = divmod(within - left * height, min(tiles[1] - left, order.columns))
    return top + row, left + column


def _hilbert(index: int, tiles: Place, order: WorkOrder) -> Place:
    """Along a generalized Hilbert curve, which leads along the longer side of the grid."""
    longer, shorter = _on_curve(index, max(tiles), min(tiles))
    return (shorter, longer) if tiles[0] <= tiles[1] else (longer, shorter)


def _on_curve(index: int, length: int, width: int) -> Place:
    """Position in a rectangle whose curve leads from (0, 0) to (length - 1, 0)."""
    if length == 1 or width == 1:
        return (index, 0) if width == 1 else (0, index)
    if 2 * length > 3 * width:
        # Two rectangles one behind the other; the first has an even length.
        near = 2 * -(-(length // 2) // 2)
        if index < near * width:
            return _on_curve(index, near, width)
        along, across = _on_curve(index - near * width, length - near, width)
        return near + along, across
    # A U: up on the left, through the upper part, and down on the right. The legs have an even height if they can.
    height = 1 if width == 2 else 2 * -(-(width // 2) // 2)
    left, upper = length // 2 * height, length * (width - height)
    if index < left:
        across, along = _on_curve(index, height, length // 2)
        return along, across
    if index < left + upper:
        along, across = _on_curve(index - left, length, width - height)
        return along, height + across
    up, back = _on_curve(index - left - upper, height, length - length // 2)
    return length - 1 - back, height - 1 - up


PARTS: Mapping[WorkPart, Part] = MappingProxyType(
    {
        WorkPart.all: Part(lambda total, ctas: range(total)),
        WorkPart.full_waves: Part(lambda total, ctas: range(_split(total, ctas).start)),
        WorkPart.tail_halves: Part(_split, pieces=2),
    }
)
SCHEDULERS: Mapping[SchedulerKind, Callable[[int, int, int], range]] = MappingProxyType(
    {
        SchedulerKind.one_shot: _one_shot,
        SchedulerKind.persistent: _persistent,
        SchedulerKind.even_split: _even_split,
    }
)
ORDERS: Mapping[RasterKind, Callable[[int, Place, WorkOrder], Place]] = MappingProxyType(
    {
        RasterKind.row: _row,
        RasterKind.column: _column,
        RasterKind.grouped: _grouped,
        RasterKind.groups: _groups,
        RasterKind.hilbert: _hilbert,
    }
)
