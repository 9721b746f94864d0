"""The races of drawn shapes with a simulated GPU: who takes part, the results of failures, and when a run ends."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lowtide.errors import CompileError, DeviceError, Error, LoadError, ScheduleError
from lowtide.measurement.bench import scaled
from lowtide.measurement.bench.any_shape import compiling, kernels, races, racing
from lowtide.measurement.bench.any_shape.draws import Drawn
from lowtide.measurement.bench.any_shape.journal import Journal
from lowtide.measurement.bench.any_shape.kernels import Choice, KernelFolder
from lowtide.measurement.bench.any_shape.races import DONE, GPU_LOST, OUT_OF_TIME, Races, run_of
from lowtide.measurement.bench.any_shape.racing import Raced, Settings, race_shape
from lowtide.measurement.bench.any_shape.rows import MATMUL, NEW, OLD, OWN
from lowtide.measurement.bench.contest import Standings
from lowtide.measurement.bench.corners.cells import cells
from lowtide.measurement.bench.gpu_timing import Contender, Operands

SMALL = Drawn(40, 256, 64, None, "bf16", "nt", "log-uniform", "bf16 nt")
SHAPES = [Drawn(m, 256, 64, None, "bf16", "tn", "log-uniform", "bf16 tn") for m in (3, 5, 7)]
SCALED = Drawn(40, 256, 64, None, "e4m3", "tn", "log-uniform", "e4m3 tn by rows")


class Matrix:
    """A tensor with a transposed view."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def mT(self) -> "Matrix":
        return Matrix(f"{self.name}ᵀ")

    def reshape(self, extent: int) -> "Matrix":
        return self

    @property
    def ndim(self) -> int:
        return 2


