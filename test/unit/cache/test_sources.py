"""The sha256 of Lowtide's sources is remembered for a state of the files, and for no other."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lowtide.compiler.cache import sources
from lowtide.compiler.cache.store import KernelStore

Ask = Callable[[], tuple[str, bool]]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only source."""
    path = tmp_path / "source.py"
    path.write_text("x = 1")
    monkeypatch.setattr(sources, "sources", lambda: (str(path),))
    return path


@pytest.fixture
def ask(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """What a process finds that begins an hour from now, and whether it read the sources for it."""
    reads: list[str] = []
    hashed = sources._hashed
    monkeypatch.setattr(sources, "_hashed", lambda: reads.append("read") or hashed())
    later(monkeypatch, 3600)

    def found() -> tuple[str, bool]:
        reads.clear()
        sources.own_digest.cache_clear()
        return sources.own_digest(tmp_path / "cache"), bool(reads)

    yield found
    sources.own_digest.cache_clear()


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = time.clock_gettime_ns(time.CLOCK_REALTIME)
    monkeypatch.setattr(sources.time, "time_ns", lambda: now + int(seconds * 1e9))


def test_sources_that_did_not_change_are_read_once(ask: Ask, tmp_path: Path) -> None:
    first, is_read = ask()
    assert is_read and first == sources.own_digest(None)
    assert ask() == (first, False)
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_an_edit_is_seen_even_where_size_and_date_are_as_before(ask: Ask, source: Path) -> None:
    first, _ = ask()
    date = source.stat().st_mtime_ns
    source.write_text("x = 2")
    os.utime(source, ns=(date, date))
    second, is_read = ask()
    assert is_read and second != first
    assert ask() == (second, False)


def test_what_changed_just_now_is_not_remembered(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch, 1)
    assert ask() == ask() and ask()[1]
    later(monkeypatch, 3)
    assert ask()[1] and not ask()[1]


@pytest.mark.parametrize("damage", ["", "[]", "{}", '"0" * 8', "of another digest"])
def test_a_damaged_record_is_written_anew(ask: Ask, tmp_path: Path, damage: str) -> None:
    first, _ = ask()
    (record,) = (tmp_path / "cache").glob("sources/*.json")
    text = record.read_text()
    record.write_text(text.replace(first, "0" * 64) if damage == "of another digest" else damage)
    assert ask() == (first, True) and record.read_text() == text


def test_a_folder_that_cannot_be_written_costs_nothing(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert ask()[1] and ask()[1]


def test_records_go_with_the_kernels(ask: Ask, tmp_path: Path) -> None:
    ask()
    KernelStore(tmp_path / "cache", 2**20).clear()
    assert ask()[1]
