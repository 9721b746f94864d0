"""Pictures as files: every cell is in the SVG, parts and limits, and nothing is written where something is refused."""

import importlib
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from svg_cells import drawn_panels, title_of
from typer.testing import CliRunner, Result

import lowtide as lt
from lowtide.cli.main import app
from lowtide.inspection.draw.panels import MOST_CELLS, Panel, Picture
from lowtide.inspection.draw.parts import parse_part
from lowtide.inspection.draw.render import write_picture
from lowtide.inspection.draw.subjects import picture_of


def lowtide(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["draw", *arguments])


def refused(*arguments: str) -> str:
    result = lowtide(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.stderr


def test_the_svg_has_every_cell_of_the_picture_with_its_label_and_colour(tmp_path: Path) -> None:
    file = tmp_path / "atom.svg"
    lt.draw("mma.m8n8k4.f64.f64", file)
    picture = picture_of("mma.m8n8k4.f64.f64")
    found = drawn_panels(file)
    assert [panel.title.strip() for panel in found] == ["B (4×8)", "A (8×4)", "C (8×8)"]
    for drawn, panel in zip(found, picture.drawn, strict=True):
        assert drawn.labels.tolist() == panel.labels.tolist()
        assert (len(drawn.rows), len(drawn.columns)) == panel.labels.shape
        # One colour for the elements of a thread, and eight in all.
        assert len({*zip(drawn.colours.flat, (panel.colours % 8).flat, strict=True)}) == 8 == len({*drawn.colours.flat})
    assert title_of(file) == picture.title


def test_one_command_makes_one_text(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        lt.draw("(2,4):(4,1)", tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "<dc:date>" not in (tmp_path / "one.svg").read_text()


def test_marked_cells_have_a_red_border(tmp_path: Path) -> None:
    marked = np.zeros((3, 2), dtype=bool)
    marked[1] = True
    panel = Panel("p", ("rows", "columns"), np.full((3, 2), "x"), np.zeros((3, 2), dtype=np.int64), marked)
    write_picture(Picture("p", "whole", (panel,)), tmp_path / "p.svg")
    (drawn,) = drawn_panels(tmp_path / "p.svg")
    assert drawn.marked == 2 and drawn.labels.shape == (3, 2)


def test_png_where_the_name_says_so(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "swizzle.PNG"
    assert lowtide("<2,3,3>", "-o", str(file)).stdout == f"written    {file}\n"
    data = file.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert data.startswith(b"\x89PNG") and 500 < width < 4000 and 200 < height < 4000


def test_a_part_is_cut_by_axis_and_the_title_says_which(tmp_path: Path) -> None:
    file = tmp_path / "part.svg"
    assert lowtide("wgmma.m64n256k16.f32.bf16", "-o", str(file), "--part", "m=16:24,n=8").exit_code == 0
    (drawn,) = drawn_panels(file)
    whole = picture_of("wgmma.m64n256k16.f32.bf16").drawn[0]
    assert drawn.labels.tolist() == whole.labels[16:24, :8].tolist()
    assert "m = 16 to 23 of 64, n = 0 to 7 of 256" in drawn.title.replace("\n", " ")


def test_each_operand_is_cut_along_its_own_axes() -> None:
    cut = picture_of("mma.m16n8k16.f32.bf16").cut(parse_part("m=4, k = 8:16"))
    assert [panel.labels.shape for panel in cut.drawn] == [(8, 8), (4, 8), (4, 8)]
    assert cut.panels[0] is None


@pytest.mark.parametrize(
    "what, limit",
    [
        ("wgmma.m64n256k16.f32.bf16", f"has 16384 cells; {MOST_CELLS} are the most that can be read"),
        ("1000:1", "has 1000 cells along columns; 128 are the most"),
        ("(256,512):(512,1)", "has 131072 cells"),
        ("#sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [4, 4, 1], permutation [128, 128, 32]>", "has 24576 cells"),
    ],
)
def test_too_many_cells_are_refused_with_a_part_that_is_legal(what: str, limit: str, tmp_path: Path) -> None:
    message = refused(what, "-o", str(tmp_path / "x.svg"))
    assert limit in message
    part = message.split("--part ")[1].split()[0]
    picture_of(what).cut(parse_part(part)).check_readable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "part, message",
    [
        ("rows=8:9", "is outside of 'without', which has 8 along rows; start below 8"),
        ("m=4", "swizzle<3,3,3> has no axis 'm' to take a part of; its axes are rows, columns"),
        ("rows=3:3", "rows=3:3 is empty; end after 3"),
        ("rows=0", "rows=0 is empty"),
        ("rows=1,rows=2", "gives rows twice"),
        ("rows", "is not a range of an axis; give ranges by axis, such as m=0:16,k=0:32"),
        ("rows=-1:2", "is not a range of an axis"),
        ("", "is not a range of an axis"),
    ],
)
def test_a_part_that_is_none_is_refused(part: str, message: str, tmp_path: Path) -> None:
    assert message in refused("<3,3,3>", "-o", str(tmp_path / "x.svg"), "--part", part)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    assert "pictures are .svg or .png" in refused("<3,3,3>", "-o", str(tmp_path / "x.pdf"))
    (tmp_path / "file").write_text("kept")
    assert "cannot write" in refused("<3,3,3>", "-o", str(tmp_path / "file" / "x.svg"))
    (tmp_path / "folder.svg").mkdir()
    assert "cannot write" in refused("<3,3,3>", "-o", str(tmp_path / "folder.svg"))
    (tmp_path / "x.svg").write_text("before")
    refused("no such atom", "-o", str(tmp_path / "x.svg"))
    refused("(4096,4096):(4096,1)", "-o", str(tmp_path / "x.svg"))
    assert (tmp_path / "x.svg").read_text() == "before" and (tmp_path / "file").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.svg", "x.svg"]


def test_a_picture_that_cannot_be_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    viz = importlib.import_module("tensor_layouts.viz")

    def half(panels: object, file: Path, **options: object) -> None:
        file.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(viz, "draw_composite", half)
    with pytest.raises(KeyboardInterrupt):
        lt.draw("<3,3,3>", tmp_path / "x.svg")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_command_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensor_layouts.viz", None)
    assert "pip install 'lowtide[draw]'" in refused("<3,3,3>", "-o", str(tmp_path / "x.svg"))


def test_the_shape_of_a_tile_is_given_as_rows_and_columns(tmp_path: Path) -> None:
    text = "#tile.tv<threads (4,2):(2,1), values 2:8>"
    assert lowtide(text, "-o", str(tmp_path / "x.svg"), "--shape", "2x8").exit_code == 0
    (drawn,) = drawn_panels(tmp_path / "x.svg")
    assert drawn.labels.shape == (2, 8)
    assert "--shape '2,8' is not ROWSxCOLUMNS" in refused(text, "-o", str(tmp_path / "y.svg"), "--shape", "2,8")


@pytest.mark.parametrize("what", [None, 3, b"<3,3,3>"])
def test_what_is_no_text_is_refused(what: object, tmp_path: Path) -> None:
    with pytest.raises(lt.Error, match=r"\[drawn-kind\]"):
        lt.draw(what, tmp_path / "x.svg")  # type: ignore[arg-type]
