"""The report on drawn shapes: verdicts on the speed lines, statistics, and the worst shapes with the reasons of tiles.

Commands print these tables after a race, and docs/any-shape.md has the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lowtide.markdown import markdown
from lowtide.measurement.bench.any_shape.lines import LINES, NOT_MEASURED, Judged, judged
from lowtide.measurement.bench.any_shape.rows import MATMUL, NEW, OLD, OWN, PAIRS, TORCH, Pair, Row
from lowtide.measurement.bench.any_shape.statistics import LIMITS, QUANTILES, Interval, statistics_of

WORST = 10
_VERDICTS = ("shapes", "required", "goal", "measured", "verdict", "goal reached", "GPU", "commit", "seed", "date")
_WORST_OF = ((OWN, TORCH), (MATMUL, OWN), (NEW, OLD))
_RATIOS = (
    "ratio",
    "shapes",
    "failed",
    "geometric mean",
    *(f"{100 * share:.0f} %" for share in QUANTILES),
    *(f"below {limit:.2f}" for limit in LIMITS),
    "the least",
)


@dataclass(frozen=True)
class Run:
    """One run: where it was made, and its rows."""

    device: str
    commit: str
    seed: str
    date: str
    rows: tuple[Row, ...]


def verdict_table(runs: Sequence[Run], *, measured_only: bool = False) -> str:
    """Every line with each run that measured it. `measured_only`: leave out lines that no run measured."""
    found = [(run, one) for run in runs for one in judged(run.rows)]
    rows = []
    for line in LINES:
        head = (line.shapes, str(line.required), str(line.goal))
        of_line = [(run, one) for run, one in found if one.line is line]
        rows += [(*head, *_verdict(run, one)) for run, one in of_line]
        rows += [] if of_line or measured_only else [(*head, "", NOT_MEASURED, *[""] * 5)]
    return markdown(_VERDICTS, rows)


def _verdict(run: Run, one: Judged) -> tuple[str, ...]:
    line, found = one.line, one.found
    limit = "" if line.required.limit is None else f"; {_share(found.share_below(line.required.limit))} below"
    limit += "" if line.required.limit is None else f" {line.required.limit:.2f}"
    failed = f"; {found.failed} failed" if found.failed else ""
    measured = f"{interval(found.mean)}{limit}; the least {found.least:.3f}; {found.count} shapes{failed}"
    goal = "yes" if line.goal.hold(found) and one.is_whole else "no"
    return measured, one.word(line.required), goal, run.device, run.commit, run.seed, run.date


def run_tables(run: Run) -> str:
    """The statistics of a run, then its worst shapes, for each population."""
    return "\n\n".join(
        part for population in dict.fromkeys(row.population for row in run.rows) for part in _tables(run, population)
    )


def _tables(run: Run, population: str) -> Iterator[str]:
    rows = [row for row in run.rows if row.population == population]
    pairs = [pair for pair in PAIRS if any(pair in row.ratios for row in rows)]
    yield f"**{population}**"
    yield markdown(_RATIOS, [_statistics(rows, pair) for pair in pairs])
    missing = [row for row in rows if row.failed]
    if missing:
        yield markdown(("M×N×K", "failed", "why"), [each for row in missing for each in _failures(row)])
    for pair in pairs:
        if pair in _WORST_OF:
            yield _worst(rows, pair)


def _statistics(rows: Sequence[Row], pair: Pair) -> tuple[str, ...]:
    """A row without the ratio counts only if a contender failed."""
    counted = [row for row in rows if pair in row.ratios or row.lacks(pair)]
    found = statistics_of([row.ratios[pair][0] if pair in row.ratios else None for row in counted])
    return (
        "{} to {}".format(*pair),
        str(found.count),
        str(found.failed),
        interval(found.mean),
        *map(interval, found.quantiles),
        *(_share(found.share_below(limit)) for limit in LIMITS),
        f"{found.least:.3f}",
    )


def _failures(row: Row) -> Iterator[tuple[str, ...]]:
    return ((row.shape, name or "all", why) for name, why in row.failed.items())


def _worst(rows: Sequence[Row], pair: Pair) -> str:
    """The shapes with the least ratios of a pair, with both schedules; in place of torch's, that of `lt.matmul`."""
    names = (pair[0], MATMUL if pair[1] == TORCH else pair[1])
    timed = sorted((row for row in rows if pair in row.ratios), key=lambda row: row.ratios[pair][0])
    headings = ("M×N×K", "N and K from", "torch µs", "{} to {}".format(*pair))
    return markdown(
        (*headings, *(f"schedule of {name}" for name in names), "reason of the tile"),
        [_worst_row(row, pair, names) for row in timed[:WORST]],
    )


def _worst_row(row: Row, pair: Pair, names: Sequence[str]) -> tuple[str, ...]:
    time = "" if row.microseconds is None else f"{row.microseconds:.1f}"
    schedules = (row.schedules.get(name, "") for name in names)
    return row.shape, row.source, time, interval(row.ratios[pair]), *schedules, row.reason


def interval(values: Interval) -> str:
    """`1.012 (1.004 … 1.020)`."""
    return "{:.3f} ({:.3f} … {:.3f})".format(*values)


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"
