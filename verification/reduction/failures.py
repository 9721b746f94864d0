"""The kinds of failures of modules: the kind stays the same while a module is made smaller.

A kind is the report without its numbers and places: the op and the rule that it breaks, the refusal of a pass, or the
level at which D changes. D is compared with that of the module itself, not with that of the problem: a right lowering
keeps the result of any module, so ops may be removed.
"""

import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mlir import ir

from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import AFTER_ATTRIBUTE, lower
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.levels import Level, check_level, level_of
from lowtide.errors import Error, InterpreterError, InterpreterFault, NotInterpreted
from lowtide.interpreter import Loaded, Report
from lowtide.verification.checking import interpretation
from lowtide.verification.checking.trials import Trial
from lowtide.verification.checking.verdicts import Results, are_equal

_STEPS = 500_000  # ops of an agent: an endless loop is not a failure of interest
_SECONDS = 600.0  # of a command
FAILED = "the interpreter failed"
"""The start of a failure's kind, after its level, that says nothing about the module."""
_EXACT = ("exact", "field")

Check = Callable[[str, Trial], str]
"""The kind of failure of a module's text on a trial, "" if it does not fail."""


@dataclass(frozen=True)
class Own:
    """The interpreter's report on the module and, with `below`, on its lowering down to that level."""

    spec: GemmSpec
    below: Level | None = None

    def __call__(self, text: str, trial: Trial) -> str:
        try:
            with make_context() as context:
                module = parse_text(text, context, "<module>")
                level = level_of(module)
                if AFTER_ATTRIBUTE not in module.operation.attributes:
                    check_level(module, level)
                kind, d = self._run(Loaded(module), trial)
            return kind if kind or self.below is None or d is None else self._lowered(text, level, trial, d)
        except Error:
            return ""

    def _lowered(self, text: str, level: Level, trial: Trial, d: Results) -> str:
        assert self.below is not None
        try:
            levels = lower(text, until=self.below).levels
        except Error as error:
            return f"lowering: {kind_of(str(error))}"
        for name, made in levels.items():
            if Level.named(name) > level:
                source = Loaded(levels[str(Level.LLVM)], made) if name == str(Level.PTX) else Loaded(made)
                kind, other = self._run(source, trial)
                if kind:
                    return f"level {name}: {kind}"
                if trial.domain in _EXACT and other is not None and not are_equal(d, other):
                    return f"level {name}: another D"
        return ""

    def _run(self, source: Loaded, trial: Trial) -> tuple[str, Results | None]:
        """The kind of failure; D if there is none, or if the interpreter cannot say."""
        report = Report()
        try:
            inputs = trial.inputs(self.spec)
            d = interpretation.run(source, self.spec, inputs, report=report, max_steps=_STEPS, **trial.how)
        except NotInterpreted:
            return "", None
        except InterpreterError as error:
            return kind_of(str(error)), None
        except InterpreterFault as error:
            return f"{FAILED}: {kind_of(str(error))}", None
        return ("" if report.holds else f"in one order only: {kind_of(str(report))}"), d


def own_check(text: str, spec: GemmSpec, trial: Trial) -> tuple[Check, str]:
    """The first failure: of the module itself, or else of the first level below it; and its kind. "" if nothing
    fails."""
    itself = Own(spec)
    kind = itself(text, trial)
    if kind:
        return itself, kind
    with make_context() as context:
        level = level_of(parse_text(text, context, "<module>"))
    for below in Level:
        if below > level:
            check = replace(itself, below=below)
            kind = check(text, trial)
            if kind:
                return check, kind
    return itself, ""


@dataclass(frozen=True)
class Command:
    """The report of a command: it fails if its exit status is not 0, and its output contains `says`. `{}` in it stands
    for the file, which is called `name`."""

    command: str
    says: str
    name: str

    def __call__(self, text: str, trial: Trial) -> str:
        try:
            with make_context() as context:
                module = parse_text(text, context, "<module>")
                if AFTER_ATTRIBUTE not in module.operation.attributes:
                    check_level(module, level_of(module))
        except Error:
            return ""
        with tempfile.TemporaryDirectory(prefix="lowtide-reduce-") as folder:
            path = Path(folder) / self.name
            path.write_text(text, encoding="utf-8")
            words = [word.replace("{}", str(path)) for word in shlex.split(self.command)]
            try:
                done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
            except subprocess.TimeoutExpired:
                return ""
            except OSError as error:
                raise Error(
                    f"--check {self.command!r} cannot be run: {error}; name a program and its arguments [check-runs]"
                ) from None
        if done.returncode == 0 or self.says not in done.stdout + done.stderr:
            return ""
        return f"exit status {done.returncode}" + (f", says {self.says!r}" if self.says else "")


def kind_of(message: str) -> str:
    """A report without numbers, names of values and places: the action, and the rule that it breaks."""
    first = message.splitlines()[0] if message else ""
    if "deadlock" in first:
        return "deadlock"
    op, _, rule = first.partition(": ") if ", level " not in first else _parted(first)
    named = re.search(r"`(?:%[^=`]*= )?([\w.]+)", op)
    rule = re.sub(r"`(?:%[^=`]*= )?([\w.]+)[^`]*`", r"\1", rule)
    rule = re.sub(r"loc\([^)]*\)|\(shared memory address.*|\(level .*|; (it|put|wait) .*", "", rule)
    rule = re.sub(r"0x[0-9a-f]+|\d+", "#", rule)
    return f"{named[1]}: {rule.strip()}" if named else re.sub(r"0x[0-9a-f]+|\d+", "#", first)


def _parted(message: str) -> tuple[str, str, str]:
    """The op and the rule of `op at place, level l, agent: rule`."""
    op, _, rest = message.partition(", level ")
    _, colon, rule = rest.partition(": ")
    return op, colon, rule


def ops_in(module: ir.Module) -> list[ir.Operation]:
    """Every op below a module, outer before inner."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[1:]


def count_ops(text: str) -> int:
    """The number of ops in a module's text."""
    with make_context() as context:
        return len(ops_in(parse_text(text, context, "<module>")))
