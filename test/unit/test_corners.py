"""The corners without a GPU: the table of cells, when a race runs on, the verdicts, the script and its page."""

import importlib
import itertools
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lowtide.errors import Error
from lowtide.measurement.bench.any_shape.draws import Drawn
from lowtide.measurement.bench.any_shape.kernels import Choice, KernelFolder
from lowtide.measurement.bench.any_shape.lines import HELD, INCOMPLETE, MISSED, NOT_MEASURED
from lowtide.measurement.bench.any_shape.racing import Raced
from lowtide.measurement.bench.any_shape.rows import OWN
from lowtide.measurement.bench.any_shape.statistics import median_interval
from lowtide.measurement.bench.corners.cells import KINDS, SHAPES, cells, in_drawn_order, matching
from lowtide.measurement.bench.corners.precision import is_near, until_known
from lowtide.measurement.bench.corners.reasons import read_reasons
from lowtide.measurement.bench.corners.rows import Corner, corner_from, corner_of, texts_of
from lowtide.measurement.bench.corners.verdicts import LINES, below_table, kinds_table, verdict_table
from lowtide.measurement.bench.gpu_timing import Contender
from lowtide.measurement.bench.torch_matmul import product_of

ROOT = Path(__file__).resolve().parents[2]


def module(folder: str, name: str) -> ModuleType:
    if str(ROOT / folder) not in sys.path:
        sys.path.append(str(ROOT / folder))
    return importlib.import_module(name)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return module("benchmarks", "all")


def test_every_cell_is_a_product_of_torch_and_names_are_different() -> None:
    table = cells()
    assert len({cell.name for cell in table}) == len(table) == len(SHAPES) * (6 * 4 + 3)
    for cell in table:
        peer, spec = product_of(cell.dtype), cell.spec
        assert cell.layout in peer.layouts and spec.d in (peer.d or (spec.a,)) and not cell.is_scaled
    assert {(cell.dtype, cell.sums, cell.spec.is_fast) for cell in table if cell.dtype == "e4m3"} == {
        ("e4m3", "fast", True),
        ("e4m3", "f32", False),
    }
    alone = {cell.shape for cell in table if not cell.has_peers}
    assert alone == {"3000×3000×3000", "4104×4104×4104"} and sum(not cell.has_peers for cell in table) == 4


def test_the_order_is_drawn_and_each_part_of_it_covers_all_kinds() -> None:
    first, second = in_drawn_order(1), in_drawn_order(2)
    assert first == in_drawn_order(1) != second and sorted(map(str, first)) == sorted(map(str, second))
    for part in (first[:54], second[-54:]):
        counts = Counter(cell.population for cell in part)
        assert counts.keys() == {kind.name for kind in KINDS} and max(counts.values()) <= 10


def test_cells_are_chosen_by_patterns() -> None:
    found = matching(("s8-*", "tf32-nt-128x*"), cells())
    assert len(found) == 9 and matching((), cells()) == cells()
    with pytest.raises(Error, match=r"no cell matches 'tf32'; names are such as .*\[corner-pattern\]"):
        matching(("tf32",), cells())


def test_the_interval_of_a_median_is_of_order_statistics() -> None:
    # The chance that the median is above the second greatest of 9 is P(at most one head) = 10 / 512.
    assert median_interval([3, 1, 2, 9, 8, 7, 4, 5, 6]) == (5, 2, 8)
    assert median_interval([3, 1, 2]) == (2, 1, 3) and median_interval([1.0]) == (1.0, 1.0, 1.0)
    for count in (6, 11):
        _, low, high = median_interval(list(range(count)))
        beyond = [sum(flips) for flips in itertools.product((0, 1), repeat=count)]
        assert low + high == count - 1 and sum(heads <= low for heads in beyond) / 2**count <= 0.025
    assert median_interval(list(range(30)))[1:] == (9, 20)


def test_a_race_runs_on_near_a_limit_until_the_median_is_known() -> None:
    def contenders(*ratios: float) -> list[Contender]:
        times = [1.0] * len(ratios)
        slow = [9.0] * len(ratios)
        return [Contender(OWN, print, times), Contender("a", print, list(ratios)), Contender("b", print, slow)]

    runs_on = until_known(8)
    wide = (0.95, 0.96, 0.97, 0.98, 0.99, 1.00)
    assert runs_on(contenders(*wide)) and not runs_on(contenders(*(0.9701, 0.9702) * 3))
    assert not runs_on(contenders(*(ratio + 0.1 for ratio in wide)))  # far from all limits
    assert not runs_on(contenders(*wide, 0.97, 0.97))  # as many rounds as allowed
    assert not runs_on(contenders(*wide)[1:]) and not runs_on(contenders(*wide)[:1])
    assert is_near((0.885, 0.87, 0.89)) and not is_near((0.875, 0.85, 0.89)) and not is_near((0.99, 0.985, 0.995))


