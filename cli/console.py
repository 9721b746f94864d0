"""Output of the command line: lines and tables on standard output, progress and errors on standard error."""

import secrets
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from lowtide.compiler.driver import Timing
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.levels import Level
from lowtide.verification.checking.expected_problem import operands_text
from lowtide.verification.checking.interpretation import duration

_PATIENCE = 1.0  # seconds before progress is shown
_WIDTH = 1000  # of tables not printed to a terminal, so that nothing wraps

OWNERS = {"lowtide": "Lowtide's passes", "mlir": "MLIR's passes", "llvm": "LLVM's backend"}


def line(label: str, text: str) -> None:
    """One line of a report."""
    typer.echo(f"{label:<11}{text}")


def counted(count: int, noun: str) -> str:
    """`1 CTA`, `2 CTAs`."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> None:
    """Print a table; the columns `numbers` are right-aligned. The last column may wrap."""
    result = Table(*headings, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for position, column in enumerate(result.columns):
        column.justify = "right" if position in numbers else "left"
        column.no_wrap = position < len(headings) - 1
    for row in rows:
        result.add_row(*(Text(cell) for cell in row))
    text = StringIO()
    Console(file=text, width=Console().width if sys.stdout.isatty() else _WIDTH, color_system=None).print(result)
    typer.echo("\n".join(row.rstrip() for row in text.getvalue().splitlines()))


@contextmanager
def busy(what: str) -> Iterator[Callable[[str], None]]:
    """Show progress on standard error once the work takes longer than a second.

    Yields a function that changes the text. If standard error is no terminal, one line is written.
    """
    console = Console(stderr=True, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(what)

    def show() -> None:
        if console.is_terminal:
            progress.start()
        else:
            typer.echo(f"{progress.tasks[0].description} …", err=True)

    timer = threading.Timer(_PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield lambda text: progress.update(task, description=text)
    finally:
        timer.cancel()
        timer.join()
        if console.is_terminal:
            progress.stop()


def on_pass(update: Callable[[str], None]) -> Callable[[Level, str], None]:
    """For the driver's `on_progress`: shows the running pass."""
    return lambda level, step: update(f"compiling: {level}, {step}")


def on_ctas(update: Callable[[str], None], level: str, about: float) -> Callable[[int, int], None]:
    """For the interpreter's `on_progress`: counts CTAs. `about`: the estimated seconds, or 0."""
    text = f"interpreting level {level}" + (f", about {duration(about)}" if about > _PATIENCE else "")
    update(text)
    return lambda ended, ctas: update(f"{text}: {ended} of {ctas} CTAs")


def seed_or_drawn(seed: int | None) -> int:
    """The given seed, or a random one from the operating system."""
    return secrets.randbits(32) if seed is None else seed


def problem_line(spec: GemmSpec, extents: Sequence[int | None]) -> str:
    """`bf16 tn 300x520x264 to bf16, f32 accumulators, operands bias (per_column bf16)`; ? is a run-time extent.

    A batch is `3 of 300x520x264`.
    """
    shape = "x".join("?" if extent is None else str(extent) for extent in extents)
    if spec.is_batched:
        shape = f"{'?' if spec.batch is None else spec.batch} of {shape}"
    operands = operands_text(spec)
    order = "" if spec.d_order == "row" else " by columns"
    by = f" by {spec.b}" if spec.is_mixed else "" if spec.precision is None else f" by {spec.precision}"
    return f"{spec.a}{by} {spec.layout} {shape} to {spec.d}{order}, {spec.acc} accumulators" + (
        f", operands {operands}" if operands else ""
    )


def time_table(timings: Sequence[Timing]) -> None:
    """Each pass and its time, then each owner's share."""
    total = sum(timing.seconds for timing in timings)

    def row(*cells: str, seconds: float) -> tuple[str, ...]:
        return (f"{1000 * seconds:.1f} ms", f"{seconds / total:.0%}", *cells)

    typer.echo("")
    table(
        ("time", "share", "whose", "level", "step"),
        [row(t.owner, str(t.level), t.step, seconds=t.seconds) for t in timings]
        + [
            row(owner, "all", name, seconds=sum(t.seconds for t in timings if t.owner == owner))
            for owner, name in OWNERS.items()
        ],
        numbers=(0, 1),
    )
    typer.echo(f"{1000 * total:.0f} ms in all")
