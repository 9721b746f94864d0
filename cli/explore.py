"""`lowtide explore`: a page that shows a kernel, or a dump folder, in a browser."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lowtide.cli import options
from lowtide.cli.console import on_pass, problem_line, seed_or_drawn
from lowtide.cli.grouped import grouped
from lowtide.cli.output import busy, line
from lowtide.cli.problem import OpenProblem
from lowtide.compiler.compile import compile_anew
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.native import choose
from lowtide.errors import Error
from lowtide.inspection.explore.explore import check_page
from lowtide.inspection.explore.explore import explore as explore_what
from lowtide.inspection.explore.verdict import read_report
from lowtide.inspection.timeline.timeline import read_trace
from lowtide.verification.checking.check import check as check_subject
from lowtide.verification.checking.subjects import of_dump, of_kernel

What = Annotated[Path | None, typer.Argument(help="A dump folder, edited or not. Default: the problem of the options.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="The page: a .html file.")]
Check = Annotated[bool, typer.Option("--check", help="Run lowtide check, and show its verdict on the ops it names.")]
Report = Annotated[
    Path | None, typer.Option("--report", help="Show this verdict, a file of `lowtide check … --json > FILE`.")
]

Trace = Annotated[
    Path | None, typer.Option("--trace", help="Show these timelines, a file of `lowtide explain … --trace FILE`.")
]


@grouped
def explore(
    problem: OpenProblem,
    what: What = None,
    output: Output = Path("lowtide.html"),
    target: options.Target = None,
    schedule: options.ScheduleText = None,
    check: Check = False,
    report: Report = None,
    trace: Trace = None,
    seed: options.Seed = None,
) -> None:
    """Write one HTML file that shows a kernel: levels side by side, passes, schedule, origins (docs/explore.md)."""
    check_page(output)
    if check and report is not None:
        raise Error("--check and --report both give a verdict; leave one out [report-or-check]")
    found = None if report is None else read_report(report)
    if trace is not None:
        read_trace(trace)  # so that a wrong file is refused before anything is compiled
    with busy("compiling") as update:
        if what is not None:
            options.refuse_beside_file(what, **problem.given, target=target, schedule=schedule)
            subject: Any = what
        else:
            spec = problem.spec()
            chosen = choose(target)
            line("problem", problem_line(spec, (spec.m, spec.n, spec.k)))
            line("target", f"{chosen.name} ({chosen.reason})")
            subject = compile_anew(spec, chosen.name, schedule, on_progress=on_pass(update))
        if check:
            found = _checked(subject, seed_or_drawn(seed), update)
        update("making the page")
        explore_what(subject, output, report=found, trace=trace)
    if found is not None:
        line("verdict", str(found["verdict"]))
    line("written", f"{output}, {output.stat().st_size:,} bytes")


def _checked(subject: CompiledKernel | Path, seed: int, update: Any) -> dict[str, Any]:
    checked = of_kernel(subject) if isinstance(subject, CompiledKernel) else of_dump(subject)
    result = check_subject(checked, seed=seed, on_progress=lambda done, text: update(f"checking: {done:.0%}, {text}"))
    return result.as_json() | {"seed": seed}
