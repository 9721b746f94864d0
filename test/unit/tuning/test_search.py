"""The search over a GPU that is none, and its journal."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from fake_bench import FakeBench

from lowtide.errors import CompileError, Error
from lowtide.measurement.tuning import search
from lowtide.measurement.tuning.elimination import Race
from lowtide.measurement.tuning.journal import Journal

OF = {"spec": {"m": "4096"}, "version": "1"}
TIMES = {"own": 1.1, "best": 1.0, "slow": 2.0}
KERNEL: Any = object()


def run(bench: FakeBench, journal: Journal, until: float = float("inf"), names: list[str] | None = None) -> Race:
    race = Race(0.95, 0.01)
    ticks = itertools.count()
    decided = search.run(
        bench.seconds,
        list(TIMES) if names is None else names,
        race,
        journal,
        until=until,
        seed=0,
        on_round=lambda state: None,
        clock=lambda: float(next(ticks)),
    )
    assert decided == (len(race.left) == 1 or race.is_decided())
    return race


def test_the_fastest_is_found_and_the_order_of_rounds_is_drawn_anew() -> None:
    bench = FakeBench(TIMES)
    race = run(bench, Journal(OF))
    assert race.leader() == "best" and race.left == ["best"]
    assert len({tuple(bench.asked[i : i + 3]) for i in range(0, 9, 3)}) > 1


def test_a_budget_ends_the_rounds_but_for_the_first() -> None:
    assert run(FakeBench(TIMES), Journal(OF), until=-1.0).rounds == 1
    assert run(FakeBench(TIMES), Journal(OF), until=1.0).rounds == 2


def test_a_killed_run_goes_on_from_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.json"
    first = run(FakeBench(TIMES), Journal.open(path, OF), until=2.0)
    bench = FakeBench(TIMES)
    second = run(bench, Journal.open(path, OF))
    assert second.seconds["best"][: first.rounds] == first.seconds["best"] and second.rounds > first.rounds
    assert second.left == ["best"]
    third = FakeBench(TIMES)
    assert run(third, Journal.open(path, OF)).left == ["best"] and not third.asked  # it is known


def test_rounds_of_other_contenders_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "journal.json"
    run(FakeBench(TIMES), Journal.open(path, OF), until=2.0)
    race = run(FakeBench(TIMES), Journal.open(path, OF), until=-1.0, names=["own", "best"])
    assert race.rounds == 1 and set(race.seconds) == {"own", "best"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no JSON", r"\[tuning-journal\]"),
        ("[]", r"\[tuning-journal\]"),
        ('{"format": 1, "of": {}, "seconds": {"a": []}, "dropped": [], "refused": {}}', r"\[tuning-journal\]"),
        (
            json.dumps({"format": 1, "of": {**OF, "version": "2"}, "seconds": {}, "dropped": [], "refused": {}}),
            r"is of another version; remove it, or name another file.*\[other-journal\]",
        ),
        (
            json.dumps({"format": 1, "of": {}, "seconds": {}, "dropped": [], "refused": {}}),
            r"spec and version.*\[other-journal\]",
        ),
    ],
)
def test_a_journal_of_something_else_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.json"
    path.write_text(text)
    with pytest.raises(Error, match=message):
        Journal.open(path, OF)
    assert path.read_text() == text


def test_a_journal_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Error, match=r"cannot write.*\[file-writable\]"):
        Journal.open(tmp_path / "file" / "journal.json", OF)


def test_wrong_kernels_are_left_out_and_a_wrong_choice_is_an_error() -> None:
    journal = Journal(OF)
    kernels = [(name, KERNEL) for name in TIMES]
    assert search.admit(FakeBench(TIMES, wrong={"best": "off by one"}), kernels, journal) == ["own", "slow"]
    assert journal.refused == {"best": "off by one"}
    with pytest.raises(CompileError, match=r"chosen schedule is wrong on this GPU: off by one.*\[chosen-wrong\]"):
        search.admit(FakeBench(TIMES, wrong={"own": "off by one"}), kernels, Journal(OF))
