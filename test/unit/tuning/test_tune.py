"""`lt.tune` on a GPU that is none, what it keeps, and who uses that."""

import json
import shutil
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_bench import DEVICE, FakeBench
from typer.testing import CliRunner

import lowtide as lt
from lowtide.cli import tune as cli
from lowtide.cli.main import app
from lowtide.compiler.cache import sources, tuned
from lowtide.compiler.cache.precompile import Job, compile_job
from lowtide.compiler.cache.settings import open_store
from lowtide.compiler.cache.store import KernelStore
from lowtide.errors import CacheWarning, CompileError, DeviceError, Error, SpecError
from lowtide.measurement.tuning import tune as tuning
from lowtide.runtime import driver
from lowtide.runtime.driver import Device
from lowtide.targets import get

SPEC = lt.GemmSpec(m=64, n=64, k=64, a="f16", b="f16", d="f16")
TARGET = "sm_80"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of these tests, which compile the same kernels."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(autouse=True)
def store(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelStore]:
    """The cache, without anything tuned."""
    monkeypatch.setenv("LOWTIDE_CACHE", str(kernels))
    monkeypatch.setattr(sources, "_STARTED", float("inf"))  # who edits sources while tests run is not the subject
    monkeypatch.setattr(tuning, "compile_all", in_this_process)
    found = open_store()
    assert found is not None
    yield found
    shutil.rmtree(kernels / tuned.FOLDER, ignore_errors=True)
    (kernels / tuned.FOLDER).unlink(missing_ok=True)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """`native` is sm_80, on a GPU of the bench's name."""
    for module in (driver, tuning):
        monkeypatch.setattr(module, "current_device", lambda: Device(0, DEVICE, (8, 0), 163 * 1024, 108))


def in_this_process(jobs: list[Job], processes: int | None, until: float = 0.0) -> list[BaseException | None]:
    for job in jobs:
        compile_job(job)
    return [None] * len(jobs)


def tune(times: Any = None, wrong: Any = None, **given: Any) -> lt.Tuned:
    """By default the second candidate is the fastest."""
    bench = FakeBench({} if times is None else times, wrong, others=2.0)
    schedules = [each.shorthand() for each in tuning.candidates(SPEC, get(TARGET), most=2)]
    if times is None:
        bench.times = {schedules[0]: 1.1, schedules[1]: 1.0}
    return lt.tune(SPEC, TARGET, most=2, bench=lambda *_: bench, progress=False, **given)


