"""The tables that benchmarks/tables.py measures: what they consist of, what a failure leaves, how pages take them."""

import importlib.util
import itertools
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import lowtide as lt
from lowtide.compiler.bench import cases
from lowtide.compiler.bench.cases import SPEED_HEADINGS, TYPE_HEADINGS, Case, Entry, run_case, speed_rows, type_rows
from lowtide.compiler.bench.contest import Standings, markdown
from lowtide.compiler.bench.gpu_timing import Contender
from lowtide.compiler.bench.ladder import TIMED_HEADINGS, Step, timed_rows
from lowtide.compiler.bench.ladder_pages import LADDER_PAGES, cube, product
from lowtide.compiler.bench.parallel import Compilers
from lowtide.compiler.presets import PRESETS
from lowtide.compiler.spec import LAYOUTS
from lowtide.decompositions import DECOMPOSITIONS

ROOT = Path(__file__).resolve().parents[2]
SPEC = product("f16", 256, 128, 64, "f16")
ENTRIES = (Entry("right", "sm_80"), Entry("wrong", "sm_80", "b"), Entry("refused", "sm_80", "stages = 1"))


def module(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def tables() -> ModuleType:
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
    assert type_rows([broken])[0][:4] == ("f16", "f16", "tn", rows[0][2])


def test_a_row_of_types_has_the_first_kernel_beside_both_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = type_rows([outcome(monkeypatch)])
    assert len(row) == len(TYPE_HEADINGS)
    assert [cell.split()[0] for cell in row] == [
        "f16",
        "f16",
        "tn",
        "1.0",
        "2.0",
        "4.0",
        "0.500",
        "0.250",
        "0.500",
        "0.250",
    ]


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


def test_every_table_has_its_place_in_the_pages_and_no_other_has_one(tables: ModuleType) -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for table in tables.TABLES:
        assert page.count(f"<!-- measured: {table.name} -->") == page.count(f"<!-- end of {table.name} -->") == 1
    of_weights = (ROOT / "docs" / "weights.md").read_text(encoding="utf-8")
    assert of_weights.count("<!-- measured: weights -->") == of_weights.count("<!-- end of weights -->") == 1
    assert page.count("<!-- measured: scales -->") == page.count("<!-- end of scales -->") == 1
    assert page.count("<!-- measured: ") == len(tables.TABLES) + len(["scales"])
    assert all(f"({ladder.name}.md)" in page for ladder in LADDER_PAGES)
    assert len(set(tables.NAMES)) == len(tables.NAMES)


def test_all_types_and_layouts_and_the_accumulators_of_each_are_in_the_table_of_types(tables: ModuleType) -> None:
    found = Counter((case.spec.a, case.spec.acc, case.spec.precision) for case in tables.TYPES.cases)
    every = [("bf16", "f32"), ("f16", "f32"), ("f16", "f16"), ("f32", "f32"), ("f64", "f64"), ("tf32", "f32")]
    of_pieces = Counter((case.spec.precision, case.spec.layout) for case in tables.PIECES.cases)
    assert of_pieces == dict.fromkeys(itertools.product(DECOMPOSITIONS, LAYOUTS), 1)
    narrow = dict.fromkeys(
        [("e4m3", "f32", None), ("e4m3", "fast", None), ("s8", "s32", None)], 1
    )  # as torch takes them
    assert found == {**dict.fromkeys([(*pair, None) for pair in every], 4), **narrow}


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
        raise lt.DeviceError("torch sees no NVIDIA GPU here")

    monkeypatch.setattr(tables, "torch_with_gpu", no_torch)
    monkeypatch.setattr("sys.argv", ["tables.py", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="torch sees no NVIDIA GPU here"):
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
        with pytest.raises(lt.Error, match="stages = 1"):
            compilers.kernel(spec, "sm_80", f"{fields}1")


# How the pages take them ----------------------------------------------------------------------------------------------


def test_measured_tables_replace_the_blocks_of_their_names_alone(generator: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "types.md").write_text("2026-11-22. H200:\n\n| new |\n", encoding="utf-8")
    blocks = [f"<!-- measured: {name} -->\nold\n<!-- end of {name} -->\n" for name in ("shapes", "types")]
    page = "a\n" + "".join(blocks)
    assert generator.with_measured(page, tmp_path) == page.replace(
        "types -->\nold\n", "types -->\n2026-11-22. H200:\n\n| new |\n"
    )


def test_a_ladder_page_takes_figures_by_name_and_reasons_and_peers_too(generator: ModuleType) -> None:
    page = next(page for page in LADDER_PAGES if page.name == "ladder-f64")
    figures = ["7 (6 … 8)", "1.000 (1.000 … 1.000)", "", "9 (9 … 9)", "1.000 (1.000 … 1.000)", "", "old words"]
    rows = [
        ["sm80-f64", *figures],
        ["sm90-f64", "refused: a | b: too large", *[""] * 5, "old words"],
        ["torch.matmul (cuBLAS)", *figures[:-1], ""],
    ]
    text = f"2026-11-22. f64 tn, H200, 3 rounds:\n\n{markdown(TIMED_HEADINGS, rows)}\n"
    made = generator.ladder_page(page, text)
    assert "\n2026-11-22. f64 tn, H200, 3 rounds:\n" in made and f"]({page.name}.svg)" in made
    _, found = generator._figures(made)
    assert [row[0] for row in found] == [*page.presets(), "torch.matmul (cuBLAS)"]
    assert found[0][1:-1] == figures[:-1] and found[0][-1] == page.presets()["sm80-f64"].adds
    assert found[1][1] == r"refused: a \| b: too large"
    assert [generator._is_measured(row) for row in found] == [True, *[False] * (len(found) - 2), True]
    # A page that is made again stays as it is.
    assert generator.ladder_page(page, made) == made
