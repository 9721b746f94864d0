"""The tables that benchmarks/tables.py measures: what they consist of, what a failure leaves, how pages take them."""

import importlib
import itertools
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import lowtide as lt
from lowtide.compiler.presets import PRESETS
from lowtide.compiler.spec_fields import LAYOUTS
from lowtide.decompositions import DECOMPOSITIONS
from lowtide.measurement.bench import cases
from lowtide.measurement.bench.cases import SPEED_HEADINGS, Case, Entry, run_case, speed_rows
from lowtide.measurement.bench.contest import Standings
from lowtide.measurement.bench.gpu_timing import Contender
from lowtide.measurement.bench.ladder import TIMED_HEADINGS, Step, timed_rows
from lowtide.measurement.bench.ladder_pages import LADDER_PAGES, cube, product
from lowtide.measurement.bench.parallel import Compilers

ROOT = Path(__file__).resolve().parents[2]
SPEC = product("f16", 256, 128, 64, "f16")
ENTRIES = (Entry("right", "sm_80"), Entry("wrong", "sm_80", "b"), Entry("refused", "sm_80", "stages = 1"))


def module(path: str) -> ModuleType:
    """A script, which finds the others of its folder as when it is run."""
    folder = str(ROOT / Path(path).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(Path(path).stem)


@pytest.fixture(scope="module")
def record() -> ModuleType:
    return module("benchmarks/record.py")


@pytest.fixture(scope="module")
def tables(record: ModuleType) -> ModuleType:
    return module("benchmarks/tables.py")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return module("docs/generate.py")


def contender(name: str, seconds: float) -> Contender:
    return Contender(name, lambda i: None, [seconds] * 3, [seconds / 2] * 3)


def standings(left_out: dict[str, str]) -> Standings:
    peers = (contender("id 1, tile 128x64, stages 4, cluster 2x1, custom 3", 1.0),)
    return Standings(4e12, contender("torch.matmul", 2.0), peers, 7, (contender("right", 4.0),), left_out)


class FakeContest:
    """Everyone is right but `wrong`; `breaks` makes it fail as CUDA does."""

    breaks = False

    def __init__(self, spec: Any, seed: int, say: Any) -> None:
        self.left_out: dict[str, str] = {}

    def __enter__(self) -> "FakeContest":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def add_kernel(self, name: str, kernel: Any) -> None:
        if name == "wrong":
            self.left_out[name] = "relative error 1.0\n  and more of it"

    def run(self, *given: int) -> Standings:
        if self.breaks:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors …")
        return standings(self.left_out)


class FakeCompilers:
    def kernel(self, spec: Any, target: str, schedule: str | None) -> Any:
        if schedule == "stages = 1":
            raise lt.ScheduleError("stages = 1 is out of range; take 2")
        return SimpleNamespace(manifest={"schedule": "as chosen"})


def outcome(monkeypatch: pytest.MonkeyPatch, breaks: bool = False) -> cases.Outcome:
    monkeypatch.setattr(cases, "Contest", type("Contest", (FakeContest,), {"breaks": breaks}))
    compilers: Any = FakeCompilers()
    return run_case(Case(SPEC, ENTRIES), compilers, 3, 0, 7, 2, lambda text: None)


def test_a_kernel_that_is_wrong_or_refused_is_a_row_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = speed_rows([outcome(monkeypatch)])
    assert {len(row) for row in rows} == {len(SPEED_HEADINGS)}
    assert {row[0] for row in rows} == {"256×128×64 f16, f16 sums"}
    assert [row[1] for row in rows] == [
        "torch.matmul",
        "cuBLASLt best of 7 (tile 128x64, cluster 2x1)",
        "right",
        "wrong",
        "refused",
    ]
    # Twice the time of torch, four times cuBLASLt's.
    assert [row.split()[0] for row in rows[2][2:6]] == ["4000000.0", "1.0", "0.500", "0.250"]
    assert [row[2] for row in rows[3:]] == ["wrong: relative error 1.0", "refused: stages = 1 is out of range; take 2"]


def test_a_case_that_breaks_is_a_row_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = outcome(monkeypatch, breaks=True)
    rows = speed_rows([broken, outcome(monkeypatch)])
    assert rows[0][1:3] == ("all", "not run: CUDA error: an illegal memory access was encountered")
    assert len(rows) == 6 and {len(row) for row in rows} == {len(SPEED_HEADINGS)}


def test_a_step_that_is_left_out_says_why_in_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = next(iter(LADDER_PAGES[0].presets().values()))
    steps = [Step("right", preset, None, "ok", ""), Step("wrong", preset, None, "ok", "")]
    steps.append(Step("refused", preset, None, "refused", "a | b is out of range"))
    found = {row[0]: row[1] for row in timed_rows(steps, standings({"wrong": "off by one"}), with_intervals=True)}
    assert (found["wrong"], found["refused"]) == ("wrong: off by one", "refused: a | b is out of range")


def test_every_preset_of_a_table_exists_and_serves_its_type(tables: ModuleType) -> None:
    named = [(case.spec, entry.schedule) for table in tables.TABLES for case in table.cases for entry in case.entries]
    assert {name for _, name in named if name is not None} <= set(PRESETS)
    for spec, name in named:
        if name is not None:
            assert spec.a in tables.LADDER_PAGES[2].presets()[name].dtypes


def test_every_table_is_an_area_of_the_page_and_every_ladder_is_linked(tables: ModuleType) -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for table in tables.TABLES:
        assert page.count(f"<!-- results: area {table.name} -->") == 1
    assert all(f"({ladder.name}.md)" in page for ladder in LADDER_PAGES)
    assert len(set(tables.NAMES)) == len(tables.NAMES)


def test_all_types_and_layouts_and_the_accumulators_of_each_are_in_the_tables_of_types(tables: ModuleType) -> None:
    cases = [case for table in tables.TYPES for case in table.cases]
    found = Counter((case.spec.a, case.spec.acc) for case in cases)
    in_four_layouts = [("bf16", "f32"), ("f16", "f32"), ("f16", "f16"), ("f32", "f32"), ("f64", "f64"), ("tf32", "f32")]
    as_torch_takes_them = [("e4m3", "f32"), ("e4m3", "fast"), ("s8", "s32")]
    assert found == {**dict.fromkeys(in_four_layouts, len(LAYOUTS)), **dict.fromkeys(as_torch_takes_them, 1)}
    assert len({case.title for case in cases}) == len(cases)
    of_pieces = Counter((case.spec.precision, case.spec.layout) for case in tables.PIECES.cases)
    assert of_pieces == dict.fromkeys(itertools.product(DECOMPOSITIONS, LAYOUTS), 1)


def test_what_is_requested_ahead_is_what_is_asked_for_later(tables: ModuleType) -> None:
    requested = []
    compilers: Any = SimpleNamespace(request=lambda *given: requested.append(given))
    tables.request_all(["ladder-f64"], compilers)
    page = next(page for page in LADDER_PAGES if page.name == "ladder-f64")
    asked: Any = SimpleNamespace(kernel=lambda *given: given)
    build = tables._built_by(asked)
    assert {build(page.spec, name, preset) for name, preset in page.presets().items()} < set(requested)
    assert len(requested) == 2 * len(page.presets())
    requested.clear()
    tables.request_all(["weights"], compilers)
    assert len(requested) == len(tables.WEIGHT_TYPES) * len(tables.WEIGHT_ROWS)


def test_a_run_without_a_gpu_ends_with_a_message(
    tables: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_torch() -> Any:
        raise lt.DeviceError("torch finds no NVIDIA GPU here")

    monkeypatch.setattr(tables, "torch_with_gpu", no_torch)
    monkeypatch.setattr("sys.argv", ["tables.py", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="torch finds no NVIDIA GPU here"):
        tables.main()
    assert not (tmp_path / "out").exists()


def test_other_processes_compile_what_is_requested_and_say_what_they_refuse() -> None:
    with Compilers(processes=1) as compilers:
        spec = cube("f16", 128, "f16")
        fields = "grid.tile = [64, 64], k = 32, atoms = [2, 2, 1], stages = "
        for stages in ("2", "1"):
            compilers.request(spec, "sm_80", fields + stages)
        kernel = compilers.kernel(spec, "sm_80", f"{fields}2")
        assert kernel.ptx == lt.compile_gemm(spec, "sm_80", f"{fields}2").ptx
        with pytest.raises(lt.Error, match=r"\[stages-range\]"):
            compilers.kernel(spec, "sm_80", f"{fields}1")


# How they become data, and pages -------------------------------------------------------------------------------------


def test_a_table_is_written_as_a_result_with_device_date_and_command(
    tables: ModuleType, record: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cases, "Contest", FakeContest)
    monkeypatch.setattr("sys.argv", ["/far/tables.py", "--only", "it"])
    table = tables.Table("it", (Case(SPEC, ENTRIES),), rounds=3, algorithms=7, finalists=2)
    compilers: Any = FakeCompilers()
    assert not tables.run_table(table, tables.Run(compilers, tmp_path, "NVIDIA X", "torch 9", None, 0))
    found = record.load(tmp_path / "it.json")
    assert (found.device, found.command, found.area) == ("NVIDIA X", "python benchmarks/tables.py --only it", "it")
    assert (found.date, found.rounds, found.columns) == (record.today(), "3", SPEED_HEADINGS)
    rows = speed_rows([outcome(monkeypatch)])
    assert [[record.printed(cell) for cell in row] for row in found.rows] == [list(row) for row in rows]


def test_numbers_keep_their_digits_and_odd_files_are_refused(record: ModuleType, tmp_path: Path) -> None:
    cells = [record.cell(text) for text in ("1.000 (0.990 … 1.010)", "12", "1.50e-7", "refused: 7", "")]
    result = record.Result("X", "2026-11-26", "run", ("a", "b", "c", "d", "e"), (tuple(cells),))
    path = tmp_path / "it.json"
    path.write_text(result.text(), encoding="utf-8")
    assert "[1.000, 0.990, 1.010], 12, 1.50e-7, " in result.text() and record.load(path) == result
    assert [record.printed(cell, intervals=False) for cell in record.load(path).rows[0]][:2] == ["1.000", "12"]
    for key in ("device", "date", "command"):
        path.write_text(result.text().replace(f'"{key}": ', '"about": '), encoding="utf-8")
        with pytest.raises(ValueError, match=rf"it\.json: .*{key}"):
            record.load(path)
    path.write_text(result.text().replace('"e"]', '"e", "f"]'), encoding="utf-8")
    with pytest.raises(ValueError, match="6 columns, but a row of 5 cells"):
        record.load(path)


def test_tables_that_scripts_print_are_read_with_the_headings_above_them(record: ModuleType) -> None:
    printed = "NVIDIA X\n\n| a | b |\n|---|---|\n| 1 | 2 (1 … 3) |\n\n### 64×64\n\n| a |\n|---|\n| x \\| y |\n"
    plain, headed = [
        (columns, [[record.printed(cell) for cell in row] for row in rows])
        for columns, rows in record.tables_in(printed)
    ]
    assert plain == (("a", "b"), [["1", "2 (1 … 3)"]])
    assert headed == (("case", "a"), [["64×64", "x \\| y"]])


def results(record: ModuleType) -> dict[str, Any]:
    head = ("case", "contender", "sustained µs", "sustained to torch", "burst to torch", "sustained to the better")
    rows = (
        ("1×1×1", "torch.matmul", "9.0", "1.000", "1.000", "0.9"),
        ("1×1×1", "Lowtide, chosen", "8.0 (7.0 … 9.0)", "1.500 (1.1 … 1.9)", "1.600", "1.000"),
        ("2×2×2", "Lowtide, chosen", "8.0", "0.500", "", ""),
        ("2×2×2", "Lowtide on mma.sync", "8.0", "0.100", "", ""),
        ("2×2×2", "Triton", "8.0", "0.200", "", ""),
    )
    old = (("3×3×3", "Lowtide, chosen", "4.0", "10.0"),)
    again = (("1×1×1", "Lowtide, chosen", "4.0", "100.0"),)

    def result(device: str, date: str, columns: tuple[str, ...], rows: Any) -> Any:
        return record.Result(device, date, "run it", columns, tuple(tuple(map(record.cell, row)) for row in rows), "it")

    times = ("case", "contender", "sustained µs", "sustained µs of torch")
    return {
        "again": result("NVIDIA A", "2026-11-01", times, again),
        "old": result("NVIDIA B", "2026-11-20/2026-11-21", times, old),
        "new": result("NVIDIA A", "2026-11-26", head, rows),
    }


def test_an_area_has_a_row_for_each_kernel_and_says_how_each_was_measured(
    generator: ModuleType, record: ModuleType
) -> None:
    page = "### The *area*\n\n<!-- results: area it -->\nthis stood here\n<!-- end of results -->\n"
    page = f"<!-- results: summary -->\n<!-- end of results -->\n{page}"
    made = generator.verdicts.with_results(page, results(record))
    lines = made.splitlines()
    assert "this stood here" not in made
    assert [line for line in lines if line.startswith(("| 1", "| 2", "| 3"))] == [
        "| 1×1×1 | chosen | 8.0 | 1.500 / 1.600 | 1.000 | level | A, 1 |",
        "| 2×2×2 | chosen | 8.0 | 0.500 |  | **slower** | A, 1 |",
        "| 2×2×2 | Lowtide on mma.sync | 8.0 | 0.100 |  | **slower** | A, 1 |",
        "| 2×2×2 | Triton | 8.0 | 0.200 |  |  | A, 1 |",
        "| 3×3×3 | chosen | 4.0 | 2.50 |  | faster | B, 2 |",
        "| 1×1×1 | chosen | 4.0 | 25.00 |  | faster | A, 3 |",
    ]
    assert "1. NVIDIA A, 2026-11-26, `run it` ([data](../benchmarks/results/new.json))." in lines
    assert "2. NVIDIA B, 2026-11-20 to 2026-11-21, `run it` ([data](../benchmarks/results/old.json))." in lines
    # The cube root of 1 · 0.5 · 2.5: what was measured again later does not count.
    assert "| [The *area*](#the-area) | 1.077 | 1 | 1 | 1 | 0.500: 2×2×2 |" in lines
    # A page that is made again stays as it is.
    assert generator.verdicts.with_results(made, results(record)) == made


@pytest.mark.parametrize("name", ["area nothing", "nothing"])
def test_a_block_without_data_is_refused(generator: ModuleType, record: ModuleType, name: str) -> None:
    with pytest.raises(ValueError, match="nothing"):
        generator.verdicts.with_results(f"<!-- results: {name} -->\n<!-- end of results -->\n", results(record))


def test_a_ladder_page_takes_figures_by_name_and_reasons_and_peers_too(
    generator: ModuleType, record: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = next(page for page in LADDER_PAGES if page.name == "ladder-f64")
    figures = ["7 (6 … 8)", "1.000 (1.000 … 1.000)", "", "9 (9 … 9)", "1.000 (1.000 … 1.000)", ""]
    reason = r"refused: a \| b: too large"
    rows = [["sm80-f64", *figures], ["sm90-f64", reason, *[""] * 5], ["torch.matmul (cuBLAS)", *figures]]
    cells = tuple(tuple(map(record.cell, row)) for row in rows)
    result = record.Result("NVIDIA H200", "2026-11-22", "run", TIMED_HEADINGS[:-1], cells, rounds="3", about="f64 tn")
    made = generator.ladder_page(page, result)
    assert "\nNVIDIA H200, 2026-11-22, 3 rounds, `run`" in made and f"]({page.name}.svg)" in made
    found = [line[2:-2].split(" | ") for line in made.splitlines() if line.startswith("| ")][2:]
    assert [row[0] for row in found] == [*page.presets(), "torch.matmul (cuBLAS)"]
    assert found[0][1:-1] == figures and found[0][-1] == page.presets()["sm80-f64"].adds
    assert found[1][1] == reason
    assert {row[1] for row in found[2:-1]} == {"not measured"}
    drawn: list[Any] = []
    monkeypatch.setattr(generator, "results", lambda: {page.name: result})
    monkeypatch.setattr(generator, "svg", lambda title, unit, bars: drawn.extend(bars) or "a chart")
    assert generator.ladder_chart(page) == "a chart"
    assert drawn == [("sm80-f64", 7.0, 9.0), ("torch.matmul (cuBLAS)", 7.0, 9.0)]
