"""Finds the first guilty step: the dump before it is right, the dump after it wrong.

Levels are run in order on the failed trial, then the steps of the first level that fails.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lowtide.compiler.contexts import make_context
from lowtide.compiler.origins.files import recorded
from lowtide.dialects.levels import Level
from lowtide.errors import InterpreterError, InterpreterFault, IRError
from lowtide.interpreter import Trace
from lowtide.interpreter.numbers.accesses import Access, Span
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES
from lowtide.verification.checking.interpretation import run
from lowtide.verification.checking.subjects import Step, Subject, write_level
from lowtide.verification.checking.trials import Element, Finding, Outcome, Source, Trial, loaded, op_in, outcomes

EDITED = "this file was edited after the compiler wrote it, so the fault may be the edit, not the pass"


@dataclass(frozen=True)
class Guilty:
    """A step that makes wrong IR from right IR, or the level as a whole if its steps are unknown.

    `before` is None if the problem itself is wrong. `op` is the op that breaks the rule, or that stored the wrong
    element. `command` shows the fault again. `skipped` are preceding steps that could not be run: one of them may be
    the guilty one. `is_edited`: the file after it was edited after the compiler wrote it.
    """

    level: str
    step: str
    before: Path | None
    after: Path
    outcome: Outcome
    op: str
    command: str
    skipped: tuple[str, ...] = ()
    note: str = ""
    is_edited: bool = False

    @property
    def verdict(self) -> str:
        """One line."""
        if self.is_edited:
            place = f"{self.after.parent.name}/{self.after.stem}"
            return f"WRONG from {place} on. {EDITED[0].upper()}{EDITED[1:]}"
        return f"WRONG at level {self.level}, by step {self.step}"

    def __str__(self) -> str:
        steps = " or ".join([*self.skipped, self.step])
        lines = [f"guilty     step {steps} of level {self.level}"]
        if self.before is not None:
            lines.append(f"right      {self.before}")
        lines.append(f"wrong      {self.after}")
        if self.is_edited:
            lines.append(f"edited     {EDITED}")
        if self.outcome.finding is Finding.broken:
            lines.append(f"rule       {self.outcome.message}")
        elif self.outcome.element is not None:
            at = self.outcome.element
            what = f"{at.name} = {at.got}, should be {at.expected}"
            plural = " is" if at.count == 1 else "s are"
            lines.append(f"element    {what}; {at.count} element{plural} wrong")
            if self.op:
                lines.append(f"stored by  {self.op}")
        else:
            lines.append(f"found      {self.outcome.message}")
        lines += [f"on         {self.outcome.trial}", f"again      {self.command}"]
        return "\n".join([*lines, f"note       {self.note}"] if self.note else lines)


def first_guilty(subject: Subject, trials: Sequence[Trial], folder: Path) -> Guilty | None:
    """The first guilty step of a failure of some level in any of the trials; None if none fails.

    Files are written to `folder`.
    """
    write_level(folder, Level.PROBLEM, subject.problem, "what-d-must-be", 98)
    found = [_by_levels(subject, trial) for trial in trials]
    wrong = [(outcomes_, at) for outcomes_ in found if (at := _fault_at(outcomes_)) is not None]
    if not wrong:
        return None
    outcomes_, at = min(wrong, key=lambda each: Level.named(each[0][each[1]].level))
    fault, level = outcomes_[at], Level.named(outcomes_[at].level)
    right = [outcome.level for outcome in outcomes_[:at] if outcome.finding is Finding.right]
    if not right:
        after = write_level(folder, level, subject.levels[fault.level])
        return _guilty(subject, None, after, fault, (), "no level before it is right: the fault came in with it")
    steps, note = subject.steps(level, Level.named(right[-1]), folder)
    guilty: tuple[int, Guilty] | None = None
    for trial in (each[at].trial for each, at in wrong if each[at].level == fault.level):
        limit = len(steps) if guilty is None else guilty[0]
        guilty = _among(subject, steps[:limit], trial, note) or guilty
    if guilty is not None:
        return guilty[1]
    only = f"{note}; its steps pass, only the finished level fails".strip("; ")
    return _guilty(subject, steps[0], steps[-1], fault, (), only)


def _by_levels(subject: Subject, trial: Trial) -> list[Outcome]:
    """The outcomes of a trial, level by level, up to the first fault."""
    found: list[Outcome] = []
    for outcome in outcomes(subject.problem, subject.interpreted, trial, ordering=subject.ordering):
        found.append(outcome)
        if outcome.finding.is_fault:
            break
    return found


def _fault_at(found: Sequence[Outcome]) -> int | None:
    return next((at for at, outcome in enumerate(found) if outcome.finding.is_fault), None)


def _among(subject: Subject, steps: Sequence[Step], trial: Trial, note: str) -> tuple[int, Guilty] | None:
    """The first of the steps whose file fails, and its place; the first file is right."""
    before = steps[0]
    skipped: list[str] = []
    found = outcomes(subject.problem, (step.source() for step in steps[1:]), trial, ordering=subject.ordering)
    for place, (step, outcome) in enumerate(zip(steps[1:], found, strict=True), 1):
        if outcome.finding is Finding.right:
            before, skipped = step, []
        elif not outcome.finding.is_fault:
            skipped.append(step.name)
        else:
            return place, _guilty(subject, before, step, outcome, tuple(skipped), note)
    return None


def _guilty(
    subject: Subject, before: Step | None, after: Step, outcome: Outcome, skipped: tuple[str, ...], note: str
) -> Guilty:
    op = op_in(outcome.message) if outcome.finding is Finding.broken else _storing(subject, after.source(), outcome)
    command = shlex.join(["lowtide", "interpret", str(after.path), *outcome.trial.options])
    return Guilty(
        after.level,
        after.name,
        before.path if before is not None else None,
        after.path,
        outcome,
        op,
        command,
        skipped,
        note,
        subject.dump is not None and _is_edited(after),
    )


def _is_edited(step: Step) -> bool:
    """Whether the file of a step in a dump folder has another text than the one whose origins were recorded."""
    folder, place = step.path.parent.parent, f"{step.path.parent.name}/{step.path.stem}"
    try:
        return not recorded(folder, place).is_of(step.source().text)
    except IRError:  # origins were not recorded
        return False


class _StoredBy(Trace):
    """Records the last op that wrote an element of D."""

    def __init__(self, element: Element) -> None:
        super().__init__()
        self.element = element
        self.op = ""

    def store(self, access: Access, span: Span) -> None:
        if not self.outputs:
            return
        matrix, are_apart = self.element.matrix or 0, len(self.outputs) > 1  # of a list
        output = self.outputs[matrix if are_apart else 0]
        at = output.start + (0 if are_apart else matrix * output.batch_stride) + self.element.row * output.stride
        at += self.element.column * ELEMENT_BYTES[output.dtype]
        starts = np.asarray(span.addresses)
        if ((starts <= at) & (at < starts + span.size)).any():
            self.op = f"{access.op.describe()}, by CTA {access.cta} {access.who or f'warp {access.warp}'}"


def _storing(subject: Subject, source: Source, outcome: Outcome) -> str:
    """The op that stored the wrong element, and its agent; "" if no op of a kernel did."""
    if outcome.element is None:
        return ""
    trial, trace = outcome.trial, _StoredBy(outcome.element)
    spec = subject.spec
    inputs = trial.inputs(spec)
    with make_context():
        module = loaded(source)
        try:
            run(module, spec, inputs, trace=trace, **trial.how)
        except (InterpreterError, InterpreterFault):
            return ""
    return trace.op
