"""The pictures of docs/draw.md are those that its commands make."""

import re
import shlex
from pathlib import Path

import pytest
from svg_cells import drawn_panels, title_of
from typer.testing import CliRunner

from lowtide.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "draw.md").read_text(encoding="utf-8")
COMMANDS = dict(re.findall(r"^lowtide draw (.*) -o docs/(pictures/\S+\.svg)$", PAGE, re.MULTILINE))


def test_every_picture_of_the_page_has_its_command() -> None:
    shown = re.findall(r"\]\((pictures/[^)]+)\)", PAGE)
    kept = [f"pictures/{path.name}" for path in (ROOT / "docs" / "pictures").glob("*.svg")]
    assert sorted(COMMANDS.values()) == sorted(shown) == sorted(kept)


@pytest.mark.parametrize("what", COMMANDS)
def test_the_command_makes_the_picture(what: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["draw", *shlex.split(what), "-o", str(tmp_path / "made.svg")])
    assert done.exit_code == 0, done.output
    kept, made = ROOT / "docs" / COMMANDS[what], tmp_path / "made.svg"
    assert title_of(made) == title_of(kept)
    for new, old in zip(drawn_panels(made), drawn_panels(kept), strict=True):
        assert (new.title, new.marked) == (old.title, old.marked)
        assert new.labels.tolist() == old.labels.tolist() and new.colours.tolist() == old.colours.tolist()
