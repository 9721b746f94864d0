"""The speed lines: required speeds, and goals, on shapes that are drawn after the commit that is measured.

A line compares two contenders on some populations. It judges each run by itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lowtide.measurement.bench.any_shape.draws import MOST_ROWS, PUBLIC, Draw
from lowtide.measurement.bench.any_shape.rows import BEST_PEER, MATMUL, OWN, TORCH, Pair, Row
from lowtide.measurement.bench.any_shape.statistics import Statistics, statistics_of

HELD, MISSED, INCOMPLETE, NOT_MEASURED = "held", "**missed**", "incomplete", "not measured"
_DRAWN = 100  # shapes of each population
_SIXTEEN = 16


@dataclass(frozen=True)
class Bounds:
    """Least ratios. `mean`: of the geometric mean. `least`: of each. `share`: of shapes that may be below `limit`."""

    mean: float | None = None
    least: float | None = None
    limit: float | None = None
    share: float = 0.0

    def hold(self, found: Statistics) -> bool:
        """Whether the bounds hold. A failed shape counts as below every limit; without a `limit`, none may fail."""
        return (
            bool(found.ratios)
            and (self.limit is not None or not found.failed)
            and (self.mean is None or found.mean[0] >= self.mean)
            and (self.least is None or found.least >= self.least)
            and (self.limit is None or found.share_below(self.limit) <= self.share)
        )

    def __str__(self) -> str:
        parts = [] if self.mean is None else ["geometric mean ≥ " + f"{self.mean:.3f}".removesuffix("0")]
        parts += [] if self.limit is None else [f"below {self.limit:.2f} at most {100 * self.share:.0f} %"]
        parts += [] if self.least is None else [f"none below {self.least:.2f}"]
        return "; ".join(parts)


@dataclass(frozen=True)
class Line:
    """A run of a population is complete if it has `count` shapes. `populations`: those that the line is about."""

    shapes: str
    pair: Pair
    populations: tuple[str, ...]
    required: Bounds
    goal: Bounds
    count: int = _DRAWN

    def judge(self, rows: Sequence[Row]) -> "Judged | None":
        """The judgement on a run; None if the run has no rows for this line."""
        own = [row for row in rows if row.population in self.populations]
        if not any(self.pair in row.ratios or self.pair[0] in row.failed for row in own):
            return None
        found = statistics_of([row.ratios[self.pair][0] if self.pair in row.ratios else None for row in own])
        known = {row.population for row in own}
        is_whole = all(sum(row.population == one for row in own) >= self.count for one in known)
        return Judged(self, found, is_whole, tuple(one for one in self.populations if one in known))


@dataclass(frozen=True)
class Judged:
    """A judgement on one run. `is_whole`: whether the run has as many shapes as the line needs."""

    line: Line
    found: Statistics
    is_whole: bool
    populations: tuple[str, ...]

    def word(self, bounds: Bounds) -> str:
        """The verdict on the required bounds, or on the goal."""
        if not self.is_whole:
            return INCOMPLETE
        return HELD if bounds.hold(self.found) else MISSED


def _populations(dtype: str, *layouts: str, most_rows: int = MOST_ROWS, most_batch: int = 0) -> tuple[str, ...]:
    draw = Draw(0, layouts=layouts, dtypes=(dtype,), most_rows=most_rows, most_batch=most_batch)
    return tuple(draw.population(dtype, layout) for layout in layouts)


_ALL = ("tn", "tt", "nt", "nn")
_OWN = Bounds(1.01, 0.80, 0.90, 0.03), Bounds(1.04, 0.95)
_MATMUL = Bounds(0.985, 0.90), Bounds(0.99, 0.95)
_OTHERS = Bounds(1.00, None, 0.88, 0.04), Bounds(1.03)

LINES = (
    *(Line(f"bf16, own kernel, {one}", (OWN, TORCH), _populations("bf16", one), *_OWN) for one in ("tn", "tt", "nt")),
    *(
        Line(f"bf16, `lt.matmul` to the own kernel, {one}", (MATMUL, OWN), _populations("bf16", one), *_MATMUL)
        for one in ("tn", "tt", "nt")
    ),
    Line("f16, own kernel", (OWN, TORCH), _populations("f16", *_ALL), *_OTHERS),
    Line("fp8 with scales by rows, own kernel", (OWN, TORCH), _populations("e4m3", "tn"), *_OTHERS),
    Line("batches, bf16, own kernels", (OWN, TORCH), _populations("bf16", *_ALL, most_batch=2), *_OTHERS),
    Line(
        "M of 1 to 256, bf16, own kernel",
        (OWN, TORCH),
        _populations("bf16", *_ALL, most_rows=256),
        Bounds(1.02, 0.88),
        Bounds(1.06, 0.97),
    ),
    Line(
        "the public sixteen, to the best of all peers",
        (OWN, BEST_PEER),
        (PUBLIC,),
        Bounds(1.02, 0.95),
        Bounds(1.05, 1.00),
        _SIXTEEN,
    ),
)


def judged(rows: Sequence[Row]) -> Iterator[Judged]:
    """The judgements of all lines for which one run has rows."""
    return (found for line in LINES if (found := line.judge(rows)) is not None)
