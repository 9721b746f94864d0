"""The search for a smaller module that fails in the same way: greedy and deterministic.

Rounds of edits, the largest first, until none helps or the budget is spent: the shape of the run; ops in halves,
quarters and so on down to one; loops and branches; fields of the schedule.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import Error
from lowtide.verification.checking.interpretation import Batch
from lowtide.verification.checking.places import ALIGNED
from lowtide.verification.checking.trials import Trial
from lowtide.verification.reduction import edits
from lowtide.verification.reduction.failures import Check, count_ops

BUDGET = 1000
_EXTENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

Progress = Callable[[str], None]
"""Receives the progress."""


@dataclass(frozen=True)
class Reduced:
    """The smallest module that was found, the run that shows its failure, and its kind. `tried` candidates were run;
    `whole` is False if the budget ended the search."""

    text: str
    trial: Trial
    kind: str
    ops: int
    ops_before: int
    tried: int
    whole: bool


class _BudgetOver(Exception):
    """No more candidates are run."""


def reduce(
    text: str,
    trial: Trial,
    check: Check,
    *,
    budget: int = BUDGET,
    on_progress: Progress = lambda text: None,
) -> Reduced:
    """Shrink a module that fails on a trial, to one that fails in the same way. `budget`: the number of candidates.

    Raises Error for a module that does not fail.
    """
    search = _Search(text, trial, check, budget, on_progress)
    whole = True
    try:
        while search.round():
            pass
    except _BudgetOver:
        whole = False
    return Reduced(search.text, search.trial, search.kind, count_ops(search.text), count_ops(text), search.tried, whole)


class _Search:
    def __init__(self, text: str, trial: Trial, check: Check, budget: int, on_progress: Progress) -> None:
        self.text, self.trial, self.check, self.budget, self.on_progress = text, trial, check, budget, on_progress
        self.tried = 0
        self.seen: set[tuple[str, Trial]] = {(text, trial)}
        self.kind = check(text, trial)
        if not self.kind:
            raise Error(f"nothing fails on {trial}; give the run that fails, or a --check [nothing-fails]")

    def round(self) -> bool:
        """Try every edit once; returns whether one helped."""
        helped = self._trial()
        helped |= self._keep(edits.simplified(self.text))
        helped |= self._ops()
        helped |= self._loops()
        return self._schedule() or helped

    def _keep(self, text: str | None, trial: Trial | None = None) -> bool:
        """Continue with a candidate if it fails in the same way as the module."""
        trial = trial or self.trial
        if text is None or (text, trial) in self.seen:
            return False
        if self.tried >= self.budget:
            raise _BudgetOver
        self.seen.add((text, trial))
        self.tried += 1
        if self.check(text, trial) != self.kind:
            return False
        self.text, self.trial = text, trial
        self.on_progress(f"{self.tried} of {self.budget} candidates, {len(text.splitlines())} lines, {trial}")
        return True

    def _trial(self) -> bool:
        """One SM, no padding, aligned, one plain matrix of a batch, the smallest extents."""
        helped = False
        for simpler in _SIMPLER:
            helped |= self._keep(self.text, simpler(self.trial))
        for axis in range(3):
            for extent in _EXTENTS:
                extents = list(self.trial.extents)
                if extent >= extents[axis]:
                    break
                extents[axis] = extent
                if self._keep(self.text, replace(self.trial, extents=(extents[0], extents[1], extents[2]))):
                    helped = True
                    break
        return helped

    def _ops(self) -> bool:
        """Ops in chunks from the last one on, so that the numbers of earlier ones stay."""
        helped, size = False, max(1, len(edits.erasable(self.text)) // 2)
        while size:
            numbers = edits.erasable(self.text)
            for end in range(len(numbers), 0, -size):
                helped |= self._keep(edits.without(self.text, numbers[max(0, end - size) : end]))
            size //= 2
        return helped

    def _loops(self) -> bool:
        helped = False
        for number in reversed(edits.loops(self.text)):
            helped |= any(self._keep(edits.with_steps(self.text, number, steps)) for steps in (0, 1))
        return helped

    def _schedule(self) -> bool:
        """Without a schedule, or with fields left to choice."""
        if self._keep(edits.scheduled(self.text, lambda schedule: None)):
            return True
        helped = False
        for path in Schedule.paths():
            helped |= self._keep(edits.scheduled(self.text, lambda schedule, path=path: _without(schedule, path)))  # type: ignore[misc]
        return helped


def _with_batch(trial: Trial, matrices: int | None) -> Trial:
    """Nothing shared, consecutive matrices; at most `matrices` of them."""
    if trial.batch is None:
        return trial
    return replace(trial, batch=Batch(min(trial.batch.matrices, matrices or trial.batch.matrices)))


_SIMPLER: tuple[Callable[[Trial], Trial], ...] = (
    lambda trial: replace(trial, sms=1),
    lambda trial: replace(trial, padding=0),
    lambda trial: replace(trial, seed=0),
    lambda trial: replace(trial, place=ALIGNED),
    lambda trial: _with_batch(trial, None),
    lambda trial: _with_batch(trial, 2),
    lambda trial: _with_batch(trial, 1),
)


def _without(schedule: Schedule, path: str) -> Schedule:
    return schedule.set({path: None})
