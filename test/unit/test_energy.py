"""Joules per product by a counter that is none, on a GPU that is none."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lowtide.errors import DeviceError
from lowtide.measurement.bench import energies, energy
from lowtide.measurement.bench.corners.cells import cells
from lowtide.measurement.bench.energy import Energy, NvmlCounter, measure
from lowtide.measurement.bench.gpu_timing import Contender

ROOT = Path(__file__).resolve().parents[2]


class Card:
    """A clock that moves by a millisecond whenever it is looked at; a load whose chunks of 10 launches take 20 ms; a
    counter that moves every `tick` seconds, by `watts`."""

    launches = 10

    def __init__(self, watts: float = 500.0, tick: float = 0.1, chunk: float = 0.02) -> None:
        self.now, self.watts, self.tick, self.chunk = 100.0, watts, tick, chunk
        self.fed, self.is_finished = 0, False

    def clock(self) -> float:
        self.now += 1e-3
        return self.now

    def joules(self) -> float:
        return self.watts * self.tick * (self.now // self.tick if self.tick else 0)

    def feed(self) -> None:
        self.fed += 1

    def done(self) -> int:
        return int((self.now - 100.0) / self.chunk)

    def seconds(self, first: int, last: int) -> float:
        return (last - first) * self.chunk

    def finish(self) -> None:
        self.is_finished = True


def test_the_energy_of_a_launch_is_power_times_its_time_however_the_ticks_fall() -> None:
    for watts, seconds in ((500.0, 2.0), (97.0, 3.21)):
        card = Card(watts)
        begun = card.now
        found = measure(card, card, seconds, 0.6, card.clock)
        # Ticks are seen a few milliseconds late.
        assert found.joules == pytest.approx(watts * 2e-3, rel=3e-3) and found.seconds == pytest.approx(2e-3)
        assert found.watts == pytest.approx(watts, rel=3e-3)
        assert card.now - begun > 0.6 + seconds and card.is_finished and card.fed > 100


def test_a_counter_that_does_not_move_is_said_and_the_load_ends() -> None:
    card = Card(tick=0.0)
    with pytest.raises(DeviceError, match=r"did not move in 10 s of work.*\[energy-tick\]"):
        measure(card, card, 2.0, 0.1, card.clock)
    assert card.is_finished


def test_chunks_longer_than_a_measurement_are_refused() -> None:
    card = Card(chunk=60.0)
    card.now = 161.0
    with pytest.raises(DeviceError, match=r"\[energy-chunk\]"):
        measure(card, card, 2.0, 0.1, card.clock)


class Nvml:
    """NVML with one GPU, whose counter reads 1.5 J. A call of `refused` returns 3, NVML_ERROR_NOT_SUPPORTED."""

    refused = ""

    def nvmlInit_v2(self) -> int:
        return 3 if self.refused == "init" else 0

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus: Any, handle: Any) -> int:
        assert bus.value == b"0000:3B:00.0"
        handle._obj.value = 7
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, millijoules: Any) -> int:
        assert handle.value == 7
        millijoules._obj.value = 1500
        return 3 if self.refused == "energy" else 0


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    found = Nvml()
    cuda = SimpleNamespace(
        cuDeviceGet=lambda ordinal: (0, ordinal + 20), cuDeviceGetPCIBusId=lambda size, of: (0, b"0000:3B:00.0\0\0")
    )
    monkeypatch.setattr(energy.ctypes, "CDLL", {"libnvidia-ml.so.1": found}.__getitem__)
    monkeypatch.setattr(energy.driver, "api", lambda: cuda)
    monkeypatch.setattr(energy.driver, "current_device", lambda: SimpleNamespace(ordinal=1))
    return found


def test_the_counter_is_that_of_the_current_gpu_by_its_bus(nvml: Nvml) -> None:
    assert NvmlCounter().joules() == 1.5


@pytest.mark.parametrize(
    ("refused", "call"), [("init", "nvmlInit_v2"), ("energy", "nvmlDeviceGetTotalEnergyConsumption")]
)
def test_without_the_counter_the_error_says_what_to_do(nvml: Nvml, refused: str, call: str) -> None:
    nvml.refused = refused
    with pytest.raises(DeviceError, match=rf"{call}: 3\).*measure time instead \[energy-counter\]"):
        NvmlCounter()


def test_without_nvml_or_the_function_the_error_is_the_same(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.delattr(Nvml, "nvmlDeviceGetTotalEnergyConsumption")
    with pytest.raises(DeviceError, match=r"NVML lacks it.*\[energy-counter\]"):
        NvmlCounter()
    monkeypatch.setattr(energy.ctypes, "CDLL", missing)
    with pytest.raises(DeviceError, match=r"cannot open shared object file.*\[energy-counter\]"):
        NvmlCounter()


class Event:
    """An event that has happened when the card was looked at ten times more."""

    looks = 0

    def __init__(self, enable_timing: bool) -> None:
        self.at = 0

    def record(self) -> None:
        self.at = Event.looks + 10

    def query(self) -> bool:
        Event.looks += 1
        return Event.looks >= self.at

    def elapsed_time(self, other: "Event") -> float:
        return 1000.0 * (other.at - self.at)


def test_a_load_keeps_three_chunks_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    replays: list[int] = []
    torch = SimpleNamespace(cuda=SimpleNamespace(Event=Event, synchronize=lambda: replays.append(0)))
    monkeypatch.setattr(energy, "torch_with_gpu", lambda: torch)
    monkeypatch.setattr(energy, "estimate_ms", lambda graph: 5.0)
    load = energy.GraphLoad(SimpleNamespace(replay=lambda: replays.append(1)), 6)
    assert load.launches == 24  # four replays of 5 ms are a chunk
    load.feed()
    assert len(load._events) - load._done == 3 and sum(replays) == 4 * len(load._events)
    before = load.done()
    while load.done() < before + 2:
        pass
    assert load.seconds(1, 2) > 0
    load.finish()
    assert replays[-1] == 0


SETTINGS = energies.Settings(2, 2.0, 1)
CELL = cells()[0]


class FakeContest:
    """All contenders are right; torch is one of them."""

    def __init__(self, spec: Any, seed: int, say: Any) -> None:
        self.others: tuple[Contender, ...] = ()
        self.timed = 3

    def __enter__(self) -> "FakeContest":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def add_kernel(self, name: str, kernel: Any) -> None:
        self.others += (Contender(name, lambda i: None, [kernel] * 3),)

    def of_torch(self) -> Contender:
        return Contender("torch.matmul", lambda i: None)


@pytest.fixture
def joules(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The energy of a launch of a millisecond, by contender; in the second measurement of each it is doubled."""
    found: dict[str, float] = {}
    asked: list[str] = []

    def take(load: str, counter: Any, seconds: float) -> Energy:
        asked.append(load)
        return Energy(found[load] * asked.count(load), 1e-3)

    monkeypatch.setattr(energies, "Contest", FakeContest)
    monkeypatch.setattr(energies, "capture", lambda contender, sets: contender.name)
    monkeypatch.setattr(energies, "GraphLoad", lambda graph, sets: graph)
    monkeypatch.setattr(energies, "measure", take)
    monkeypatch.setattr(energies, "race", lambda *given: None)
    return found


