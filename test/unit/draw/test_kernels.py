"""Pictures of kernels: who loads, reads, multiplies and stores which element, and the bank of each in shared memory."""

from pathlib import Path

import numpy as np
import pytest
from svg_cells import drawn_panels
from typer.testing import CliRunner, Result

import lowtide as lt
from lowtide.cli.main import app
from lowtide.compiler import driver
from lowtide.compiler.problem_ir import problem_text
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import without_codes
from lowtide.inspection.draw.kernels import VIEWS, kernel_picture
from lowtide.inspection.draw.panels import Panel, Picture
from lowtide.inspection.draw.parts import parse_part
from lowtide.targets import get

MMA = "grid.tile = [64, 64], k = 32, atoms = [2, 2, 1], stages = 3, a.swizzle = <0,3,3>, b.swizzle = <2,3,3>"
WGMMA = "grid.tile = [64, 64], k = 64, stages = 2, roles = cooperative(1)"


def epilogue_level(target: str, schedule: str, layout: str = "tn") -> str:
    spec = lt.GemmSpec(m=None, n=None, k=None, a="bf16", b="bf16", d="bf16", layout=layout)
    text = problem_text(spec, get(target), Schedule.parse(schedule))
    return driver.lower(text, target=target, until=Level.EPILOGUE).levels["epilogue"]


@pytest.fixture(scope="module")
def mma() -> str:
    return epilogue_level("sm_80", MMA)


@pytest.fixture(scope="module")
def wgmma() -> str:
    return epilogue_level("sm_90a", f"{WGMMA}, epilogue.path = tma")


def view(text: str, show: str, part: str = "m=64,n=64,k=64") -> Picture:
    return kernel_picture(text, show=show, part=parse_part(part))


def grid(rows: int, columns: int, label: object) -> list[list[str]]:
    return [[label(row, column) for column in range(columns)] for row in range(rows)]  # type: ignore[operator]


def panel_of(picture: Picture, title: str) -> Panel:
    (found,) = (panel for panel in picture.drawn if panel.title.startswith(title))
    return found


def test_the_threads_of_a_warp_load_whole_rows(mma: str) -> None:
    """128 threads, four to a row of 32 elements, 16 bytes each; the second pass is their second vector."""
    picture = view(mma, "load")
    for name, axes in (("A", ("m", "k")), ("B", ("n", "k"))):
        panel = panel_of(picture, f"{name} to shared memory by cp.async.16")
        assert panel.axes == axes
        assert panel.labels.tolist() == grid(
            64, 32, lambda row, column: f"T{4 * (row % 32) + column // 8}\nV{8 * (row // 32) + column % 8}"
        )


def test_lanes_of_ldmatrix_address_rows_matrix_by_matrix(mma: str) -> None:
    """A: warps 0 and 1 along M, 16 rows each; lanes 0 to 15 the rows of the left matrices, 16 to 31 of the right."""
    panel = panel_of(view(mma, "read"), "A to registers by ldmatrix.x4")
    assert panel.labels.tolist() == grid(
        64, 16, lambda row, column: f"T{32 * (row // 16 % 2) + row % 16 + 16 * (column // 8)}\nI{row // 32}"
    )


def test_operands_stand_where_they_are_multiplied(mma: str) -> None:
    picture = view(mma, "multiply", "m=64,n=16,k=16")
    _, b, a, c = picture.panels
    assert picture.panels[0] is None and a is not None and b is not None and c is not None
    assert (a.axes, b.axes, c.axes) == (("m", "k"), ("k", "n"), ("m", "n"))
    # Warps 0 and 1 along M, 2 and 3 along N; in a warp as mma.m16n8k16 has it.
    assert c.labels[:, 0].tolist() == [
        f"T{32 * (m // 16 % 2) + 4 * (m % 8)}\nV{2 * (m // 8 % 2) + 4 * (m // 32)}" for m in range(64)
    ]
    assert [label.split("\n")[0] for label in c.labels[0]] == [f"T{64 * (n // 8) + n % 8 // 2}" for n in range(16)]
    assert "each element in 2 threads" in a.title and "each element in 2 threads" in b.title


def test_results_go_to_scratch_as_they_are_held_and_leave_in_rows(mma: str) -> None:
    picture = view(mma, "store")
    titles = [panel.title.split(",")[0] for panel in picture.drawn]
    assert titles == [
        "registers to scratch by st.shared.4",
        "scratch to registers by ld.shared.16",
        "registers to D by st.global.16",
    ]
    given, taken, stored = picture.drawn
    assert given.labels[0, :4].tolist() == ["T0\nV0", "T0\nV1", "T1\nV0", "T1\nV1"]
    assert taken.labels.tolist() == stored.labels.tolist()
    assert stored.labels[3].tolist() == [f"T{8 * 3 + n // 8}\nV{n % 8}" for n in range(64)]


