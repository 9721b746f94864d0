"""Kernels compiled ahead, in processes beside this one: their answers, how the processes end, and calls that wait."""

import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.compiler import ahead
from lowtide.compiler.ahead import Ahead, processes_asked
from lowtide.compiler.cache.settings import open_store
from lowtide.compiler.cache.store import PLANS
from lowtide.compiler.epilogue.text import TextEpilogue
from lowtide.compiler.matmul import compilation, kernels, planning, several
from lowtide.compiler.matmul.arrangement import Product
from lowtide.compiler.matmul.family import family_of
from lowtide.compiler.matmul.kernels import Kernels, Wanted
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.matmul.several import ResultsWanted

OF = family_of(Product("f16", "f16", "f16", "tn", "row", None, 64, 64, 64, True, True), Options(), "sm_80")
SAVED = "(acc: f32, %bias: per_column bf16) -> (pre: bf16, d: bf16) { %0 = add acc, %bias; %1 = max %0, 0; %0, %1 }"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    found = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOWTIDE_CACHE", str(found))
        patch.setenv("LOWTIDE_PROCESSES", "1")
        yield found


@pytest.fixture(scope="module")
def started(folder: Path) -> Ahead:
    found = Ahead(modules=())
    found.start()
    return found


def _until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20.0
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def _is_gone(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return True
    return state.rpartition(")")[2].split()[0] == "Z"


def test_a_job_is_done_by_another_process_once(started: Ahead) -> None:
    for key in ("one", "one", "other"):
        started.begin(key, os.getpid)
    assert _until(started._answers["other"].done)
    found = started.result("one")
    assert found == started.result("one") == started.result("other") != os.getpid()


def test_a_job_that_fails_or_was_never_begun_has_no_answer(started: Ahead) -> None:
    started.begin("fails", operator.truediv, 1, 0)
    started.begin("says more", print, "a line that is no answer")
    started.begin("sum", operator.add, 1, 2)
    assert _until(started._answers["sum"].done)
    assert started.result("fails") is None is started.result("says more") is started.result("unknown")
    assert started.result("sum") == 3


def test_a_job_that_is_not_begun_is_left_to_the_caller(started: Ahead) -> None:
    started.begin("long", time.sleep, 0.5)
    started.begin("queued", operator.add, 1, 2)
    assert started.result("queued") is None
    started.begin("after", operator.add, 1, 3)
    assert started.result("queued") is None and started.result("long") is None


def test_a_process_that_dies_is_not_replaced(folder: Path) -> None:
    found = Ahead(modules=())
    found.start()
    found.begin("dies", os._exit, 1)
    assert _until(lambda: found._answers["dies"].running() or found._answers["dies"].done())
    assert found.result("dies") is None
    assert _until(lambda: not found._serving)
    found.begin("later", operator.add, 1, 2)
    assert found.result("later") is None and not found._serving


def test_a_process_without_work_ends_and_is_started_again(folder: Path) -> None:
    found = Ahead(idle=0.3, modules=())
    found.start()
    found.begin("first", os.getpid)
    assert _until(found._answers["first"].done)
    first = found.result("first")
    assert _until(lambda: not found._serving and _is_gone(first))
    found.begin("second", os.getpid)
    assert _until(found._answers["second"].done)
    assert found.result("second") not in (None, first)


def test_no_process_outlives_this_one(folder: Path) -> None:
    program = (
        "import os, time; from lowtide.compiler.ahead import Ahead\n"
        "ahead = Ahead(modules=()); ahead.start(); ahead.begin(0, os.getpid)\n"
        "while not ahead._answers[0].done(): time.sleep(0.02)\n"
        "if not os.fork(): time.sleep(60)\n"  # it keeps the pipes open
        "print(ahead.result(0), flush=True); ahead.begin(1, time.sleep, 60); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        process = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        assert _until(lambda: _is_gone(process))
        os.killpg(parent.pid, signal.SIGKILL)


def test_nothing_is_begun_unless_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Ahead()
    found.begin("key", operator.add, 1, 2)
    assert found.result("key") is None
    for variable, value in (("LOWTIDE_PROCESSES", "off"), ("LOWTIDE_CACHE", "off")):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            off = Ahead()
            off.start()
            off.begin("key", operator.add, 1, 2)
            assert off.result("key") is None and not off._serving


def test_how_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOWTIDE_PROCESSES", raising=False)
    for cores, ranks, wanted in ((1, "", 0), (4, "", 2), (64, "", 8), (64, "8", 4), (8, "0", 4)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: range(cores))
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
        assert processes_asked() == wanted
    monkeypatch.setenv("LOWTIDE_PROCESSES", "3")
    assert processes_asked() == 3
    for wrong in ("-1", "257", "9" * 5000, "²"):
        monkeypatch.setenv("LOWTIDE_PROCESSES", wrong)
        with pytest.raises(lt.Error, match=r"give 0 to 256.*\[ahead-processes\]"):
            processes_asked()


def test_no_more_processes_than_the_system_allows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ahead.threading.Thread, "start", refuse)
    found = Ahead(modules=())
    found.start()
    found.begin("key", operator.add, 1, 2)
    assert found.result("key") is None and not found._serving


def test_a_kernel_begun_is_found_by_its_call(started: Ahead, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "AHEAD", started)
    for module, name in ((planning, "make_plan"), (compilation, "compile_planned")):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("made here"))
    wanted, own = Wanted(OF, 64, None), Kernels()
    own.begin(wanted)
    assert _until(started._answers[wanted].done)
    assert own.get(wanted).manifest["target"] == "sm_80"
    assert len([*(folder / PLANS).iterdir()]) == 1


def test_a_kernel_with_several_results_too(started: Ahead, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "AHEAD", started)
    wanted = ResultsWanted("bf16", "tn", 64, 64, TextEpilogue(SAVED), None, 64, "sm_80")
    wanted.begin()
    assert _until(started._answers[wanted].done)
    store = open_store()
    assert store is not None
    held = len(store.entries())
    monkeypatch.setattr(several.ResultsWanted, "_made", lambda _: pytest.fail("made here"))
    compiled = wanted.compiled()
    monkeypatch.setattr(several.ResultsWanted, "_with", lambda *_: pytest.fail("compile_gemm was called"))
    assert wanted.kernel().manifest == compiled.manifest and len(store.entries()) == held


def test_a_fork_has_no_jobs_of_this_process(started: Ahead, monkeypatch: pytest.MonkeyPatch) -> None:
    started.begin("here", operator.add, 1, 2)
    assert _until(started._answers["here"].done)
    monkeypatch.setattr(ahead.os, "getpid", lambda: -1)
    assert started.result("here") is None
    started.begin("there", operator.add, 1, 2)
    assert started._answers["there"] is None
