"""`lowtide mutate`: injects faults into right kernels at each level, and counts what detects them."""

import os
import random
import shlex
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from lowtide import entry
from lowtide.cli.output import busy, line, table
from lowtide.compiler.driver import lower
from lowtide.compiler.whole_files import check_writable, write_whole
from lowtide.dialects.levels import Level
from lowtide.errors import Error
from lowtide.verification.mutation import report
from lowtide.verification.mutation.kernels import KERNELS
from lowtide.verification.mutation.run import Result, Status, run_all, wrongly_found
from lowtide.verification.mutation.sites import COUNTS, Drawing, Mutant

Only = Annotated[str | None, typer.Option("--only", help="Only kernels with this text in their names.")]
OneLevel = Annotated[str | None, typer.Option("--level", help="Only faults in this level.")]
Sample = Annotated[int | None, typer.Option("--sample", min=1, help="The number of mutants to draw. Default: all.")]
Seed = Annotated[int, typer.Option("--seed", help="Determines where faults are injected.")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Processes. Default: one per core.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write every mutant and its outcome to this file.")]
Journal = Annotated[
    Path | None,
    typer.Option(
        "--journal", help="A file written by --json: its schedules are not run again, and stay in the tables."
    ),
]
MarkdownFile = Annotated[Path | None, typer.Option("--markdown", help="Write the tables to this file, as Markdown.")]


def mutate(
    only: Only = None,
    level: OneLevel = None,
    sample: Sample = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    journal: Journal = None,
    json_file: JsonFile = None,
    markdown_file: MarkdownFile = None,
) -> None:
    """Inject faults into right kernels of both targets and every family of presets, and run all detectors.

    Each mutant is the text of a level with one fault: a barrier, wait, fence or arrival dropped or moved, a wrong
    index, offset, mask, layout, predicate, count, operand, and so on. Detectors, cheapest first: MLIR's verifier, the
    table of legal ops, the passes that verify an edited level, the interpreter at that level, and at the levels below.
    Exit status: 0 if every mutant is killed or equivalent, 1 if one survives, 3 if none survives but the interpreter
    failed on one.
    """
    for path in filter(None, (json_file, markdown_file)):
        check_writable(path)
    known = [] if journal is None else report.read_json(journal)
    done = {result.mutant.kernel for result in known}
    mutants = [mutant for mutant in _drawn(only, level, sample, seed) if mutant.kernel not in done]
    processes = jobs or os.cpu_count() or 1
    _check_right(mutants, processes)
    with busy(f"{len(mutants)} mutants") as update:
        seen: list[Result] = []

        def on_result(result: Result) -> None:
            seen.append(result)
            update(f"{len(seen)} of {len(mutants)} mutants")

        results = [*known, *run_all(mutants, processes, on_result)]
    headings, rows = report.detector_rows(results)
    table(headings, rows, numbers=range(1, len(headings)))
    for result in results:
        if result.status is not Status.KILLED:
            line(result.status.value, f"{result.mutant.name}: {result.why}")
    line("result", report.summary(results))
    if json_file is not None:
        write_whole(json_file, report.as_json(results))
    if markdown_file is not None:
        today = datetime.now(timezone.utc).date().isoformat()
        write_whole(markdown_file, report.page(results, f"{today}, `{_command()}`"))
    for status, exit_status in ((Status.SURVIVED, 1), (Status.FAILED, entry.FAILED)):
        if any(result.status is status for result in results):
            raise typer.Exit(exit_status)


def _drawn(only: str | None, level: str | None, sample: int | None, seed: int) -> list[Mutant]:
    """The mutants that the options select."""
    counts = COUNTS if level is None else {str(Level.named(level)): COUNTS.get(level, 0)}
    kernels = [kernel for name, kernel in KERNELS.items() if only is None or only in name]
    if not kernels:
        raise Error(f"no kernel has {only!r} in its name; the kernels are {', '.join(KERNELS)} [mutated-kernel]")
    drawing, mutants = Drawing(seed), []
    with busy("compiling") as update:
        for kernel in kernels:
            update(f"compiling {kernel.name}")
            mutants += list(drawing.draw(kernel.name, lower(kernel.problem()).levels, counts))
    if not mutants:
        raise Error(f"no faults are injected in level {level}; choose one of {', '.join(COUNTS)} [mutated-level]")
    if sample is None or sample >= len(mutants):
        return mutants
    chosen = sorted(random.Random(seed).sample(range(len(mutants)), sample))
    return [mutants[at] for at in chosen]


def _check_right(mutants: list[Mutant], jobs: int) -> None:
    """Raise Error if a kernel without a fault is refused or wrong."""
    places = dict.fromkeys((one.kernel, one.level) for one in mutants)
    with busy("running the kernels without a fault"):
        wrong = wrongly_found(list(places), jobs)
    if wrong:
        told = "\n  ".join(f"{name}, level {level}: {found.detector}: {found.why}" for name, level, found in wrong)
        raise Error(f"these are wrong without a fault; fix them first\n  {told} [unmutated-wrong]")


def _command() -> str:
    return shlex.join(["lowtide", *sys.argv[1:]])
