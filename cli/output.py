"""Lines and tables on standard output, progress on standard error, for commands that need no compiler."""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

PATIENCE = 1.0  # seconds before progress is shown
EVERY = 10.0  # seconds between lines of progress, if they are not written to a terminal
_WIDTH = 1000  # of tables not printed to a terminal, so that nothing wraps


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

    Yields a function that changes the text. If standard error is not a terminal, a line is written at first, and then
    every ten seconds if the text has changed.
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

    told = [math.inf]

    def show_first() -> None:
        show()
        told[0] = time.monotonic()

    def update(text: str) -> None:
        progress.update(task, description=text)
        if not console.is_terminal and time.monotonic() - told[0] > EVERY:
            show_first()

    timer = threading.Timer(PATIENCE, show_first)
    timer.daemon = True
    timer.start()
    try:
        yield update
    finally:
        timer.cancel()
        timer.join()
        if console.is_terminal:
            progress.stop()
