"""`lowtide compile`: what it reports, saves and emits, and what it refuses."""

import re
from pathlib import Path

import pytest
from cli_calls import SMALL, accepted, edited, level_file, refused, reported

from lowtide import runtime


def test_compile_reports_the_schedule_sizes_and_ptxas() -> None:
    output = accepted("compile", "--n", "48", "--target", "sm_80")
    assert reported(output, "problem") == "bf16 tn ?x48x? to bf16, f32 accumulators"
    assert re.match(r"for sm_80 in [\d.]+ m?s, from level problem", reported(output, "compiled"))
    assert re.match(r"\d+ lines, \d+ bytes", reported(output, "ptx"))
    assert re.match(r"\d+ registers per thread, spills 0 bytes stored, 0 loaded|none in", reported(output, "ptxas"))


def test_compile_says_so_where_there_is_no_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("attempts", "kernel"):
        monkeypatch.setattr(f"lowtide.compiler.{module}.find_ptxas", lambda: None)
    assert "the driver assembles the PTX" in reported(accepted("compile", *SMALL), "ptxas")


def test_compile_saves_a_kernel_that_the_runtime_loads(tmp_path: Path) -> None:
    folder = tmp_path / "kernel"
    assert reported(accepted("compile", *SMALL, "-o", str(folder)), "saved") == str(folder)
    assert runtime.load(folder).manifest["spec"]["m"] == 70


def test_compile_to_a_place_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    assert "cannot save to" in refused("compile", *SMALL, "-o", str(occupied / "kernel"))
    assert list(tmp_path.iterdir()) == [occupied]


@pytest.mark.parametrize("level", ["problem", "pipelined", "nvvm", "ptx"])
def test_compile_emits_a_level_and_nothing_else(level: str) -> None:
    output = accepted("compile", *SMALL, "--emit", level)
    expected = ".version 8.0" if level == "ptx" else f'tile.level = "{level}", tile.target = "sm_80"'
    assert expected in output
    assert "schedule   " not in output


def test_compile_goes_on_from_a_dump_and_shows_an_edit(dump: Path, tmp_path: Path) -> None:
    atoms = level_file(dump, "atoms")
    same = accepted("compile", "--ir", str(atoms), "--emit", "ptx")
    assert same == (dump / "09-ptx" / "kernel.ptx").read_text().rstrip("\n") + "\n"
    copy = edited(atoms, tmp_path, "sm.splat 0.000000e+00", "sm.splat 1.000000e+00")
    assert accepted("compile", "--ir", copy, "--emit", "ptx") != same


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--emit", "atom"), "unknown level 'atom'"),
        (("--emit", "ptx", "--time-passes"), "--emit only prints a level"),
        (("--ir", "none.mlir"), "cannot read none.mlir"),
    ],
)
def test_compile_refuses_bad_input_with_a_message(options: tuple[str, ...], message: str) -> None:
    assert message in refused("compile", *options)
