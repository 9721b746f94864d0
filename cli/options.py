"""Options that several commands share beside the problem's: those of the kernel and of a run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lowtide.compiler.native import NATIVE, WITHOUT_GPU
from lowtide.errors import Error


def named_path(text: str) -> Path:
    """A path given as an option. Raises Error for an empty one, which is not the current folder."""
    if not text:
        raise Error("the name of a folder is empty; name one, or '.' for the current folder [folder-name]")
    return Path(text)


def _kernel(name: str, help_: str, **more: Any) -> typer.models.OptionInfo:
    return typer.Option(name, help=help_, rich_help_panel="The kernel", **more)


def of_run(name: str, help_: str, **more: Any) -> typer.models.OptionInfo:
    return typer.Option(name, help=help_, rich_help_panel="The run", **more)


_TARGET = f"A name (`lowtide targets`), or {NATIVE}. Default: the GPU's target, or {WITHOUT_GPU}."
Target = Annotated[str | None, _kernel("--target", _TARGET, show_default=False)]
_SCHEDULE = "A preset's name (`lowtide presets`) or fields: 'grid.tile = [128, 128], stages = 3'."
ScheduleText = Annotated[str | None, _kernel("--schedule", _SCHEDULE, show_default=False)]
_DUMP = "Write every step to this folder, as NN-level/NN-pass.mlir."
DumpDir = Annotated[Path | None, _kernel("--dump-ir", _DUMP, show_default=False, parser=named_path, metavar="PATH")]
TimePasses = Annotated[bool, _kernel("--time-passes", "Print the time of each pass.")]
Dynamic = Annotated[bool, _kernel("--dynamic", "Compile for any M, N, K, given at run time.")]

_SEED = "Determines the inputs and the interpreter's order of warps. Default: random, and printed."
Seed = Annotated[int | None, of_run("--seed", _SEED, min=0, show_default=False)]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="Counted rounds.")]
WithCublaslt = Annotated[
    bool, typer.Option("--cublaslt/--no-cublaslt", help="Also time cuBLASLt's best of up to 96 algorithms.")
]


def refuse_beside_file(file: Path, **options: object) -> None:
    """Raise Error for an option that contradicts a given file, which already defines it."""
    if option := first_given(**options):
        raise Error(
            f"{option} with {file}: the file defines its problem and schedule; edit it, or leave the option out"
            " [beside-file]"
        )


def first_given(**options: object) -> str:
    """The first option that was given, as it is written; "" if none was."""
    return next((f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None), "")
