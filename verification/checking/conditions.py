"""The conditions that a set of shapes must meet so that every path of a kernel is taken, computed from its schedule.

Conditions on an edge concern the part of an extent past whole CTA tiles: its end within a tile decides which copies,
stores and parts of the epilogue are cut. Conditions on work concern the tiles, the steps of K and the SMs: they decide
waves, phases of the ring, shares of K and the cuts of groups of tiles.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import gcd

from lowtide.dialects.tile import OperandKind, RasterKind, SchedulerKind, StorePath, TailKind, WavesKind
from lowtide.dialects.tile.division import KDivision, Tiles
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import WEIGHT_BLOCK, WEIGHT_ROWS, element_type
from lowtide.passes.schedules.facts.alignment import is_packed, moved_alignment
from lowtide.passes.schedules.facts.resources import multiplying_threads, runs_ahead, tile_of_d
from lowtide.passes.support.agents.atoms import TMA_RANKS, epilogue_rows, is_transposed, mma_atom_name
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import COPY_ATOMS, mma_atom
from lowtide.verification.checking.workload import Work

NO_K = "K = 0"
MATRICES: Sequence[int] = (1, 2, 3)  # of a batch of any number
_ACCESS_BYTES = 16  # of the wide stores of D
_RUN = 8  # columns of a row that neighbouring threads of a warp hold, and rows that a warp stores at once
_ALONG = {"M": "rows", "N": "columns"}


@dataclass(frozen=True)
class Edge:
    """A condition on `rest`, the part of the last tile that an extent covers; 0 if it ends with a whole tile."""

    axis: str
    text: str
    holds: Callable[[int], bool]


@dataclass(frozen=True)
class Share:
    """A condition on the work of all CTAs."""

    subject: str
    text: str
    holds: Callable[[Work], bool]


@dataclass(frozen=True)
class Axis:
    """An extent of the problem: its CTA tile, the unit of which it is a multiple, and the conditions on its edge.

    A unit may exceed a tile or not divide it, as for weights or pieces: then only some numbers of tiles can end in a
    given way.
    """

    name: str
    tile: int
    unit: int
    edges: tuple[Edge, ...]

    @property
    def rests(self) -> list[int]:
        """All possible ends of the extent within a tile; 0 first."""
        return list(range(0, self.tile, gcd(self.unit, self.tile)))

    def ends(self, tiles: int, rest: int) -> bool:
        """Whether a legal extent of this many tiles covers `rest` of the last one, or ends with it."""
        return self._extent(tiles, rest) % self.unit == 0

    def extent(self, tiles: int, rest: int) -> int:
        """The legal extent of this many tiles that covers `rest` of the last one, or the longest if there is none."""
        wanted = self._extent(tiles, rest)
        return wanted if wanted % self.unit == 0 else tiles * self.tile // self.unit * self.unit

    def has(self, tiles: int) -> bool:
        """Whether some legal extent has this many tiles."""
        return -(-self.extent(tiles, 0) // self.tile) == tiles

    def _extent(self, tiles: int, rest: int) -> int:
        return tiles * self.tile - (self.tile - rest if rest else 0)


def axes_of(schedule: Schedule, problem: Problem) -> tuple[Axis, Axis, Axis]:
    """M, N and K with their conditions, without those that no legal extent meets."""
    tile_m, tile_n = tile_of_d(schedule, problem)
    tile_k = schedule.tile_mnk[2]
    parts_m, parts_n = (tile_m, tile_n)
    if schedule.epilogue.path is not StorePath.direct and schedule.epilogue.tile is not None:
        parts_m, parts_n = schedule.epilogue.tile
    m, n, k = mma_atom(mma_atom_name(schedule, problem)).shape_mnk
    sharing = max(schedule.agents.consumer.warpgroups, 1)
    of_m = [*_parts("M", tile_m, parts_m), *_consumers(tile_m, sharing), *_inside("M", m, f"an mma of {m} rows")]
    of_n = [*_parts("N", tile_n, parts_n), *_inside("N", n, f"an mma of {n} columns")]
    of_k = list(_inside("K", k, f"an mma of depth {k}"))
    edges = {"M": of_m, "N": of_n, "K": of_k}
    runs = "M" if problem.d_is_column_major else "N"
    edges[runs] += _stores(schedule, problem, runs, {"M": parts_m, "N": parts_n}[runs])
    by_threads = problem.d_is_column_major and schedule.epilogue.path is not StorePath.direct
    lines = "N" if by_threads else "M"  # fragments are stored by rows
    edges[lines] += _lines(schedule, problem, lines, {"M": parts_m, "N": parts_n}[lines])
    for operand in ("a", "b"):
        axis = "K" if not is_transposed(operand, problem.layout) else "M" if operand == "a" else "N"
        edges[axis] += _copies(axis, operand, schedule, problem)
    units = _units(schedule, problem)
    if problem.packed is not None:
        rows, length = {"a": ("M", tile_m), "b": ("N", tile_n)}[problem.packed]
        edges[rows] += _blocks(rows, length, units[rows])
    return tuple(  # type: ignore[return-value]
        _axis(name, tile, units[name], edges[name]) for name, tile in zip("MNK", (tile_m, tile_n, tile_k), strict=True)
    )


def _axis(name: str, tile: int, unit: int, edges: Iterable[Edge]) -> Axis:
    whole = [
        Edge(name, "ends with a whole tile", lambda rest: rest == 0),
        Edge(name, "reaches 1 into a tile", lambda rest: rest == 1),
        Edge(name, "ends 1 before a tile does", lambda rest: rest == tile - 1),
    ]
    axis = Axis(name, tile, unit, tuple({edge.text: edge for edge in (*whole, *edges)}.values()))
    legal = tuple(edge for edge in axis.edges if any(map(edge.holds, axis.rests)))
    return Axis(name, tile, unit, legal)


def _parts(axis: str, tile: int, part: int) -> Iterator[Edge]:
    """The parts of the epilogue are whole, cut, or empty."""
    if part >= tile:
        return
    for number, start in enumerate(range(0, tile, part), 1):
        end = min(start + part, tile)
        yield Edge(axis, f"ends inside part {number} of the epilogue", lambda rest, s=start, e=end: s < rest < e)  # type: ignore[misc]
    yield Edge(axis, "ends between parts of the epilogue", lambda rest: rest > 0 and rest % part == 0)


def _consumers(tile: int, sharing: int) -> Iterator[Edge]:
    """Consumer warpgroups that share a tile have equal parts of its rows."""
    rows = tile // sharing
    for number in range(sharing if sharing > 1 else 0):
        start, end = number * rows, (number + 1) * rows
        yield Edge("M", f"ends in the rows of consumer {number}", lambda rest, s=start, e=end: s < rest < e)  # type: ignore[misc]


def _inside(axis: str, size: int, what: str) -> Iterator[Edge]:
    if size > 1:
        yield Edge(axis, f"ends inside {what}", lambda rest: rest % size != 0)


def _blocks(axis: str, tile: int, size: int) -> Iterator[Edge]:
    """One block of the rows of weights that share bytes is in the tile, or is missing; these end together."""
    if size > 1:
        yield Edge(axis, f"reaches {size}, a block of weights, into a tile", lambda rest: rest == size)
        yield Edge(axis, f"ends {size}, a block of weights, before a tile does", lambda rest: rest == tile - size)


def _stores(schedule: Schedule, problem: Problem, axis: str, part: int) -> Iterator[Edge]:
    """One of the elements that a thread stores at once is left, or one is missing.

    In each part of the epilogue, because its code is repeated for each part; for direct stores, in each run of columns
    of the fragments, or of rows if D is stored by columns.
    """
    if schedule.epilogue.path is StorePath.tma:
        return
    length, size = tile_of_d(schedule, problem)["MN".index(axis)], moved_alignment("d", schedule, problem)
    size //= element_type(problem.d).bytes
    if schedule.epilogue.path is StorePath.direct:
        part = min(part, _RUN)
    starts = range(0, length, part)
    for start in starts:
        end = min(start + part, length)
        where = f", in {_ALONG[axis]} {start} to {end - 1}" if len(starts) > 1 else ""
        edges = _cut(axis, size, f"stores of {size} elements of D")
        for edge in edges[1:] if part == _RUN else edges:  # between two stores of a run is as between two runs
            inside = partial(_holds_inside, edge, start, end)
            yield Edge(axis, edge.text + where, inside)


def _lines(schedule: Schedule, problem: Problem, axis: str, part: int) -> Iterator[Edge]:
    """Where D ends within the rows that threads store at once; within the columns, if D lies by columns. Each such run
    has its own guard, so there is an edge for each."""
    path = schedule.epilogue.path
    if path is StorePath.tma:
        return
    along, run = "MN".index(axis), _RUN
    count = tile_of_d(schedule, problem)[along]
    if path is not StorePath.direct:
        access = epilogue_rows(schedule, problem, multiplying_threads(schedule)).rows
        run = max(1, access.threads * access.vector // access.shape[1 - along])
    for start in range(0, count, run):
        end = min(start + run, count, start // part * part + part)
        inside = partial(_is_between, start if run == 1 else start + 1, end)
        yield Edge(axis, f"ends in {_ALONG[axis]} {start} to {end - 1}, which are stored at once", inside)


def _is_between(start: int, end: int, rest: int) -> bool:
    return start <= rest < end


def _holds_inside(edge: Edge, start: int, end: int, rest: int) -> bool:
    return start < rest < end and edge.holds(rest)


def _copies(axis: str, operand: str, schedule: Schedule, problem: Problem) -> list[Edge]:
    """One of the elements of a copy along the contiguous dimension is left, or one is missing."""
    name = schedule.mainloop.operand(operand).copy or ""
    if name in TMA_RANKS or name not in COPY_ATOMS:
        return []
    size = COPY_ATOMS[name].bytes_per_thread // element_type(problem.stream(operand).element).bytes
    return _cut(axis, size, f"copies of {size} elements of {operand.upper()}")


def _cut(axis: str, size: int, what: str) -> list[Edge]:
    if size < 2:
        return []
    between = [Edge(axis, f"ends between {what}", lambda rest: rest > 0 and rest % size == 0)]
    first = Edge(axis, f"cuts {what} after the first", lambda rest: rest % size == 1)
    if size == 2:
        return [*between, first]
    last = Edge(axis, f"cuts {what} before the last", lambda rest: rest % size == size - 1)
    return [*between, first, last]


def _units(schedule: Schedule, problem: Problem) -> dict[str, int]:
    """The requirements of the host function on extents: whole rows of TMA stores, whole panels of tensor maps beyond
    `tma`, whole groups of packed weights; and whole blocks of pieces, whose K is that of all products."""
    units = {"M": 1, "N": 1, "K": 1}
    if problem.decomposition is not None:
        units["K"] = problem.decomposition.depth(1)
    if problem.packed is not None:
        units["K"] = problem.group or WEIGHT_BLOCK
        rows = {"a": "M", "b": "N"}[problem.packed]
        units[rows] = WEIGHT_ROWS if problem.stream(problem.packed).rows > 1 else 1
    if schedule.epilogue.path is StorePath.tma and not is_packed("d", schedule):
        units["M" if problem.d_is_column_major else "N"] = _ACCESS_BYTES // element_type(problem.narrowest).bytes
    for operand in ("a", "b"):
        given = schedule.mainloop.operand(operand)
        if TMA_RANKS.get(given.copy or "", 0) > 2 and given.swizzle is not None:
            axis = "K" if not is_transposed(operand, problem.layout) else "M" if operand == "a" else "N"
            bits, base, _ = given.swizzle
            units[axis] = max(units[axis], 1 << (bits + base))
    return units


def shares_of(schedule: Schedule, problem: Problem) -> list[Share]:
    """The conditions on work: K loops, scheduler, order, clusters, division of K."""
    return [
        *_loops(schedule, has_no_k=problem.k is None and not problem.weights and not least_steps(schedule)),
        *_scheduler(schedule),
        *_order(schedule),
        *_clusters(schedule),
        *_division(schedule),
        *_batch(schedule, problem),
    ]


def _loops(schedule: Schedule, has_no_k: bool) -> Iterator[Share]:
    stages = schedule.mainloop.stages or 2  # without stages, fragments are loaded at once: one step, and several
    if has_no_k:
        yield Share(NO_K, "D is the epilogue of 0", lambda work: work.steps == 0)
    for length in (*range(1, stages + 3), 2 * stages + 1):
        plural = "" if length == 1 else "s"
        yield Share("K loop", f"{length} step{plural}", lambda work, n=length: n in work.lengths)  # type: ignore[misc]
    yield Share(
        "K loop",
        "more steps than stages on each of several tiles",
        lambda work: min(work.lengths) > stages and work.rows > 1 < work.columns and _count(work) > work.sms > 1,
    )
    if schedule.is_direct or not runs_ahead(schedule):
        return
    for slot in range(stages):
        yield Share(
            "ring",
            f"a later tile of a CTA begins at slot {slot}",
            lambda work, n=slot: any(begun % stages == n for begun in _begun(work)),  # type: ignore[misc]
        )
    for phase in range(2):
        yield Share(
            "ring",
            f"a later tile of a CTA begins in phase {phase}",
            lambda work, n=phase: any(begun // stages % 2 == n for begun in _begun(work)),  # type: ignore[misc]
        )
    if not schedule.agents.has_producer:  # the last steps of a tile start the copies of the next
        for length in range(1, stages + 1):
            yield Share(
                "ring",
                f"a K loop of {length} steps with a tile to follow",
                lambda work, n=length: any(  # type: ignore[misc]
                    item.end - item.begin == n for items in work.items for item in items[:-1]
                ),
            )


def _begun(work: Work) -> Iterator[int]:
    """For each item of a CTA but the first, the steps of K of the items before it."""
    for items in work.items:
        yield from list(accumulate(item.end - item.begin for item in items))[:-1]


def _scheduler(schedule: Schedule) -> Iterator[Share]:
    grid = schedule.grid
    yield Share("waves", "one work tile", lambda work: work.tiles == 1)
    if grid.scheduler is SchedulerKind.one_shot:
        yield Share("waves", "CTAs for all SMs at a time", lambda work: 1 < work.ctas == work.sms)
        yield Share("waves", "one CTA more than SMs", lambda work: 1 < work.sms == work.ctas - 1)
        yield Share("waves", "two waves of CTAs and a rest", lambda work: 1 < work.sms < work.ctas / 2)
        return
    (high, wide), divided = schedule.cluster, schedule.k_division is not None

    def units(work: Work) -> int:
        """The number of items that CTAs, or clusters, take: tiles, or super-tiles, or with a division of K work
        items."""
        if divided:
            return _count(work) // (high * wide)
        return -(-work.rows // high) * -(-work.columns // wide) * work.matrices

    def fit(work: Work) -> int:
        return work.resident // (high * wide)

    yield Share("waves", "fewer CTAs than fit", lambda work: work.ctas < work.resident)
    yield Share("waves", "as many work tiles as fit at a time", lambda work: 1 < fit(work) == units(work))
    yield Share("waves", "one work tile more than fit at a time", lambda work: 1 < fit(work) == units(work) - 1)
    yield Share("waves", "two waves of work tiles and a rest", lambda work: 1 < fit(work) < units(work) / 2)
    yield Share("waves", "a CTA with three items", lambda work: any(len(items) == 3 for items in work.items))
    for items in range(1, schedule.agents.consumer.turns + 2 if schedule.agents.consumer.turns > 1 else 0):
        plural = "" if items == 1 else "s"
        yield Share(
            "turns",
            f"a CTA with {items} tile{plural} for {schedule.agents.consumer.turns} consumers",
            lambda work, n=items: any(len(own) == n for own in work.items),  # type: ignore[misc]
        )
    if grid.scheduler is SchedulerKind.even_split:
        yield Share("waves", "runs of unequal length", lambda work: len({len(items) for items in work.items}) > 1)
        yield Share(
            "waves", "runs of equal length", lambda work: {len(items) for items in work.items} not in ({0}, {1})
        )
    if grid.tail is TailKind.halves:
        yield Share(
            "tail", "a last wave that is more than half full", lambda work: work.tiles % work.ctas > work.ctas / 2
        )
        yield Share("tail", "a last wave in halves", lambda work: 0 < work.tiles % work.ctas <= work.ctas / 2)
        yield Share("tail", "only whole waves", lambda work: work.tiles % work.ctas == 0)
    if grid.waves is WavesKind.synchronized:
        yield Share("waves", "a CTA waits for a second wave", lambda work: any(len(items) > 1 for items in work.items))
    if schedule.turns_k_around:
        yield Share("k order", "a CTA turns K around", lambda work: any(len(items) > 1 for items in work.items))
        yield Share("k order", "a CTA turns K back", lambda work: any(len(items) > 2 for items in work.items))


def _count(work: Work) -> int:
    return sum(map(len, work.items))


def _order(schedule: Schedule) -> Iterator[Share]:
    order, (high, wide) = schedule.grid.order, schedule.cluster
    assert order is not None

    def rows(work: Work) -> int:
        return -(-work.rows // high)

    def columns(work: Work) -> int:
        return -(-work.columns // wide)

    subject = f"order {order}"
    yield Share(subject, "several columns of tiles", lambda work: columns(work) > 1)
    yield Share(subject, "several rows of tiles", lambda work: rows(work) > 1)
    # Fewer tiles have the same place in several orders.
    yield Share(subject, "three rows of three tiles", lambda work: min(rows(work), columns(work)) > 2)
    if order.kind is RasterKind.hilbert:
        yield Share(subject, "more rows of tiles than columns", lambda work: rows(work) > columns(work) > 1)
        yield Share(subject, "more columns of tiles than rows", lambda work: columns(work) > rows(work) > 1)
        yield Share(subject, "odd by even tiles", lambda work: (rows(work) % 2, columns(work) % 2) in ((0, 1), (1, 0)))
    if order.rows > 1:
        yield Share(subject, "a band that is cut", lambda work: rows(work) % order.rows > 0 < columns(work) - 1)
        yield Share(subject, "a whole band", lambda work: rows(work) >= order.rows and columns(work) > 1)
        yield Share(subject, "a cut band after a whole one", lambda work: rows(work) > order.rows and columns(work) > 1)
    if order.columns > 1:
        yield Share(subject, "a group of columns that is cut", lambda work: columns(work) % order.columns > 0)
        yield Share(subject, "a cut group after a whole one", lambda work: columns(work) > order.columns)


def _clusters(schedule: Schedule) -> Iterator[Share]:
    rows, columns = schedule.cluster
    if rows > 1:
        yield Share("cluster", "a super-tile cut along M", lambda work: work.rows % rows > 0)
        yield Share("cluster", "super-tiles whole along M", lambda work: work.rows % rows == 0)
    if columns > 1:
        yield Share("cluster", "a super-tile cut along N", lambda work: work.columns % columns > 0)
        yield Share("cluster", "super-tiles whole along N", lambda work: work.columns % columns == 0)


def _division(schedule: Schedule) -> Iterator[Share]:
    division = schedule.k_division
    if division is None:
        return
    subject, parts = f"k_division {division}", division.parts
    if division.is_of_tail:
        yield from _divided_tail(subject, division)
        return
    if parts:
        if not division.is_scattered:
            yield Share(subject, "fewer steps than parts", lambda work: 0 < work.steps < parts)
        yield Share(subject, "parts of equal length", lambda work: work.steps >= parts and work.steps % parts == 0)
        yield Share(subject, "parts of unequal length", lambda work: work.steps > parts and work.steps % parts > 0)
        return
    yield Share(subject, "a tile of one CTA", lambda work: 1 in _holders(work))
    yield Share(subject, "a tile that two CTAs share", lambda work: 2 in _holders(work))
    yield Share(subject, "a tile that three or more CTAs share", lambda work: max(_holders(work)) > 2)
    yield Share(subject, "a CTA with shares of two tiles", lambda work: any(_shares(items) > 1 for items in work.items))
    if division.tiles is Tiles.last_waves:
        yield Share(subject, "a whole wave before the shares", lambda work: _whole_first(work))
        yield Share(subject, "whole waves alone", lambda work: _holders(work) == {1} and work.tiles >= work.ctas > 1)


def _divided_tail(subject: str, division: KDivision) -> Iterator[Share]:
    parts = division.parts

    def divides(work: Work) -> bool:
        return max(_holders(work)) > 1

    yield Share(subject, "a whole wave before the parts", _whole_first)
    yield Share(subject, "whole waves alone", lambda work: not divides(work) and work.tiles >= work.ctas > 1)
    yield Share(subject, "no whole wave", lambda work: _holders(work) == {parts})
    yield Share(subject, "a CTA with several parts", lambda work: any(_shares(items) > 1 for items in work.items))
    if parts > 2 and not division.is_scattered:
        yield Share(subject, "fewer steps than parts", lambda work: divides(work) and work.steps < parts)
    yield Share(subject, "parts of equal length", lambda work: divides(work) and work.steps % parts == 0)
    yield Share(
        subject, "parts of unequal length", lambda work: divides(work) and work.steps % parts > 0 < work.steps - parts
    )


def _batch(schedule: Schedule, problem: Problem) -> Iterator[Share]:
    if not problem.is_batched:
        return
    for matrices in MATRICES if problem.batch is None else (problem.batch,):
        plural = "matrix" if matrices == 1 else "matrices"
        yield Share("batch", f"{matrices} {plural}", lambda work, n=matrices: work.matrices == n)  # type: ignore[misc]
    if problem.batch == 1:
        return
    yield Share("batch", "matrices of several tiles", lambda work: work.matrices > 1 < work.rows * work.columns)
    if schedule.grid.scheduler is SchedulerKind.one_shot:
        return
    yield Share("batch", "a CTA with tiles of two matrices", lambda work: any(len(own) == 2 for own in _matrices(work)))
    yield Share(
        "batch", "a CTA that begins in a later matrix", lambda work: any(min(own) > 0 for own in _matrices(work))
    )
    if schedule.k_division is not None and not schedule.k_division.parts:
        yield Share(
            "batch",
            "a CTA with shares of tiles of two matrices",
            lambda work: any(len({item.grid for item in own if item.parts > 1}) > 1 for own in work.items),
        )
    if schedule.grid.tail is TailKind.halves:
        yield Share("batch", "halves in a later matrix", lambda work: work.matrices > 1 and work.tiles % work.ctas > 0)


def _matrices(work: Work) -> list[set[int]]:
    """For each CTA with work, the matrices whose tiles it computes."""
    return [{item.grid for item in own} for own in work.items if own]


def _holders(work: Work) -> set[int]:
    return {item.parts for items in work.items for item in items}


def _shares(items: Iterable[object]) -> int:
    return sum(1 for item in items if getattr(item, "parts", 1) > 1)


def _whole_first(work: Work) -> bool:
    return any(items and items[0].parts == 1 and items[-1].parts > 1 for items in work.items)


def least_steps(schedule: Schedule) -> int:
    """The least number of steps of K: each part of a scatter has one."""
    division = schedule.k_division
    return division.parts if division is not None and division.is_scattered else 0


def sharings_of(problem: Problem, operands: Sequence[str]) -> dict[tuple[str, ...], str]:
    """The inputs that the matrices of a batch may share, and a text; `operands` are those of the epilogue, by name."""
    if not problem.is_batched:
        return {}
    return {
        (): "each matrix has inputs of its own",
        ("b", *operands): "B and the epilogue's operands are shared",
        ("a",): "A is shared",
    }


def paddings_of(problem: Problem) -> dict[int, str]:
    """Elements after each row, beyond the alignment, and the purpose of each."""
    unit = _ACCESS_BYTES // element_type(problem.narrowest).bytes
    found = {unit: "rows further apart than they are long", 0: "rows as close as alignment lets them lie"}
    if OperandKind.full in problem.kinds:
        found[3] = "rows of full operands at no multiple of 16 bytes"
    return found
