"""GPU tests: skipped, with the reason said, where there is no GPU or no torch; ended where a kernel does not end."""

from __future__ import annotations

import faulthandler
import functools
import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from lowtide.errors import DeviceError
from lowtide.runtime import driver

try:
    import torch
except ImportError:
    torch = None

_MOST_SECONDS = 180  # of one test


@pytest.fixture(autouse=True)
def watchdog(request: pytest.FixtureRequest) -> Iterator[None]:
    """A kernel that waits for ever holds the GPU for as long as its process lives: end it, with a traceback."""
    if request.node.get_closest_marker("gpu"):
        faulthandler.dump_traceback_later(_MOST_SECONDS, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Graphs are run as Inductor gets them, node by node, which needs no C++ compiler."""
    torch, inductor = importlib.import_module("torch"), importlib.import_module("lowtide.torch.fx.inductor")

    def inner_compile(module: Any, inputs: Any, **about: Any) -> Any:
        return _boxed(module)

    monkeypatch.setattr(inductor, "compile_fx", functools.partial(inductor.compile_fx, inner_compile=inner_compile))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _boxed(module: Any) -> Any:
    def run(arguments: list[Any]) -> Any:
        return module(*arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def missing() -> str:
    """Why GPU tests cannot run here; "" where they can."""
    try:
        driver.device(0)
    except DeviceError as error:
        return f"NO GPU TEST RAN: {error}"
    if torch is None or not torch.cuda.is_available():
        return "NO GPU TEST RAN: torch with CUDA is not installed; install it beside cuda-python"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = missing() if marked else ""
    for item in marked:
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
