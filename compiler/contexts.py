"""MLIR contexts with Lowtide's settings, and parsing into them."""

import os
from pathlib import Path

from mlir import ir

from lowtide.dialects.diagnostics import Diagnostics  # importing the package registers the dialects
from lowtide.dialects.levels import DIALECTS
from lowtide.dialects.text import check_text
from lowtide.errors import IRError, with_code
from lowtide.runtime.files import read_file

Source = str | os.PathLike[str]
_SHOWN = 100  # characters of a bad source


def make_context() -> ir.Context:
    """A new context for one compilation, so that compilations in different threads share nothing.

    It has the dialects of the levels. The parser and upstream's passes load others when they need them.
    """
    context = ir.Context(load_on_create_dialects=DIALECTS)
    context.enable_multithreading(False)
    # Without this, MLIR withholds errors, and aborts the process if a pass reports one but succeeds.
    context.emit_error_diagnostics = True
    return context


def parse_source(source: Source, context: ir.Context) -> ir.Module:
    """Parse IR given by a user: the text of a module, or a path (a `Path`, or a `str` that ends in `.mlir`).

    Raises IRError for anything else, and for text that is not a legal module.
    """
    if not isinstance(source, str | os.PathLike) or not isinstance(os.fspath(source), str):
        raise IRError(
            f"IR is text or the path of a dump, not {type(source).__name__}; pass a str or a pathlib.Path [source-kind]"
        )
    if not isinstance(source, str) or source.rstrip().endswith(".mlir"):
        return parse_file(Path(source), context)
    if source.strip() and not any(character in source for character in "\n{("):  # every op contains one of these
        cut = source if len(source) <= _SHOWN else source[:_SHOWN] + "…"
        raise IRError(
            f"{cut!r} is neither the text of a module nor the path of a dump; pass a pathlib.Path, or a string that "
            "ends in .mlir [source-text]"
        )
    check_text(source, "<text>")
    return parse_text(source, context, "<text>")


def parse_text(text: str, context: ir.Context, name: str) -> ir.Module:
    """Parse and verify a module that Lowtide printed, or that `check_text` has accepted. `name` is the file name in
    locations. Raises IRError with MLIR's messages."""
    name = name.encode(errors="replace").decode()  # a path may contain bytes that are not UTF-8
    with Diagnostics(context) as diagnostics:
        try:
            parsed = ir.Operation.parse(text, source_name=name, context=context)
        except ir.MLIRError as error:
            found = f"not a legal module: {'; '.join(diagnostics.of(error))}"
            raise IRError(with_code(found, "text-legal")) from None
    return _as_module(parsed)


def parse_file(path: Path, context: ir.Context) -> ir.Module:
    """Parse and verify a module, whose locations name the file. Raises IRError with MLIR's messages."""
    text = read_text(path, "MLIR text")
    check_text(text, str(path))
    return parse_text(text, context, str(path))


def read_text(path: Path, kind: str) -> str:
    """The text of a file. Raises IRError if it cannot be read."""
    try:
        return read_file(path, special=True).decode()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise IRError(
            f"cannot read {path}: {reason}; name a file of {kind}, such as a dumped level [source-read]"
        ) from None


def _as_module(parsed: ir.OpView) -> ir.Module:
    """The op as an `ir.Module`, as passes require; another op becomes the only op of a new module.

    `ir.Module.parse` would return a module directly, but its locations cannot name a file.
    """
    with parsed.context:
        module = ir.Module.create(parsed.location)
    if parsed.operation.name != "builtin.module":
        module.body.append(parsed)
        return module
    for name in parsed.attributes:
        module.operation.attributes[name] = parsed.attributes[name]
    for op in list(parsed.regions[0].blocks[0].operations):
        module.body.append(op)
    return module
