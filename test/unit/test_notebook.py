"""What notebooks show of kernels, schedules and layouts."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tensor_layouts import Layout

import lowtide as lt
from lowtide import runtime
from lowtide.compiler.kernel import CompiledKernel
from lowtide.html import table

SCHEDULE = "grid.tile = [32, 32], k = 32, atoms = [2, 1, 1], stages = 2, a.swizzle = <2,3,3>"


@pytest.fixture(scope="module")
def kernel() -> CompiledKernel:
    spec = lt.GemmSpec(m=None, n=24, k=32, a="f16", b="f16", d="f16")
    return lt.compile_gemm(spec, "sm_80", SCHEDULE)


def cells(html: str) -> dict[str, str]:
    """Name and text of each row of tables, read as XML."""
    rows = ElementTree.fromstring(f"<page>{html}</page>").iter("tr")
    return {(head.text or ""): "".join(cell.itertext()) for head, cell in rows}


def test_tables_are_escaped() -> None:
    html = table("<b>", [("a & b", "<script>"), ("x", "1\n2")])
    assert "<script>" not in html and "<b>" not in html
    assert cells(html) == {"a & b": "<script>", "x": "1\n2"}


def test_a_schedule_shows_its_decided_fields() -> None:
    schedule = lt.Schedule.parse(SCHEDULE)
    assert cells(schedule._repr_html_()) == schedule.texts()
    assert cells(lt.Schedule()._repr_html_()) == {}


def test_a_kernel_shows_its_problem_launches_arguments_and_schedule(kernel: CompiledKernel, tmp_path: Path) -> None:
    html = kernel._repr_html_()
    assert "f16 x f16 tn ?x24x32 to f16 for sm_80" in html
    found = cells(html)
    assert found["launches"] == kernel.entry
    assert found["arguments"].split("\n") == [
        "a: f16 (M, 32), input",
        "b: f16 (24, 32), input",
        "d: f16 (M, 24), output",
    ]
    assert found["order of sums"] == kernel.summation
    assert found.items() >= kernel.schedule.texts().items()
    loaded = cells(runtime.load(kernel.save(tmp_path / "kernel"))._repr_html_())
    assert loaded["launches"] == kernel.entry and loaded["schedule"] == str(kernel.schedule)


def test_a_kernel_without_a_host_side_shows_what_is_known(kernel: CompiledKernel) -> None:
    text = kernel.levels["llvm"].replace("tile.problem =", "asked =")
    edited = lt.compile_ir(text)
    with pytest.raises(lt.IRError, match=r"\[problem-of-host\]"):
        _ = edited.manifest
    assert cells(edited._repr_html_()) == {"kernel": repr(edited)}


def test_a_layout_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = lt.draw(Layout((2, 4), (4, 1)))
    assert drawing is not None
    assert repr(drawing) == "layout (2,4):(4,1): offsets in elements\n\n0 1 2 3\n4 5 6 7"
    assert repr(lt.draw("(2,4):(4,1)")) == repr(drawing)
    svg = ElementTree.fromstring(str(drawing._repr_svg_()))
    assert svg.tag.endswith("svg") and {"4", "7"} <= {text.strip() for text in svg.itertext()}
    monkeypatch.setitem(sys.modules, "tensor_layouts.viz", None)
    assert drawing._repr_svg_() is None


def test_the_text_of_a_drawing_is_cut() -> None:
    lines = repr(lt.draw("(64,40):(40,1)")).split("\n")
    assert len(lines) == 2 + 32 + 1 and lines[-1] == "…"
    assert lines[2].endswith(" 31 …")
    assert "T0/V0" in repr(lt.draw("mma.m8n8k4.f64.f64"))


def test_a_drawing_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(lt.Error, match=r"\[part-readable\]"):
        lt.draw("(128,128):(128,1)")
    assert lt.draw("(128,128):(128,1)", part="rows=8") is not None
