"""Who runs when, and what the figures say: the timing of GEMMs with a GPU that only counts."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lowtide.errors import DeviceError
from lowtide.markdown import markdown
from lowtide.measurement.bench import contest, gpu_timing
from lowtide.measurement.bench.contest import Standings
from lowtide.measurement.bench.gpu_timing import Contender, Operands, race, ratio, screen, spread
from lowtide.measurement.bench.ladder_pages import product

SETS = 4


def contender(name: str, *, sustained: list[float] | None = None, burst: list[float] | None = None) -> Contender:
    return Contender(name, lambda i: None, sustained or [], burst or [])


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """(name, milliseconds asked) of every replay; a contender's launch takes as many ms as its name says."""
    done: list[tuple[str, float]] = []

    def replay(graph: str, milliseconds: float, estimate_ms: float) -> tuple[float, int]:
        done.append((graph, milliseconds))
        count = max(1, round(milliseconds / estimate_ms))
        return count * SETS * float(graph), count

    monkeypatch.setattr(gpu_timing, "capture", lambda one, sets: one.name)
    monkeypatch.setattr(gpu_timing, "replay", replay)
    monkeypatch.setattr(gpu_timing.time, "sleep", lambda seconds: done.append(("idle", seconds)))
    return done


def test_every_contender_is_timed_once_a_round_and_the_first_round_is_not_counted(
    replays: list[tuple[str, float]],
) -> None:
    contenders = [contender("1"), contender("2"), contender("5")]
    race(contenders, SETS, rounds=3, seed=0)
    assert [one.sustained for one in contenders] == [pytest.approx([1e-3 * float(one.name)] * 3) for one in contenders]
    assert all(one.burst == pytest.approx(one.sustained) for one in contenders)
    timed = [name for name, milliseconds in replays if milliseconds == gpu_timing.SUSTAINED_MS]
    assert all(sorted(timed[i : i + 3]) == ["1", "2", "5"] for i in range(0, 12, 3)) and len(timed) == 12


def test_a_sustained_figure_follows_its_own_warm_up_and_a_burst_follows_idleness(
    replays: list[tuple[str, float]],
) -> None:
    race([contender("1"), contender("2")], SETS, rounds=2, seed=0)
    for place, (name, milliseconds) in enumerate(replays):
        if milliseconds == gpu_timing.SUSTAINED_MS:
            assert replays[place - 1] == (name, gpu_timing.WARM_MS)
        if milliseconds == gpu_timing.BURST_MS:
            assert replays[place - 1] == ("idle", gpu_timing.IDLE_MS / 1e3)


def test_a_pace_without_bursts_is_chosen_from_the_fastest_contender(replays: list[tuple[str, float]]) -> None:
    asked: list[float] = []

    def pace(seconds: float) -> gpu_timing.Pace:
        asked.append(seconds)
        return gpu_timing.Pace(3.0, 7.0, burst=False)

    contenders = [contender("2"), contender("1")]
    race(contenders, SETS, 2, 0, pace)
    assert asked == [pytest.approx(1e-3)]
    assert [milliseconds for _, milliseconds in replays[-12:]] == [3.0, 7.0] * 6
    assert all(len(one.sustained) == 2 and not one.burst for one in contenders)


def test_a_race_runs_on_while_its_pace_does(replays: list[tuple[str, float]]) -> None:
    def runs_on(contenders: list[contest.Contender]) -> bool:
        return len(contenders[0].sustained) < 5

    contenders = [contender("1"), contender("2")]
    race(contenders, SETS, 2, 0, lambda seconds: gpu_timing.Pace(3.0, 7.0, burst=False, runs_on=runs_on))  # type: ignore[arg-type]
    assert [len(one.sustained) for one in contenders] == [5, 5]


def test_the_order_is_drawn_anew_each_round_and_repeats_by_its_seed(replays: list[tuple[str, float]]) -> None:
    def orders(seed: int) -> list[list[str]]:
        replays.clear()
        race([contender(str(i)) for i in range(1, 7)], SETS, rounds=3, seed=seed)
        timed = [name for name, milliseconds in replays if milliseconds == gpu_timing.SUSTAINED_MS]
        return [timed[i : i + 6] for i in range(0, 24, 6)]

    assert len({tuple(order) for order in orders(0)}) > 1
    assert orders(0) == orders(0) != orders(1)


def test_screening_keeps_the_fastest_and_runs_everyone_early_once_and_late_once(
    replays: list[tuple[str, float]],
) -> None:
    many = [contender(str(i)) for i in range(1, 33)]
    random.Random(3).shuffle(many)
    kept = screen(many, SETS, keep=4, seed=1)
    assert [one.name for one in kept] == ["1", "2", "3", "4"]
    passes = [name for name, milliseconds in replays if milliseconds == gpu_timing.SCREEN_MS]
    assert passes[:32] == passes[32:][::-1] and passes[:32] != sorted(passes[:32])