def test_own_and_torchs_energies_are_rows_with_ratios_of_the_same_round(joules: dict[str, float]) -> None:
    joules.update({"torch": 0.3, "own": 0.2})
    kernel: Any = 1.0
    found = energies.beside_torch(CELL, kernel, None, SETTINGS, print)  # type: ignore[arg-type]
    assert {name: [one.joules for one in each] for name, each in found.items()} == {
        "torch": [0.3, 0.6],
        "own": [0.2, 0.4],
    }
    table = list(energies.rows(CELL, found, "torch", ("NVIDIA X", "abc", "2026-01-02"), {}))
    assert [row[1:6] for row in table] == [
        (
            "torch",
            "450.000 (300.000 … 600.000)",
            "450 (300 … 600)",
            "1000.0 (1000.0 … 1000.0)",
            "1.000 (1.000 … 1.000)",
        ),
        ("own", "300.000 (200.000 … 400.000)", "300 (200 … 400)", "1000.0 (1000.0 … 1000.0)", "1.500 (1.500 … 1.500)"),
    ]
    assert all(len(row) == len(energies.COLUMNS) for row in table)


def test_the_default_and_schedules_that_are_level_in_time_are_measured(joules: dict[str, float]) -> None:
    times: Any = {"own": 1.1, "a": 1.005, "b": 1.0, "c": 1.02}
    joules.update(dict.fromkeys(times, 1.0))
    found = energies.of_level_ones(CELL, times, None, SETTINGS, print)  # type: ignore[arg-type]
    assert list(found) == ["own", "b", "a"]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    if str(ROOT / "benchmarks") not in sys.path:
        sys.path.append(str(ROOT / "benchmarks"))
    return importlib.import_module("energy")


