"""The litmus tests on two GPUs (benchmarks/litmus/run_peers.py), on a driver that does nothing but count."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lowtide.interpreter.ptx.parsing import parse

_LITMUS = str(Path(__file__).resolve().parents[2] / "benchmarks" / "litmus")
EPOCHS = 40


class Driver:
    """Notes launches and copies, and each kernel's text. `counts`: what the kernels count."""

    CUdevice_attribute = SimpleNamespace(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=0)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=0)
    GIVES_NOTHING = "Init", "SetCurrent", "EnablePeer", "Memset", "Memcpy", "Launch", "Record", "Wait", "Synch", "Begin"

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[str] = []
        self.counts = [0, 0, 1, 0]

    def cuModuleLoadData(self, text: bytes) -> tuple[int, int]:
        self.texts.append(text.decode().strip("\0"))
        return 0, 1

    def cuDeviceGetAttribute(self, kind: int, device: int) -> tuple[int, int]:
        return 0, 9

    def cuDeviceGetName(self, size: int, device: int) -> tuple[int, bytes]:
        return 0, b"a GPU\0"

    def cuDriverGetVersion(self) -> tuple[int, int]:
        return 0, 13000

    def cuMemcpyDtoH(self, to: Any, source: int, size: int) -> tuple[int]:
        to[:] = np.array(self.counts, np.uint64)
        return (0,)

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> tuple[int, ...]:
            self.calls.append(name)
            return (0,) if any(word in name for word in self.GIVES_NOTHING) else (0, 1)

        return call


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.syspath_prepend(_LITMUS)
    monkeypatch.setenv("CUDA_MODULE_LOADING", "EAGER")  # the script sets it
    found = Driver()
    monkeypatch.setattr(script("peer_pair"), "driver", found)
    monkeypatch.setattr(script("run_peers"), "driver", found)
    yield found


def script(name: str) -> ModuleType:
    return importlib.import_module(name)


def run(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["run_peers.py", "--epochs", str(EPOCHS), *options])
    status: int = script("run_peers").main()
    return status


def test_every_axiom_has_its_own_order_and_kernels_that_are_ptx(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run(monkeypatch, "--json", str(tmp_path / "found.json")) == 0
    found = script("json").loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["device"] == "2 × a GPU" and len(found["rows"]) == len(script("run_peers").CASES)
    assert {row[0] for row in found["rows"]} == {row[0] for row in found["rows"] if not row[1]}
    assert all([*parse(text, "kernel").entries] == ["test"] for text in {*driver.texts})
    assert driver.calls.count("cuGraphLaunch") == 1


@pytest.mark.parametrize(
    ("counts", "status"), [((1, 0, 1, 0), 1), ((0, 1, 1, 0), 1), ((0, 0, 1, 1), 1), ((0, 0, 0, 0), 1)]
)
def test_a_wrong_word_a_lost_wait_and_no_read_at_all_fail(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, counts: tuple[int, ...], status: int
) -> None:
    driver.counts = [*counts]
    assert run(monkeypatch, "--only", "read-then-flag") == status


def test_wrong_words_of_a_weaker_order_do_not_fail(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.counts = [5, 0, 1, 0]
    peers = script("run_peers")
    monkeypatch.setattr(peers, "CASES", tuple(case for case in peers.CASES if case.without))
    assert run(monkeypatch) == 0