def test_the_fastest_is_found_kept_and_used(gpu: None, store: KernelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    own = lt.compile_gemm(SPEC, TARGET).schedule
    assert lt.compile_gemm(SPEC, "native").schedule == own
    found = tune()
    assert (found.own_choice, found.candidates, found.certain, found.device) == (own, 2, True, DEVICE)
    assert found.schedule != own and found.speedup == pytest.approx(1.1, rel=0.01)
    assert lt.compile_gemm(SPEC, "native").schedule == found.schedule == lt.tuned_schedule(SPEC)
    assert lt.compile_gemm(SPEC).schedule == found.schedule
    assert lt.tuned_schedule(SPEC, TARGET, device="another GPU") is None
    assert lt.tuned_schedule(SPEC, TARGET, device=DEVICE, numerics="any") is None
    # Who names a target, says no, or gives a schedule, gets what was got before.
    assert lt.compile_gemm(SPEC, TARGET).schedule == own
    assert lt.compile_gemm(SPEC, "native", tuned=False).schedule == own
    monkeypatch.setenv("LOWTIDE_TUNED", "off")
    assert lt.compile_gemm(SPEC, "native").schedule == own


@pytest.fixture
def schedules() -> list[str]:
    return [each.shorthand() for each in tuning.candidates(SPEC, get(TARGET), most=2)]


def tune_energy(times: dict[str, float], joules: dict[str, float] | None, **given: Any) -> tuple[lt.Tuned, FakeBench]:
    bench = FakeBench(times)
    bench.joules_of = joules
    options = {"most": 2, "objective": "energy", "progress": False, **given}
    return lt.tune(SPEC, TARGET, bench=lambda *_: bench, **options), bench


def test_the_least_energy_is_kept_though_it_takes_longer(gpu: None, schedules: list[str]) -> None:
    own, other = schedules
    found, _ = tune_energy({own: 1.0, other: 1.04}, {own: 3.0, other: 2.0})
    assert found.schedule.shorthand() == other and found.certain and found.rounds >= 3
    assert found.joules == pytest.approx(2.0, rel=0.01) and found.own_joules == pytest.approx(3.0, rel=0.01)
    assert found.speedup == pytest.approx(1 / 1.04, rel=0.01)
    assert lt.compile_gemm(SPEC, "native").schedule == found.schedule


def test_the_chosen_schedule_stays_unless_another_takes_less_energy_by_the_margin(
    gpu: None, schedules: list[str]
) -> None:
    own, other = schedules
    found, _ = tune_energy({own: 1.0, other: 1.0}, {own: 1.004, other: 1.0})
    assert found.schedule == found.own_choice and found.speedup == 1.0 and found.joules == found.own_joules


def test_energy_is_not_measured_of_kernels_that_are_far_slower(gpu: None, schedules: list[str]) -> None:
    own, other = schedules
    found, bench = tune_energy({own: 1.0, other: 1.2}, {own: 2.0})
    assert found.schedule == found.own_choice and bench.asked.count(f"energy of {own}") == 1
    # The own choice is measured, however slow it is.
    _, bench = tune_energy({own: 2.0, other: 1.0}, {own: 2.0, other: 1.0})
    assert {f"energy of {own}", f"energy of {other}"} < {*bench.asked}


def test_without_a_counter_energy_is_refused_before_anything_is_timed(gpu: None, schedules: list[str]) -> None:
    with pytest.raises(DeviceError, match=r"\[energy-counter\]"):
        tune_energy({}, None)
    bench = FakeBench({})
    with pytest.raises(SpecError, match=r"objective='power': give 'time' or 'energy' \[tuning-objective\]"):
        lt.tune(SPEC, TARGET, objective="power", bench=lambda *_: bench)
    assert not bench.admitted


def test_the_chosen_schedule_stays_where_nobody_is_faster(gpu: None) -> None:
    found = tune(times={"none": 1.0})
    assert found.schedule == found.own_choice and found.speedup == 1.0
    assert lt.compile_gemm(SPEC, "native").schedule == found.own_choice


def edit(store: KernelStore, **entries: str) -> None:
    """Change a record, so that its digest is right."""
    (path,) = (store.folder / tuned.FOLDER).iterdir()
    held = json.loads(path.read_text())
    tuned.keep_record(store, held["key"], held | entries)


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("grid.tile = [128, 128], atoms = [3, 1, 1]", "ignored"),  # not legal
        ("bogus = 1", "unknown schedule field"),
        ("split", "D would have other bits"),
    ],
)
def test_what_is_of_no_use_any_more_is_ignored_and_said(gpu: None, store: KernelStore, schedule: str, why: str) -> None:
    found = tune()
    if schedule == "split":
        divided = lt.Schedule().with_(grid_tile=(64, 64), k=32, atoms=(2, 2, 1), stages=2, k_division="split(2)")
        schedule = lt.compile_gemm(SPEC, TARGET, divided).schedule.shorthand()
    edit(store, schedule=schedule)
    with pytest.warns(CacheWarning, match=why):
        assert lt.compile_gemm(SPEC, "native").schedule == found.own_choice


def test_damage_is_said_and_the_schedule_chosen(gpu: None, store: KernelStore) -> None:
    found = tune()
    (path,) = (store.folder / tuned.FOLDER).iterdir()
    for text in (path.read_text().replace("certain", "uncertain"), "{", "[]"):
        path.write_text(text)
        with pytest.warns(CacheWarning, match="it is ignored, and a schedule is chosen"):
            assert lt.compile_gemm(SPEC, "native").schedule == found.own_choice
    tune()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lt.compile_gemm(SPEC, "native").schedule == found.schedule
    assert tuned.count_records(store) == 1


def test_of_two_that_tune_the_same_the_last_whole_result_stays(store: KernelStore) -> None:
    entries = dict.fromkeys(tuned._ENTRIES, 0)
    key, seen, done = "0" * 64, set(), threading.Event()

    def write(number: int) -> None:
        for _ in range(40):
            tuned.keep_record(store, key, entries | {"schedule": str(number) * 1000})

    def read() -> None:
        while not done.is_set():
            record = tuned.load_record(store, key)
            seen.add("" if record is None else record["schedule"])
        seen.add("no warning was an error")

    writers = [threading.Thread(target=write, args=(number,)) for number in (1, 2)]
    reader = threading.Thread(target=read)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for each in (reader, *writers):
            each.start()
        for each in writers:
            each.join()
        done.set()
        reader.join()
    assert seen - {"", "1" * 1000, "2" * 1000} == {"no warning was an error"}
    assert len(list((store.folder / tuned.FOLDER).iterdir())) == 1


def test_the_command_cache_counts_and_removes_what_was_tuned(store: KernelStore) -> None:
    tune()
    listed = CliRunner().invoke(app, ["cache", "list"]).output
    assert "1 schedule" in listed
    tuned.clear_records(store)
    assert tuned.count_records(store) == 0
    assert "tuned" not in CliRunner().invoke(app, ["cache", "list"]).output


