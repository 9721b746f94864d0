"""MLIR diagnostics as text: the messages of an error, with their locations."""

from types import TracebackType

from mlir import ir

from lowtide.dialects.locations import describe


class Diagnostics:
    """Collects the errors that a context reports while the `with` block runs; they do not reach stderr."""

    def __init__(self, context: ir.Context) -> None:
        self.context = context
        self.errors: list[str] = []

    def __enter__(self) -> "Diagnostics":
        self._handler = self.context.attach_diagnostic_handler(self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._handler.detach()
        del self._handler  # it holds self._take: a cycle that the garbage collector does not see

    def _take(self, diagnostic: ir.Diagnostic) -> bool:
        if diagnostic.severity is not ir.DiagnosticSeverity.ERROR:
            return False
        self.errors += _messages(diagnostic)
        return True

    def of(self, error: ir.MLIRError) -> list[str]:
        """The messages of an exception: `place: message`, each followed by its notes."""
        carried = [message for diagnostic in error.error_diagnostics for message in _messages(diagnostic)]
        return carried or self.errors or [str(error)]


def _messages(diagnostic: ir.Diagnostic | ir.DiagnosticInfo) -> list[str]:
    notes = [f"{describe(note.location)}: note: {note.message}" for note in diagnostic.notes]
    return [f"{describe(diagnostic.location)}: {diagnostic.message}", *notes]
