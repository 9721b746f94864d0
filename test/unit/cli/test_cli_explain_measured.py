"""`lowtide explain --measured`: what it prints with a GPU that is faked, and what it refuses."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_ncu import fake_ncu
from typer.testing import CliRunner

from lowtide.cli import explain_measured
from lowtide.cli.main import app
from lowtide.errors import DeviceError
from lowtide.measurement.counters.ncu import count
from lowtide.measurement.stamped import Ran, race_stamped, time_alone

COMMAND = ["explain", "--m", "256", "--n", "256", "--k", "128", "--dtype", "bf16", "--target", "sm_90a", "--measured"]
SCHEDULE = ["--schedule", "grid.tile = [128, 64], roles = cooperative(2), k = 64, stages = 3"]


def stamps() -> np.ndarray:
    """Of eight CTAs with one tile, on SMs from 40 on: 16 µs of products at 2 GHz."""
    found = np.zeros((8, 2, 64, 9), np.int32)
    found[:, :, 0, :8] = [1, 1, 2001, 1001, 34001, 17001, 36001, 18001]
    found[:, :, 0, 8] = np.arange(40, 48)[:, None]
    return found.reshape(-1)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = SimpleNamespace(get_device_name=lambda: "a GPU")
    monkeypatch.setattr(explain_measured, "torch_with_gpu", lambda: SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(explain_measured, "operand_sets", lambda spec, seed: [SimpleNamespace(a=1, b=2, d=3)])

    def race(plain: Any, stamped: Any, *operands: int) -> Ran:
        assert "%globaltimer_lo" in stamped.ptx and "%globaltimer_lo" not in plain.ptx
        return Ran(20e-6, 20.2e-6, 1.01, stamps())

    monkeypatch.setattr(explain_measured, "race_stamped", race)


def test_it_prints_each_phase_beside_its_prediction_and_writes_both_timelines(gpu: None, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    done = CliRunner().invoke(app, [*COMMAND, *SCHEDULE, "--trace", str(file)])
    assert done.exit_code == 0, done.output
    assert "measured   20.0 µs on a GPU, predicted" in done.output
    assert "+1.0% of time; 2000 MHz" in done.output
    (products,) = (line.split() for line in done.output.splitlines() if line.startswith("consumer  multiply"))
    assert products[3] == "16.0" and products[4:] == ["grid.tile,", "multiply.atom"]
    (launch,) = (line.split() for line in done.output.splitlines() if line.startswith("grid      launch"))
    assert launch[3] == "2.2"
    assert "most time  consumer, multiply: grid.tile, multiply.atom" in done.output
    events = json.loads(file.read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == ["predicted, 256x256x128 for sm_90a", "measured, CTA 0 on SM 40", "measured, CTA 7 on SM 47"]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (["--epilogue", "bias-relu"], "measured-plain"),
        (["--json"], "measured-problem"),
    ],
)
def test_what_cannot_be_measured_is_refused(gpu: None, more: list[str], code: str) -> None:
    done = CliRunner().invoke(app, [*COMMAND, *more])
    assert done.exit_code == 2 and f"[{code}]" in done.output


def test_a_kernel_that_takes_no_stamps_is_timed(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_measured, "time_alone", lambda plain, *operands: 30e-6)
    problem = ["explain", "--m", "64", "--n", "64", "--k", "64", "--dtype", "f32", "--target", "sm_80", "--measured"]
    done = CliRunner().invoke(app, [*problem, "--schedule", "atom = fma.m1n1k1"])
    assert done.exit_code == 0, done.output
    assert "measured   30.0 µs on a GPU" in done.output and "stamps     none: " in done.output
    assert "has no wgmma and no mma.sync" in done.output and "counters " in done.output


def test_without_a_gpu_it_explains_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise DeviceError("torch finds no NVIDIA GPU here, so nothing can be timed [timing-gpu]")

    monkeypatch.setattr(explain_measured, "operand_sets", none)
    done = CliRunner().invoke(app, [*COMMAND, *SCHEDULE])
    assert done.exit_code == 2 and "finds no NVIDIA GPU" in done.output and "bound by" in done.output


def test_counters_stand_beside_the_predicted_shares(gpu: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{fake_ncu(tmp_path)}:{os.environ['PATH']}")
    done = CliRunner().invoke(app, [*COMMAND, *SCHEDULE])
    assert done.exit_code == 0, done.output
    assert (
        "counters   one launch of 91.2 µs at 1755 MHz; bound by tensor cores: grid.tile, multiply.atom" in done.output
    )
    (tensor,) = (
        line.split() for line in done.output.splitlines() if line.startswith("tensor cores ") and "wgmma" in line
    )
    assert tensor[3:6] == ["91%", "262144", "wgmma"] and tensor[2].endswith("%")
    (unknown,) = (line for line in done.output.splitlines() if line.startswith("left out"))
    assert "ncu does not have sm__pipe_tensor_op_hmma_cycles_active" in unknown and "here" in unknown


def test_without_ncu_it_says_so_and_prints_the_rest(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_measured, "count", lambda folder, name: count(folder, name, "no-such-ncu"))
    done = CliRunner().invoke(app, [*COMMAND, *SCHEDULE])
    assert done.exit_code == 0 and "most time" in done.output
    assert "counters   no-such-ncu is not on the PATH, so there are no counters of the GPU; install" in done.output


class FakeKernel:
    """Counts its launches; one with stamps fills its workspace."""

    def __init__(self, *, stamped: bool) -> None:
        self.manifest = {"host": [{"op": "tile.workspace"}] * (1 + stamped)}
        self.launches, self.bytes = 0, 256 + 64 * stamped

    def bind(self, *operands: Any, out: Any) -> Any:
        def launch() -> None:
            self.launches += 1

        return launch

    def workspace_bytes(self, a: Any, b: Any) -> int:
        return self.bytes

    def __call__(self, a: Any, b: Any, *, out: Any, workspace: Any) -> None:
        workspace.array[:256] = 7  # of partial sums
        workspace.array[256:] = 1


class FakeArray:
    def __init__(self, size: int) -> None:
        self.array, self.device = np.zeros(size, np.uint8), "a GPU"

    def cpu(self) -> "FakeArray":
        return self

    def numpy(self) -> np.ndarray:
        return self.array


class FakeEvent:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None: ...

    def elapsed_time(self, end: "FakeEvent") -> float:
        return 20.0


def test_kernels_are_raced_in_equal_rounds_and_the_stamps_come_home(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = SimpleNamespace(Event=FakeEvent, synchronize=lambda: None)
    torch = SimpleNamespace(cuda=cuda, uint8="uint8", zeros=lambda size, dtype, device: FakeArray(size))
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    plain, stamped = FakeKernel(stamped=False), FakeKernel(stamped=True)
    ran = race_stamped(plain, stamped, FakeArray(1), None, None)
    assert plain.launches == stamped.launches > 0
    assert (ran.plain, ran.stamped, ran.ratio) == (pytest.approx(1e-3), pytest.approx(1e-3), 1.0)
    assert ran.words.tolist() == [0x01010101] * 16
    assert time_alone(plain, FakeArray(1), None, None) == pytest.approx(1e-3)