def test_a_card_that_heats_up_does_not_favour_who_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**6))
    monkeypatch.setattr(gpu_timing, "capture", lambda one, sets: one.name)
    monkeypatch.setattr(gpu_timing, "estimate_ms", lambda graph: 1.0)
    # Each measurement is slower than the last by more than the contenders differ.
    monkeypatch.setattr(gpu_timing, "replay", lambda graph, ms, estimate: (float(graph) + 10 * next(clock), 1))
    assert [one.name for one in screen([contender(str(i)) for i in range(1, 9)], 1, 3, 0)] == ["1", "2", "3"]


def test_figures_are_medians_of_rates_and_of_ratios_of_the_same_round() -> None:
    ours, theirs = contender("ours", sustained=[1.0, 2.0, 4.0]), contender("theirs", sustained=[2.0, 2.0, 2.0])
    assert spread(ours.sustained, 8e12) == (4.0, 2.0, 8.0)
    assert ratio(ours, theirs, "sustained") == (1.0, 0.5, 2.0)


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_operands_are_read_as_their_letters_say(layout: str) -> None:
    a, b = np.zeros((5, 4)), np.zeros((4, 3))
    stored = SimpleMatrix(a if layout[0] == "t" else a.T), SimpleMatrix(b.T if layout[1] == "n" else b)
    operands = Operands(*stored, None, layout)
    assert (operands.logical_a.shape, operands.logical_b.shape) == ((5, 4), (4, 3))


def test_a_batch_is_the_first_dimension_of_each_operand() -> None:
    one, several = (product("f16", 5, 3, 4, layout="nt"), product("f16", 5, 3, 4, batch=7))
    assert (one.a_shape, one.b_shape, one.d_shape) == ((4, 5), (4, 3), (5, 3))
    assert (several.a_shape, several.b_shape, several.d_shape) == ((7, 5, 4), (7, 3, 4), (7, 5, 3))


class SimpleMatrix(SimpleNamespace):
    """As much of a tensor as the test looks at."""

    def __init__(self, array: Any) -> None:
        super().__init__(shape=array.shape, array=array)

    @property
    def mT(self) -> "SimpleMatrix":
        return SimpleMatrix(self.array.T)


def standings(torch: float, cublaslt: tuple[float, ...], ours: float) -> Standings:
    """Burst times are a tenth of the sustained ones, in the reverse order of cuBLASLt's algorithms."""
    finalists = tuple(
        contender(f"id {i}", sustained=[s] * 3, burst=[b] * 3)
        for i, (s, b) in enumerate(zip(cublaslt, reversed(cublaslt), strict=True))
    )
    return Standings(
        flops=1e12,
        torch=contender("torch.matmul", sustained=[torch] * 3, burst=[torch] * 3),
        cublaslt=finalists,
        offered=40,
        others=(contender("lowtide best", sustained=[ours] * 3, burst=[ours] * 3),),
    )


def test_ratios_are_to_torch_to_cublaslts_best_and_to_the_better_of_the_two() -> None:
    found = standings(torch=2.0, cublaslt=(4.0, 1.0, 3.0), ours=1.25)
    names = [row[0] for row in found.rows("sustained")]
    assert names == ["torch.matmul", "cuBLASLt best of 40 (id 1)", "lowtide best"]
    ratios = [[cell.split()[0] for cell in row[2:]] for row in found.rows("sustained")]
    assert ratios == [["1.000", "0.500", "0.500"], ["2.000", "1.000", "1.000"], ["1.600", "0.800", "0.800"]]
    assert found.better_peer("sustained").name == "id 1"


def test_torch_is_the_better_peer_where_it_is_faster() -> None:
    found = standings(torch=1.0, cublaslt=(4.0, 2.0), ours=1.0)
    assert found.better_peer("sustained").name == "torch.matmul"
    assert found.rows("sustained")[-1][2:] == (
        "1.000 (1.000 … 1.000)",
        "2.000 (2.000 … 2.000)",
        "1.000 (1.000 … 1.000)",
    )


def test_the_best_algorithm_may_be_another_in_bursts() -> None:
    found = standings(torch=9.0, cublaslt=(4.0, 1.0), ours=1.0)
    best = [found.best_cublaslt(kind) for kind in ("sustained", "burst")]
    assert [one.name for one in best if one is not None] == ["id 1", "id 0"]


def test_without_cublaslt_its_column_is_empty_and_torch_is_the_better() -> None:
    rows = standings(torch=2.0, cublaslt=(), ours=1.0).rows("burst")
    assert [row[3] for row in rows] == ["", ""]
    assert rows[1][2] == rows[1][4] == "2.000 (2.000 … 2.000)"


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert markdown(("a", "b"), [("x|y", "z")]) == "| a | b |\n| --- | --- |\n| x\\|y | z |"


def test_without_torch_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(gpu_timing.importlib, "import_module", missing)
    with pytest.raises(DeviceError, match=r"torch is not installed.*install torch with CUDA.*\[timing-torch\]"):
        gpu_timing.torch_with_gpu()


def test_with_torch_but_no_gpu_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setattr(gpu_timing.importlib, "import_module", lambda name: blind)
    with pytest.raises(DeviceError, match=r"\[timing-gpu\]"):
        contest.torch_with_gpu()
