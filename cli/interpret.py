"""`lowtide interpret`: runs a level, dumped or compiled here, on random inputs on the CPU, and checks D."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from mlir import ir

from lowtide.cli import options, run_options
from lowtide.cli.console import on_ctas, on_pass, problem_line, seed_or_drawn
from lowtide.cli.grouped import grouped
from lowtide.cli.output import busy, counted, line
from lowtide.cli.problem import OpenProblem
from lowtide.compiler.compile import resolve_schedule
from lowtide.compiler.contexts import make_context, parse_file, parse_text, read_text
from lowtide.compiler.driver import AFTER_ATTRIBUTE, Progress, lower
from lowtide.compiler.native import choose, resolve
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.dialects.levels import Level, check_level, level_of, target_of
from lowtide.errors import IRError, SpecError
from lowtide.interpreter import MAX_STEPS, Loaded
from lowtide.interpreter.numbers.domains import domain as number_domain
from lowtide.passes.schedules.facts.alignment import FULL, alignments_in
from lowtide.verification.checking import interpretation
from lowtide.verification.checking.expected_problem import ExpectedProblem, expected_problem
from lowtide.verification.checking.interpretation import check_patience, cta_tile
from lowtide.verification.checking.places import ALIGNED, Place
from lowtide.verification.checking.runnable import SUFFIX, Runnable, host_beside, runnable
from lowtide.verification.checking.texts import duration
from lowtide.verification.checking.trials import Trial
from lowtide.verification.checking.verdicts import Verdict, against_exact, against_float64, check_memory

File = Annotated[
    Path | None, typer.Argument(help="A dumped level or PTX, edited or not. Default: the problem of the options.")
]
Against = Annotated[
    Path | None,
    typer.Option("--against", help="Check FILE against this dump. Default: its own epilogue, or its folder's problem."),
]


@grouped
def interpret(
    problem: OpenProblem,
    file: File = None,
    against: Against = None,
    target: options.Target = None,
    schedule: options.ScheduleText = None,
    level: run_options.InterpretedLevel = None,
    sms: run_options.Sms = 2,
    seed: options.Seed = None,
    domain: run_options.NumberDomain = "float",
    padding: run_options.Padding = interpretation.ROW_PADDING,
    rows_between: run_options.RowsBetween = 0,
    shared: run_options.Shared = None,
    aligned: run_options.Aligned = None,
    ends: run_options.Ends = None,
    force: run_options.Force = False,
    max_steps: run_options.MaxSteps = MAX_STEPS,
) -> None:
    """Run a level on random inputs on the CPU, under the hardware's rules, and check D.

    With --level, FILE is lowered to that level first. PTX runs in its dump folder, which has the host side.

    Exit status: 0 if D is right, 1 if it is wrong, 2 if refused or if a rule of the hardware is broken.
    """
    if level is not None:
        Level.named(level)
    number_domain(domain)
    seed = seed_or_drawn(seed)
    with make_context() as context:
        with busy("compiling") as update:
            if file is None:
                if against is not None:
                    raise IRError(
                        "--against needs a FILE; the problem of the options is checked against float64 [against-file]"
                    )
                spec = problem.spec()
                chosen = choose(target)
                line("target", f"{chosen.name} ({chosen.reason})")
                text = problem_text(spec, chosen.target, resolve_schedule(schedule, spec.a))
                given_level = _lowered(text, chosen.name, level or str(Level.NVVM), context, on_pass(update))
                reference = ExpectedProblem(spec, "float64")
            else:
                given = replace(problem, m=None, n=None, k=None, batch=None).given
                options.refuse_beside_file(file, **given, schedule=schedule)
                given_level = _read(file, target, level, context, on_pass(update))
                if against is None and given_level.level != _level_in(file, context):
                    # A file with the whole problem is also the reference for the levels lowered from it.
                    against = file if spec_of(parse_file(file, context)).whole else None
                reference = expected_problem(file, given_level.module, against)
        lies = run_options.lies(reference.spec, problem.batch, rows_between, shared)
        asked = alignments_in(given_level.module)
        by_default = asked["a"], asked["b"], asked["d"]
        place = Place(by_default, by_default) if aligned is None else run_options.place(aligned)
        place = place._replace(full=asked.get(FULL, 1))
        extents = _extents(reference.spec, (problem.m, problem.n, problem.k))
        groups = run_options.ends(reference.spec, ends)
        trial = Trial(extents, sms, padding, domain, seed, place, lies, groups)
        verdict = _run(given_level, reference, trial, force, max_steps)
    line("result", f"{verdict.word}: {verdict.message}")
    line("seed", str(seed))
    if not verdict.ok:
        raise typer.Exit(1)


def _level_in(file: Path, context: ir.Context) -> str:
    """The level of a file."""
    return str(Level.PTX) if file.suffix == SUFFIX else str(level_of(parse_file(file, context)))


def _read(file: Path, target: str | None, level: str | None, context: ir.Context, progress: Progress) -> Runnable:
    """The level in a file, checked; lowered if another level is requested."""
    if file.suffix == SUFFIX:
        if level not in (None, str(Level.PTX)):
            raise IRError(f"--level {level}, but {file} is past that level; name a dump of an earlier one [level-past]")
        return runnable(str(Level.PTX), read_text(file, "PTX"), host_beside(file), context, str(file))
    module = parse_file(file, context)
    own = level_of(module)
    if level is not None and level != str(own):
        return _lowered(file, target, level, context, progress)
    if target is not None and resolve(target) != target_of(module):
        raise IRError(f"--target {target}, but {file} is for {target_of(module).name}; leave it out [target-of-file]")
    if AFTER_ATTRIBUTE not in module.operation.attributes:
        check_level(module, own)
    return Runnable(str(own), module, Loaded(module))


def _lowered(source: str | Path, target: str | None, level: str, context: ir.Context, progress: Progress) -> Runnable:
    made = lower(source, target=target, until=level, on_progress=progress).levels
    return runnable(level, made[level], made.get(str(Level.LLVM), ""), context)


def _run(given_level: Runnable, reference: ExpectedProblem, trial: Trial, force: bool, max_steps: int) -> Verdict:
    """Interpret and compare. Prints the run."""
    spec, level, module = reference.spec, given_level.level, given_level.module
    if reference.module is not None and number_domain(trial.domain).is_float:
        raise IRError(
            f"{reference.name}: rounding differs between levels; compare with --domain exact, or against a dump "
            f"of level {Level.ATOMS} or earlier, which has the epilogue [against-rounding]"
        )
    matrices = 1 if trial.batch is None else trial.batch.matrices
    between = 0 if trial.batch is None else trial.batch.rows_between
    check_memory(*trial.extents, matrices, trial.padding, between)
    seconds = 0.0 if force else check_patience(trial.extents, cta_tile(module), level, matrices)
    inputs = trial.inputs(spec)
    line("problem", problem_line(spec if trial.batch is None else replace(spec, batch=matrices), trial.extents))
    line("level", f"{level}, {counted(trial.sms, 'SM')}, numbers: {trial.domain}")
    by_float64 = number_domain(trial.domain).is_float or reference.module is not None
    line("against", reference.name if by_float64 else "the problem itself, interpreted")
    started = time.perf_counter()
    with busy("interpreting") as update:
        progress = on_ctas(update, level, seconds)
        result = interpretation.run(
            given_level.source, spec, inputs, on_progress=progress, max_steps=max_steps, **trial.how
        )
        elapsed = time.perf_counter() - started
        update("comparing")
        verdict = _compare(module, reference, inputs, result, trial)
    line("time", f"{duration(elapsed)} on the CPU")
    return verdict


def _compare(
    module: ir.Module, reference: ExpectedProblem, inputs: dict[str, Any], result: np.ndarray[Any, Any], trial: Trial
) -> Verdict:
    spec = reference.spec
    if number_domain(trial.domain).is_float:
        return against_float64(spec, inputs, result)
    problem = reference.module
    if problem is None:
        problem = parse_text(problem_text(spec, target_of(module)), module.context, "<problem>")
    own = interpretation.unset(spec, inputs)
    simple = replace(trial, sms=1, padding=interpretation.ROW_PADDING, seed=0, place=ALIGNED)
    return against_exact(spec, inputs, result, interpretation.run(problem, spec, own, **simple.how))


def _extents(spec: GemmSpec, given: tuple[int | None, ...]) -> tuple[int, int, int]:
    found = [getattr(spec, name) if value is None else value for name, value in zip("mnk", given, strict=True)]
    for name, value in zip("mnk", found, strict=True):
        if value is None:
            raise SpecError(
                f"{name} is a run-time argument of this kernel; set it for the run: --{name} [extent-to-run]"
            )
    return found[0], found[1], found[2]
