"""The command `lowtide`: run, compile, interpret, check, fuzz, explain, draw, bench, tune, ladder, mutate, reduce,
presets, targets, cache.

Exit status: 0 for success, 1 for a wrong result, 2 if something was refused, with a message but no traceback. 3 if
Lowtide itself failed, including the interpreter, which says nothing about the kernel. 130 after an interrupt, 141 if
the reader of a pipe is gone (`lowtide … | head`).
"""

import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lowtide.cli import cache
from lowtide.cli.bench import bench
from lowtide.cli.check import check
from lowtide.cli.compile import compile_
from lowtide.cli.draw import draw
from lowtide.cli.explain import explain
from lowtide.cli.fuzz import fuzz
from lowtide.cli.interpret import interpret
from lowtide.cli.ladder import ladder
from lowtide.cli.lists import presets, targets
from lowtide.cli.mutate import mutate
from lowtide.cli.reduce import reduce
from lowtide.cli.run import run
from lowtide.cli.tune import tune_
from lowtide.entry import FAILED, guard, status_of
from lowtide.errors import Error, InterpreterFault

_REFUSED = 2


class _Commands(TyperGroup):
    """Turns Lowtide's errors into a message and exit status 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Error as error:
            typer.echo(f"lowtide: error: {error}", err=True)
            raise typer.Exit(FAILED if isinstance(error, InterpreterFault) else _REFUSED) from None
        except (KeyboardInterrupt, OSError) as error:
            status = status_of(error, "lowtide", _REFUSED)
            if status is None:
                raise
            raise SystemExit(status) from None


app = typer.Typer(
    name="lowtide", cls=_Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False
)
app.command()(run)
app.command(name="compile")(compile_)
app.command()(interpret)
app.command()(check)
app.command()(fuzz)
app.command()(explain)
app.command()(draw)
app.command()(bench)
app.command(name="tune")(tune_)
app.command()(ladder)
app.command()(mutate)
app.command()(reduce)
app.command()(presets)
app.command()(targets)
app.add_typer(cache.app, name="cache")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lowtide {version('lowtide')}")
        raise typer.Exit


@app.callback()
def lowtide(
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and stop.")
    ] = False,
) -> None:
    """GEMM, lowered step by step to PTX, each step readable and runnable."""


def main() -> None:
    """Run the command, and exit with its status."""
    app()


if __name__ == "__main__":
    sys.exit(guard("lowtide", main, refused=_REFUSED))
