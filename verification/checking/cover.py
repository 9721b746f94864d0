"""A small set of shapes that meets the conditions: a greedy cover, by conditions met per second of interpretation.

First shapes in whole tiles are chosen, with their steps of K and SMs, for the conditions on work. Then each gets edges:
the parts of the last tiles that M, N and K cover. Edges without a shape get small ones of their own.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, cycle, product

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target
from lowtide.verification.checking.conditions import (
    MATRICES,
    NO_K,
    Share,
    axes_of,
    least_steps,
    paddings_of,
    shares_of,
    sharings_of,
)
from lowtide.verification.checking.interpretation import Batch
from lowtide.verification.checking.workload import Work, work_of, works_of

_OF_GIVEN = ("rows", "batch")  # subjects of conditions on the given matrices
_PAIRS = (("M", "N"), ("rows", "columns"), ("row", "column"), ("A", "B"))
_OTHER_SIDE = {word: pair[not at] for pair in _PAIRS for at, word in enumerate(pair)}
_SIDES = re.compile(r"\b(" + "|".join(_OTHER_SIDE) + r")\b")
_MOST_TILES = 6  # of each matrix of a batch; larger ones are tried alone

Extents = tuple[int, int, int]
Cost = Callable[[Extents, int], float]
"""Estimated seconds of a run on M, N and K, and this many matrices."""


@dataclass(frozen=True)
class Shape:
    """A shape to try: M, N and K of the product that the kernel computes, or of the original problem."""

    extents: Extents
    sms: int
    padding: int
    batch: Batch | None = None

    @property
    def matrices(self) -> int:
        return 1 if self.batch is None else self.batch.matrices

    @property
    def extents_text(self) -> str:
        """`64x32x48`, `3 of 64x32x48` in a batch."""
        extents = "x".join(map(str, self.extents))
        return extents if self.batch is None else f"{self.matrices} of {extents}"


@dataclass(frozen=True)
class Row:
    """A condition, the first shape that meets it, or `None` and the reason."""

    subject: str
    text: str
    shape: Shape | None
    why: str = ""


@dataclass(frozen=True)
class Cover:
    """The shapes, cheapest first, and the shape for each condition."""

    shapes: tuple[Shape, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Blank:
    """A shape in tiles and steps of K, and its estimated seconds."""

    work: Work
    extents: Extents
    seconds: float


@dataclass
class _Coverer:
    """The conditions of one schedule and problem."""

    schedule: Schedule
    problem: Problem
    target: Target
    cost: Cost
    budget: float
    operands: Sequence[str]

    def __post_init__(self) -> None:
        self.axes = axes_of(self.schedule, self.problem)
        self.fixed = (self.problem.m, self.problem.columns_of_d, self.problem.k)
        self.sharings = sharings_of(self.problem, self.operands)

    def cover(self) -> Cover:
        shares = shares_of(self.schedule, self.problem)
        chosen, missed = _greedy(list(self._blanks()), shares, self.budget)
        shapes = self._with_edges(chosen)
        rows = [*self._rows_of_shares(shares, missed, shapes), *self._rows_of_edges(shapes)]
        for padding, text in paddings_of(self.problem).items():
            rows.append(
                _row("rows", text, (shape for shape in shapes if shape.padding == padding), "no shape is left for it")
            )
        rows += self._rows_of_batches(shapes)
        return Cover(tuple(shapes), tuple(rows))

    def _blanks(self) -> Iterator[Blank]:
        """Candidate shapes in whole tiles, within the budget."""
        schedule = self.schedule
        tiles = [axis.tile for axis in self.axes]
        order = schedule.grid.order
        assert order is not None
        rows, columns = schedule.cluster
        high = sorted({1, 2, 3, 4, 5, rows, rows + 1, order.rows * rows, order.rows * rows + 1} - {0})
        wide = sorted({1, 2, 3, 4, 5, columns, columns + 1, order.columns * columns + 1} - {0})
        counts = [self._counts(0, high), self._counts(1, wide), self._steps()]
        sms = sorted({1, 2, 3, rows * columns, 2 * rows * columns, 3 * rows * columns})
        for m, n, steps, matrices in product(*counts, self._matrices()):
            extents = (m * tiles[0], n * tiles[1], steps * tiles[2])
            seconds = self.cost(extents, matrices)
            if seconds > self.budget or (self.problem.batch is None and matrices > 1 and m * n > _MOST_TILES):
                continue
            for work in works_of(schedule, self.problem, self.target, (m, n, steps), sms, matrices):
                yield Blank(work, extents, seconds)

    def _matrices(self) -> Sequence[int]:
        batch = self.problem.batch
        return MATRICES if batch is None else (batch,)

    def _counts(self, position: int, wanted: Sequence[int]) -> list[int]:
        fixed = self.fixed[position]
        return list(wanted) if fixed is None else [-(-fixed // self.axes[position].tile)]

    def _steps(self) -> list[int]:
        stages = self.schedule.mainloop.stages or 2
        lengths = {0, *range(1, stages + 3), 2 * stages + 1}
        division = self.schedule.k_division
        if division is not None:
            parts = division.parts or 3
            lengths |= {parts * length for length in lengths} | {parts + 1, parts - 1}
        least = least_steps(self.schedule)
        axis = self.axes[2]
        return self._counts(2, sorted(length for length in lengths if length >= least and axis.has(length)))

    def _with_edges(self, chosen: Sequence[Blank]) -> list[Shape]:
        """Give each shape ends within tiles that no shape before it has; whole tiles once all are tried."""
        queues = [self._ends(position) for position in range(3)]
        paddings = list(paddings_of(self.problem))
        shapes: list[Shape] = []
        blanks, small = list(chosen), self._small(queues[2])
        left = self.budget - sum(blank.seconds for blank in chosen)
        batches = self._batches()
        while blanks or (
            left >= small.seconds and (any(queues) or len(shapes) < len(paddings) or self._unshared(shapes))
        ):
            blank = blanks.pop(0) if blanks else small
            left -= small.seconds if blank is small else 0
            extents = []
            low = False
            for axis, whole, queue, fixed in zip(self.axes, blank.extents, queues, self.fixed, strict=True):
                # A tile of few rows shows little of its columns: one of the two is (almost) whole.
                rest, tiles = 0, whole // axis.tile
                if blank.work.steps and not (low and axis.name == "N"):
                    at = next((at for at, end in enumerate(queue) if axis.ends(tiles, end)), None)
                    rest = queue.pop(at) if at is not None else 0
                low = low or 0 < rest < axis.tile - 1
                extents.append(fixed if fixed is not None else axis.extent(tiles, rest))
            if blank is small:
                small = self._small(queues[2])
            padding = paddings[len(shapes) % len(paddings)]
            batch = None
            if self.sharings:
                shared, between = next(batches) if blank.work.matrices > 1 else ((), 0)
                batch = Batch(blank.work.matrices, shared, between)
            shapes.append(Shape((extents[0], extents[1], extents[2]), blank.work.sms, padding, batch))
        return sorted(dict.fromkeys(shapes), key=lambda shape: self.cost(shape.extents, shape.matrices))

    def _batches(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Layouts of matrices, repeatedly: the inputs that they share, adjacent or a row apart."""
        return ((shared, at % 2) for at, shared in enumerate(cycle(self.sharings)))

    def _rows_of_batches(self, shapes: Sequence[Shape]) -> Iterator[Row]:
        """Conditions on the layout of the matrices of a batch, and on the inputs that they share."""
        if not self.sharings or self._matrices() == (1,):
            return
        several = [(shape, shape.batch) for shape in shapes if shape.batch is not None and shape.matrices > 1]
        wanted: list[tuple[str, Callable[[Batch], bool]]] = [
            (text, lambda batch, own=shared: batch.shared == own)  # type: ignore[misc]
            for shared, text in self.sharings.items()
        ]
        wanted.append(("matrices one behind the other", lambda batch: not batch.rows_between))
        wanted.append(("rows between matrices, which nobody may touch", lambda batch: batch.rows_between > 0))
        for text, holds in wanted:
            met = (shape for shape, batch in several if holds(batch))
            yield _row("batch", text, met, "no shape of several matrices is left for it")

    def _unshared(self, shapes: Sequence[Shape]) -> bool:
        """Whether some way of sharing has no shape yet."""
        if self._matrices() == (1,):
            return False
        return bool(
            self.sharings.keys() - {shape.batch.shared for shape in shapes if shape.batch and shape.matrices > 1}
        )

    def _small(self, ends: Sequence[int]) -> Blank:
        """One tile, with as many steps as K needs to end in the first of these ways."""
        least, axis = max(2, least_steps(self.schedule)), self.axes[2]
        steps = next(each for each in count(least) if axis.has(each) and (not ends or axis.ends(each, ends[0])))
        counts = (self._counts(0, [1])[0], self._counts(1, [1])[0], self._counts(2, [steps])[0])
        extents = tuple(tiles * axis.tile for tiles, axis in zip(counts, self.axes, strict=True))
        matrices = next((each for each in self._matrices() if each > 1), 1)
        work = work_of(self.schedule, self.problem, self.target, counts, 2, matrices)
        return Blank(work, extents, self.cost(extents, matrices))  # type: ignore[arg-type]

    def _ends(self, position: int) -> list[int]:
        """A small set of ends within a tile that meets the conditions on an axis."""
        axis = self.axes[position]
        if self.fixed[position] is not None:
            return []
        missing = list(axis.edges)
        chosen = []
        while missing:
            best = max(axis.rests, key=lambda rest: sum(edge.holds(rest) for edge in missing))
            chosen.append(best)
            missing = [edge for edge in missing if not edge.holds(best)]
        return chosen

    def _work(self, shape: Shape) -> Work:
        m, n, k = (-(-extent // axis.tile) for extent, axis in zip(shape.extents, self.axes, strict=True))
        return work_of(self.schedule, self.problem, self.target, (m, n, k), shape.sms, shape.matrices)

    def _rows_of_shares(self, shares: Sequence[Share], missed: dict[Share, str], shapes: Sequence[Shape]) -> list[Row]:
        works = [(shape, self._work(shape)) for shape in shapes]
        return [
            _row(
                share.subject,
                share.text,
                (shape for shape, work in works if _meets(share, work)),
                missed.get(share, "no shape meets it"),
            )
            for share in shares
        ]

    def _rows_of_edges(self, shapes: Sequence[Shape]) -> list[Row]:
        rows = []
        of_sums = [shape for shape in shapes if shape.extents[2]]
        for position, (axis, fixed) in enumerate(zip(self.axes, self.fixed, strict=True)):
            why = "the budget is spent" if fixed is None else f"the kernel was compiled for {axis.name} = {fixed}"
            for edge in axis.edges:
                met = (shape for shape in of_sums if edge.holds(shape.extents[position] % axis.tile))
                rows.append(_row(f"edge of {axis.name}", edge.text, met, why))
        return rows


def cover_of(
    schedule: Schedule,
    problem: Problem,
    target: Target,
    cost: Cost,
    budget: float,
    operands: Sequence[str] = (),
) -> Cover:
    """Shapes that meet the conditions of a complete schedule, with runs of at most about `budget` seconds.

    `operands` are the names of the epilogue's array operands.
    """
    return _Coverer(schedule, problem, target, cost, budget, operands).cover()


def as_asked(cover: Cover, asked: Callable[[Extents], Extents], *, is_swapped: bool) -> Cover:
    """The same for the original problem. If the kernel computes Dᵀ = Bᵀ · Aᵀ, rows of its product are columns of D."""
    shapes = {shape: replace(shape, extents=asked(shape.extents)) for shape in cover.shapes}
    rows = (replace(row, shape=row.shape and shapes[row.shape]) for row in cover.rows)
    return Cover(tuple(shapes.values()), tuple(map(_exchanged, rows) if is_swapped else rows))


def _exchanged(row: Row) -> Row:
    """The text on the kernel's M, N, rows, columns, A and B in terms of D."""
    if row.subject in _OF_GIVEN:
        return row
    told = (row.subject, row.text, row.why)
    subject, text, why = (_SIDES.sub(lambda word: _OTHER_SIDE[word[0]], each) for each in told)
    return replace(row, subject=subject if row.subject.startswith("edge") else row.subject, text=text, why=why)


def _row(subject: str, text: str, met: Iterator[Shape], why: str) -> Row:
    """A condition with the first shape that meets it, or the reason why there is none."""
    found = next(met, None)
    return Row(subject, text, found, "" if found else why)


def _meets(share: Share, work: Work) -> bool:
    """Whether the work meets the condition. A problem without K meets no other conditions: all its sums are 0."""
    return share.holds(work) and (work.steps > 0 or share.subject == NO_K)


def _greedy(blanks: Sequence[Blank], shares: Sequence[Share], budget: float) -> tuple[list[Blank], dict[Share, str]]:
    """Shapes that together meet the conditions, as many as the budget allows; and the reasons for the others."""
    meets = [frozenset(share for share in shares if _meets(share, blank.work)) for blank in blanks]
    reachable = frozenset().union(*meets)
    missed = {share: "no shape within the budget meets it" for share in shares if share not in reachable}
    missing, chosen, spent = set(reachable), [], 0.0
    while missing:
        gain = [len(met & missing) / blank.seconds for met, blank in zip(meets, blanks, strict=True)]
        best = max(range(len(blanks)), key=gain.__getitem__)
        if spent + blanks[best].seconds > budget:
            left = [at for at in range(len(blanks)) if meets[at] & missing and spent + blanks[at].seconds <= budget]
            if not left:
                about = min(blanks[at].seconds for at in range(len(blanks)) if meets[at] & missing)
                missed |= {share: f"the budget is spent: about {about:.0f} s more" for share in missing}
                break
            best = max(left, key=gain.__getitem__)
        chosen.append(blanks[best])
        spent += blanks[best].seconds
        missing -= meets[best]
    return sorted(chosen, key=lambda blank: blank.seconds), missed
