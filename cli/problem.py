"""The options that define a problem, as one parameter of a command, and the spec made from them."""

import re
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import typer

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.epilogue.ready import PAIRED, READY, ready_epilogue
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import D_ORDERS, FAST, LAYOUTS, UNBATCHED, UNGROUPED, Groups, Unbatched, Ungrouped
from lowtide.decompositions import DECOMPOSITIONS
from lowtide.elements import types_of_d
from lowtide.errors import SpecError
from lowtide.targets import accumulator_types, operand_types

ANY = "any"


def _option(name: str, help_: str, **more: Any) -> typer.models.OptionInfo:
    return typer.Option(name, help=help_, rich_help_panel="The problem", show_default=False, **more)


GivenM = Annotated[int, _option("--m", "Rows of D.")]
GivenN = Annotated[int, _option("--n", "Columns of D.")]
GivenK = Annotated[int, _option("--k", "Terms of each sum.")]
_BATCH = "The number of products: A, B and D then have it as their first dimension."
GivenBatch = Annotated[int | None, _option("--batch", _BATCH, min=1)]
_DTYPES = f"Type of A, B and D: {', '.join(operand_types())}. Default bf16."
Dtype = Annotated[str | None, _option("--dtype", f"{_DTYPES} --a, --b, --d override.")]
D = Annotated[str | None, _option("--d", f"Type of D: {', '.join(types_of_d())}.")]
_ACC = f"Type of the sums: {', '.join((*accumulator_types(), FAST))}. Default f32, or f64 or s32 for such inputs."
Acc = Annotated[str | None, _option("--acc", _ACC)]
Layout = Annotated[str | None, _option("--layout", f"Layout of A and B: {', '.join(LAYOUTS)}. Default tn.")]
Epilogue = Annotated[str | None, _option("--epilogue", f"Function of the sums: {', '.join([*READY, *PAIRED])}.")]

# For commands that measure.
MeasuredM = Annotated[int | None, _option("--m", "Rows of D.")]
MeasuredN = Annotated[int | None, _option("--n", "Columns of D.")]
MeasuredK = Annotated[int | None, _option("--k", "Terms of each sum.")]
Dtypes = Annotated[list[str] | None, _option("--dtype", f"{_DTYPES} Repeatable, with a ladder for each.")]

# For commands that accept kernels with run-time extents.
M = Annotated[int | None, _option("--m", "Rows of D. Default: a run-time argument of the kernel.")]
N = Annotated[int | None, _option("--n", "Columns of D. Default: as for --m.")]
K = Annotated[int | None, _option("--k", "Terms of each sum. Default: as for --m.")]
BatchText = Annotated[str | None, _option("--batch", f"{_BATCH} `{ANY}`: a run-time argument of the kernel.")]

