"""MLIR contexts as every compilation here makes them, and parsing into them."""

from pathlib import Path

from mlir import ir

from lowtide.dialects.diagnostics import Diagnostics  # importing the package registers the dialects
from lowtide.errors import IRError


def make_context() -> ir.Context:
    """A context of its own for one compilation, so that two in two threads do not meet."""
    context = ir.Context()
    context.enable_multithreading(False)
    # Without this MLIR keeps errors back, and aborts the process where a pass reports one but succeeds.
    context.emit_error_diagnostics = True
    return context


def parse_text(text: str, context: ir.Context, name: str) -> ir.Module:
    """Parse and verify a module. Raises IRError with MLIR's messages, `name` standing for the text's place."""
    with Diagnostics(context) as diagnostics:
        try:
            return ir.Module.parse(text, context)
        except ir.MLIRError as error:
            messages = (message.replace("-:", f"{name}:", 1) for message in diagnostics.of(error))
            raise IRError(f"not a legal module: {'; '.join(messages)}") from None


def parse_file(path: Path, context: ir.Context) -> ir.Module:
    """Parse and verify a module; locations name the file. Raises IRError with MLIR's messages."""
    try:
        path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise IRError(f"cannot read {path}: {reason}; name a file of MLIR text, such as a dumped level") from None
    with Diagnostics(context) as diagnostics:
        try:
            return ir.Module.parseFile(str(path), context)
        except ir.MLIRError as error:
            raise IRError(f"not a legal module: {'; '.join(diagnostics.of(error))}") from None
