"""`lowtide reduce`: shrinks a failing dump while it keeps failing in the same way."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from lowtide import entry
from lowtide.cli import options, problem, run_options
from lowtide.cli.output import busy, counted, line
from lowtide.compiler.contexts import make_context, parse_file
from lowtide.compiler.driver import lower
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.spec_of_ir import FoundProblem, spec_of
from lowtide.compiler.whole_files import check_writable, write_whole
from lowtide.errors import Error
from lowtide.interpreter.numbers.domains import domain as number_domain
from lowtide.verification.checking.check import check as check_subject
from lowtide.verification.checking.expected_problem import dumped_problem
from lowtide.verification.checking.interpretation import ROW_PADDING
from lowtide.verification.checking.subjects import of_file
from lowtide.verification.checking.trials import Finding, Trial, first_fault
from lowtide.verification.reduction.failures import FAILED, Check, Command, own_check
from lowtide.verification.reduction.search import BUDGET, Reduced
from lowtide.verification.reduction.search import reduce as search

_SECONDS = 30.0  # estimated, for the check that searches for a failing run

File = Annotated[Path, typer.Argument(help="A dumped level from problem to llvm, edited or not.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="Write the smallest module to this file.")]
CommandText = Annotated[
    str | None,
    typer.Option("--check", help="A command that must keep failing with the same status; {} is the file."),
]
Says = Annotated[str, typer.Option("--says", help="Text that the command's output must contain.")]
Budget = Annotated[int, typer.Option("--budget", min=1, help="The most candidates to run.")]


def reduce(
    file: File,
    output: Output = Path("reduced.mlir"),
    command: CommandText = None,
    says: Says = "",
    m: problem.M = None,
    n: problem.N = None,
    k: problem.K = None,
    batch: problem.BatchText = None,
    sms: run_options.Sms = 2,
    seed: options.Seed = None,
    domain: run_options.NumberDomain = "exact",
    padding: run_options.Padding = ROW_PADDING,
    rows_between: run_options.RowsBetween = 0,
    shared: run_options.Shared = None,
    aligned: run_options.Aligned = None,
    budget: Budget = BUDGET,
) -> None:
    """Shrink a failing dump while it keeps failing in the same way: its run, ops, loops and schedule fields.

    The failure that must stay is the rule that the dump breaks, or else the first error below it: a pass that refuses
    or breaks it, or a level with another D. Without --m, --n and --k, a failing run is searched for as in `lowtide
    check`. Exit status: 0 for a smaller file, 2 if refused or if nothing fails, 3 for a smaller file on which the
    interpreter itself fails.
    """
    check_writable(output)
    number_domain(domain)
    with make_context() as context:
        module = parse_file(file, context)
        found, text = spec_of(module), str(module) + "\n"
    if command is not None:
        trial, check = Trial((1, 1, 1), 1, 0, domain, 0), _command(command, says, file)
    else:
        if says:
            raise Error("--says needs --check: it is about the output of that command [says-without-check]")
        with busy("looking for a run that fails"):
            trial = _trial(file, found, (m, n, k), Trial((1, 1, 1), sms, padding, domain, seed or 0))
            if trial.batch is None:
                trial = replace(trial, batch=run_options.lies(found.spec, batch, rows_between, shared))
            if aligned is not None:
                trial = replace(trial, place=run_options.place(aligned))
            check, kind = own_check(text, found.spec, trial)
        if not kind:
            raise Error(
                f"{file} breaks no rule on {trial}, nor do the levels below, and D stays. If D itself is "
                "wrong, the fault is in the step before: reduce the file that `lowtide check` calls right"
                " [nothing-broken]"
            )
    with busy("reducing") as update:
        reduced = search(text, trial, check, budget=budget, on_progress=update)
    write_whole(output, reduced.text)
    _report(reduced, output, command, found.whole)
    if command is None and FAILED in reduced.kind:
        raise typer.Exit(entry.FAILED)


def _command(command: str, says: str, file: Path) -> Check:
    if "{}" not in command:
        raise Error(f"--check {command!r} does not name the file; write {{}} in its place [check-names-file]")
    try:
        shlex.split(command)
    except ValueError as error:
        raise Error(
            f"--check {command!r} is not a command line: {error}; close what is open, or escape it [check-command-line]"
        ) from None
    return Command(command, says, file.name)


def _trial(file: Path, found: FoundProblem, given: tuple[int | None, int | None, int | None], asked: Trial) -> Trial:
    """The run `asked` with the given extents. Without extents, the first failing run on shapes derived from the
    schedule."""
    known = (found.spec.m, found.spec.n, found.spec.k)
    m, n, k = (extent if extent is not None else fixed for extent, fixed in zip(given, known, strict=True))
    if m is not None and n is not None and k is not None:
        return replace(asked, extents=(m, n, k))
    if any(extent is not None for extent in given):
        raise Error("--m, --n and --k go together; give all that the file leaves open, or none [extents-together]")
    kernel = CompiledKernel(lower(file))
    subject = of_file(None if found.whole else _problem_beside(file), kernel.levels, kernel.schedule)
    found_at = check_subject(subject, budget=_SECONDS, seed=asked.seed).outcomes
    fault = first_fault(found_at) or next((each for each in found_at if each.finding is Finding.failed), None)
    if fault is None:
        raise Error(
            f"{file} is right on all shapes derived from its schedule; give the failing run, or a --check"
            " [right-on-all]"
        )
    return fault.trial


def _problem_beside(file: Path) -> Path:
    """The problem in a file's dump folder. Raises Error if there is none."""
    problem = dumped_problem(file)
    if problem is None:
        raise Error(f"{file} no longer defines D, and is not in a dump folder; give --m, --n and --k [problem-lost]")
    return problem


def _report(reduced: Reduced, output: Path, command: str | None, says_problem: bool) -> None:
    line("fails", reduced.kind)
    line("ops", f"{reduced.ops_before} before, {reduced.ops} left")
    line("tried", counted(reduced.tried, "candidate") + ("" if reduced.whole else "; more with --budget"))
    line("file", str(output))
    if command is not None:
        line("again", command.replace("{}", str(output)))
        return
    verb = "reduce" if ": " in reduced.kind.partition("level ")[2] or not says_problem else "interpret"
    line("again", shlex.join(["lowtide", verb, str(output), *reduced.trial.options]))
