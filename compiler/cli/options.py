"""The options that several commands share, and the spec that they describe."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.checking.interpretation import Batch
from lowtide.compiler.checking.places import Place
from lowtide.compiler.epilogue.ready import READY, ready_epilogue
from lowtide.compiler.native import NATIVE, WITHOUT_GPU
from lowtide.compiler.spec import D_ORDERS, FAST, LAYOUTS, UNBATCHED, GemmSpec, Unbatched
from lowtide.decompositions import DECOMPOSITIONS
from lowtide.elements import EPILOGUE_TYPE, types_of_d
from lowtide.errors import Error, SpecError
from lowtide.interpreter.host import LEVELS
from lowtide.interpreter.numbers.domains import DOMAINS
from lowtide.targets import accumulator_types, operand_types

_PROBLEM = "The problem"
_KERNEL = "The kernel"
_EXECUTION = "The run"
ANY = "any"
_SHOWN: Any = {"rich_help_panel": _PROBLEM, "show_default": False}


def _problem(name: str, help_: str) -> typer.models.OptionInfo:
    return typer.Option(name, help=help_, **_SHOWN)


def _kernel(name: str, help_: str) -> typer.models.OptionInfo:
    return typer.Option(name, help=help_, rich_help_panel=_KERNEL, show_default=False)


GivenM = Annotated[int, _problem("--m", "Rows of D.")]
GivenN = Annotated[int, _problem("--n", "Columns of D.")]
GivenK = Annotated[int, _problem("--k", "Terms of each sum.")]
MeasuredM = Annotated[int | None, _problem("--m", "Rows of D.")]
MeasuredN = Annotated[int | None, _problem("--n", "Columns of D.")]
MeasuredK = Annotated[int | None, _problem("--k", "Terms of each sum.")]
M = Annotated[int | None, _problem("--m", "Rows of D; left out, a run-time argument of the kernel.")]
N = Annotated[int | None, _problem("--n", "Columns of D; likewise.")]
K = Annotated[int | None, _problem("--k", "Terms of each sum; likewise.")]
_BATCH = "How many products: A, B and D then have a first dimension of it."
GivenBatch = Annotated[int | None, typer.Option("--batch", min=1, help=_BATCH, **_SHOWN)]
BatchText = Annotated[str | None, _problem("--batch", f"{_BATCH} `{ANY}`: a run-time argument of the kernel.")]
_DTYPES = f"Of A, B and D: {', '.join(operand_types())}. Default bf16. --a, --b, --d override."
Dtype = Annotated[str | None, _problem("--dtype", _DTYPES)]
Dtypes = Annotated[
    list[str] | None,
    _problem("--dtype", f"{_DTYPES.partition(' --a')[0]} May be given more than once, for a ladder each."),
]
A = Annotated[str | None, _problem("--a", "Dtype of A.")]
B = Annotated[str | None, _problem("--b", "Dtype of B.")]
D = Annotated[str | None, _problem("--d", f"Dtype of D: {', '.join(types_of_d())}.")]
Acc = Annotated[str | None, _problem("--acc", f"Of the sums: {', '.join((*accumulator_types(), FAST))}. Default f32.")]
Layout = Annotated[str | None, _problem("--layout", f"How A and B lie: {', '.join(LAYOUTS)}. Default tn.")]
BlockScalesText = Annotated[
    str | None,
    _problem(
        "--block-scales", "Scales of blocks of A and of B, such as 1x128,128x128: rows or columns, and K. Default none."
    ),
]
_GROUP = "K that shares a scale of packed weights, such as --b s4 beside --a bf16: 32, 64 or 128."
Group = Annotated[int | None, _problem("--group", _GROUP)]
ZeroPoints = Annotated[bool | None, _problem("--zero-points", "Packed weights are less a zero point of their group.")]
DOrder = Annotated[str | None, _problem("--d-order", f"How D lies: by {' or '.join(D_ORDERS)}. Default row.")]
_PRECISIONS = f"How products of f32 are computed: f32, tf32, {', '.join(DECOMPOSITIONS)}. Default f32."
Precision = Annotated[str | None, _problem("--precision", _PRECISIONS)]
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
        help=f"What numbers are: {', '.join(DOMAINS)}. exact and field compare for equality.",
        rich_help_panel=_EXECUTION,
    ),
]
RowsBetween = Annotated[
    int,
    typer.Option("--rows-between", min=0, help="Rows after each matrix of a batch.", rich_help_panel=_EXECUTION),
]
Shared = Annotated[
    str | None,
    typer.Option(
        "--shared",
        help="Inputs that all products of a batch share, such as a,bias. Default: none.",
        rich_help_panel=_EXECUTION,
        show_default=False,
    ),
]
Aligned = Annotated[
    str | None,
    typer.Option(
        "--aligned",
        help="Bytes that rows and bases of A, B and D are aligned to, such as 2,2,2; or rows, bases and strides of a "
        "batch apart, such as 16,8,16;16,16,16;16,16,16. Default: what the kernel asks.",
        rich_help_panel=_EXECUTION,
        show_default=False,
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
    *,
    batch: str | int | None = None,
    d_order: str | None = None,
    precision: str | None = None,
    block_scales: str | None = None,
    group: int | None = None,
    zero_points: bool | None = None,
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
        batch=make_batch(batch),
        d_order=d_order or D_ORDERS[0],
        precision=precision,
        block_scales=make_scales(block_scales),
        group=group,
        zero_points=bool(zero_points),
        epilogue=ready_epilogue(epilogue or "none"),
    )


def make_scales(text: str | None) -> BlockScales | None:
    """A spec's scales of blocks, from the option. Raises SpecError."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)x(\d+),(\d+)x(\d+)", text)
    if found is None:
        raise SpecError(f"--block-scales {text}: give a block of A and one of B, such as 1x128,128x128")
    rows, of_a, columns, of_b = map(int, found.groups())
    return BlockScales(a=(rows, of_a), b=(columns, of_b))


