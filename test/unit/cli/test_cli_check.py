"""`lowtide check`: what it prints, its JSON and its exit status."""

import json
import shlex
from pathlib import Path

import pytest
from cli_calls import accepted, edited, level_file, lowtide, refused, reported

from lowtide.cli import check_presets
from lowtide.compiler.presets import Preset
from lowtide.dialects.tile.schedule import Schedule

SCHEDULE = (
    "--target",
    "sm_80",
    "--schedule",
    "grid.tile = [32, 32], k = 16, atoms = [1, 2, 1], stages = 2, order = row, pack = none",
)


def test_check_prints_conditions_and_a_verdict() -> None:
    output = accepted("check", *SCHEDULE, "--jobs", "1", "--seed", "3")
    assert reported(output, "result").startswith("ok: ")
    assert reported(output, "K loop") == "1 step" + reported(output, "K loop").removeprefix("1 step")
    assert "cuts stores of 8 elements of D after the first" in output
    assert reported(output, "numbers").endswith("another polynomial of degree 2 agrees with p <= 9.3e-10")
    assert reported(output, "seed") == "3"


def test_check_of_a_wrong_dump_names_the_step_and_exits_with_1(tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    accepted("compile", *SCHEDULE, "--dump-ir", str(dump))
    last = level_file(dump, "smem")
    last.write_text(last.read_text().replace("0.000000e+00", "1.000000e+00", 1))
    result = lowtide("check", str(dump), "--jobs", "1", "--budget", "2", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["guilty"]["after"] == str(last)
    assert found["guilty"]["outcome"]["element"]["got"] != found["guilty"]["outcome"]["element"]["expected"]
    assert not found["ok"]
    again = shlex.split(found["guilty"]["command"])
    assert lowtide(*again[1:]).exit_code == 1


def test_check_of_wrong_ptx_names_the_backend_and_the_line(tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    accepted("compile", *SCHEDULE, "--dump-ir", str(dump))
    ptx = level_file(dump, "ptx")
    ptx.write_text(ptx.read_text().replace("\tcp.async.wait_group", "\t// cp.async.wait_group", 1))
    result = lowtide("check", str(dump), "--jobs", "1", "--budget", "1", "--json")
    assert result.exit_code == 1
    guilty = json.loads(result.stdout)["guilty"]
    assert (guilty["level"], guilty["step"]) == ("ptx", "emit-ptx")
    assert f"at {ptx}:" in guilty["op"]
    assert lowtide(*shlex.split(guilty["command"])[1:]).exit_code == 2


def test_check_goes_on_from_a_file(tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    accepted("compile", *SCHEDULE, "--dump-ir", str(dump))
    output = accepted("check", str(level_file(dump, "pipelined")), "--jobs", "1", "--budget", "2", "--no-shapes")
    assert reported(output, "result").startswith("ok: ")
    alone = edited(level_file(dump, "nvvm"), tmp_path, "module", "module")
    assert "--against" in refused("check", alone)
    assert reported(
        accepted("check", alone, "--against", str(level_file(dump, "cta")), "--jobs", "1", "--budget", "1"), "result"
    )


def test_check_of_a_saved_kernel_makes_its_levels_again(tmp_path: Path) -> None:
    saved = tmp_path / "gemm.lowtide"
    accepted("compile", *SCHEDULE, "--epilogue", "bias-relu", "-o", str(saved))
    output = accepted("check", str(saved), "--jobs", "1", "--budget", "2", "--no-shapes")
    assert reported(output, "problem").endswith("operands bias (per_column bf16)")
    assert "no meaning in a field" in reported(output, "numbers")  # relu has an order
    manifest = saved / "manifest.json"
    kept = json.loads(manifest.read_text())
    assert kept["origin"].startswith("#")


def test_check_of_all_presets_prints_a_row_for_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    presets = {name: Preset(Schedule.parse(SCHEDULE[-1]), "sm_80", "") for name in ("one", "two")}
    monkeypatch.setattr(check_presets, "LADDERS", presets)
    page = tmp_path / "page.md"
    command = ("check", "--all-presets", "--jobs", "1", "--budget", "1", "--journal", str(tmp_path / "done.json"))
    output = accepted(*command, "--seed", "1", "--markdown", str(page))
    assert reported(output, "one").split()[:2] == ["sm_80", "bf16"]
    assert [line.split(" | ")[0] for line in page.read_text().splitlines()[2:]] == ["| one", "| two"]
    assert page.read_text().count("| rule |") == 2
    monkeypatch.setattr(check_presets, "check_subject", lambda *_, **__: pytest.fail("these are checked already"))
    again = tmp_path / "again.md"
    accepted(*command, "--seed", "1", "--markdown", str(again))
    assert again.read_text() == page.read_text()
    assert "use the same options, or another file" in refused(*command, "--seed", "2")
    assert "each preset sets it" in refused("check", "--all-presets", "--schedule", "sm80-best")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (("--against", "x.mlir"), "check-against"),
        ((".", "--against", "x.mlir"), "check-against"),
        (("--journal", "done.json"), "presets-file"),
        (("--markdown", "page.md"), "presets-file"),
        (("--ranks", "2", "--dump-ir", "dump"), "beside-ranks"),
        (("--ranks", "2", "--jobs", "1"), "beside-ranks"),
        (("--all-presets", "--dump-ir", "dump"), "beside-presets"),
        (("--all-presets", "--against", "x.mlir"), "beside-presets"),
    ],
)
def test_check_refuses_options_that_it_would_not_use(given: tuple[str, ...], code: str) -> None:
    assert f"[{code}]" in refused("check", *given)


def test_check_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    assert "has no folder NN-level" in refused("check", str(tmp_path))
    assert "the file defines its problem" in refused("check", str(tmp_path), "--m", "64")
