"""benchmarks/any_shape.py without a GPU: its options, the draw of a folder, and what it prints and records."""

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lowtide.measurement.bench.any_shape.draws import Drawn
from lowtide.measurement.bench.any_shape.journal import Journal, origin_of
from lowtide.measurement.bench.any_shape.kernels import Choice, KernelFolder
from lowtide.measurement.bench.any_shape.racing import Raced

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    if str(ROOT / "benchmarks") not in sys.path:
        sys.path.append(str(ROOT / "benchmarks"))
    return importlib.import_module("any_shape")


@pytest.fixture
def gpu(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """A GPU on which each launch takes a second. Compiling a kernel writes a note. Gives what was asked for, in
    order."""
    asked: list[Any] = []
    found = importlib.import_module("lowtide.measurement.bench.any_shape.races")

    def race_one(shape: Drawn, kernels: Any, settings: Any, seed: int, *, with_matmul: bool) -> Raced:
        asked.append((shape.name, settings.rounds, settings.algorithms, with_matmul))
        return Raced({"torch": [1.0] * settings.rounds}, {}, {})

    def compile_missing(folder: KernelFolder, shapes: Sequence[Drawn], target: str, *rest: Any) -> None:
        asked.append((folder.path.name, len(shapes), target))
        for shape in shapes:
            folder.keep(shape, None, Choice(refusal="not today"))

    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(found, "race_shape", race_one)
    monkeypatch.setattr(found, "gpu_is_usable", lambda: True)
    monkeypatch.setattr(KernelFolder, "compile_missing", compile_missing)
    monkeypatch.setattr(script, "warm_matmul", lambda shapes, jobs, until, say: asked.append(("warm", len(shapes))))
    for module in (script, found):
        monkeypatch.setattr(module, "device_and_software", lambda: ("NVIDIA X", "torch 0"))
    monkeypatch.setattr(script, "end_process_after", lambda seconds, status: asked.append(("ends", status)))
    return asked


def test_a_draw_is_printed_and_its_seed_is_new_unless_it_is_given(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    def drawn(*more: str) -> list[str]:
        assert script.main(["draw", "--count", "4", "--layout", "nt", "--layout", "tn", "--rows", "256", *more]) == 0
        return capsys.readouterr().out.splitlines()

    first, again = drawn("--seed", "5"), drawn("--seed", "5")
    assert first == again and len(first) == 9 and json.loads(first[0])["layouts"] == ["nt", "tn"]
    assert drawn()[0] != drawn()[0]
    assert script.main(["draw", "--public"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 17


def test_bad_options_are_refused_before_anything_is_written(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["compile", "--out", str(tmp_path / "out"), "--dtype", "e4m3", "--layout", "nt"]) == 2
    assert "[draw-scaled]" in capsys.readouterr().err
    for words in (["race"], ["race", "--journal", "x", "--layout", "xy"], ["walk"], []):
        with pytest.raises(SystemExit):
            script.main(words)
    assert script.main(["compare", "--journal", str(tmp_path / "j"), str(tmp_path), str(tmp_path)]) == 2
    assert "has no kernels of `any_shape.py compile`" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_without_a_gpu_nothing_is_compiled_or_written(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    assert script.main(["race", "--journal", str(tmp_path / "run")]) == 2
    assert "error: torch is not installed" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_a_race_goes_on_with_the_draw_of_its_folder(
    script: ModuleType, gpu: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["race", "--journal", str(tmp_path / "run"), "--commit", "abc", "--build", str(tmp_path / "build")]
    assert script.main([*run, "--count", "2", "--minutes", "0"]) == 3
    origin = origin_of(tmp_path / "run")
    assert origin is not None
    build = f"{script.own_digest()[:12]}-sm_90a-{origin.draw.seed}"
    assert gpu == [("ends", 3), (build, 2, "sm_90a"), ("warm", 2)]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["draw.json"]
    assert origin.draw.count == 2 and origin.commit == "abc"
    gpu.clear()
    assert script.main([*run, "--rounds", "3", "--cublaslt", "8"]) == 0
    assert [one[1:] for one in gpu[3:]] == [(3, 8, True)] * 2
    out = capsys.readouterr().out
    assert "**bf16 tn**" in out and "not today" in out and "| bf16, own kernel, tn |" in out and "incomplete" in out
    assert script.main([*run, "--count", "3"]) == 2
    assert "is of another draw" in capsys.readouterr().err
    assert script.main(["race", "--journal", str(tmp_path / "run"), "--commit", "def"]) == 2
    assert "is of commit abc" in capsys.readouterr().err


def test_kernels_of_another_machine_bring_their_draw(script: ModuleType, gpu: list[Any], tmp_path: Path) -> None:
    kernels, run = tmp_path / "kernels-of-abc", tmp_path / "run"
    assert script.main(["compile", "--out", str(kernels), "--count", "2", "--commit", "abc", "--target", "sm_90"]) == 0
    more = ["--journal", str(run), "--kernels", str(kernels), "--without-matmul"]
    assert script.main(["race", *more]) == 0
    assert gpu[0] == ("kernels-of-abc", 2, "sm_90") and [one[3] for one in gpu[2:]] == [False, False]
    assert origin_of(run) == origin_of(kernels)
    assert script.main(["compile", "--out", str(kernels), "--commit", "def"]) == 2


def test_two_commits_are_compared_on_one_draw(
    script: ModuleType, gpu: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for commit, seed in (("old", "1"), ("new", "1"), ("other", "2")):
        words = ["--out", str(tmp_path / commit), "--count", "2", "--commit", commit, "--seed", seed]
        assert script.main(["compile", *words]) == 0
    compare = ["compare", "--journal", str(tmp_path / "run")]
    assert script.main([*compare, str(tmp_path / "old"), str(tmp_path / "new")]) == 0
    lines = Journal(tmp_path / "run").lines.values()
    assert {line["commit"] for line in lines} == {"old to new"}
    assert all(line["failed"] == dict.fromkeys(("old", "new"), "not today [shape-refused]") for line in lines)
    capsys.readouterr()
    assert script.main([*compare[:-1], str(tmp_path / "b"), str(tmp_path / "old"), str(tmp_path / "other")]) == 2
    assert "is of another draw" in capsys.readouterr().err


def test_a_journal_is_reported_and_recorded(
    script: ModuleType, gpu: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["--journal", str(tmp_path / "run")]
    assert script.main(["report", *run]) == 2
    assert "[journal-empty]" in capsys.readouterr().err
    build = ["--build", str(tmp_path / "build")]
    assert script.main(["race", *run, *build, "--count", "2", "--seed", "9", "--commit", "abc"]) == 0
    printed = capsys.readouterr().out
    assert script.main(["report", *run]) == 0
    assert capsys.readouterr().out == printed == (tmp_path / "run" / "report.md").read_text() + "\n"
    assert script.main(["record", *run, "--results", str(tmp_path)]) == 0
    result = script.record.load(tmp_path / "any-shape-9.json")
    assert (result.device, result.commit, result.seed, result.rounds) == ("NVIDIA X", "abc", "9", "5")
    assert result.about == "2 of 2 shapes" and len(result.rows) == 2 and result.software == "torch 0"
    ran_on = [{"seconds": {"torch": [1.0] * count}} for count in (5, 7, 20)]
    assert script.rounds_of(ran_on) == "5 to 20" and script.rounds_of([{"seconds": {}}]) == "0"


def test_the_commit_is_that_of_the_checkout(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"rev-parse": "0123456789\n", "status": ""}

    def git(command: list[str], **options: Any) -> SimpleNamespace:
        return SimpleNamespace(stdout=said[command[3]])

    with monkeypatch.context() as patch:
        patch.setattr(script.subprocess, "run", git)
        assert script.commit_at_hand() == "0123456789"
        said["status"] = " M file"
        assert script.commit_at_hand() == f"0123456789+{script.own_digest()[:6]}"
    monkeypatch.setattr(script, "HERE", tmp_path)
    assert script.main(["compile", "--out", str(tmp_path / "out")]) == 2
    assert "give --commit" in capsys.readouterr().err


def test_peers_are_made_by_the_scripts_of_this_folder(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("quack_gemm")
    made.contenders = lambda sets: [("QuACK", sets)]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "quack_gemm", made)
    arguments = script.commands().parser.parse_args(["race", "--journal", "x", "--peer", "quack", "--warm", "5"])
    settings = script.settings(arguments)
    assert settings.peers(["set"]) == [("QuACK", ["set"])] and settings.warm_ms == 5
