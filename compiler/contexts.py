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
    """Parse and verify a module; `name` stands for the file in locations. Raises IRError with MLIR's messages."""
    with Diagnostics(context) as diagnostics:
        try:
            parsed = ir.Operation.parse(text, source_name=name, context=context)
        except ir.MLIRError as error:
            raise IRError(f"not a legal module: {'; '.join(diagnostics.of(error))}") from None
    return _as_module(parsed)


def parse_file(path: Path, context: ir.Context) -> ir.Module:
    """Parse and verify a module; locations name the file. Raises IRError with MLIR's messages."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise IRError(f"cannot read {path}: {reason}; name a file of MLIR text, such as a dumped level") from None
    return parse_text(text, context, str(path))


def _as_module(parsed: ir.OpView) -> ir.Module:
    """The op as an `ir.Module`, which alone owns what a compilation works on; another op becomes its only op.

    `ir.Module.parse` would make one at once, but its locations cannot name a file.
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
