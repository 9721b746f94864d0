"""Statistics of ratios with known results, the speed lines, and the report."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lowtide.measurement.bench.any_shape import lines
from lowtide.measurement.bench.any_shape.lines import HELD, INCOMPLETE, LINES, MISSED, Bounds, Line, judged
from lowtide.measurement.bench.any_shape.precision import until_compared, until_narrow
from lowtide.measurement.bench.any_shape.report import Run, run_tables, verdict_table
from lowtide.measurement.bench.any_shape.rows import (
    BEST_PEER,
    MATMUL,
    NEW,
    OLD,
    OWN,
    TORCH,
    Row,
    cells_of,
    columns_of,
    ratios_of,
    row_from,
    row_of,
    short,
    with_best_peer,
)
from lowtide.measurement.bench.any_shape.statistics import statistics_of
from lowtide.measurement.bench.gpu_timing import Contender

ROOT = Path(__file__).resolve().parents[2]
SCHEDULE = (
    "#tile.schedule< grid = <tile = [128, 160], order = column>, mainloop = <k = 64, stages = 5, agents = <producer = "
    "<warps = 4, registers = 40>, consumer = <warps = 8, instances = 1>>, a = <copy = tma, swizzle = <3,3,3>>>, "
    "epilogue = <path = tma, math = registers>>"
)


def row(own: float | None, matmul: float | None = None, population: str = "bf16 tn") -> Row:
    """A row of one shape; None for a contender that failed."""
    ratios = {}
    if own is not None:
        ratios[OWN, TORCH] = (own, own, own)
        if matmul is not None:
            ratios[MATMUL, OWN] = (matmul, matmul, matmul)
    failed = {} if own is not None else {OWN: "refused"}
    return Row(population, "1×256×256", "log-uniform", 10.0, ratios, failed, {}, "")


def test_equal_ratios_have_that_mean_and_no_interval() -> None:
    found = statistics_of([1.25] * 40)
    assert found.mean == pytest.approx((1.25, 1.25, 1.25))
    assert all(one == pytest.approx((1.25, 1.25, 1.25)) for one in found.quantiles)
    assert found.count == 40 and found.least == 1.25 and found.share_below(0.9) == 0


def test_the_mean_is_geometric_and_its_interval_that_of_the_normal_distribution() -> None:
    assert statistics_of([0.5, 2.0]).mean[0] == pytest.approx(1.0)
    logs = np.random.RandomState(1).normal(0.02, 0.1, 400)
    mean, low, high = statistics_of(list(np.exp(logs))).mean
    error = 1.96 * logs.std() / 20
    assert np.log(mean) == pytest.approx(logs.mean())
    assert np.log(low) == pytest.approx(logs.mean() - error, abs=error / 8)
    assert np.log(high) == pytest.approx(logs.mean() + error, abs=error / 8)


def test_quantiles_and_shares_are_those_of_the_sorted_ratios() -> None:
    found = statistics_of([1.0 + x / 100 for x in range(-25, 76)])
    assert [one[0] for one in found.quantiles] == pytest.approx([0.76, 0.80, 1.00, 1.25], abs=0.001)
    assert all(low <= estimate <= high for estimate, low, high in found.quantiles)
    assert found.share_below(0.90) == pytest.approx(15 / 101) and found.share_below(0.80) == pytest.approx(5 / 101)


def test_a_failed_shape_is_below_every_limit_and_not_in_the_mean() -> None:
    found = statistics_of([1.2, 1.2, 1.2, None])
    assert (found.count, found.failed, found.least) == (4, 1, 0.0)
    assert found.mean[0] == pytest.approx(1.2) and found.share_below(0.8) == 0.25
    assert statistics_of([None]).mean == (0.0, 0.0, 0.0)


def test_bounds_hold_up_to_their_last_digit() -> None:
    bounds = Bounds(1.01, 0.80, 0.90, 0.03)
    good = [1.02] * 97 + [0.85] * 3
    assert bounds.hold(statistics_of(good))
    assert not bounds.hold(statistics_of([*good[1:], 0.85]))  # one more below 0.90
    assert not bounds.hold(statistics_of([*good[:-1], 0.79]))
    assert not bounds.hold(statistics_of([1.005] * 100))
    assert not bounds.hold(statistics_of([*good[:-1], None]))  # none may be below 0.80
    assert Bounds(1.0, None, 0.88, 0.04).hold(statistics_of([1.01] * 99 + [None]))
    assert not Bounds(1.0).hold(statistics_of([1.01] * 99 + [None]))
    assert not bounds.hold(statistics_of([]))
    assert str(bounds) == "geometric mean ≥ 1.01; below 0.90 at most 3 %; none below 0.80"


def test_a_line_judges_the_rows_of_its_shapes_in_a_run_that_is_whole() -> None:
    (line,) = [one for one in LINES if one.pair == (OWN, TORCH) and one.populations == ("bf16 tn",)]
    whole = [row(1.05)] * 100
    found = line.judge([*whole, row(0.1, population="bf16 tn, M to 256")])
    assert found is not None and found.word(line.required) == HELD and found.found.count == 100
    assert _word(line, whole[:99]) == INCOMPLETE
    assert _word(line, [*whole[:-1], row(None)]) == MISSED
    assert line.judge([row(1.0, population="f16 tn")]) is None


def _word(line: Line, rows: Sequence[Row]) -> str:
    found = line.judge(rows)
    assert found is not None
    return found.word(line.required)


def test_each_population_of_a_line_needs_all_its_shapes() -> None:
    (line,) = [one for one in LINES if one.shapes.startswith("f16")]
    rows = [row(1.05, population="f16 tn")] * 100
    assert _word(line, rows) == HELD
    assert _word(line, [*rows, row(1.05, population="f16 nt")]) == INCOMPLETE


def test_the_lines_are_about_populations_that_can_be_drawn() -> None:
    assert {name for line in LINES for name in line.populations} >= {"bf16 tn", "e4m3 tn by rows", "public"}
    assert {"bf16 tn, batches", "bf16 tt, M to 256"} <= {name for line in LINES for name in line.populations}
    assert {line.count for line in LINES} == {100, 16}


def test_the_verdicts_have_every_line_and_every_run() -> None:
    first = Run("H200", "abc", "7", "2026-11-27", tuple([row(1.05, 0.99)] * 100))
    second = Run("H100", "def", "8", "2026-11-28", tuple([row(0.95)] * 99 + [row(None)]))
    text = verdict_table([second, first]).splitlines()
    own = [line for line in text if line.startswith("| bf16, own kernel, tn |")]
    assert len(own) == 2 and len(text) == len(LINES) + 3
    assert "| **missed** | no | H100 | def | 8 | 2026-11-28 |" in own[0] and "1 failed" in own[0]
    assert "| held | yes | H200 | abc | 7 | 2026-11-27 |" in own[1]
    assert "1.050 (1.050 … 1.050); 0 % below 0.90; the least 1.050; 100 shapes |" in own[1]
    (matmul,) = [line for line in text if "`lt.matmul` to the own kernel, tn" in line]
    assert "held | yes" in matmul
    assert sum("not measured" in line for line in text) == len(LINES) - 2
    assert len(verdict_table([second, first], measured_only=True).splitlines()) == 5


def line_of(**more: Any) -> dict[str, Any]:
    held: dict[str, Any] = {"population": "bf16 tn", "shape": "65×14336×4096", "source": "Llama 3 8B, gate and up"}
    held |= {"seconds": {}, "failed": {}, "schedules": {}, "reason": "", "equal": False}
    return held | more


def test_a_row_has_the_median_of_ratios_in_the_same_round() -> None:
    seconds = {"torch": [1.0, 2.0, 4.0], OWN: [1.0, 1.0, 1.0], "cuBLASLt": [0.5, 1.0, 2.0], MATMUL: [2.0, 2.0, 2.0]}
    found = row_of(line_of(seconds=seconds, schedules={OWN: SCHEDULE}))
    assert found.ratios[OWN, TORCH] == (2.0, 1.0, 4.0) and found.microseconds == 2e6
    assert found.ratios[OWN, "the best peer"] == found.ratios[OWN, "cuBLASLt"] == (1.0, 0.5, 2.0)
    assert found.ratios[MATMUL, OWN] == (0.5, 0.5, 0.5)
    assert row_of(line_of(equal=True)).ratios == {("new", "old"): (1.0, 1.0, 1.0)}


def test_a_schedule_is_shown_by_its_work_its_ring_its_consumers_and_its_stores() -> None:
    consumer = "consumer = <warps = 8, instances = 1>"
    assert short(SCHEDULE) == f"tile = [128, 160], order = column; k = 64, stages = 5; {consumer}; path = tma"
    packed = SCHEDULE.replace("<3,3,3>>>", "<3,3,3>, pack = rows>>")
    assert packed != SCHEDULE and short(packed) == short(SCHEDULE) + "; a.pack = rows"
    assert short(packed.replace("pack = rows", "pack = none")) == short(SCHEDULE)
    assert short("it was not compiled") == "it was not compiled"


@pytest.fixture(scope="module")
def scripts() -> tuple[ModuleType, ModuleType]:
    for folder in ("benchmarks", "docs"):
        if str(ROOT / folder) not in sys.path:
            sys.path.append(str(ROOT / folder))
    return importlib.import_module("record"), importlib.import_module("drawn_shapes")


def test_rows_are_the_same_after_they_were_written_and_the_page_has_them(
    tmp_path: Path, scripts: tuple[ModuleType, ModuleType]
) -> None:
    record, drawn_shapes = scripts
    seconds = {"torch": [2.0, 2.0, 2.0], OWN: [1.0, 1.6, 2.0]}
    lines = [
        line_of(seconds=seconds, schedules={OWN: SCHEDULE}, reason="least estimated cycles (5)"),
        line_of(shape="3×256×256", seconds={"torch": [1e-5] * 3}, failed={OWN: "it spills; give another [some-code]"}),
        line_of(shape="5×256×256", failed={"": "RuntimeError: out of memory"}),
    ]
    rows = tuple(map(row_of, lines))
    columns = columns_of(rows)
    cells = tuple(tuple(map(record.cell, cells_of(one, columns))) for one in rows)
    result = record.Result("NVIDIA H200", "2026-11-27", "run it", columns, cells, commit="abc", seed="7")
    (tmp_path / "any-shape-7.json").write_text(result.text(), encoding="utf-8")
    held = record.load(tmp_path / "any-shape-7.json")
    assert held == result
    read = [row_from(held.columns, each) for each in held.rows]
    assert read[0] == rows[0]
    assert [one.failed for one in read] == [{}, {OWN: "it spills"}, {"": "RuntimeError: out of memory"}]
    assert read[1].ratios == {} and read[2].microseconds is None
    page = drawn_shapes.page({"any-shape-7": held, "other": result})
    assert (
        "NVIDIA H200, 2026-11-27, commit abc, seed 7, `run it` ([data](../benchmarks/results/any-shape-7.json))."
        in page
    )
    assert "| own to torch | 3 | 2 | 1.250 (1.250 … 1.250) |" in page and "| 67 % | 67 % | 0.000 |" in page
    assert "| 5×256×256 | all | RuntimeError: out of memory |" in page and "| incomplete | no | H200 |" in page
    assert "There is none yet." in drawn_shapes.page({})


def test_the_ten_worst_are_listed_with_their_reasons() -> None:
    rows = [
        row_of(
            line_of(
                shape=f"{m}×256×256",
                seconds={"torch": [1.0], OWN: [2.0 - m / 100], MATMUL: [1.0 + m / 100]},
                schedules={OWN: f"own {m}", MATMUL: f"kept {m}"},
                reason=f"reason {m}",
            )
        )
        for m in range(1, 31)
    ]
    text = run_tables(Run("H200", "abc", "7", "2026-11-27", tuple(rows)))
    of_own, of_matmul = (part.splitlines()[2:12] for part in text.split("reason of the tile |")[1:])
    assert [line.split(" | ")[0] for line in of_own] == [f"| {m}×256×256" for m in range(1, 11)]
    assert all(line.endswith(f"| own {m} | kept {m} | reason {m} |") for m, line in enumerate(of_own, 1))
    assert [line.split(" | ")[0] for line in of_matmul] == [f"| {m}×256×256" for m in range(30, 20, -1)]
    assert of_matmul[0].endswith("| kept 30 | own 30 | reason 30 |")


def test_a_contender_that_nobody_asked_for_is_no_failure() -> None:
    text = run_tables(Run("H200", "abc", "7", "2026-11-27", (row(1.0, 0.9), row(1.0), row(None))))
    assert "| own to torch | 3 | 1 |" in text and "| lt.matmul to own | 2 | 1 |" in text


def test_the_lines_have_goals_beyond_what_is_required() -> None:
    for line in lines.LINES:
        assert line.goal.mean > line.required.mean and (line.goal.least or 2) > (line.required.least or 0)
    assert list(judged([])) == []


def test_the_ratios_of_a_shape_are_medians_with_intervals() -> None:
    times = {TORCH: [2.0, 4.0, 6.0], OWN: [1.0, 1.0, 2.0], "a": [1.0, 3.0, 9.0]}
    assert ratios_of(times) == {(OWN, TORCH): (3.0, 2.0, 4.0)}
    assert ratios_of(with_best_peer(times))[OWN, BEST_PEER] == (3.0, 1.0, 4.5)
    assert with_best_peer({OWN: [1.0], "torch.matmul": [2.0]})[BEST_PEER] == [2.0]
    assert with_best_peer({OWN: [1.0]}) == {OWN: [1.0]}
    many = [1.0 + number / 100 for number in range(9)]  # of nine values, one at each end is outside
    assert ratios_of({OLD: many, NEW: [1.0] * 9}) == {(NEW, OLD): (1.04, 1.01, 1.07)}


def test_a_race_runs_on_until_all_ratios_are_known() -> None:
    def contenders(**times: Sequence[float]) -> list[Contender]:
        return [Contender({"matmul": MATMUL}.get(name, name), print, [*of_rounds]) for name, of_rounds in times.items()]

    runs_on = until_narrow(7)
    even, close, wide = (1.0,) * 5, (0.99, 0.995, 1.0, 1.005, 1.01), (0.9, 0.95, 1.0, 1.05, 1.1)
    assert not runs_on(contenders(torch=even, own=close))
    assert runs_on(contenders(torch=even, own=wide)) and runs_on(contenders(torch=even, own=even, matmul=wide))
    assert runs_on(contenders(**{"torch.matmul": [5 * time for time in wide]}, own=even))  # far from all limits too
    assert runs_on(contenders(old=wide, new=even)) and not runs_on(contenders(torch=wide))
    assert not runs_on(contenders(torch=even + even[:2], own=wide + wide[:2]))  # as many rounds as allowed


def test_a_race_of_schedules_runs_on_until_close_ones_are_compared() -> None:
    def contenders(**times: Sequence[float]) -> list[Contender]:
        return [Contender(name, print, [*of_rounds]) for name, of_rounds in times.items()]

    runs_on = until_compared(7)
    even, wide = (1.0,) * 5, (0.95, 1.0, 1.02, 1.05, 1.1)
    assert runs_on(contenders(a=even, b=wide, torch=even))
    assert not runs_on(contenders(a=even, b=[1.2 * time for time in wide]))  # far from the fastest
    assert not runs_on(contenders(a=even, b=even, torch=wide))
    assert not runs_on(contenders(a=even + even[:2], b=wide + wide[:2]))  # as many rounds as allowed
