"""The result of `lt.check`: a verdict, the runs, their coverage, and the guilty step; as text and as JSON."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lowtide.dialects.levels import Level
from lowtide.interpreter.numbers.domains import FieldDomain
from lowtide.verification.checking.cover import Row, Shape
from lowtide.verification.checking.guilty import Guilty
from lowtide.verification.checking.texts import duration
from lowtide.verification.checking.trials import Finding, Outcome

_SHOWN = 12  # untaken sides of branches


@dataclass(frozen=True)
class Branches:
    """Sides of branches and loops at a level: the numbers of taken and possible sides; the others by line, side and
    text.

    A loop of level nvvm has three sides: no iteration, one, and several. Below, it is a branch.
    """

    taken: int
    possible: int
    missing: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class Verified:
    """The coverage of one compilation of the kernel: the conditions on shapes, and the branches taken, at level nvvm
    and at the levels below it."""

    name: str
    conditions: tuple[Row, ...]
    branches: Branches
    branches_of_llvm: Branches
    branches_of_ptx: Branches


@dataclass(frozen=True)
class CheckResult:
    """`ok` if every run of every level was right: none failed, and all could be run.

    `degree` is the degree of D as a polynomial of the inputs. `str` is a report.
    """

    target: str
    schedule: str
    outcomes: tuple[Outcome, ...]
    verified: tuple[Verified, ...]
    degree: int
    guilty: Guilty | None
    notes: tuple[str, ...]
    seconds: float

    @property
    def levels(self) -> dict[str, int]:
        """The number of right runs at each level, in order."""
        found = dict.fromkeys(sorted({outcome.level for outcome in self.outcomes}, key=Level.named), 0)
        for outcome in self.outcomes:
            found[outcome.level] += outcome.finding is Finding.right
        return found

    @property
    def ok(self) -> bool:
        return all(outcome.finding is Finding.right for outcome in self.outcomes)

    @property
    def failed(self) -> bool:
        """Whether the interpreter itself failed in some run."""
        return any(outcome.finding is Finding.failed for outcome in self.outcomes)

    @property
    def verdict(self) -> str:
        """One line."""
        trials = [outcome.trial for outcome in self.outcomes]
        shapes = len({(trial.extents, trial.sms, trial.padding, trial.batch) for trial in trials})
        runs = f"{len(self.outcomes)} runs of {shapes} shapes at {len(self.levels)} levels"
        if self.guilty is not None:
            return self.guilty.verdict
        for finding, words in ((Finding.failed, "THE INTERPRETER FAILED"), (Finding.unknown, "NOT CHECKED")):
            unrun = [outcome for outcome in self.outcomes if outcome.finding is finding]
            if unrun:
                levels = ", ".join(dict.fromkeys(outcome.level for outcome in unrun))
                return f"{words} at {levels} in {len(unrun)} of the runs ({unrun[0].message}); {runs}"
        return f"ok: {runs}"

    def lines(self) -> Iterator[str]:
        """The report without its tables."""
        for note in self.notes:
            yield f"note       {note}"
        yield f"numbers    {self._numbers()}"
        for verified in self.verified:
            met = sum(row.shape is not None for row in verified.conditions)
            conditions = f"{met} of {len(verified.conditions)} conditions"
            yield f"covered    {verified.name}: {conditions}, {_of(verified)}"
        yield f"orders     {self._orders()}"
        yield f"work tiles in the order of level {Level.CTA} {_compared(self.outcomes)}"
        yield f"time       {duration(self.seconds)}"
        if self.guilty is not None:
            yield str(self.guilty)
        yield f"result     {self.verdict}"

    @property
    def orders(self) -> str:
        """How the verdict holds for every order of agents, at levels nvvm to ptx; "" if it does not."""
        runs = self._hardware_runs
        explored = sum(outcome.explored.orders for outcome in runs if outcome.explored is not None)
        if not runs or not all(_speaks_for_all(outcome) for outcome in runs):
            return ""
        return "rule" if not explored else f"exploration of {explored}"

    @property
    def _hardware_runs(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.report is not None and outcome.report.kernels]

    def _orders(self) -> str:
        """Whether the runs of levels nvvm to ptx speak for every order of agents; the first that does not."""
        runs = self._hardware_runs
        failing = next((outcome for outcome in runs if not _speaks_for_all(outcome)), None)
        if failing is not None:
            return str(failing.explored or failing.report)
        explored = [outcome for outcome in runs if outcome.explored is not None]
        text = f"{len(runs) - len(explored)} runs at levels nvvm to ptx speak for every order of agents, by the rule"
        if explored:
            orders = sum(outcome.explored.orders for outcome in explored if outcome.explored is not None)
            text += f"; of {len(explored)} runs all {orders} orders that differ were run"
        return text

    def _numbers(self) -> str:
        counts = dict.fromkeys((outcome.trial.domain for outcome in self.outcomes), 0)
        for outcome in self.outcomes:
            counts[outcome.trial.domain] += 1
        runs = ", ".join(f"{count} runs in {domain}" for domain, count in counts.items())
        if FieldDomain.name not in counts:
            return f"{runs}; some level has no meaning in a field, so no bound on chance agreement is known"
        chance = self.degree / FieldDomain.prime
        return (
            f"{runs}; in field, an element of another polynomial of degree {self.degree} agrees with p <= {chance:.1e}"
        )

    def __str__(self) -> str:
        lines = list(self.lines())
        for verified in self.verified:
            lines += [f"  {row.subject}: {row.text}: {_shape(row.shape) or row.why}" for row in verified.conditions]
            lines += [
                f"  no run took `{side}` of line {line}: {text}" for line, side, text in verified.branches.missing
            ]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "target": self.target,
            "schedule": self.schedule,
            "seconds": round(self.seconds, 3),
            "degree": self.degree,
            "notes": list(self.notes),
            "guilty": None if self.guilty is None else _guilty_json(self.guilty),
            "coverage": [
                {
                    "kernel": verified.name,
                    "conditions": [asdict(row) for row in verified.conditions],
                    "branch_sides": _sides_json(verified.branches),
                    "branch_sides_below": {
                        "llvm": _sides_json(verified.branches_of_llvm),
                        "ptx": _sides_json(verified.branches_of_ptx),
                    },
                    "not_taken": [
                        {"line": line, "side": side, "op": text} for line, side, text in verified.branches.missing
                    ],
                }
                for verified in self.verified
            ],
            "runs": [_outcome_json(outcome) for outcome in self.outcomes],
        }


def _speaks_for_all(outcome: Outcome) -> bool:
    """Whether a run's verdict holds for every order of agents: by the rule, or because all different orders were
    run."""
    return (outcome.report is not None and outcome.report.holds) or (
        outcome.explored is not None and outcome.explored.holds
    )


def _compared(outcomes: Iterable[Outcome]) -> str:
    said = [outcome for outcome in outcomes if outcome.in_order is not None]
    return f"in {sum(outcome.in_order is True for outcome in said)} of {len(said)} runs that show it"


def _of(verified: Verified) -> str:
    below = {"llvm": verified.branches_of_llvm, "ptx": verified.branches_of_ptx}
    first = f"{verified.branches.taken} of {verified.branches.possible} sides of branches and loops at level nvvm"
    return ", ".join([first, *(f"{each.taken} of {each.possible} at {level}" for level, each in below.items())])


def _shape(shape: Shape | None) -> str:
    if shape is None:
        return ""
    return f"{shape.extents_text}, {shape.sms} SM{'' if shape.sms == 1 else 's'}, padding {shape.padding}"


def condition_cells(row: Row) -> tuple[str, str, str]:
    """A row of the table of conditions."""
    return row.subject, row.text, _shape(row.shape) or f"not met: {row.why}"


def branch_cells(branches: Branches) -> list[tuple[str, str, str]]:
    """Rows of the table of sides that no run took: some of them, and the number of others."""
    rows = [(str(line), side, text) for line, side, text in branches.missing[:_SHOWN]]
    more = len(branches.missing) - len(rows)
    return [*rows, ("", f"and {more} more", "")] if more else rows


def _sides_json(branches: Branches) -> dict[str, int]:
    return {"taken": branches.taken, "possible": branches.possible}


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "level": outcome.level,
        "trial": asdict(outcome.trial),
        "finding": outcome.finding.value,
        "message": outcome.message,
        "seconds": round(outcome.seconds, 3),
        "every_order": outcome.report and _speaks_for_all(outcome),
        "orders_run": outcome.explored.orders if outcome.explored is not None else 1,
        "element": outcome.element and asdict(outcome.element),
    }


def _guilty_json(guilty: Guilty) -> dict[str, Any]:
    return {
        "level": guilty.level,
        "step": guilty.step,
        "skipped": list(guilty.skipped),
        "before": guilty.before and str(guilty.before),
        "after": str(guilty.after),
        "op": guilty.op,
        "command": guilty.command,
        "note": guilty.note,
        "edited": guilty.is_edited,
        "outcome": _outcome_json(guilty.outcome),
    }
