"""The options that several commands share, and the spec that they describe."""

from pathlib import Path
from typing import Annotated

import typer

from lowtide.compiler.epilogue.ready import READY, ready_epilogue
from lowtide.compiler.native import NATIVE, WITHOUT_GPU
from lowtide.compiler.spec import LAYOUTS, GemmSpec
from lowtide.elements import EPILOGUE_TYPE, kernel_types
from lowtide.errors import Error
from lowtide.interpreter.host import LEVELS
from lowtide.interpreter.numbers.domains import DOMAINS
from lowtide.targets import accumulator_types, operand_types

_PROBLEM = "The problem"
_KERNEL = "The kernel"
_EXECUTION = "The run"


def _problem(name: str, help_: str) -> typer.models.OptionInfo:
    return typer.Option(name, help=help_, rich_help_panel=_PROBLEM, show_default=False)


def _kernel(name: str, help_: str) -> typer.models.OptionInfo:
    return typer.Option(name, help=help_, rich_help_panel=_KERNEL, show_default=False)


GivenM = Annotated[int, _problem("--m", "Rows of D.")]
GivenN = Annotated[int, _problem("--n", "Columns of D.")]
GivenK = Annotated[int, _problem("--k", "Terms of each sum.")]
M = Annotated[int | None, _problem("--m", "Rows of D; left out, a run-time argument of the kernel.")]
N = Annotated[int | None, _problem("--n", "Columns of D; likewise.")]
K = Annotated[int | None, _problem("--k", "Terms of each sum; likewise.")]
_DTYPES = f"Of A, B and D: {', '.join(operand_types())}. Default bf16. --a, --b, --d override."
Dtype = Annotated[str | None, _problem("--dtype", _DTYPES)]
Dtypes = Annotated[
    list[str] | None,
    _problem("--dtype", f"{_DTYPES.partition(' --a')[0]} May be given more than once, for a ladder each."),
]
A = Annotated[str | None, _problem("--a", "Dtype of A.")]
B = Annotated[str | None, _problem("--b", "Dtype of B.")]
D = Annotated[str | None, _problem("--d", f"Dtype of D: {', '.join(kernel_types())}.")]
Acc = Annotated[str | None, _problem("--acc", f"Of the sums: {', '.join(accumulator_types())}. Default f32.")]
Layout = Annotated[str | None, _problem("--layout", f"How A and B lie: {', '.join(LAYOUTS)}. Default tn.")]
Epilogue = Annotated[str | None, _problem("--epilogue", f"What follows the sums: {', '.join(READY)}.")]

Target = Annotated[
    str | None,
    _kernel("--target", f"A name (`lowtide targets`), or {NATIVE}: the GPU's. Default: that, or {WITHOUT_GPU}."),
]
ScheduleText = Annotated[
    str | None,
    _kernel("--schedule", "A preset's name (`lowtide presets`) or fields: 'grid.tile = [128, 128], stages = 3'."),
]
DumpDir = Annotated[Path | None, _kernel("--dump-ir", "Folder that gets every step as NN-level/NN-pass.mlir.")]
TimePasses = Annotated[
    bool, typer.Option("--time-passes", help="Say how long each pass took.", rich_help_panel=_KERNEL)
]
Dynamic = Annotated[
    bool,
    typer.Option("--dynamic", help="Compile for any M, N, K, given at run time.", rich_help_panel=_KERNEL),
]

InterpretedLevel = Annotated[
    str | None,
    typer.Option("--level", help=f"One of {', '.join(LEVELS)}.", rich_help_panel=_EXECUTION, show_default=False),
]
Sms = Annotated[int, typer.Option("--sms", min=1, help="SMs of the interpreter's GPU.", rich_help_panel=_EXECUTION)]
MaxSteps = Annotated[
    int,
    typer.Option(
        "--max-steps",
        min=1,
        help="Ops that each of the interpreter's agents may run; more is taken for a loop without end.",
        rich_help_panel=_EXECUTION,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="Of the inputs and of the interpreter's order of warps. Default: drawn, and printed.",
        rich_help_panel=_EXECUTION,
        show_default=False,
    ),
]
NumberDomain = Annotated[
    str,
    typer.Option(
        "--domain",
        help=f"What numbers are: {', '.join(DOMAINS)}. All but float compare for equality.",
        rich_help_panel=_EXECUTION,
    ),
]
Padding = Annotated[
    int,
    typer.Option(
        "--padding", min=0, help="Elements after each row, beyond what alignment needs.", rich_help_panel=_EXECUTION
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Start the interpreter however long it will take.", rich_help_panel=_EXECUTION),
]


def make_spec(
    m: int | None,
    n: int | None,
    k: int | None,
    dtype: str | None = None,
    a: str | None = None,
    b: str | None = None,
    d: str | None = None,
    acc: str | None = None,
    layout: str | None = None,
    epilogue: str | None = None,
) -> GemmSpec:
    """The spec that the options describe. Raises SpecError."""
    common = dtype or "bf16"
    sums = accumulator_types(a or common, b or common)  # none for types that the spec refuses
    return GemmSpec(
        m=m,
        n=n,
        k=k,
        a=a or common,
        b=b or common,
        d=d or common,
        acc=acc or (sums[0] if sums else EPILOGUE_TYPE),
        layout=layout or "tn",
        epilogue=ready_epilogue(epilogue or "none"),
    )


def refuse_beside_file(file: Path, **options: object) -> None:
    """Raise Error for an option that was given although a file says what it would."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise Error(f"--{given[0]} beside {file}: the file says its problem and its schedule; edit it, or leave it out")
