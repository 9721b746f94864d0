"""The calibration of the cost model: files of rows, picks of schedules, the fit, and its quality."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lowtide.compiler.contexts import make_context
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import Error
from lowtide.measurement.calibration.fitting import fitted, rounded, with_constants
from lowtide.measurement.calibration.forms import texts
from lowtide.measurement.calibration.least_squares import least_squares
from lowtide.measurement.calibration.picking import Picks
from lowtide.measurement.calibration.quality import folds_of, of_ranges, quality_of
from lowtide.measurement.calibration.rows import Form, Rows, Shape, load
from lowtide.measurement.calibration.samples import estimated, product_of, samples_of
from lowtide.measurement.calibration.start import START
from lowtide.passes.schedules.cost.described import fields_of, grid_of
from lowtide.passes.schedules.cost.fitted import FITTED
from lowtide.passes.schedules.cost.grids import Grid, Grids
from lowtide.targets import get

ROOT = Path(__file__).resolve().parents[2]
ROWS = sorted((ROOT / "benchmarks" / "results" / "calibration").rglob("*.json"))
TARGET = get("sm_90a")
PACKS = "a.pack=none, b.pack=none"


def form(rows: int, columns: int, parts: int = 1, *, swapped: bool = False) -> Form:
    text = f"grid.tile=[{rows}, {columns}]{', operands=swapped, epilogue.path=direct' if swapped else ''}, {PACKS}"
    return Form(text, "", Grid(rows, columns, 64, rows // 64, 1, 1, 1, parts, parts > 1, 1, False))


FORMS = (form(64, 128), form(128, 128), form(128, 256), form(64, 256), form(64, 16, swapped=True), form(64, 128, 4))


def shape(m: int, n: int, k: int, microseconds: dict[int, tuple[float, ...]], layout: str = "tn") -> Shape:
    return Shape(m, n, k, layout, "bf16", "log-uniform", (1.0, 1.0, 1.0), microseconds)


def rows(*shapes: Shape) -> Rows:
    return Rows("NVIDIA X", "2026-01-01", "python x", "torch 0", "0123456789", "7", FORMS, shapes)


def timed_by(constants: object, seed: int = 0) -> Rows:
    """Shapes whose times are the estimates of the model with other constants."""
    chance = np.random.default_rng(seed)
    found = []
    for _ in range(40):
        m, n, k = (int(2 ** chance.uniform(least, 13)) // 8 * 8 for least in (4, 8, 8))
        bare = shape(m, n, k, {})
        times = estimated(Grids.of([one.grid for one in FORMS]), product_of(bare, FORMS), constants, TARGET)
        found.append(replace(bare, microseconds={i: (1e6 * float(time),) * 3 for i, time in enumerate(times)}))
    return rows(*found)


def test_a_file_of_rows_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = rows(
        shape(3, 256, 512, {0: (1.5, 1.25, 2.0), 5: (3.0, 3.5, 3.0)}), shape(64, 264, 8, {1: (1.0, 1.0, 1.0)})
    )
    path = tmp_path / "rows.json"
    path.write_text(written.text(), encoding="utf-8")
    assert load(path) == written
    assert '\n[64,264,8,"tn","bf16","log-uniform",[1.0,1.0,1.0],[[1,1.0,1.0,1.0]]]\n' in written.text()


@pytest.mark.parametrize(
    ("old", "new"),
    [('"turns"', '"terms"'), ("[5,3.0", "[6,3.0"), ("[5,3.0,", "[5,"), ('"seed"', '"seat"'), ("]\n}", "]")],
)
def test_files_of_other_things_are_refused(old: str, new: str, tmp_path: Path) -> None:
    text = rows(shape(3, 256, 512, {0: (1.5, 1.25, 2.0), 5: (3.0, 3.5, 3.0)})).text()
    assert old in text
    path = tmp_path / "rows.json"
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(Error, match=r"\[calibration-rows\]"):
        load(path)


def test_the_recorded_rows_are_enough_of_them() -> None:
    files = [load(path) for path in ROWS if path.parent.name != "afterwards"]
    several = [one for file in files for one in file.shapes if len(one.microseconds) >= 6]
    assert len(several) >= 400
    assert all(len(times) >= 3 for file in files for one in file.shapes for times in one.microseconds.values())
    pairs = {(one.n, one.k) for file in files for one in file.shapes}
    assert len(pairs) >= 300


def test_schedules_of_the_table_are_texts_of_schedules_with_these_grids() -> None:
    some = [one for path in ROWS for one in load(path).forms[::100]]
    with make_context():
        for one in some:
            fields = fields_of(Schedule.parse(one.text))
            assert grid_of({**fields, "mainloop.k": 64}, TARGET) == one.grid, one.text


def test_forms_are_texts_of_schedules_of_every_kind() -> None:
    every = texts()
    assert len(every) == len(set(every))
    for word in ("swapped", "scatter", "split", "cluster", "pingpong", "serpentine"):
        assert any(word in text for text in every)
    with make_context():
        for text in every[::100]:
            Schedule.parse(text)


def test_swapped_products_and_layouts_give_the_product_that_a_kernel_computes() -> None:
    product = product_of(shape(8, 256, 504, {}, "nt"), FORMS[3:5])
    assert [list(map(int, values)) for values in (product.m, product.n)] == [[8, 256], [256, 8]]
    assert [list(map(int, rows)) for rows in product.row_bytes] == [[16, 512], [512, 16]]
    assert list(product.stores_columns) == [False, True]
    # Rows that TMA cannot read are packed to lines.
    assert [int(one[0]) for one in product_of(shape(9, 256, 500, {}, "tt"), FORMS[:1]).row_bytes] == [128, 512]


def test_the_best_by_the_model_are_picked_without_one_kind_taking_all_and_some_at_random() -> None:
    forms = dict(enumerate([form(64, 8 * i) for i in range(8, 33)] + [form(128, 8 * i) for i in range(8, 33)]))
    bare = shape(512, 4096, 4096, {})
    picks = Picks(best=4, more=3, within=2.0)
    picked = picks.picked(bare, forms, FITTED, TARGET, 7)
    assert picked == picks.picked(bare, forms, FITTED, TARGET, 7)
    assert len(picked) == len(set(picked)) == 7
    assert sorted(forms[number].grid.rows for number in picked[:4]) == [64, 64, 128, 128]
    assert len({tuple(picks.picked(bare, forms, FITTED, TARGET, seed)) for seed in range(5)}) > 1


def test_k_is_divided_only_where_sms_are_idle_and_k_has_the_steps() -> None:
    forms = {0: form(64, 128), 1: form(64, 128, 4)}

    def picked(m: int, k: int) -> set[int]:
        return set(Picks(within=100.0).picked(shape(m, 1024, k, {}), forms, FITTED, TARGET, 1))

    assert picked(64, 4096) == {0, 1}
    assert picked(64, 192) == {0}
    assert picked(4096, 4096) == {0}


def test_least_squares_find_a_line_beside_outliers() -> None:
    x = np.linspace(0, 1, 50)
    y = 3 * x + 1
    y[::10] += 5
    found = least_squares(lambda at: at[0] * x + at[1] - y, np.zeros(2), 0.01)
    assert found == pytest.approx([3, 1], abs=0.02)


def test_a_fit_finds_the_constants_that_made_the_times() -> None:
    made = replace(START, l2=60.0, memory=1800.0, launch=4000.0, step_of_two=90.0)
    samples = samples_of([timed_by(made)])
    before, after = START, fitted(samples, START, TARGET, 10)
    errors = [quality_of(samples, samples.estimated(one, TARGET)).error for one in (before, after)]
    assert errors[0] > 0.05 > 0.02 > errors[1]
    assert after == rounded(after)


def test_quality_is_what_choices_lose() -> None:
    samples = samples_of(
        [
            rows(
                shape(8, 256, 512, {0: (1.0, 1.0, 1.0), 1: (1.1, 1.1, 1.1)}),
                shape(300, 256, 512, {0: (2.0, 2.0, 9.0), 1: (2.2, 2.2, 2.2), 2: (4.0, 4.0, 4.0)}),
                shape(300, 256, 1024, {0: (2.0, 2.0, 2.0)}),
            )
        ]
    )
    assert list(samples.shape) == [0, 0, 1, 1, 1]
    found = dict(of_ranges(samples, 1e-6 * np.array([2.0, 1.0, 1.0, 2.0, 3.0])))
    assert list(found) == ["all", "1 to 16", "257 to 1024"]
    assert (found["1 to 16"].lost, found["1 to 16"].most_lost) == pytest.approx((1.1, 1.1))
    assert found["257 to 1024"].lost == 1
    assert found["all"].lost == pytest.approx(1.1**0.5)
    assert found["all"].error == pytest.approx(np.log(4 / 3))
    assert (found["all"].shapes, found["all"].schedules) == (2, 5)
    assert found["1 to 16"].repeated == (1, 1)
    # Two rounds choose 0, which is slow in the third round.
    assert found["257 to 1024"].repeated[0] > 1.3


def test_samples_have_medians_of_all_rounds() -> None:
    times = (3.0, 9.0, 1.0, 4.0, 8.0, 2.0)
    found = samples_of([rows(shape(8, 256, 512, {0: times, 1: times}))])
    np.testing.assert_allclose(1e6 * found.seconds, 3.5)
    np.testing.assert_allclose(1e6 * found.rounds[0], (3.5, 8.5, 1.5))


def test_shapes_of_a_file_count_by_its_weight() -> None:
    files = [timed_by(replace(START, launch=1000.0), 1), timed_by(replace(START, launch=9000.0), 2)]

    def launch(*weights: int) -> float:
        weighted = [replace(file, weight=weight) for file, weight in zip(files, weights, strict=True)]
        return fitted(samples_of(weighted), START, TARGET, 6).launch

    assert launch(10, 1) < launch(1, 10)


def test_folds_hold_out_each_pair_of_n_and_k_once() -> None:
    samples = samples_of([timed_by(START)])
    folds = folds_of(samples)
    assert np.sum(folds, axis=0).tolist() == [1] * len(samples)
    for out in folds:
        assert not set(samples.pair[out]) & set(samples.pair[~out])
        assert len(samples.where(out)) == out.sum()


def test_constants_are_written_as_they_stand_in_the_file() -> None:
    text = (ROOT / "passes" / "schedules" / "cost" / "fitted.py").read_text(encoding="utf-8")
    assert with_constants(text, FITTED) == text
    assert "memory=1234,\n" in with_constants(text, replace(FITTED, memory=1234.0))