def test_a_journal_is_gone_on_from_and_of_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "journal.json"
    first = tune(journal=path)
    again = tune(journal=path)
    assert (again.schedule, again.rounds, again.certain) == (first.schedule, first.rounds, first.certain)
    held = json.loads(path.read_text())
    path.write_text(json.dumps(held | {"of": held["of"] | {"version": "0"}}))
    with pytest.raises(Error, match=r"version.*\[other-journal\]"):
        tune(journal=path)


def test_bad_input_is_refused_with_the_way_out(store: KernelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match=r'target="native" needs a GPU.*\[native-gpu\]'):
        lt.tune(SPEC, "native")
    for given in ((), (TARGET,)):
        with pytest.raises(DeviceError, match=r"torch.*\[timing-torch\]"):
            lt.tune(SPEC, *given)
    with pytest.raises(SpecError, match=r"the spec leaves m to run time.*\[tuned-extent\]"):
        lt.tune(lt.GemmSpec(n=64, k=64, a="f16", b="f16", d="f16"), TARGET)
    with pytest.raises(SpecError, match=r"has m.*none.*\[tuned-extent\]"):
        tune(at={"m": 64})
    with pytest.raises(SpecError, match=r"budget=0.*\[tuning-limits\]"):
        tune(budget=0)
    with pytest.raises(SpecError, match=r"\[numerics-word\]"):
        tune(numerics="some")
    own = tuning.candidates(SPEC, get(TARGET), most=1)[0].shorthand()
    with pytest.raises(CompileError, match=r"off by one.*\[chosen-wrong\]"):
        tune(wrong={own: "off by one"})
    (store.folder / tuned.FOLDER).write_text("no folder")
    bench = FakeBench({})
    with pytest.raises(Error, match=r"the result of tuning cannot be kept.*\[tuned-not-kept\]"):
        lt.tune(SPEC, TARGET, bench=lambda *_: bench)
    assert not bench.admitted  # it is said before anything is measured
    monkeypatch.setenv("LOWTIDE_CACHE", "off")
    with pytest.raises(Error, match=r"\[tuning-cache\]"):
        tune()


def lowtide(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["tune", *arguments])


def test_the_command_tunes_the_shapes_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def fake(spec: lt.GemmSpec, target: str, **given: Any) -> lt.Tuned:
        asked.append((spec.m, spec.a, spec.layout, target, given["journal"]))
        if spec.m == 9:
            raise Error("refused")
        own = lt.Schedule()
        return lt.Tuned(own, own, 1e-6, 2e-6, 2.0, True, 0.95, 0.01, 2, 16, DEVICE, {})

    monkeypatch.setattr(cli, "tune", fake)
    shapes = tmp_path / "shapes"
    shapes.write_text("# two\n64 64 64\n\n9 64 64\n128 64 64 dtype=f16 layout=nt # the last\n")
    done = lowtide("--shapes", str(shapes), "--journal", str(tmp_path / "j"), "--target", TARGET, "--dtype", "bf16")
    assert done.exit_code == 2 and "1 of 3 problems were refused" in done.output
    assert [each[:4] for each in asked] == [
        (64, "bf16", "tn", TARGET),
        (9, "bf16", "tn", TARGET),
        (128, "f16", "nt", TARGET),
    ]
    assert len({each[4] for each in asked}) == 3
    assert "2.000" in done.output and "the chosen one" in done.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("64 64\n", "line 1: '64 64': write M N K"),
        ("64 64 x\n", "write M N K"),
        ("64 64 64 tile=3\n", "the words are dtype"),
        ("64 64 64 dtype=f17\n", "line 1: unknown dtype"),
        ("# nothing\n", "has no problems"),
    ],
)
def test_a_file_that_has_no_shapes_is_refused_with_the_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "shapes").write_text(text)
    done = lowtide("--shapes", str(tmp_path / "shapes"))
    assert done.exit_code == 2 and message in done.output


def test_shapes_beside_extents_and_none_at_all_are_refused(tmp_path: Path) -> None:
    assert "leave them out" in lowtide("--shapes", "file", "--m", "64").output
    assert "[tuned-extents]" in lowtide("--m", "64").output
    assert "cannot read" in lowtide("--shapes", str(tmp_path / "none")).output


def test_what_is_no_faster_once_clocks_have_settled_is_not_kept(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeBench, "settled_seconds", lambda self, name: 1.0)
    found = tune()
    assert found.schedule == found.own_choice and found.speedup == 1.0