_SCALES = "Block scales of A and of B, such as 1x128,128x128: rows or columns, by K. Default none."
_GROUP = "K per scale of packed weights (such as --b s4 with --a bf16): 32, 64 or 128."
_PAIRS = "How pairs of columns lie in B: stacked, interleaved or apart. The epilogue takes both. Default: no pairs."
_GROUPS = "The number of groups of rows, each with its own matrix of B. Default: rows are not grouped."
_K_GROUPS = "The number of groups of K, each with its own matrix of D; layout nt. Default: K is not grouped."
_COUNTS = "Each product of the batch has its own number of rows, the operand counts."
_A_ROWS = "Take the rows of A at an index, the operand a_rows."
_PEERS = "The kernel can send the shard of this GPU to the others (grid.sender). Requires --arrivals."
_ARRIVALS = "The matrices of A are shards that other GPUs fill while the kernel runs."
_D_ROWS = "Store into the rows of D at an index, the operand d_rows."
_LISTS = "Lists of matrices among the operands: b, with --groups or --batch; d, with --batch; abd, with --counts."
_PRECISIONS = f"How products of f32 are computed: f32, tf32, {', '.join(DECOMPOSITIONS)}. Default f32."


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The options, each None if it was left out."""

    m: M = None
    n: N = None
    k: K = None
    dtype: Dtype = None
    a: Annotated[str | None, _option("--a", "Type of A.")] = None
    b: Annotated[str | None, _option("--b", "Type of B.")] = None
    d: D = None
    acc: Acc = None
    layout: Layout = None
    d_order: Annotated[str | None, _option("--d-order", f"D by {' or '.join(D_ORDERS)}. Default row.")] = None
    precision: Annotated[str | None, _option("--precision", _PRECISIONS)] = None
    block_scales: Annotated[str | None, _option("--block-scales", _SCALES)] = None
    group: Annotated[int | None, _option("--group", _GROUP)] = None
    zero_points: Annotated[
        bool | None, _option("--zero-points", "Subtract a zero point from the packed weights of each group.")
    ] = None
    amax: Annotated[bool | None, _option("--amax", "Also compute D's largest absolute value.")] = None
    batch: str | int | None = None
    counts: Annotated[bool | None, _option("--counts", _COUNTS)] = None
    arrivals: Annotated[bool | None, _option("--arrivals", _ARRIVALS)] = None
    peers: Annotated[bool | None, _option("--peers", _PEERS)] = None
    groups: Annotated[int | None, _option("--groups", _GROUPS, min=1)] = None
    k_groups: Annotated[int | None, _option("--k-groups", _K_GROUPS, min=1)] = None
    a_rows: Annotated[bool | None, _option("--a-rows", _A_ROWS)] = None
    d_rows: Annotated[bool | None, _option("--d-rows", _D_ROWS)] = None
    lists: Annotated[str | None, _option("--lists", _LISTS)] = None
    pairs: Annotated[str | None, _option("--pairs", _PAIRS)] = None
    epilogue: Epilogue = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def spec(self) -> GemmSpec:
        """The spec. Raises SpecError."""
        common = self.dtype or "bf16"
        a, b = self.a or common, self.b or common
        return GemmSpec(
            m=self.m,
            n=self.n,
            k=self.k,
            a=a,
            b=b,
            d=self.d or common,
            acc=self.acc,
            layout=self.layout or "tn",
            batch=make_batch(self.batch),
            counts=bool(self.counts),
            arrivals=bool(self.arrivals),
            peers=bool(self.peers),
            groups=_groups(self.groups, self.k_groups),
            d_order=self.d_order or D_ORDERS[0],
            precision=self.precision,
            block_scales=_scales(self.block_scales),
            group=self.group,
            zero_points=bool(self.zero_points),
            amax=bool(self.amax),
            a_rows=bool(self.a_rows),
            d_rows=bool(self.d_rows),
            lists=self.lists,
            pairs=self.pairs,
            epilogue=ready_epilogue(self.epilogue or "none"),
        )


@dataclass(frozen=True, kw_only=True)
class OpenProblem(Problem):
    """Omitted extents are run-time arguments of the kernel."""

    batch: BatchText = None


@dataclass(frozen=True, kw_only=True)
class GivenProblem(Problem):
    """All extents are given."""

    m: GivenM = field()
    n: GivenN = field()
    k: GivenK = field()
    batch: GivenBatch = None


def _groups(of_rows: int | None, of_k: int | None) -> int | Groups | Ungrouped:
    """Raises SpecError if both are given."""
    if of_rows is not None and of_k is not None:
        raise SpecError("--groups and --k-groups: either rows or K can be grouped; give one of them [groups-options]")
    return Groups(of_k, "k") if of_k is not None else UNGROUPED if of_rows is None else of_rows


def _scales(text: str | None) -> BlockScales | None:
    """The block scales of the option. Raises SpecError."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)x(\d+),(\d+)x(\d+)", text)
    if found is None:
        raise SpecError(
            f"--block-scales {text}: give one block for A and one for B, such as 1x128,128x128 [block-scales-form]"
        )
    rows, of_a, columns, of_b = map(int, found.groups())
    return BlockScales(a=(rows, of_a), b=(columns, of_b))


def make_batch(text: str | int | None) -> int | Unbatched | None:
    """The batch of the option. Raises SpecError."""
    if text is None:
        return UNBATCHED
    if text == ANY:
        return None
    try:
        return int(text)
    except ValueError:
        raise SpecError(
            f"--batch {text}: give a number of products, or {ANY} for a run-time argument [batch-form]"
        ) from None
