"""The required speeds of the corners, and the goals, judged on the rows that have been measured.

A cell that failed counts as below every limit. A cell that no peer multiplies is not judged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lowtide.markdown import markdown
from lowtide.measurement.bench.any_shape.lines import HELD, INCOMPLETE, MISSED, NOT_MEASURED, Bounds
from lowtide.measurement.bench.any_shape.report import interval
from lowtide.measurement.bench.any_shape.statistics import Statistics, statistics_of
from lowtide.measurement.bench.corners.cells import KINDS, cells
from lowtide.measurement.bench.corners.rows import COLUMNS, Corner, texts_of

EXPLAINED_BELOW = 0.97
ATTEMPTS = 2
_HEADINGS = ("cells", "required", "goal", "measured", "verdict", "goal reached")
_OF_KINDS = ("type", "cells", "geometric mean", "the least", "the least cell", "below 0.97", "failed")
_BELOW = ("cell", "ratio", "reason, from its profile", *(f"attempt {number}" for number in range(1, ATTEMPTS + 1)))

Reasons = Mapping[str, Sequence[str]]
"""By the name of a cell: the reason of its loss, then the attempts."""


@dataclass(frozen=True)
class Line:
    """A required speed of some cells. `explained`: whether each cell below 0.97 must have its reasons."""

    text: str
    takes: Callable[[str], bool]
    required: Bounds
    goal: Bounds
    explained: bool = False

    def row(self, rows: Sequence[Corner], reasons: Reasons) -> tuple[str, ...]:
        """The row of the table of verdicts. `takes` gets the name of a cell's kind."""
        own = [row for row in rows if self.takes(row.kind)]
        head = (self.text, str(self.required), str(self.goal))
        if not own:
            return (*head, "", NOT_MEASURED, "")
        found = statistics_of([None if row.ratio is None else row.ratio[0] for row in own])
        of_all = sum(self.takes(cell.population) for cell in cells() if cell.has_peers)
        unexplained = [row for row in below(own) if not is_explained(row, reasons)] if self.explained else []
        is_whole, least = len(own) >= of_all, self.required.least
        if is_whole:
            word = HELD if self.required.hold(found) and not unexplained else MISSED
        else:  # further cells do not raise the least
            word = MISSED if least is not None and found.least < least else INCOMPLETE
        goal = "yes" if is_whole and self.goal.hold(found) else "no"
        return *head, _measured(found, self.required, len(unexplained), of_all), word, goal


def _measured(found: Statistics, required: Bounds, unexplained: int, of_all: int) -> str:
    parts = [interval(found.mean)] if required.mean is not None else []
    if required.limit is not None:
        parts.append(f"{100 * found.share_below(required.limit):.1f} % below {required.limit:.2f}")
    parts += [f"the least {found.least:.3f}", f"{found.count} of {of_all} cells"]
    parts += [f"{found.failed} failed"] if found.failed else []
    parts += [f"{unexplained} without reasons"] if unexplained else []
    return "; ".join(parts)


_NONE_BELOW_ONE = Bounds(least=1.00)
LINES = (
    Line("every cell", lambda kind: True, Bounds(least=0.90), _NONE_BELOW_ONE),
    Line(
        "all cells; each one below 0.97 with its reason and two attempts",
        lambda kind: True,
        Bounds(limit=EXPLAINED_BELOW, share=0.05),
        _NONE_BELOW_ONE,
        explained=True,
    ),
    *(Line(one.name, one.name.__eq__, Bounds(1.00), Bounds(1.03)) for one in KINDS),
    Line("f16 sums, every cell", "f16 sums".__eq__, Bounds(least=0.97), _NONE_BELOW_ONE),
)


def judged(rows: Sequence[Corner]) -> list[Corner]:
    """The rows that verdicts include."""
    return [row for row in rows if row.counts]


def below(rows: Sequence[Corner]) -> list[Corner]:
    """The rows that need reasons, the least first."""
    lost = [row for row in judged(rows) if row.ratio is None or row.ratio[0] < EXPLAINED_BELOW]
    return sorted(lost, key=lambda row: (row.ratio[0] if row.ratio else 0.0, row.name))


def is_explained(row: Corner, reasons: Reasons) -> bool:
    return len([text for text in reasons.get(row.name, ()) if text]) > ATTEMPTS


def verdict_table(rows: Sequence[Corner], reasons: Reasons) -> str:
    """A row for each line."""
    return markdown(_HEADINGS, [line.row(judged(rows), reasons) for line in LINES])


def kinds_table(rows: Sequence[Corner]) -> str:
    """A row for each type that was measured."""
    return markdown(_OF_KINDS, list(_kinds(judged(rows))))


def _kinds(rows: Sequence[Corner]) -> Iterator[tuple[str, ...]]:
    for kind in KINDS:
        own = [row for row in rows if row.kind == kind.name]
        timed = {row: row.ratio[0] for row in own if row.ratio is not None}
        if not own:
            continue
        found = statistics_of([timed.get(row) for row in own])
        worst = min(timed, key=lambda row: timed[row], default=None)
        least = ("", "") if worst is None else (f"{timed[worst]:.3f}", f"{worst.layout} {worst.shape}")
        yield kind.name, str(len(own)), interval(found.mean), *least, str(len(below(own))), str(found.failed)


def below_table(rows: Sequence[Corner], reasons: Reasons) -> str:
    """The cells below 0.97, each with its reason and attempts."""
    table = []
    for row in below(rows):
        texts = [*reasons.get(row.name, ()), *[""] * (ATTEMPTS + 1)][: ATTEMPTS + 1]
        ratio = "failed: " + row.failed if row.ratio is None else interval(row.ratio)
        table.append((row.name, ratio, texts[0] or "**not explained**", *texts[1:]))
    return markdown(_BELOW, table) if table else "There is none."


def all_table(rows: Sequence[Corner]) -> str:
    """Every row, as it was measured, in the order of the table of cells."""
    places = {cell.name: place for place, cell in enumerate(cells())}
    return markdown(COLUMNS, [texts_of(row) for row in sorted(rows, key=lambda row: places.get(row.name, -1))])