LINE: dict[str, Any] = {
    "population": "f16 sums",
    "layout": "tn",
    "shape": "1024×1024×1024",
    "m": 1024,
    "n": 1024,
    "k": 1024,
    "seconds": {"torch": [3e-5] * 6, "cuBLASLt": [2e-5] * 6, OWN: [2.5e-5] * 6},
    "cublaslt": "id 66, of 90",
    "card": "NVIDIA X",
    "commit": "abc",
    "date": "2026-01-02",
    "failed": {},
    "schedules": {OWN: "#tile.schedule<grid = <tile = [128, 128]>>"},
}


def test_a_row_has_the_ratio_to_the_faster_peer_and_returns_from_its_texts(script: ModuleType) -> None:
    row = corner_of(LINE)
    assert (row.peer, row.rounds, row.card) == ("cuBLASLt: id 66, of 90", 6, "NVIDIA X")
    assert row.ratio == pytest.approx((0.8, 0.8, 0.8)) and row.microseconds == pytest.approx(25)
    assert row.teraflops == pytest.approx(2 * 1024**3 / 25e-6 / 1e12) and row.name == "f16-sums-tn-1024x1024x1024"
    again = corner_from([script.record.cell(text) for text in texts_of(row)])
    assert texts_of(again) == texts_of(row) and again.counts


def test_a_cell_that_failed_counts_and_one_without_peers_does_not(script: ModuleType) -> None:
    failed = corner_of({**LINE, "seconds": {}, "failed": {"": "RuntimeError: CUDA\nmore"}})
    alone = corner_of({**LINE, "seconds": {OWN: [1e-5] * 6}})
    assert failed.ratio is None and failed.counts and failed.failed == "all: RuntimeError: CUDA"
    assert alone.ratio is None and not alone.counts and alone.microseconds == pytest.approx(10)
    for row in (failed, alone):
        assert corner_from([script.record.cell(text) for text in texts_of(row)]).counts == row.counts
    assert failed.name in below_table([failed, alone], {}) and verdicts([alone])["every cell"] == NOT_MEASURED


def measured(ratios: dict[str, float]) -> list[Corner]:
    """Rows of all cells with peers: 1.02, or another ratio by name."""
    row = corner_of(LINE)
    return [
        replace(row, kind=cell.population, layout=cell.layout, shape=cell.shape, ratio=(ratio, ratio, ratio))
        for cell in cells()
        if cell.has_peers
        for ratio in [ratios.get(cell.name, 1.02)]
    ]


def verdicts(rows: Sequence[Corner], reasons: dict[str, Sequence[str]] | None = None) -> dict[str, str]:
    table = verdict_table(rows, reasons or {}).splitlines()[2:]
    return {line.split(" | ")[0].removeprefix("| "): line.split(" | ")[4] for line in table}


def test_the_lines_hold_or_are_missed_as_the_cells_say() -> None:
    whole = verdicts(measured({}))
    assert len(whole) == len(LINES) and set(whole.values()) == {HELD}
    one_low = verdicts(measured({"f64-nt-8192x8192x8192": 0.89}))
    explained = "all cells; each one below 0.97 with its reason and two attempts"
    assert {text for text, word in one_low.items() if word == MISSED} == {"every cell", explained}
    slow = {cell.name: 0.95 for cell in cells() if cell.population == "f16 sums"}
    missed = {text for text, word in verdicts(measured(slow)).items() if word == MISSED}
    assert missed == {explained, "f16 sums", "f16 sums, every cell"}


def test_a_loss_with_its_reason_and_two_attempts_is_explained() -> None:
    name, explained = "bf16-tn-1024x1024x1024", "all cells; each one below 0.97 with its reason and two attempts"
    rows = measured({name: 0.95})
    assert verdicts(rows)[explained] == MISSED and "**not explained**" in below_table(rows, {})
    assert verdicts(rows, {name: ("few tiles", "smaller tiles")})[explained] == MISSED
    reasons = {name: ("few tiles", "smaller tiles", "K in two parts")}
    assert verdicts(rows, reasons)[explained] == HELD and "K in two parts" in below_table(rows, reasons)
    assert below_table(measured({}), {}) == "There is none."
    many = measured({cell.name: 0.96 for cell in cells()[:12]})
    assert verdicts(many, {row.name: ("a", "b", "c") for row in many})[explained] == MISSED  # more than 5 %


def test_a_table_with_missing_cells_is_incomplete_but_a_cell_too_slow_is_already_missed() -> None:
    some = measured({"bf16-tn-1024x1024x1024": 0.89})[:20]
    found = verdicts(some)
    assert found["every cell"] == MISSED and found["bf16"] == INCOMPLETE and found["s8"] == NOT_MEASURED
    assert kinds_table(some).count("\n") == 2 and "0.890 | tn 1024×1024×1024" in kinds_table(some)


