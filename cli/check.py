"""`lowtide check`: runs every level on shapes derived from the schedule; for a wrong kernel, finds the guilty step."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from lowtide import entry
from lowtide.cli import options
from lowtide.cli.check_presets import Options, checks, report
from lowtide.cli.console import on_pass, problem_line, seed_or_drawn
from lowtide.cli.grouped import grouped
from lowtide.cli.output import busy, line, table
from lowtide.cli.problem import OpenProblem
from lowtide.compiler.compile import compile_anew
from lowtide.compiler.driver import lower
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.native import choose
from lowtide.compiler.whole_files import check_writable, write_whole
from lowtide.errors import Error
from lowtide.runtime.storage import MANIFEST
from lowtide.verification.checking.check import BUDGET
from lowtide.verification.checking.check import check as check_subject
from lowtide.verification.checking.check_result import CheckResult, branch_cells, condition_cells
from lowtide.verification.checking.ranks import check_ranks, lines
from lowtide.verification.checking.subjects import Subject, of_dump, of_file, of_kernel, of_saved

What = Annotated[
    Path | None,
    typer.Argument(help="A dump folder, a file of one, or a saved kernel. Default: the problem of the options."),
]
Against = Annotated[Path | None, typer.Option("--against", help="A dump that defines what FILE must compute.")]
Budget = Annotated[float, typer.Option("--budget", min=1, help="Estimated seconds of one core for all runs.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Processes. Default: one per core.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON (docs/verification.md).")]
AllPresets = Annotated[bool, typer.Option("--all-presets", help="Check every preset, with its own target and types.")]
JournalFile = Annotated[
    Path | None,
    typer.Option("--journal", help="File of the presets checked so far; updated after each of them."),
]
MarkdownFile = Annotated[Path | None, typer.Option("--markdown", help="Write the presets' table to this file.")]
Ranks = Annotated[
    int | None,
    typer.Option("--ranks", help="Run this many ranks together instead of the other runs. Requires --arrivals."),
]
Shapes = Annotated[
    bool, typer.Option("--shapes/--no-shapes", help="Print the conditions and the shapes that meet them.")
]


@grouped
def check(
    problem: OpenProblem,
    what: What = None,
    against: Against = None,
    target: options.Target = None,
    schedule: options.ScheduleText = None,
    budget: Budget = BUDGET,
    jobs: Jobs = None,
    seed: options.Seed = None,
    dump_ir: options.DumpDir = None,
    shapes: Shapes = True,
    ranks: Ranks = None,
    all_presets: AllPresets = False,
    markdown_file: MarkdownFile = None,
    journal: JournalFile = None,
    as_json: Json = False,
) -> None:
    """Run every level on shapes derived from the schedule; name the first guilty step of a wrong kernel.

    Exit status: 0 if all results are right, 1 if not, 2 if refused, 3 if the interpreter failed and nothing else is
    wrong.
    """
    seed = seed_or_drawn(seed)
    if all_presets:
        given = replace(problem, dtype=None, layout=None).given
        kernel = {"target": target, "schedule": schedule, "dump_ir": dump_ir}
        _refuse_beside_presets(what=what, **given, **kernel, ranks=ranks, against=against)
        _check_presets(Options(problem.dtype, problem.layout, budget, seed), jobs, markdown_file, journal, as_json)
        return
    _refuse_unused(
        ranks is not None, {"journal": journal, "markdown": markdown_file}, {"dump_ir": dump_ir, "jobs": jobs}
    )
    if against is not None and (what is None or what.is_dir()):
        raise Error(
            "--against without a FILE of a level: options, dump folders and saved kernels say what D must be; leave it "
            "out [check-against]"
        )
    if what is None:
        spec = problem.spec()
        chosen = choose(target)
        with busy("compiling") as update:
            subject = of_kernel(compile_anew(spec, chosen.name, schedule, on_progress=on_pass(update)))
        where = chosen.name + f" ({chosen.reason})"
    else:
        options.refuse_beside_file(what, **problem.given, schedule=schedule)
        subject, note = _subject(what, against, target)
        where = f"{subject.target.name} ({what})" + (f"; {note}" if note else "")
    if ranks is not None:
        _check_ranks(subject, ranks, where, seed, as_json)
        return
    with busy("choosing shapes") as update:
        result = check_subject(
            subject,
            budget=budget,
            jobs=jobs,
            seed=seed,
            dump_ir=dump_ir,
            on_progress=lambda done, text: update(f"checking: {done:.0%}, {text}"),
        )
    if as_json:
        typer.echo(json.dumps(result.as_json() | {"seed": seed}, indent=2, ensure_ascii=False))
    else:
        _report(subject, result, where, seed, shapes)
    if not result.ok:
        raise typer.Exit(entry.FAILED if result.failed and result.guilty is None else 1)


def _check_ranks(subject: Subject, ranks: int, where: str, seed: int, as_json: bool) -> None:
    with busy("checking ranks") as update:
        runs = check_ranks(subject, ranks, seed=seed, on_progress=lambda done, text: update(f"{done:.0%}, {text}"))
    if as_json:
        typer.echo(json.dumps({"seed": seed, "runs": [run.as_json() for run in runs]}, indent=2, ensure_ascii=False))
    else:
        spec = subject.spec
        line("problem", problem_line(spec, (spec.m, spec.n, spec.k)))
        line("target", where)
        line("ranks", str(ranks))
        for text in lines(runs):
            typer.echo(text)
        line("seed", str(seed))
    if not all(run.ok for run in runs):
        raise typer.Exit(1)


def _refuse_beside_presets(**options_: object) -> None:
    if option := options.first_given(**options_):
        raise Error(
            f"{option} with --all-presets: each preset sets it; only --dtype and --layout can be combined "
            "[beside-presets]"
        )


def _refuse_unused(of_ranks: bool, of_presets: dict[str, object], not_of_ranks: dict[str, object]) -> None:
    if option := options.first_given(**of_presets):
        raise Error(
            f"{option} without --all-presets: only the table of presets is written to it; leave it out [presets-file]"
        )
    if of_ranks and (option := options.first_given(**not_of_ranks)):
        raise Error(
            f"{option} with --ranks: this check runs in one process and writes no files; leave it out [beside-ranks]"
        )


def _check_presets(
    options_: Options, jobs: int | None, markdown_file: Path | None, journal: Path | None, as_json: bool
) -> None:
    for file in filter(None, (markdown_file, journal)):
        check_writable(file)
    with busy("checking presets") as update:
        done = list(checks(options_, jobs, journal, update))
    if as_json:
        typer.echo(json.dumps({check.name: check.found for check in done}, indent=2, ensure_ascii=False))
    else:
        text = report(done)
        line("seed", str(options_.seed))
        if markdown_file is not None:
            write_whole(markdown_file, text)
    if not all(check.ok for check in done):
        only_faults = all(check.ok or check.failed for check in done)
        raise typer.Exit(entry.FAILED if only_faults else 1)


def _subject(what: Path, against: Path | None, target: str | None) -> tuple[Subject, str]:
    """The subject in a folder or a file, and its description."""
    if target is not None and what.is_dir():
        raise Error(f"--target with {what}: its files name their target; leave it out [target-beside]")
    if (what / MANIFEST).exists():
        return of_saved(what)
    if what.is_dir():
        return of_dump(what), ""
    kernel = CompiledKernel(lower(what, target=target))
    return of_file(against, kernel.levels, kernel.schedule), ""


def _report(subject: Subject, result: CheckResult, where: str, seed: int, shapes: bool) -> None:
    spec = subject.spec
    line("problem", problem_line(spec, (spec.m, spec.n, spec.k)))
    line("target", where)
    line("schedule", result.schedule)
    for verified in result.verified if shapes else ():
        typer.echo("")
        headings = ("condition", f"compiled for {verified.name}", "met by")
        table(headings, [condition_cells(row) for row in verified.conditions])
        if verified.branches.missing:
            typer.echo("")
            table(("line", "side that no run took", "at level nvvm"), branch_cells(verified.branches), numbers=(0,))
    typer.echo("")
    levels = ", ".join(f"{level} {count}" for level, count in result.levels.items())
    line("right", f"runs by level: {levels}")
    for text in result.lines():
        typer.echo(text)
    line("seed", str(seed))
