"""A client of `lowtide lsp` in another process, and a problem for dumps."""

import asyncio
import sys
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

T = TypeVar("T")
SECONDS = 60
MATRIX = "memref<128x128xbf16>"
PROBLEM = f"""module attributes {{tile.level = "problem", tile.target = "sm_80"}} {{
  func.func @gemm(%a: {MATRIX}, %b: {MATRIX}, %d: {MATRIX}) {{
    tile.gemm tn %a, %b into %d acc(f32)
        schedule(#tile.schedule<grid = <tile = [64, 64]>, mainloop = <k = 32, stages = 3>>) {{
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to bf16
      tile.yield %y : bf16
    }} : {MATRIX}, {MATRIX}, {MATRIX}
    return
  }}
}}
"""


class Client:
    """A client whose calls wait for the answer. `problems`: the diagnostics of the last version of each file."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.lsp = LanguageClient("test", "1")
        self.messages: list[str] = []
        self._published: dict[tuple[str, int | None], Future[list[lsp.Diagnostic]]] = {}
        self._version = 0
        self.lsp.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: self._take(params))
        self.lsp.feature(lsp.WINDOW_SHOW_MESSAGE)(lambda params: self._say(params))

    def start(self) -> lsp.InitializeResult:
        self.wait(self.lsp.start_io(sys.executable, "-m", "lowtide", "lsp"))
        return self.wait(self.lsp.initialize_async(lsp.InitializeParams(lsp.ClientCapabilities())))

    def stop(self) -> tuple[int, str]:
        """End the session. Returns the exit status of the server, and what it has written to standard error."""
        server = self.lsp._server
        assert server is not None and server.stderr is not None
        self.wait(self.lsp.shutdown_async(None))
        self.lsp.exit(None)
        said = self.wait(server.stderr.read())
        status = self.wait(server.wait())
        self.wait(self.lsp.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        return status, said.decode()

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self.loop).result(SECONDS)

    def open(self, uri: str, text: str) -> list[lsp.Diagnostic]:
        """Open a file. Returns its diagnostics."""
        self._version += 1
        self.lsp.text_document_did_open(
            lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "mlir", self._version, text))
        )
        return self.latest(uri)

    def change(self, uri: str, text: str, *, wait: bool = True) -> list[lsp.Diagnostic]:
        """Give an open file another text. Returns its diagnostics."""
        self._version += 1
        identifier = lsp.VersionedTextDocumentIdentifier(self._version, uri)
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        self.lsp.text_document_did_change(lsp.DidChangeTextDocumentParams(identifier, [change]))
        return self.latest(uri) if wait else []

    def cancelled(self, method: str, params: Any) -> None:
        """Send a request, and at once that it is cancelled."""
        self.lsp.protocol.send_request(method, params, msg_id="cancelled")
        self.lsp.cancel_request(lsp.CancelParams("cancelled"))

    def latest(self, uri: str) -> list[lsp.Diagnostic]:
        return self._published.setdefault((uri, self._version), Future()).result(SECONDS)

    def _take(self, params: lsp.PublishDiagnosticsParams) -> None:
        self._published.setdefault((params.uri, params.version), Future()).set_result(list(params.diagnostics))

    def _say(self, params: lsp.ShowMessageParams) -> None:
        self.messages.append(params.message)