def test_the_candidates_of_a_cell_are_those_of_the_tuner(script: ModuleType) -> None:
    arguments = script.commands().parser.parse_args(["level", "--journal", "x", "--candidates", "3"])
    texts = script.schedules_of(script.matching(["bf16-tn-1024*"], cells())[0], arguments)
    assert len(texts) == 3 and all("grid.tile" in text for text in texts)


def test_the_twelve_cells_are_of_the_table(script: ModuleType) -> None:
    found = script.matching(energies.TWELVE, cells())
    assert len(found) == 12 and all(cell.has_peers for cell in found)


@pytest.fixture
def gpu(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A GPU with a counter; each contender takes a joule."""
    kernel = SimpleNamespace(manifest={"schedule": "#s"})
    folder = SimpleNamespace(compile_missing=lambda *given: None, kernel=lambda cell: (kernel, None))

    class Compilers:
        def __init__(self, jobs: int) -> None:
            pass

        def __enter__(self) -> "Compilers":
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def request(self, *given: Any) -> None:
            pass

        def kernel(self, spec: Any, target: str, schedule: str) -> Any:
            if schedule == "bad":
                raise DeviceError("no such schedule [some-code]")
            return kernel

    def found(cell: Any, kernels: Any, *rest: Any) -> dict[str, Sequence[Energy]]:
        if "f64" in cell.name:
            raise DeviceError("it is wrong [some-code]")
        names = kernels if isinstance(kernels, dict) else ("torch", "own")
        return {name: [Energy(1.0, 1e-3)] * 2 for name in names}

    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(script, "device_and_software", lambda: ("NVIDIA X", "torch 0"))
    monkeypatch.setattr(script, "NvmlCounter", lambda: None)
    monkeypatch.setattr(script, "deadline_of", lambda arguments: float("inf" if arguments.minutes else "-inf"))
    monkeypatch.setattr(script, "kernel_folder", lambda arguments, commit: folder)
    monkeypatch.setattr(script, "compilers_of", Compilers)
    monkeypatch.setattr(script, "schedules_of", lambda cell, arguments: ["x", "bad"])
    monkeypatch.setattr(energies, "beside_torch", found)
    monkeypatch.setattr(energies, "of_level_ones", found)


def test_cells_are_measured_once_recorded_and_shown_on_the_page(
    script: ModuleType, gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--commit", "abc", "--cells", "s8-tn-1024*", "--cells", "f64-tn-1024*"]
    of_torch = ["--journal", str(tmp_path / "torch")]
    assert script.main(["torch", *of_torch, *asked, "--minutes", "0"]) == 3
    assert script.main(["torch", *of_torch, *asked]) == 0
    assert "it is wrong" in capsys.readouterr().err
    assert script.main(["torch", *of_torch, *asked]) == 0
    of_level = ["--journal", str(tmp_path / "level")]
    assert script.main(["level", *of_level, *asked]) == 0
    assert "bad: no such schedule" in capsys.readouterr().err
    results = ["--results", str(tmp_path)]
    assert script.main(["record", *of_torch, *results]) == 0
    assert script.main(["record", *of_level, *results, "--name", "energy-level"]) == 0
    found = {name: script.record.load(tmp_path / f"{name}.json") for name in ("energy", "energy-level")}
    assert [row[1] for row in found["energy"].rows] == ["torch", "own"]
    assert found["energy"].about.endswith("f64-tn-1024x1024x1024: DeviceError: it is wrong [some-code]")
    assert [row[1] for row in found["energy-level"].rows] == ["own"]
    if str(ROOT / "docs") not in sys.path:
        sys.path.append(str(ROOT / "docs"))
    text = importlib.import_module("energy_page").page(found)
    assert "energy to torch" in text and "energy to own" in text and "| s8-tn-1024x1024x1024 | own |" in text


def test_if_the_default_does_not_compile_no_other_schedule_takes_its_name(
    script: ModuleType, gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "schedules_of", lambda cell, arguments: ["bad", "x"])
    asked = ["--journal", str(tmp_path / "level"), "--commit", "abc", "--cells", "s8-tn-1024*"]
    assert script.main(["level", *asked]) == 0
    printed = capsys.readouterr()
    assert "DeviceError: no such schedule" in printed.err and "| own |" not in printed.out


def test_without_a_gpu_nothing_is_measured(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    journal = ["--journal", str(tmp_path / "run"), "--commit", "abc"]
    assert script.main(["torch", *journal]) == 2
    assert "torch is not installed" in capsys.readouterr().err
    assert script.main(["record", *journal[:2]]) == 2