def test_every_element_is_labelled_by_its_bank(mma: str) -> None:
    offset = np.arange(64 * 32).reshape(64, 32)
    picture = view(mma, "banks")
    for name, offsets in (("a", offset), ("b", offset ^ (offset >> 3 & 3 << 3))):
        for access in ("written by cp.async.16", "read by ldmatrix.x4"):
            panel = panel_of(picture, f"{name} {access}")
            assert panel.labels.tolist() == (offsets * 2 // 4 % 32).astype(str).tolist()


def test_conflicts_are_coloured_and_one_is_marked(mma: str) -> None:
    """Rows of 64 bytes without a swizzle: every second row begins in the same bank."""
    picture = view(mma, "banks")
    worst = panel_of(picture, "a read by ldmatrix.x4")
    assert "no swizzle, 4-way conflicts" in worst.title and worst.marked is not None
    marked = np.zeros((64, 32), dtype=bool)
    marked[[0, 2, 4, 6], :8] = True
    assert worst.marked.tolist() == marked.tolist()
    assert (worst.colours == 3).all()
    for title in ("a written by cp.async.16", "b read by ldmatrix.x4", "b written by cp.async.16"):
        panel = panel_of(picture, title)
        assert "no conflicts" in panel.title and (panel.colours == 1).all() and not panel.marked.any()  # type: ignore[union-attr]


def test_tma_moves_boxes_and_wgmma_reads_shared_memory(wgmma: str) -> None:
    load = view(wgmma, "load").drawn
    assert [set(panel.labels.flat) for panel in load] == [{"box\n0"}, {"box\n0"}]
    assert all("boxes of 64×64, issued by one thread" in panel.title for panel in load)
    (c,) = view(wgmma, "multiply").drawn
    assert c.labels[:, 0].tolist() == [f"T{32 * (m // 16) + 4 * (m % 8)}\nV{2 * (m // 8 % 2)}" for m in range(64)]
    banks = view(wgmma, "banks")
    assert "swizzle<3,3,3>, no conflicts" in panel_of(banks, "a read by wgmma").title
    offset = np.arange(64 * 64).reshape(64, 64)
    expected = (offset ^ (offset >> 3 & 7 << 3)) * 2 // 4 % 32
    assert panel_of(banks, "a read by wgmma").labels.tolist() == expected.astype(str).tolist()
    assert [panel.title.partition(",")[0] for panel in view(wgmma, "store").drawn][-1] == "shared memory to D by TMA"


def test_a_box_of_a_d_by_columns_has_64_rows_and_all_columns() -> None:
    fields = "operands = swapped, grid.tile = [128, 24], roles = cooperative(2), epilogue.path = tma"
    picture = view(epilogue_level("sm_90a", fields), "store", "m=128,n=24,k=64")
    boxes = panel_of(picture, "shared memory to D by TMA")
    assert "boxes of 64×24" in boxes.title
    assert boxes.labels.tolist() == grid(128, 24, lambda m, n: f"box\n{m // 64}")


@pytest.mark.parametrize("target, schedule", [("sm_80", MMA), ("sm_90a", WGMMA)])
def test_operands_are_drawn_as_they_are_stored(target: str, schedule: str) -> None:
    load = view(epilogue_level(target, schedule, "nt"), "load").drawn
    assert [panel.axes for panel in load] == [("k", "m"), ("k", "n")]


def test_without_a_view_all_are_drawn_in_a_part_that_can_be_read(mma: str, wgmma: str) -> None:
    for text in (mma, wgmma):
        picture = kernel_picture(text)
        picture.check_readable()
        assert len(picture.drawn) == sum(len(view(text, show).drawn) for show in VIEWS if show != "read" or text is mma)
        assert picture.extents() == {"m": 16, "n": 16, "k": 32}


def test_an_edited_dump_is_drawn_as_it_is(mma: str, tmp_path: Path) -> None:
    dump = tmp_path / "edited.mlir"
    dump.write_text(mma.replace("swizzle<2,3,3>", "swizzle<1,3,3>"), encoding="utf-8")
    panel = panel_of(kernel_picture(dump, show="banks"), "b read by ldmatrix.x4")
    assert "swizzle<1,3,3>, 2-way conflicts" in panel.title
    lt.draw(str(dump), tmp_path / "x.svg", show="banks", part="m=1,n=1,k=2")
    assert len(drawn_panels(tmp_path / "x.svg")) == 6


def lowtide(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["draw", *arguments])


def test_the_command_draws_the_kernel_of_its_options(tmp_path: Path) -> None:
    file = tmp_path / "k.svg"
    done = lowtide("--target", "sm_80", "--schedule", MMA, "--show", "load", "--part", "m=2,n=2,k=4", "-o", str(file))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == f"written    {file}"
    assert [panel.labels.tolist() for panel in drawn_panels(file)] == 2 * [
        grid(2, 4, lambda row, column: f"T{4 * row}\nV{column}")
    ]


def test_a_compiled_kernel_is_drawn(tmp_path: Path) -> None:
    kernel = lt.compile_gemm(lt.GemmSpec(m=64, n=64, k=64, a="f16", b="f16", d="f16"), "sm_80", schedule=MMA)
    lt.draw(kernel, tmp_path / "k.svg", show="store", part="m=1,n=2")
    assert [panel.title.split(" by ")[0] for panel in drawn_panels(tmp_path / "k.svg")][-1].strip() == "registers to D"
    late = lt.compile_ir(kernel.levels["nvvm"])
    with pytest.raises(lt.Error, match=r"\[drawn-level\]"):
        lt.draw(late, tmp_path / "late.svg")


@pytest.mark.parametrize(
    ("fields", "titles", "axes"),
    [
        ({"a": "f32", "b": "f32", "d": "f32", "precision": "tf32x3", "layout": "nt"}, "pieces of", ("m", "k")),
        ({"a": "s8", "b": "s8", "d": "s32", "layout": "nt"}, "A to shared", ("m", "k")),  # a transpose of A
        ({"a": "e4m3", "b": "e4m3", "d": "bf16", "block_scales": lt.BlockScales()}, "scale_a", ("row", "column")),
    ],
    ids=["pieces", "transposes", "scales"],
)
def test_what_tma_loads_beside_a_and_b_as_they_are_given_is_drawn(fields, titles, axes) -> None:
    text = lt.compile_gemm(lt.GemmSpec(**fields), target="sm_90a").levels["epilogue"]
    drawn = kernel_picture(text, show="load").drawn
    assert next(panel for panel in drawn if panel.title.startswith(titles)).axes == axes
    assert drawn[1].axes == ("n", "k")


def test_what_cannot_be_shown_of_a_kernel_is_refused(mma: str, wgmma: str, tmp_path: Path) -> None:
    with pytest.raises(
        lt.Error, match=r"choose from load, read, multiply, store, banks; did you mean 'store'.*\[unknown-view\]"
    ):
        kernel_picture(mma, show="stores")
    with pytest.raises(lt.Error, match=r"'read'.*\[no-view\]"):
        kernel_picture(wgmma, show="read")
    with pytest.raises(lt.Error, match=r"no axis 'rows' to take a part of; its axes are m, k, n.*\[part-axis\]"):
        view(mma, "load", "rows=4")
    large = epilogue_level("sm_80", "grid.tile = [128, 128], k = 32")
    with pytest.raises(lt.Error, match=r"cells; 8192 are the most that can be read.*\[part-readable\]") as refusal:
        view(large, "multiply", "m=128,n=128").check_readable()
    view(large, "multiply", without_codes(str(refusal.value)).split("--part ")[1]).check_readable()
    nvvm = tmp_path / "nvvm.mlir"
    nvvm.write_text(driver.lower(mma, target="sm_80", until=Level.NVVM).levels["nvvm"], encoding="utf-8")
    with pytest.raises(lt.IRError, match=r"level nvvm .*\[drawn-too-late\]"):
        kernel_picture(nvvm)
    with pytest.raises(lt.Error, match=r"cannot read .*missing.mlir.*\[source-read\]"):
        lt.draw(tmp_path / "missing.mlir", tmp_path / "x.svg")
    for arguments, message in (
        (("<3,3,3>", "--m", "64"), "[draw-beside]"),
        (("<3,3,3>", "--schedule", "stages = 3"), "[draw-beside]"),
        (("<3,3,3>", "--show", "banks"), "[views-of-kernel]"),
        (("--shape", "8x8"), "--shape is for a thread-value layout"),
        (("--target", "sm_80", "--schedule", "stages = 1"), "stages"),
    ):
        done = lowtide(*arguments, "-o", str(tmp_path / "x.svg"))
        assert done.exit_code == 2 and message in done.stderr, done.output
    assert [path.name for path in tmp_path.iterdir()] == ["nvvm.mlir"]
