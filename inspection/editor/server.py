"""The language server, on pygls: answers requests and notifications of LSP by analyses of texts.

Texts are analysed by a worker, one at a time. A request waits for the analysis of the text that it is about. If a
text was replaced meanwhile, it is skipped, so the worker does not fall behind.
"""

import asyncio
import os
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from lowtide.errors import Error
from lowtide.inspection.editor import completion, documentation
from lowtide.inspection.editor.analysis import Analysis, Definition, Problem
from lowtide.inspection.editor.hover import hover_at
from lowtide.inspection.editor.neighbours import is_dump, neighbours
from lowtide.inspection.editor.outline import Entry, outline
from lowtide.inspection.editor.text import Range, Text
from lowtide.inspection.editor.worker import Worker

_SEVERITIES = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "information": lsp.DiagnosticSeverity.Information,
}
_MODULES = ("builtin.module", "gpu.module")
_FUNCTIONS = ("func.func", "tile.kernel", "gpu.func", "llvm.func")


@dataclass(eq=False)
class _File:
    """A version of an open file."""

    uri: str
    version: int | None
    text: Text
    level: str | None
    """The level that this version names, or else that of an earlier one: while somebody types, texts seldom parse."""
    analysis: "asyncio.Task[Analysis]" = field(init=False)

    @property
    def path(self) -> Path | None:
        found = to_fs_path(self.uri)
        return Path(found) if found else None

    @property
    def is_mlir(self) -> bool:
        return self.path is None or self.path.suffix != ".ptx"

    async def analyzed(self) -> Analysis:
        """The analysis. A request that waits for it may be cancelled, and others still wait."""
        return await asyncio.shield(self.analysis)

    def range(self, place: Range) -> lsp.Range:
        return lsp.Range(*(lsp.Position(*self.text.position(offset)) for offset in place))

    def location(self, place: Range) -> lsp.Location:
        return lsp.Location(self.uri, self.range(place))

    def offset(self, position: lsp.Position) -> int:
        return self.text.offset((position.line, position.character))


class Server(LanguageServer):
    """The server with its open files."""

    def __init__(self) -> None:
        # Each change sends the whole text: if pygls applied edits, it would count line ends that LSP does not have.
        super().__init__("lowtide", version("lowtide"), text_document_sync_kind=lsp.TextDocumentSyncKind.Full)
        self.worker = Worker()
        self.files: dict[str, _File] = {}
        self.turn = asyncio.Lock()
        for method, handler, options in _FEATURES:
            self.feature(method, options)(handler)

    async def take(self, uri: str, version: int | None, text: str) -> None:
        """Take a new version of a file, and send its problems."""
        before = self.files.get(uri)
        units = lsp.PositionEncodingKind(self.workspace.position_encoding or "utf-16").value
        file = _File(uri, version, Text(text, units), None if before is None else before.level)
        self.files[uri] = file
        file.analysis = asyncio.ensure_future(self._analyze(file))
        analysis = await file.analyzed()
        file.level = analysis.level or file.level
        if self.files.get(uri) is file:
            problems = [_diagnostic(file, problem) for problem in analysis.problems]
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, problems, version))

    async def _analyze(self, file: _File) -> Analysis:
        async with self.turn:
            if self.files.get(file.uri) is not file or not file.is_mlir:
                return Analysis()
            return await asyncio.to_thread(self.worker.analyze, file.text.text)


def serve() -> None:
    """Serve on standard input and output until the client ends the session."""
    server = Server()
    # pygls closes the output that it is given. Other prints must not get into the protocol.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    try:
        server.worker.start()
        with redirect_stdout(sys.stderr):
            server.start_io(sys.stdin.buffer, output)
    finally:
        server.worker.stop()