def test_reasons_are_read_from_lines_of_four_parts(tmp_path: Path) -> None:
    path = tmp_path / "reasons.txt"
    path.write_text("# a comment\n\nx | few tiles | a | b\n", encoding="utf-8")
    assert read_reasons(path) == {"x": ("few tiles", "a", "b")}
    path.write_text("x | few tiles | a\n", encoding="utf-8")
    with pytest.raises(Error, match=r"\[reasons-line\]"):
        read_reasons(path)
    with pytest.raises(Error, match=r"\[reasons-file\]"):
        read_reasons(tmp_path / "none")


def test_the_reasons_that_are_kept_are_of_cells(script: ModuleType) -> None:
    assert read_reasons(script.REASONS).keys() <= {cell.name for cell in cells()}


@pytest.fixture
def gpu(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """A GPU on which each launch takes a second. Compiling a kernel writes a refusal. Gives what was raced."""
    raced: list[Any] = []
    races = importlib.import_module("lowtide.measurement.bench.any_shape.races")

    def race_one(shape: Drawn, kernels: Any, settings: Any, seed: int, *, with_matmul: bool) -> Raced:
        raced.append((shape.name, settings.rounds, settings.timed_ms, settings.cool, with_matmul))
        return Raced({"torch": [1.0] * 6, OWN: [2.0] * 6}, {}, {})

    def compile_missing(folder: KernelFolder, shapes: Sequence[Drawn], *rest: Any) -> None:
        for shape in shapes:
            folder.keep(shape, None, Choice(refusal="not today"))

    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(script, "BUILD", tmp_path / "build")
    monkeypatch.setattr(races, "race_shape", race_one)
    monkeypatch.setattr(races, "gpu_is_usable", lambda: True)
    monkeypatch.setattr(KernelFolder, "compile_missing", compile_missing)
    for place in (script, races):
        monkeypatch.setattr(place, "device_and_software", lambda: ("NVIDIA X", "torch 0"))
    monkeypatch.setattr(script, "deadline_of", lambda arguments: float("inf" if arguments.minutes else "-inf"))
    return raced


def test_cells_are_raced_once_and_recorded_over_older_ones(
    script: ModuleType, gpu: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    race = ["race", "--journal", str(tmp_path / "run"), "--commit", "abc"]
    assert script.main([*race, "--cells", "s8-*", "--minutes", "0"]) == 3 and gpu == []
    assert script.main([*race, "--cells", "s8-*"]) == 0 and len(gpu) == 8
    assert {one[1:] for one in gpu} == {(6, 80.0, 1.0, False)}
    assert script.main([*race, "--cells", "s8-*", "--cells", "f64-tt-1024*"]) == 0 and len(gpu) == 9
    out = capsys.readouterr().out
    assert "| s8 | " in out and "0.500 (0.500 … 0.500)" in out
    assert script.main(["race", "--journal", str(tmp_path / "run"), "--commit", "def"]) == 2
    assert "[journal-commit]" in capsys.readouterr().err
    more = ["race", "--journal", str(tmp_path / "more"), "--commit", "def", "--cells", "s8-tn-4*"]
    assert script.main(more) == 0
    for folder in ("run", "more"):
        assert script.main(["record", "--journal", str(tmp_path / folder), "--results", str(tmp_path)]) == 0
    result = script.record.load(tmp_path / "corners.json")
    assert Counter(row[9] for row in result.rows) == {"abc": 6, "def": 3}
    assert (result.device, result.software) == ("NVIDIA X", "torch 0")
    page = module("docs", "corners").page(result)
    assert "| s8 | geometric mean ≥ 1.00 | geometric mean ≥ 1.03 | 0.500 (0.500 … 0.500); " in page
    assert script.main(["report", "--journal", str(tmp_path / "none")]) == 2


def test_kernels_of_another_machine_bring_their_commit(
    script: ModuleType, gpu: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels, cell = ["--kernels", str(tmp_path / "kernels")], ["--cells", "s8-tn-1024*"]
    assert script.main(["compile", *kernels, *cell, "--commit", "abc"]) == 0
    assert "not today" in capsys.readouterr().err
    assert script.main(["compile", *kernels, *cell, "--commit", "def"]) == 2
    assert "has kernels of commit abc" in capsys.readouterr().err
    assert script.main(["race", *kernels, *cell, "--journal", str(tmp_path / "run")]) == 0
    assert script.main(["list", *cell]) == 0 and capsys.readouterr().out.endswith("s8-tn-1024x1024x1024\n")


def test_the_page_exists_from_the_first_measurement_on() -> None:
    generator = module("docs", "generate")
    assert ("corners.md" in generator.PAGES) == ("corners" in generator.results())
