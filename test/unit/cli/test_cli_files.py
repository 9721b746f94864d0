"""Commands that read a dump: what contradicts the file, or is none, is refused."""

from pathlib import Path

import pytest
from cli_calls import SMALL, edited, level_file, refused


def test_options_that_a_file_answers_are_refused_beside_it(dump: Path) -> None:
    file = str(level_file(dump, "cta"))
    assert "--layout with" in refused("compile", "--ir", file, "--layout", "tn")
    assert "--schedule with" in refused("explain", "--ir", file, "--schedule", "stages = 2")
    assert "--dtype with" in refused("interpret", file, "--dtype", "f16")
    assert "--against needs a FILE" in refused("interpret", *SMALL, "--against", file)


@pytest.mark.parametrize("command", [("compile", "--ir"), ("interpret",), ("explain", "--ir")])
def test_files_that_are_no_module_of_a_level_are_refused(command: tuple[str, ...], dump: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.mlir"
    bad.write_text("module { func.func @f( }")
    assert f"not a legal module: {bad}:1:" in refused(*command, str(bad))
    bad.write_text('module attributes {tile.target = "sm_80"} {}')
    assert "the module lacks tile.level" in refused(*command, str(bad))
    misplaced = edited(level_file(dump, "smem"), tmp_path, 'tile.level = "smem"', 'tile.level = "cta"')
    assert "does not belong in device code at level cta" in refused(*command, misplaced)
    bad.write_bytes(b"\xff\xfe")
    assert f"cannot read {bad}" in refused(*command, str(bad))


def test_a_target_that_contradicts_the_file_is_refused(dump: Path) -> None:
    file = str(level_file(dump, "cta"))
    for command in (("compile", "--ir", file), ("interpret", file), ("explain", "--ir", file)):
        assert "is for sm_80" in refused(*command, "--target", "sm_90")