class Gpu:
    """The calls of `lt.matmul` and of kernels; and the parts of `torch.cuda` that a race needs."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.emptied = 0
        self.is_lost = False
        self.cuda = SimpleNamespace(empty_cache=self._empty, synchronize=self._synchronize)
        self.bfloat16, self.float8_e4m3fn = "bf16", "e4m3"

    def _empty(self) -> None:
        self.emptied += 1

    def _synchronize(self) -> None:
        if self.is_lost:
            raise RuntimeError("an illegal memory access was encountered")

    def manual_seed(self, seed: int) -> None:
        self.calls.append(("seed", seed))

    def empty(self, shape: tuple[int, ...], device: str, dtype: str) -> Matrix:
        return Matrix(f"{dtype}{shape}")

    def ones(self, extent: int, device: str) -> Matrix:
        return Matrix(f"ones({extent})")

    def matmul(self, a: Matrix, b: Matrix, **more: Any) -> None:
        self.calls.append((a.name, b.name, *(value.name for key, value in more.items() if key != "epilogue")))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    found = Gpu()

    def explain(a: Matrix, b: Matrix, **options: Any) -> SimpleNamespace:
        return SimpleNamespace(schedule="#tile.schedule<\n  grid>")

    matmul: Any = lambda a, b, **options: found.matmul(a, b, **options)  # noqa: E731
    matmul.explain = explain
    monkeypatch.setattr(racing, "matmul", matmul)
    monkeypatch.setattr(racing, "torch_with_gpu", lambda: found)
    monkeypatch.setattr(races, "device_and_software", lambda: ("NVIDIA X", "torch 0"))
    return found


class FakeContest:
    """Adds contenders as `Contest` does: a contender whose launch raises an Error is left out."""

    paces: list[Any]
    error: Exception | None = None

    def __init__(self, spec: Any, seed: int, say: Callable[[str], None]) -> None:
        self.sets = [Operands(Matrix("a"), Matrix("b"), Matrix("d"), spec.layout)] * 2
        self.left_out: dict[str, str] = {}
        self.others: list[Contender] = []
        self.say = say

    def __enter__(self) -> "FakeContest":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def add(self, contender: Contender) -> bool:
        try:
            contender.launch(1)
        except Error as error:
            self.left_out[contender.name] = str(error)
            self.say(f"{contender.name}: left out: {error}")
            return False
        self.others.append(contender)
        return True

    def run(self, rounds: int, algorithms: int, finalists: int, choose_pace: Any) -> Standings:
        if FakeContest.error is not None:
            raise FakeContest.error
        self.say("cuBLASLt: 3 algorithms refused to run")
        self.say("id 7: left out: it is wrong")
        FakeContest.paces = [choose_pace(1e-9), choose_pace(1.0)]
        for number, one in enumerate(self.others, 2):
            one.sustained[:] = [float(number)] * rounds
        torch = Contender("torch.matmul", lambda i: None, [1.0] * rounds)
        best = Contender("id 1", lambda i: None, [2.0] * rounds)
        return Standings(1.0, torch, (best,) if algorithms else (), algorithms, tuple(self.others), self.left_out)


def test_all_contenders_of_a_shape_race_and_what_raises_is_left_out_with_its_reason(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(racing, "Contest", FakeContest)
    launched: list[str] = []

    def own(a: Matrix, b: Matrix, out: Matrix) -> None:
        launched.append(f"{a.name} {b.name} {out.name}")

    def broken(a: Matrix, b: Matrix, out: Matrix) -> None:
        raise AssertionError("no such case")

    found = race_shape(SMALL, {OWN: own, "broken": broken}, Settings(3, 20, 40, 8), 1, with_matmul=True)  # type: ignore[dict-item]
    assert found.seconds == {"torch": [1.0] * 3, "cuBLASLt": [2.0] * 3, OWN: [2.0] * 3, MATMUL: [3.0] * 3}
    assert found.failed == {"broken": "broken: AssertionError: no such case [contender-raised]"}
    assert found.cublaslt == "id 1, of 8" and found.schedules == {MATMUL: "#tile.schedule< grid>"}
    # A kernel takes operands as they lie in memory, lt.matmul as matrices of (M, K) and (K, N).
    assert launched == ["a b d"] and gpu.calls == [("aᵀ", "b", "d")] and gpu.emptied == 1


def test_an_error_of_the_gpu_is_the_failure_of_the_shape_beside_that_of_its_cause(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(a: Matrix, b: Matrix, out: Matrix) -> None:
        raise DeviceError("an illegal access [some-code]")

    monkeypatch.setattr(racing, "Contest", FakeContest)
    monkeypatch.setattr(FakeContest, "error", RuntimeError("CUDA error"))
    given: Any = {OWN: broken}
    found = race_shape(SMALL, given, Settings(1), 1, with_matmul=False)
    assert found.failed == {OWN: "an illegal access [some-code]", "": "RuntimeError: CUDA error"} and not found.seconds


def test_without_cublaslts_answer_a_shape_races_beside_torch_and_the_reason_is_kept(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Contest(FakeContest):
        def run(self, rounds: int, algorithms: int, finalists: int, choose_pace: Any) -> Standings:
            if algorithms:
                raise DeviceError("it offers nothing [cublaslt-algorithm]")
            return super().run(rounds, algorithms, finalists, choose_pace)

    monkeypatch.setattr(racing, "Contest", Contest)
    found = race_shape(SMALL, {OWN: lambda a, b, out: None}, Settings(2, algorithms=8), 1, with_matmul=False)  # type: ignore[dict-item]
    assert found.seconds == {"torch": [1.0] * 2, OWN: [2.0] * 2}
    assert found.failed == {"cuBLASLt": "it offers nothing [cublaslt-algorithm]"}


def test_a_shape_without_peers_is_timed_alone_and_a_wrong_kernel_fails(
    errors: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = next(cell for cell in cells() if not cell.has_peers)
    monkeypatch.setattr(racing, "complaint", lambda one, sets, spec: "off" if one.name == "wrong" else "")
    given: Any = {OWN: lambda a, b, out: None, "wrong": lambda a, b, out: None}
    found = race_shape(cell, given, Settings(2), 1, with_matmul=False)
    assert found.seconds == {OWN: [1.0] * 2} and found.failed == {"wrong": "off"}


def test_a_product_far_below_the_power_limit_is_timed_for_a_quarter_and_nothing_in_bursts(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(racing, "Contest", FakeContest)
    race_shape(SMALL, {}, Settings(1, 20.0, 40.0), 1, with_matmul=False)
    hot, cool = FakeContest.paces
    assert (hot.warm_ms, hot.sustained_ms, hot.burst) == (20.0, 40.0, False)
    assert (cool.warm_ms, cool.sustained_ms, cool.burst) == (5.0, 10.0, False)


def test_further_peers_take_part_in_tn_only(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(racing, "Contest", FakeContest)

    def peers(sets: Sequence[Operands]) -> list[Contender]:
        return [Contender("QuACK", lambda i: None)]

    settings = Settings(1, peers=peers)
    assert list(race_shape(SHAPES[0], {}, settings, 1, with_matmul=False).seconds) == ["torch", "QuACK"]
    assert list(race_shape(SMALL, {}, settings, 1, with_matmul=False).seconds) == ["torch"]


@pytest.fixture
def errors(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Relative errors of products with scales, by contender."""
    found: dict[str, float] = {}

    def error_of(torch: Any, contender: Contender, *rest: Any) -> float:
        contender.launch(0)
        return found.get(contender.name, 1e-4)

    def race(contenders: Sequence[Contender], sets: int, rounds: int, seed: int, pace: Any) -> None:
        for one in contenders:
            one.sustained[:] = [1.0] * rounds

    sets = [Operands(Matrix("a"), Matrix("b"), Matrix("d"), "tn")] * 2
    monkeypatch.setattr(racing, "operand_sets", lambda spec, seed: sets)
    monkeypatch.setattr(racing, "race", race)
    monkeypatch.setattr(scaled, "scales", lambda torch, kind, size: (Matrix("sa"), Matrix("sb")))
    monkeypatch.setattr(scaled, "of_torch", lambda *arguments: lambda i: None)
    monkeypatch.setattr(scaled, "error_of", error_of)
    return found


