"""Draws of shapes, and the journal of their races."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from lowtide.errors import Error
from lowtide.measurement.bench.any_shape import draws
from lowtide.measurement.bench.any_shape.draws import Draw, Drawn, read_layers, read_public
from lowtide.measurement.bench.any_shape.journal import BEGUN, DRAW, RACES, Journal, Origin, origin_of

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
LAYERS = read_layers(BENCHMARKS / "model_layers.txt")


def test_a_seed_draws_the_same_shapes_again_and_another_seed_others() -> None:
    assert Draw(1).shapes(LAYERS) == Draw(1).shapes(LAYERS)
    assert not set(Draw(1).shapes(LAYERS)) & set(Draw(2).shapes(LAYERS))


def test_half_of_every_beginning_has_the_widths_of_a_layer_and_half_is_log_uniform() -> None:
    shapes = Draw(5, count=400).shapes(LAYERS)
    layers = {(n, k): what for n, k, what in LAYERS}
    for of_layer, other in zip(shapes[::2], shapes[1::2], strict=True):
        assert layers[of_layer.n, of_layer.k] == of_layer.source and other.source == "log-uniform"
        assert all(256 <= x <= 32768 and x % 8 == 0 for x in (other.n, other.k))
    drawn = [math.log2(shape.n) for shape in shapes if shape.source == "log-uniform"]
    assert all(abs(sum(low <= x < low + 1 for x in drawn) / len(drawn) - 1 / 7) < 0.1 for low in range(8, 15))


def test_rows_are_log_uniform_from_one_odd_ones_too() -> None:
    rows = [shape.m for shape in Draw(5, count=1000).shapes(LAYERS)]
    assert min(rows) == 1 and 8192 < max(rows) <= 16384
    assert 0.4 < sum(m % 2 for m in rows if m > 64) / sum(m > 64 for m in rows) < 0.6
    assert abs(sum(m < 128 for m in rows) / len(rows) - 0.5) < 0.1
    few = [shape.m for shape in Draw(5, count=300, most_rows=256).shapes(LAYERS)]
    assert min(few) == 1 and 200 < max(few) <= 256


def test_each_type_and_layout_has_its_own_shapes_in_turn() -> None:
    draw = Draw(3, count=4, layouts=("tn", "nt"), dtypes=("bf16", "f16"))
    shapes = draw.shapes(LAYERS)
    assert [shape.population for shape in shapes[:4]] == ["bf16 tn", "bf16 nt", "f16 tn", "f16 nt"]
    assert len(shapes) == len({(shape.m, shape.n, shape.k) for shape in shapes}) == 16
    assert {shape.layout for shape in shapes} == {"tn", "nt"}


def test_shapes_of_too_many_bytes_are_drawn_again() -> None:
    most = 64 << 20
    assert max(map(draws._bytes_of, Draw(1, count=200).shapes(LAYERS))) > most
    assert max(map(draws._bytes_of, Draw(1, count=200, most_bytes=most).shapes(LAYERS))) <= most
    with pytest.raises(Error, match=r"\[draw-exhausted\]"):
        Draw(1, most_bytes=1).shapes(LAYERS)


def test_a_shape_says_its_problem() -> None:
    batched = Draw(1, count=3, layouts=("nt",), most_batch=16).shapes(LAYERS)[0]
    assert batched.population == "bf16 nt, batches" and 2 <= (batched.batch or 0) <= 16
    spec = batched.spec
    assert (spec.m, spec.n, spec.k, spec.batch, spec.layout) == (
        *(batched.m, batched.n, batched.k),
        *(batched.batch, "nt"),
    )
    scaled = Draw(1, count=50, dtypes=("e4m3",)).shapes(LAYERS)
    assert all(one.n % 16 == one.k % 16 == 0 for one in scaled)
    assert (scaled[0].spec.a, scaled[0].spec.d, scaled[0].spec.acc) == ("e4m3", "bf16", "f32")
    assert [operand.name for operand in scaled[0].spec.operands] == ["scale_a", "scale_b"]
    assert Drawn(65, 14336, 4096, 8, "bf16", "tn", "", "").name == "bf16-tn-8of65x14336x4096"


def test_the_populations_say_what_differs_from_the_usual_draw() -> None:
    assert Draw(0, most_rows=256).population("bf16", "tn") == "bf16 tn, M to 256"
    assert Draw(0, dtypes=("e4m3",)).population("e4m3", "tn") == "e4m3 tn by rows"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"layouts": ("xy",)}, "draw-words"),
        ({"dtypes": ("s8",)}, "draw-words"),
        ({"layouts": ()}, "draw-words"),
        ({"count": 0}, "draw-numbers"),
        ({"most_rows": 0}, "draw-numbers"),
        ({"most_batch": 1}, "draw-numbers"),
        ({"dtypes": ("e4m3",), "layouts": ("nt",)}, "draw-scaled"),
        ({"dtypes": ("e4m3",), "most_batch": 4}, "draw-scaled"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(Error, match=rf"\[{code}\]"):
        Draw(0, **options)


def test_the_layers_are_of_ten_models_and_the_public_shapes_are_sixteen() -> None:
    assert len({draws._model(what) for _, _, what in LAYERS}) == 10
    public = read_public(BENCHMARKS / "public_shapes.txt")
    assert len({shape.name for shape in public}) == 16 and {shape.population for shape in public} == {"public"}
    assert all(shape.spec.layout == "tn" for shape in public)


def test_files_of_shapes_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"\[draw-file\]"):
        read_layers(tmp_path / "none")
    (tmp_path / "shapes").write_text("# N K\n4096 wide Llama, down\n", encoding="utf-8")
    with pytest.raises(Error, match=r"line 2: .* \[draw-line\]"):
        read_layers(tmp_path / "shapes")


def test_a_folder_remembers_its_draw(tmp_path: Path) -> None:
    assert origin_of(tmp_path) is None
    origin = Origin(Draw(7, count=3, layouts=("tn", "tt"), public=True), "abc")
    origin.write(tmp_path)
    assert origin_of(tmp_path) == origin
    for text in ("{}", '{"draw": {"seed": 1, "colour": 2}, "commit": ""}', "no json"):
        (tmp_path / DRAW).write_text(text, encoding="utf-8")
        with pytest.raises(Error, match=r"\[draw-record\]"):
            origin_of(tmp_path)


def test_a_journal_goes_on_after_a_line_that_was_cut_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run")
    assert not journal.lines and not journal.torn
    journal.add({"name": "one", "seconds": {"torch": [1.0]}})
    journal.add({"name": "two"})
    path = tmp_path / "run" / RACES
    path.write_bytes(path.read_bytes() + b'{"name": "three", "sec')
    again = Journal(tmp_path / "run")
    assert list(again.lines) == ["one", "two"] and again.torn and again.lines["one"]["seconds"] == {"torch": [1.0]}
    again.add({"name": "three"})
    assert [json.loads(line)["name"] for line in path.read_text().splitlines()] == ["one", "two", "three"]
    assert not Journal(tmp_path / "run").torn


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / RACES).write_text('{"name": "one"}\n[1]\n', encoding="utf-8")
    with pytest.raises(Error, match=r"line 2: .* \[journal-line\]"):
        Journal(tmp_path)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(Error, match=r"\[journal-write\]"):
        Journal(tmp_path / "file" / "run").add({"name": "one"})


def test_a_journal_counts_how_often_a_race_has_begun_without_an_end(tmp_path: Path) -> None:
    assert [Journal(tmp_path).begin(name) for name in ("one", "one", "two", "one")] == [1, 2, 1, 1]
    (tmp_path / BEGUN).write_text("[", encoding="utf-8")
    assert Journal(tmp_path).begin("one") == 1