async def _opened(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    document = params.text_document
    await ls.take(document.uri, document.version, document.text)


async def _changed(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    await ls.take(params.text_document.uri, params.text_document.version, params.content_changes[-1].text)


def _closed(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    ls.files.pop(params.text_document.uri, None)
    ls.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(params.text_document.uri, []))


async def _hover(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    file = ls.files[params.text_document.uri]
    found = hover_at(await file.analyzed(), file.text, file.offset(params.position))
    if found is None:
        return None
    text, place = found
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), file.range(place))


_AtPosition = lsp.DefinitionParams | lsp.ReferenceParams | lsp.DocumentHighlightParams


async def _defined(ls: Server, params: _AtPosition) -> tuple[_File, Definition | None]:
    file = ls.files[params.text_document.uri]
    return file, (await file.analyzed()).definition(file.offset(params.position))


async def _definition(ls: Server, params: lsp.DefinitionParams) -> lsp.Location | None:
    file, found = await _defined(ls, params)
    return None if found is None else file.location(found.place)


async def _references(ls: Server, params: lsp.ReferenceParams) -> list[lsp.Location]:
    file, found = await _defined(ls, params)
    if found is None:
        return []
    own = (found.place,) if params.context.include_declaration else ()
    return [file.location(place) for place in (*own, *found.uses)]


async def _highlights(ls: Server, params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
    file, found = await _defined(ls, params)
    return [] if found is None else [lsp.DocumentHighlight(file.range(place)) for place in (found.place, *found.uses)]


async def _symbols(ls: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    file = ls.files[params.text_document.uri]
    return _entries(file, outline(await file.analyzed(), file.text))


def _entries(file: _File, entries: Iterable[Entry]) -> list[lsp.DocumentSymbol]:
    return [
        lsp.DocumentSymbol(
            entry.title,
            _kind(entry.op.name),
            file.range(entry.op.whole),
            file.range(entry.op.place),
            children=_entries(file, entry.entries),
        )
        for entry in entries
    ]


def _kind(op: str) -> lsp.SymbolKind:
    if op in _MODULES:
        return lsp.SymbolKind.Module
    return lsp.SymbolKind.Function if op in _FUNCTIONS else lsp.SymbolKind.Operator


def _completion(ls: Server, params: lsp.CompletionParams) -> lsp.CompletionList:
    file = ls.files[params.text_document.uri]
    offset = file.offset(params.position)
    items = [
        lsp.CompletionItem(
            choice.text,
            detail=choice.detail,
            sort_text=f"{number:04}",
            text_edit=lsp.TextEdit(file.range((offset - choice.typed, offset)), choice.text),
        )
        for number, choice in enumerate(completion.choices_at(file.text, offset, file.level))
    ]
    return lsp.CompletionList(False, items)


def _resolved(ls: Server, item: lsp.CompletionItem) -> lsp.CompletionItem:
    text = documentation.of_op(item.label)
    item.documentation = lsp.MarkupContent(lsp.MarkupKind.Markdown, text) if text else None
    return item


async def _next_level(ls: Server, params: lsp.ImplementationParams) -> list[lsp.Location]:
    return await _neighbours(ls, params, ahead=True)


async def _previous_level(ls: Server, params: lsp.DeclarationParams) -> list[lsp.Location]:
    return await _neighbours(ls, params, ahead=False)


async def _neighbours(
    ls: Server, params: lsp.ImplementationParams | lsp.DeclarationParams, *, ahead: bool
) -> list[lsp.Location]:
    file = ls.files[params.text_document.uri]
    path, offset = file.path, file.offset(params.position)
    if path is None or not is_dump(path):
        return []
    op = (await file.analyzed()).innermost(offset)
    line = file.text.mlir_line(offset if op is None else op.place[0])
    try:
        found = await asyncio.to_thread(neighbours, path, file.text.text, line, ahead=ahead)
    except Error as error:
        ls.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Info, str(error)))
        return []
    locations = []
    for each in found:
        text = Text(each.text, file.text.units)
        start = len(text.encoded) - len(text.encoded.lstrip())
        ends = (text.position(offset)[1] for offset in (start, len(text.encoded)))
        place = lsp.Range(*(lsp.Position(each.number - 1, end) for end in ends))
        locations.append(lsp.Location(from_fs_path(str(each.file)) or "", place))
    return locations


def _diagnostic(file: _File, problem: Problem) -> lsp.Diagnostic:
    related = [lsp.DiagnosticRelatedInformation(file.location(place), message) for place, message in problem.notes]
    return lsp.Diagnostic(
        file.range(problem.place),
        problem.message,
        severity=_SEVERITIES[problem.severity],
        code=problem.code,
        source="lowtide",
        related_information=related or None,
    )


_FEATURES = (
    (lsp.TEXT_DOCUMENT_DID_OPEN, _opened, None),
    (lsp.TEXT_DOCUMENT_DID_CHANGE, _changed, None),
    (lsp.TEXT_DOCUMENT_DID_CLOSE, _closed, None),
    (lsp.TEXT_DOCUMENT_HOVER, _hover, None),
    (lsp.TEXT_DOCUMENT_DEFINITION, _definition, None),
    (lsp.TEXT_DOCUMENT_REFERENCES, _references, None),
    (lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, _highlights, None),
    (lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL, _symbols, None),
    (lsp.TEXT_DOCUMENT_COMPLETION, _completion, lsp.CompletionOptions([".", "<", "=", '"'], resolve_provider=True)),
    (lsp.COMPLETION_ITEM_RESOLVE, _resolved, None),
    (lsp.TEXT_DOCUMENT_IMPLEMENTATION, _next_level, None),
    (lsp.TEXT_DOCUMENT_DECLARATION, _previous_level, None),
)
