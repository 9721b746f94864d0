"""The work tiles of each CTA, in order: the meaning of `tile.work_tiles`, without MLIR.

A cluster of m × n CTAs takes super-tiles of m × n tiles like a CTA takes tiles. Each of its CTAs computes its own
tile of every super-tile, even if that tile is past the edge. There is one grid of tiles for each matrix of a batch, or
for each group of rows. The grids follow each other, each in the order of tiles.

Each word of the dialect's enums has an entry here; others are refused.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType

from lowtide.dialects.tile import RasterKind, SchedulerKind, WorkPart
from lowtide.dialects.tile.division import Adder, Cut, KDivision, Tiles
from lowtide.errors import InterpreterError

Place = tuple[int, int]


@dataclass(frozen=True)
class WorkItem:
    """A work item: a tile, or a part of it.

    `place`: the tile (m, n) of its grid. If K is divided, the item has the steps of K from `begin` to `end`. It is part
    `part` of `parts`, and `slot` is the slot of part 0. `grid`: the number of its grid, in the order of the grids.
    """

    place: Place
    begin: int = 0
    end: int = 0
    part: int = 0
    parts: int = 1
    slot: int = 0
    grid: int = 0


@dataclass(frozen=True)
class WorkOrder:
    """How tiles are given to CTAs. `kind`: the order of tiles, with its numbers `group` and `columns`, 0 if it has
    none. `part`: which tiles are taken. `division`: that of K, None if K is not divided."""

    scheduler: SchedulerKind
    kind: RasterKind
    group: int = 0
    columns: int = 0
    part: WorkPart = WorkPart.all
    division: KDivision | None = None

    def __post_init__(self) -> None:
        """Raises InterpreterError for an unknown word."""
        words = (
            (self.scheduler, SCHEDULERS),
            (self.kind, ORDERS),
            (self.part, PARTS),
        )
        for word, known in words:
            if word not in known:
                names = ", ".join(each.name for each in known)
                raise InterpreterError(
                    f"tile.work_tiles: {word.name} is not interpreted; known are {names} [order-word]"
                )

    @property
    def pieces(self) -> int:
        """The number of work tiles, one below the other, in a tile of the order."""
        return PARTS[self.part].pieces

    def count(self, ctas: int, total: int) -> int:
        """The number of work tiles of all CTAs; `total` counts the tiles of the order."""
        return len(PARTS[self.part].taken(total, ctas)) * self.pieces

    def count_of(self, ctas: int, grids: Sequence[Place], cluster: Place) -> int:
        """As `count`, for CTAs in clusters, each with a work tile of every super-tile. `grids`: for each grid, its
        numbers of tiles along M and N."""
        size = cluster[0] * cluster[1]
        return self.count(ctas // size, sum(rows * columns for rows, columns in _supers(grids, cluster))) * size

    def tile_at(self, index: int, tiles: Place) -> Place:
        """The tile (m, n) at place `index` of the order, of `tiles` tiles along M and N."""
        return ORDERS[self.kind](index, tiles, self)

    def places(self, cta: int, ctas: int, total: int) -> range:
        """Positions in the tile order of the tiles that a CTA of the launch computes, in sequence."""
        return SCHEDULERS[self.scheduler](cta, ctas, total)

    def items_of(
        self, cta: int, ctas: int, grids: Sequence[Place], steps: int = 1, cluster: Place = (1, 1)
    ) -> Iterator[WorkItem]:
        """The work items of a CTA, in sequence. `grids`: for each grid, its numbers of tiles along M and N. `steps`:
        the number of steps of K of each tile. In clusters, some tiles may be past the edge of their grid."""
        rows, columns = cluster
        supers, pieces = _supers(grids, cluster), self.pieces
        (worker, rank), workers = divmod(cta, rows * columns), ctas // (rows * columns)
        begins = [0, *accumulate(high * wide for high, wide in supers)]
        total = begins[-1]
        taken = PARTS[self.part].taken(total, workers)
        for number, begin, end, part, parts, slot in _items(self, worker, workers, self.count(workers, total), steps):
            at = taken[number // pieces]
            grid = bisect_right(begins, at) - 1
            m, n = self.tile_at(at - begins[grid], supers[grid])
            place = (m * pieces + number % pieces) * rows + rank // columns, n * columns + rank % columns
            yield WorkItem(place, begin, end, part, parts, slot * rows * columns + rank * parts, grid)


def _supers(grids: Sequence[Place], cluster: Place) -> list[Place]:
    """For each grid, its numbers of super-tiles along M and N."""
    return [(-(-rows // cluster[0]), -(-columns // cluster[1])) for rows, columns in grids]


@dataclass(frozen=True)
class Part:
    """`taken`: the tiles that are taken, as a function of the numbers of tiles and of CTAs. `pieces`: the number of
    work tiles into which each is split along M."""

    taken: Callable[[int, int], range]
    pieces: int = 1


def _split(total: int, ctas: int) -> range:
    """The tiles of a last wave that is at most half full; none if it is fuller."""
    over = total % ctas
    return range(total - over, total) if 2 * over <= ctas else range(total, total)


Item = tuple[int, int, int, int, int, int]  # tile, begin, end, part, parts, slot


def _items(order: WorkOrder, cta: int, ctas: int, tiles: int, steps: int) -> Iterator[Item]:
    """The items of a CTA, by the axes of the division."""
    division = order.division
    if division is None:
        return ((index, 0, steps, 0, 1, 0) for index in order.places(cta, ctas, tiles))
    if division.cut is Cut.shares:
        return _shared(cta, ctas, tiles, steps, _whole_waves(tiles, ctas) if division.tiles is Tiles.last_waves else 0)
    if division.tiles is Tiles.last_wave:
        return _tail(division.parts, cta, ctas, tiles, steps)
    items = order.places(cta, ctas, tiles * min(division.parts, steps))
    return (_scatter_k if division.adder is Adder.each else _split_k)(items, division.parts, ctas, tiles, steps)


def _split_k(items: range, most: int, ctas: int, tiles: int, steps: int) -> Iterator[Item]:
    """The parts of a tile in descending order."""
    parts = min(most, steps)
    for item in items:
        yield _part_of(item // parts, parts - 1 - item % parts, parts, steps)


def _scatter_k(items: range, most: int, ctas: int, tiles: int, steps: int) -> Iterator[Item]:
    """For the tiles that the CTAs compute at a time: part 0 of each, then part 1 of each, …"""
    parts = min(most, steps)
    for item in items:
        first = item // ctas * (ctas // parts)
        together = min(ctas // parts, tiles - first)
        part, number = divmod(item % ctas, together)
        yield _part_of(first + number, part, parts, steps)


def _tail(most: int, cta: int, ctas: int, tiles: int, steps: int) -> Iterator[Item]:
    """Waves of whole tiles, and then the remaining tiles in rounds. A round has as many tiles as the CTAs can share.
    Its first CTAs have part n − 1 of the tiles, the next ones part n − 2, and so on."""
    parts, over = min(most, steps, ctas), tiles % ctas
    for wave in range(tiles // ctas):
        yield wave * ctas + cta, 0, steps, 0, 1, 0
    for first in range(0, over, ctas // parts):
        here = min(ctas // parts, over - first)
        place, number = divmod(cta, here)
        if place < parts:
            _, begin, end, part, _, slot = _part_of(first + number, parts - 1 - place, parts, steps)
            yield tiles - over + first + number, begin, end, part, parts, slot


def _part_of(tile: int, part: int, parts: int, steps: int) -> Item:
    """Part number `part` of a tile. Parts differ by one step at most; the longer ones come first."""
    lengths = [steps // parts + (part < steps % parts) for part in range(parts)]
    begin = sum(lengths[:part])
    return tile, begin, begin + lengths[part], part, parts, tile * parts


def _whole_waves(tiles: int, ctas: int) -> int:
    """The number of waves that are computed in whole tiles. If the tiles are not whole waves, at least one wave, and
    less than two, are left, or all tiles if there are fewer."""
    return tiles // ctas if tiles % ctas == 0 else max(tiles // ctas - 1, 0)


def _shared(cta: int, ctas: int, tiles: int, steps: int, waves: int) -> Iterator[Item]:
    """Waves of whole tiles, and then a share of the steps of the other tiles, taken one tile after the other: CTA i has
    share ctas − 1 − i."""
    own, shared = ctas - 1 - cta, range(waves * ctas, tiles)
    for wave in range(waves):
        yield wave * ctas + cta, 0, steps, 0, 1, own
    cuts = [share * len(shared) * steps // ctas for share in range(ctas + 1)]
    for number, tile in enumerate(shared):
        first, last = number * steps, (number + 1) * steps
        begin, end = max(cuts[own], first), min(cuts[own + 1], last)
        if begin < end:
            holders = [s for s in range(ctas) if max(cuts[s], first) < min(cuts[s + 1], last)]
            yield tile, begin - first, end - first, holders.index(own), len(holders), holders[0]


def _even_split(cta: int, ctas: int, total: int) -> range:
    """A run of consecutive tiles. If the tiles cannot be divided evenly, the first CTAs take one more."""
    start, end = (index * (total // ctas) + min(index, total % ctas) for index in (cta, cta + 1))
    return range(start, end)


def _band(index: int, tiles: Place, order: WorkOrder) -> tuple[int, int, int]:
    """The band of `group` tile rows: its first row, its number of rows (fewer in the last), and the place in it."""
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
    """Along a generalized Hilbert curve, which follows the longer side of the grid."""
    longer, shorter = _on_curve(index, max(tiles), min(tiles))
    return (shorter, longer) if tiles[0] <= tiles[1] else (longer, shorter)


def _on_curve(index: int, length: int, width: int) -> Place:
    """Position in a rectangle whose curve leads from (0, 0) to (length - 1, 0)."""
    if length == 1 or width == 1:
        return (index, 0) if width == 1 else (0, index)
    if 2 * length > 3 * width:
        # Two consecutive rectangles; the first has an even length.
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
        SchedulerKind.one_shot: lambda cta, ctas, total: range(cta, min(cta + 1, total)),
        SchedulerKind.persistent: lambda cta, ctas, total: range(cta, total, ctas),
        SchedulerKind.even_split: _even_split,
    }
)
ORDERS: Mapping[RasterKind, Callable[[int, Place, WorkOrder], Place]] = MappingProxyType(
    {
        RasterKind.row: lambda index, tiles, order: divmod(index, tiles[1]),
        RasterKind.column: lambda index, tiles, order: (index % tiles[0], index // tiles[0]),
        RasterKind.grouped: _grouped,
        RasterKind.groups: _groups,
        RasterKind.hilbert: _hilbert,
    }
)
