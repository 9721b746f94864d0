"""The options that say a problem are declared once, and every command that compiles one takes all of them."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from cli_calls import refused
from typer.testing import CliRunner

from lowtide.cli.grouped import grouped
from lowtide.cli.main import app
from lowtide.cli.problem import Problem


@pytest.mark.parametrize("command", ["run", "compile", "interpret", "check", "explain", "draw"])
def test_every_command_that_compiles_a_problem_takes_all_its_options(command: str) -> None:
    taken: Any = typer.main.get_command(app)
    names = [option.name for option in taken.get_command(None, command).params]
    own = [field.name for field in fields(Problem)]
    assert [name for name in names if name in own] == own


@dataclass(frozen=True)
class _Size:
    rows: Annotated[int, typer.Option("--rows")]
    columns: Annotated[int, typer.Option("--columns")] = 3


def test_a_command_gets_grouped_options_as_one_value() -> None:
    def show(size: _Size, word: str = "left out") -> None:
        typer.echo(f"{size} {word}")

    one = typer.Typer()
    one.command()(grouped(show))
    given = CliRunner().invoke(one, ["--word", "given", "--rows", "2"])
    assert given.stdout == "_Size(rows=2, columns=3) given\n"
    assert "Missing option '--rows'" in CliRunner().invoke(one, []).stderr


@pytest.mark.parametrize("option", ["--epilogue", "--precision", "--a"])
def test_all_presets_have_problems_of_their_own(option: str) -> None:
    assert f"{option[2:]} with --all-presets: " in refused("check", "--all-presets", option, "f32")


@pytest.mark.parametrize("command", ["run", "compile", "interpret", "check", "explain", "draw"])
def test_a_preset_is_refused_for_types_that_it_does_not_serve(command: str, tmp_path: Path) -> None:
    what = ("-o", str(tmp_path / "a.svg")) if command == "draw" else ()
    size = ("--m", "512", "--n", "512", "--k", "512", "--dtype", "f32", "--target", "sm_90a")
    message = refused(command, *what, *size, "--schedule", "sm90-pingpong")
    assert "preset sm90-pingpong is for f16 and bf16, not f32; take sm80-simt-best" in " ".join(message.split())