def make_batch(text: str | int | None) -> int | Unbatched | None:
    """A spec's batch, from the option. Raises SpecError."""
    if text is None:
        return UNBATCHED
    if text == ANY:
        return None
    try:
        return int(text)
    except ValueError:
        raise SpecError(f"--batch {text}: give a number of products, or {ANY} for a run-time argument") from None


def lies(spec: GemmSpec, batch: str | None, rows_between: int, shared: str | None) -> Batch | None:
    """How the matrices of a run lie; None where there is one. Raises SpecError for options that do not fit the spec."""
    given = make_batch(batch)
    if not spec.is_batched:
        if isinstance(given, int) or shared is not None or rows_between:
            raise SpecError("--batch, --shared and --rows-between: the problem has no batch; leave them out")
        return None
    matrices = given if isinstance(given, int) else spec.batch
    if not isinstance(matrices, int):
        raise SpecError("the batch is a run-time argument of this kernel; say how many products: --batch")
    names = () if shared is None else tuple(filter(None, shared.split(",")))
    own = ("a", "b", *(operand.name for operand in spec.operands))
    if set(names) - set(own):
        raise SpecError(f"--shared {shared}: the inputs are {', '.join(own)}")
    return Batch(matrices, names, rows_between)


def place(text: str) -> Place:
    """Where matrices lie. Raises SpecError for anything but powers of two to 16, three for all or for each part."""
    parts = [part.split(",") for part in text.split(";")]
    known = all(len(part) == 3 and {*part} <= {"1", "2", "4", "8", "16"} for part in parts)
    if not known or len(parts) not in (1, 3):
        raise SpecError(f"--aligned {text}: give 1, 2, 4, 8 or 16 bytes for each of A, B and D, such as 2,2,16")
    found = [(int(a), int(b), int(d)) for a, b, d in parts]
    return Place(found[0], found[0]) if len(found) == 1 else Place(*found)


def refuse_beside_file(file: Path, **options: object) -> None:
    """Raise Error for an option that was given although a file says what it would."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        option = f"--{given[0].replace('_', '-')}"
        raise Error(f"{option} beside {file}: the file says its problem and its schedule; edit it, or leave it out")