def test_products_with_scales_race_beside_torchs_and_wrong_ones_are_left_out(
    errors: dict[str, float], gpu: Gpu
) -> None:
    def own(a: Matrix, b: Matrix, scale_a: Matrix, scale_b: Matrix, out: Matrix) -> None:
        assert (scale_a.name, scale_b.name) == ("sa", "sb")

    def refusing(a: Matrix, b: Matrix, **more: Any) -> None:
        raise LoadError("it is refused [some-code]")

    given: Any = {OWN: own, "wrong": own, "refusing": refusing}
    errors["wrong"] = 1.0
    found = race_shape(SCALED, given, Settings(2), 1, with_matmul=True)
    assert found.seconds == {"torch": [1.0] * 2, OWN: [1.0] * 2, MATMUL: [1.0] * 2}
    assert found.failed == {
        "wrong": "relative error 1.0e+00, more than 2.5e-03",
        "refusing": "it is refused [some-code]",
    }
    assert ("a", "bᵀ", "sa", "sb", "d") in gpu.calls and found.schedules[MATMUL] == "#tile.schedule< grid>"
    errors["torch"] = 1.0
    assert "[gpu-scales-untrusted]" in race_shape(SCALED, {}, Settings(2), 1, with_matmul=False).failed[""]


def test_a_call_that_compiles_has_the_arrays_of_the_shape(gpu: Gpu) -> None:
    racing.call_matmul(SMALL)
    racing.call_matmul(SCALED)
    assert gpu.calls == [
        ("bf16(64, 40)ᵀ", "bf16(64, 256)", "bf16(40, 256)"),
        ("e4m3(40, 64)", "e4m3(256, 64)ᵀ", "ones(40)", "ones(256)", "bf16(40, 256)"),
    ]


