"""cuBLASLt's algorithms in a contest, on a GPU that computes nothing and takes as long as the test says."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cublaslt import NOT_SUPPORTED, FindingLibrary, SimpleCallable, get

from lowtide.compiler.spec import GemmSpec
from lowtide.measurement.bench import contest, cublaslt_library
from lowtide.measurement.bench.cublaslt_library import Capability, Library, Setting
from lowtide.measurement.bench.gpu_timing import Contender

SPEC = GemmSpec(m=96, n=64, k=32, a="bf16", b="bf16", d="bf16")


class FakeTensor:
    """A matrix, row-major and dense, at an address."""

    device = "cuda:0"

    def __init__(self, address: int, shape: tuple[int, int]) -> None:
        self.address, self.shape = address, shape

    def data_ptr(self) -> int:
        return self.address

    def stride(self, dimension: int) -> int:
        assert dimension == 0
        return self.shape[1]


class LaunchingLibrary(FindingLibrary):
    """The heuristic offers `answers` algorithms, of ids 0, 1, …; some refuse to run; launches take time."""

    def __init__(
        self, answers: int, refused: tuple[int, ...] = (), milliseconds: dict[int, float] | None = None
    ) -> None:
        numbers: list[dict[Setting, int]] = [{Setting.ID: number} for number in range(answers)]
        kinds: dict[int, dict[Capability, tuple[int, ...]]] = {number: {} for number in range(answers)}
        super().__init__(kinds, numbers)
        self.unlaunched: tuple[int, ...] = ()
        self.milliseconds: dict[int, float] = {}
        self.clock = 0.0
        self.launched: list[int] = []

    def __getattr__(self, name: str) -> Any:
        inner = super().__getattr__(name)

        def call(*arguments: Any) -> int:
            number = get(arguments[12]._obj, Setting.ID)
            if number in self.unlaunched:
                return NOT_SUPPORTED
            self.launched.append(number)
            self.clock += self.milliseconds.get(number, 1.0 + number / 64)
            return int(inner(*arguments))

        return SimpleCallable(call) if name == "cublasLtMatmul" else inner


@dataclass
class Bench:
    """What the test sets and finds: contenders with wrong results, who was screened."""

    library: LaunchingLibrary
    wrong: list[str] = field(default_factory=list)
    screened: list[str] = field(default_factory=list)


class FakeEvent:
    """Reads the library's clock."""

    def __init__(self, library: LaunchingLibrary) -> None:
        self.library, self.at = library, 0.0

    def record(self) -> None:
        self.at = self.library.clock

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, stop: "FakeEvent") -> float:
        return stop.at - self.at


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Contests use its library, and torch with a GPU that computes nothing."""
    made = Bench(LaunchingLibrary(answers=40))
    cuda = SimpleNamespace(
        synchronize=lambda: None,
        current_stream=lambda: SimpleNamespace(cuda_stream=77),
        get_device_properties=lambda device: SimpleNamespace(multi_processor_count=132),
        Event=lambda enable_timing: FakeEvent(made.library),
    )
    torch = SimpleNamespace(
        cuda=cuda, uint8="uint8", empty=lambda size, device, dtype: FakeTensor(4096, (1, size)), matmul=None
    )
    torch.matmul = lambda a, b, out: None
    torch.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace()))
    operands = SimpleNamespace(a=FakeTensor(256, (96, 32)), b=FakeTensor(512, (64, 32)), d=FakeTensor(768, (96, 64)))
    operands.logical_a = operands.logical_b = None

    def screen(offered: list[Contender], sets: int, keep: int, seed: int) -> list[Contender]:
        made.screened += [one.name for one in offered]
        return list(offered)[:keep]

    def race(contenders: list[Contender], sets: int, rounds: int, seed: int, choose_pace: Any) -> None:
        for place, one in enumerate(contenders):
            one.launch(0)
            one.sustained += [1.0 + place] * rounds
            one.burst += [1.0 + place] * rounds

    monkeypatch.setattr(contest, "torch_with_gpu", lambda: torch)
    monkeypatch.setattr(contest, "operand_sets", lambda *given: [operands])
    monkeypatch.setattr(contest, "exact_product", lambda *given: SimpleNamespace(operands=operands))
    monkeypatch.setattr(contest, "exact_complaint", lambda one, exact, index: "off" if one.name in made.wrong else "")
    monkeypatch.setattr(contest, "complaint", lambda one, *given: "")
    monkeypatch.setattr(contest, "screen", screen)
    monkeypatch.setattr(contest, "race", race)
    monkeypatch.setattr(cublaslt_library, "load", lambda: Library(made.library))
    yield made


def run(said: list[str] | None = None) -> contest.Standings:
    with contest.Contest(SPEC, 0, (said if said is not None else []).append) as running:
        return running.run(rounds=2)


def ids(names: Any) -> list[int]:
    return [int(name.split(",")[0].removeprefix("id ")) for name in names]


def test_all_that_run_are_counted_twelve_are_screened_and_four_race(bench: Bench) -> None:
    said = list[str]()
    bench.library.unlaunched = (0, 5)
    standings = run(said)
    assert standings.offered == 38
    assert ids(bench.screened) == [1, 2, 3, 4, *range(6, 14)]
    assert ids(one.name for one in standings.cublaslt) == [1, 2, 3, 4]
    assert said == ["cuBLASLt: 2 algorithms refused to run"]


def test_the_fastest_alone_are_screened_wherever_the_heuristic_put_them(bench: Bench) -> None:
    bench.library.milliseconds = {39: 0.5, 17: 0.25}
    run()
    assert ids(bench.screened)[:3] == [17, 39, 0]


def test_wrong_ones_are_said_and_replaced_and_do_not_count(bench: Bench) -> None:
    said = list[str]()
    bench.wrong = ["id 2, tile 0, stages 0", "id 3, tile 0, stages 0"]
    standings = run(said)
    assert standings.offered == 38
    assert ids(bench.screened) == [0, 1, *range(4, 14)]
    assert said == [f"{name}: left out: off" for name in bench.wrong]


def test_a_slow_algorithm_is_launched_twice_and_a_quick_one_four_times_alone(bench: Bench) -> None:
    # Warm-up and one launch; warm-up and three.
    bench.library.milliseconds = {30: 6.0, 31: 1.5}
    run()
    assert (bench.library.launched.count(30), bench.library.launched.count(31)) == (2, 4)


def test_when_time_is_up_the_rest_is_left_out_and_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest.time, "monotonic", lambda: 10.0 * len(bench.library.launched))
    said = list[str]()
    standings = run(said)
    # Four launches of the first, 40 s, are over the 30 s that all may take.
    assert standings.offered == 1
    assert said == ["cuBLASLt: the last 39 algorithms left out for lack of time"]


def test_operands_workspace_and_stream_arrive_and_the_handle_is_destroyed_last(bench: Bench) -> None:
    run()
    layouts = [tuple(value.value for value in call[1:]) for call in bench.library.named("cublasLtMatrixLayoutCreate")]
    assert layouts == [(14, 32, 64, 32), (14, 32, 96, 32), (14, 64, 96, 64)]
    last = bench.library.named("cublasLtMatmul")[-1]
    assert [last[i].value for i in (3, 5, 10, 13, 15)] == [512, 256, 768, 4096, 77]
    assert bench.library.names()[-1] == "cublasLtDestroy"
