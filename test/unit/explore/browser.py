"""A headless Chromium that opens a page of a file: keys, expressions, pictures, and what it logs.

It is driven by the DevTools protocol through a pipe (`--remote-debugging-pipe`: messages of JSON, each ended by a null
byte, on file descriptors 3 and 4), so no package is needed.
"""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-quic", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-extensions", "--remote-debugging-pipe"),
)
_PATIENCE = 20.0  # seconds for an answer


def found() -> str | None:
    """The program, if there is one that starts: it may be half installed."""
    for program in filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        if subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0:
            return program
    return None


@contextmanager
def opened(program: str, profile: Path) -> Iterator["Browser"]:
    """A browser with an empty profile."""
    to_browser, ours = os.pipe()
    from_browser, theirs = os.pipe()
    # The descriptors 3 and 4 of the child: a shell sets them, whatever numbers they have here.
    script = f'exec "$@" 3<&{to_browser} 4>&{theirs}'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(to_browser, theirs),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(theirs)
    browser = Browser(ours, from_browser)
    try:
        browser.attach()
        yield browser
    finally:
        with suppress(OSError):
            browser.send("Browser.close", session=None)
        os.close(ours)
        os.close(from_browser)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass
class Browser:
    """`complaints`: errors and warnings that pages log; `requests`: addresses that they ask for."""

    _to: int
    _from: int
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _session: str | None = None
    _number: int = 0
    _read: bytes = b""

    def attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank", session=None)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True, session=None)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def send(self, method: str, session: str | None = "", **parameters: Any) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        return self._number

    def call(self, method: str, session: str | None = "", **parameters: Any) -> Any:
        number = self.send(method, session, **parameters)
        while (message := self._next()).get("id") != number:
            pass
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            part = os.read(self._from, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._read += part
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"])[:600])
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif message.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append(json.dumps(parameters["args"]))
        elif message.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        return message

    def open(self, address: str, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        """Open a page and wait until it shows its data."""
        phone = width < 700
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)
        ends = time.monotonic() + _PATIENCE
        while not self.value("Boolean(window.page)"):
            assert time.monotonic() < ends, (self.value("document.body.innerText"), self.complaints)
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:600])
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys, each a character or the name of a key."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, selector: str) -> None:
        """Click an element, as a mouse does."""
        place = self.value(
            f"(() => {{ const element = document.querySelector({json.dumps(selector)});"
            " element.scrollIntoView({block: 'center'}); const box = element.getBoundingClientRect();"
            " return [box.x + Math.min(box.width / 2, 60), box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def picture(self, file: Path) -> None:
        """Write what is in view to a PNG file."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
