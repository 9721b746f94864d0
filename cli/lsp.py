"""`lowtide lsp`: the language server of the dialects, for editors."""

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from lowtide.errors import DependencyError

_GRAMMAR = "Print the folder of the VS Code extension with the TextMate grammar, and stop."


def lsp(grammar: Annotated[bool, typer.Option("--grammar", help=_GRAMMAR)] = False) -> None:
    """Serve an editor on standard input and output by the Language Server Protocol (docs/editor.md)."""
    if grammar:
        package = importlib.import_module("lowtide.inspection.editor")
        typer.echo(str(Path(package.__path__[0]) / "vscode"))
        return
    _server().serve()


def _server() -> Any:
    """The module of the server. Raises DependencyError, which says how to install it, without pygls."""
    try:
        return importlib.import_module("lowtide.inspection.editor.server")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise DependencyError(
            "the language server needs pygls, which is not installed; pip install 'lowtide[editor]' [editor-pygls]"
        ) from None
