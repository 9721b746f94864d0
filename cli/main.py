"""The command `lowtide`: run, compile, interpret, check, fuzz, explain, explore, draw, bench, tune, ladder, mutate,
reduce, presets, targets, cache, ptx, lsp.

Exit status: 0 for success, 1 for a wrong result, 2 if something was refused, with a message but no traceback. 3 if
Lowtide itself failed, including the interpreter, which says nothing about the kernel. 130 after an interrupt, 141 if
the reader of a pipe is gone (`lowtide … | head`).
"""

import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from lowtide.entry import FAILED, status_of
from lowtide.errors import Error, InterpreterFault

_REFUSED = 2

# For each command, its module in lowtide.cli and the attribute of that module.
_COMMANDS = {
    "run": ("run", "run"),
    "compile": ("compile", "compile_"),
    "interpret": ("interpret", "interpret"),
    "check": ("check", "check"),
    "fuzz": ("fuzz", "fuzz"),
    "explain": ("explain", "explain"),
    "explore": ("explore", "explore"),
    "draw": ("draw", "draw"),
    "bench": ("bench", "bench"),
    "tune": ("tune", "tune_"),
    "ladder": ("ladder", "ladder"),
    "mutate": ("mutate", "mutate"),
    "reduce": ("reduce", "reduce"),
    "presets": ("lists", "presets"),
    "targets": ("lists", "targets"),
    "cache": ("cache", "app"),
    "ptx": ("ptx", "app"),
    "lsp": ("lsp", "lsp"),
}


def _imported(name: str) -> Any:
    module, attribute = _COMMANDS[name]
    return getattr(import_module(f"lowtide.cli.{module}"), attribute)


class _Commands(TyperGroup):
    """Imports a command only when it is used. Turns Lowtide's errors into a message and an exit status."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": dict.fromkeys(_COMMANDS)})

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in _COMMANDS:
            return None
        command, parent = _imported(name), typer.Typer()
        if isinstance(command, typer.Typer):
            parent.add_typer(command, name=name)
        else:
            parent.command(name)(command)
        return get_group(parent).commands[name]

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
    named = set(sys.argv[1:2]) & set(_COMMANDS)
    for name in named or _COMMANDS:
        _imported(name)  # outside of typer, so that an interrupt during the import is reported in one line
    app()