def test_the_kernels_of_matmul_are_compiled_by_processes_until_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Drawn] = []
    ran: list[Any] = []

    class Pool:
        def __init__(self, count: int, context: Any) -> None:
            assert count == 2 and context.get_start_method() == "spawn"

        def __enter__(self) -> "Pool":
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def submit(self, function: Any, *arguments: Any) -> SimpleNamespace:
            function(*arguments)
            return SimpleNamespace(cancel=lambda: ran.append("cancelled"), exception=lambda: ran.append("waited"))

    monkeypatch.setattr(kernels, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(racing, "call_matmul", called.append)
    kernels.warm_matmul(SHAPES, 2, time.monotonic() + 60, print)
    kernels.warm_matmul([], 2, time.monotonic() + 60, print)
    assert called == SHAPES and ran == ["waited"] * 3
    kernels.warm_matmul(SHAPES, 2, 0.0, print)
    assert ran[3:] == ["cancelled"] * 3


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> KernelFolder:
    """The kernels of three shapes: one compiled here, one refused, one that was not started."""
    patch = pytest.MonkeyPatch()
    folder = KernelFolder(tmp_path_factory.mktemp("kernels"))

    def compile_all(jobs: Sequence[Any], processes: int | None, until: float) -> list[BaseException | None]:
        assert len(jobs) == 3 and "tile.gemm" in jobs[0].problem and jobs[0].target == "sm_90a"
        return [None, ScheduleError("no schedule [some-code]"), CompileError(f"too late [{compiling._UNDONE[0]}]")]

    with patch.context() as own:
        own.setenv("LOWTIDE_CACHE", str(folder.path / "cache"))
        own.setattr(compiling, "compile_all", compile_all)
        folder.compile_missing(SHAPES, "sm_90a", None, time.monotonic() + 60, lambda text: None)
    return folder


def test_kernels_and_refusals_are_saved_and_what_was_not_started_stays_missing(compiled: KernelFolder) -> None:
    assert [compiled.has(shape) for shape in SHAPES] == [True, True, False]
    kernel, choice = compiled.kernel(SHAPES[0])
    assert (kernel.manifest["spec"]["m"], kernel.manifest["spec"]["n"]) == (3, 256) and "cycles" in choice.reason
    with pytest.raises(Error, match=r"no schedule \[some-code\]"):
        compiled.kernel(SHAPES[1])
    with pytest.raises(Error, match=r"\[shape-kernel-missing\]"):
        compiled.kernel(SHAPES[2])


def test_kernels_that_are_there_are_not_compiled_again(compiled: KernelFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_into(folder: KernelFolder, shapes: Sequence[Drawn], *rest: Any) -> None:
        assert list(shapes) == SHAPES[2:]

    monkeypatch.setattr(compiling, "compile_into", compile_into)
    said: list[str] = []
    compiled.compile_missing(SHAPES, "sm_90a", None, time.monotonic() + 60, said.append)
    compiled.compile_missing(SHAPES[:2], "sm_90a", None, time.monotonic() + 60, said.append)
    compiled.compile_missing(SHAPES, "sm_90a", None, 0.0, said.append)
    assert said == ["compiling 1 kernels"]


def test_without_a_cache_processes_cannot_share_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOWTIDE_CACHE", "off")
    with pytest.raises(Error, match=r"\[shapes-cache\]"):
        KernelFolder(tmp_path).compile_missing(SHAPES, "sm_90a", 1, time.monotonic() + 60, print)


def test_a_refusal_of_another_tool_gets_a_code(tmp_path: Path) -> None:
    folder = KernelFolder(tmp_path)
    folder.keep(SMALL, None, Choice(refusal="KeyError: 'm'"))
    with pytest.raises(Error, match=r"KeyError: 'm' \[shape-refused\]"):
        folder.kernel(SMALL)


def test_a_damaged_note_of_a_kernel_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{SMALL.name}.json").write_text("[", encoding="utf-8")
    with pytest.raises(LoadError, match=r"\[shape-kernel-note\]"):
        KernelFolder(tmp_path).kernel(SMALL)


Made = Callable[..., Races]


@pytest.fixture
def made(gpu: Gpu, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiled: KernelFolder) -> Made:
    """Races of the compiled kernels, in tmp_path. Each contender takes a second. With 5 rows, torch fails."""

    def race_one(shape: Drawn, kernels: Any, settings: Settings, seed: int, *, with_matmul: bool) -> Raced:
        if shape.m == 5:
            return Raced(failed={"": "RuntimeError: CUDA error"})
        return Raced({"torch": [1.0], **{name: [0.5] for name in kernels}}, {}, {MATMUL: "#s"} if with_matmul else {})

    monkeypatch.setattr(races, "race_shape", race_one)

    def make(folders: dict[str, KernelFolder] | None = None, **more: Any) -> Races:
        return Races(7, "abc", Journal(tmp_path / "run"), Settings(), folders or {OWN: compiled}, "it", **more)

    return make


def test_every_shape_has_a_line_and_failures_have_their_reasons(made: Made) -> None:
    found = made()
    assert found.run(SHAPES, time.monotonic() + 60, print) == DONE
    first, second, third = Journal(found.journal.path.parent).lines.values()
    assert first["seconds"] == {"torch": [1.0], OWN: [0.5]} and first["failed"] == {}
    assert first["schedules"][OWN].startswith("#tile.schedule<") and "cycles" in first["reason"]
    assert (first["card"], first["commit"], first["seed"], first["command"]) == ("NVIDIA X", "abc", 7, "it")
    assert (first["m"], first["layout"], first["source"], first["shape"]) == (3, "tn", "log-uniform", "3×256×64")
    assert second["failed"] == {OWN: "no schedule [some-code]", "": "RuntimeError: CUDA error"}
    assert list(third["failed"]) == [OWN] and third["seconds"] == {"torch": [1.0]}
    run = run_of(found.journal)
    assert (run.device, run.commit, run.seed, len(run.rows)) == ("NVIDIA X", "abc", "7", 3)


def test_a_run_goes_on_with_the_shapes_that_have_no_line(made: Made) -> None:
    said: list[str] = []
    assert made().run(SHAPES, 0.0, said.append) == OUT_OF_TIME
    assert made().run(SHAPES[:1], time.monotonic() + 60, said.append) == DONE
    assert made().run(SHAPES, time.monotonic() + 60, said.append) == DONE
    assert said[0] == "3 of 3 shapes are left for a later run"
    assert sum(text.startswith("1 of ") for text in said) == 1


def test_shapes_whose_kernels_could_not_be_compiled_in_time_are_left_for_later(made: Made) -> None:
    found = made(may_lack=True)
    assert found.run(SHAPES, time.monotonic() + 60, print) == OUT_OF_TIME
    assert list(found.journal.lines) == [shape.name for shape in SHAPES[:2]]


def test_a_run_ends_if_the_gpu_is_lost_and_the_shape_is_not_raced_again(made: Made, gpu: Gpu) -> None:
    gpu.is_lost = True
    found = made()
    assert found.run(SHAPES, time.monotonic() + 60, print) == GPU_LOST
    assert list(found.journal.lines) == [SHAPES[0].name]


def test_a_race_that_hangs_ends_the_process_and_fails_the_third_time(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def exit_process(status: int) -> None:
        assert status == GPU_LOST
        ended.set()

    def hang(*arguments: Any, **options: Any) -> Raced:
        ended.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(races.os, "_exit", exit_process)
    monkeypatch.setattr(races, "race_shape", hang)
    for _ in range(2):
        ended.clear()
        with pytest.raises(KeyboardInterrupt):
            made(most_seconds=0.01).run(SHAPES[:1], time.monotonic() + 60, print)
    found = made()
    assert found.run(SHAPES[:1], time.monotonic() + 60, print) == DONE
    line = found.journal.lines[SHAPES[0].name]
    assert line["failed"] == {"": "it ended the process that raced it, 2 times"} and not line["seconds"]


def test_kernels_of_two_commits_with_equal_code_are_not_timed(
    made: Made, compiled: KernelFolder, tmp_path: Path
) -> None:
    other = KernelFolder(tmp_path / "other")
    kernel, choice = compiled.kernel(SHAPES[0])
    other.keep(SHAPES[0], kernel, choice)
    other.keep(SHAPES[2], kernel, choice)
    compiled_too = KernelFolder(tmp_path / "third")
    compiled_too.keep(SHAPES[0], kernel, choice)
    changed = SimpleNamespace(ptx=kernel.ptx + "\n", manifest=kernel.manifest)
    found = made({OLD: compiled_too, NEW: other}, with_matmul=False)
    assert found.run(SHAPES[:1], time.monotonic() + 60, print) == DONE
    line = found.journal.lines[SHAPES[0].name]
    assert line["equal"] and not line["seconds"] and run_of(found.journal).rows[0].ratios[NEW, OLD] == (1.0, 1.0, 1.0)
    old: Any = SimpleNamespace(kernel=lambda shape: (changed, Choice()), has=lambda shape: True)
    again = made({OLD: old, NEW: other}, with_matmul=False)
    assert again.run(SHAPES[2:], time.monotonic() + 60, print) == DONE
    line = again.journal.lines[SHAPES[2].name]
    assert not line["equal"] and line["seconds"].keys() == {"torch", OLD, NEW}


def test_a_journal_without_races_has_no_report(tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"\[journal-empty\]"):
        run_of(Journal(tmp_path))


def test_the_gpu_is_usable_until_a_launch_has_failed(gpu: Gpu) -> None:
    assert racing.gpu_is_usable()
    gpu.is_lost = True
    assert not racing.gpu_is_usable()
    with suppress(RuntimeError):
        gpu.cuda.synchronize()
