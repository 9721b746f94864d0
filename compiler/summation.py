"""The order in which a kernel adds the K products of an element of D, and the values of its reductions: a signature,
computed from its IR.

Kernels of one problem with the same signature compute the same bits. The ops of level `atoms` or `epilogue` determine
it: the multiplying instruction, the K that it sums at once, partial sums that are added later, and the division of K.
The order of a reduction follows from the extent of a tile and the layout of the fragments that are reduced.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import gemm_layout, k_division
from lowtide.dialects.tile import KDivisionKind, ResultKind
from lowtide.dialects.tile.layouts import tv_of
from lowtide.passes.base import walk
from lowtide.passes.support.agents.atoms import tiled_mma_of
from lowtide.passes.support.agents.reductions import FINISH_GROUPS, MOST_ALONE, lines_of, may_finish_in_groups
from lowtide.passes.support.ir.rewriting import defining_op
from lowtide.passes.support.problem.matrix_layouts import a_is_mk
from lowtide.reductions import REDUCTIONS
from lowtide.targets import split_coordinates

_STEP = 2  # index of K in (M, N, K)


@dataclass(frozen=True, order=True)
class Sum:
    """How one loop over work tiles sums. K ascends within each part and each slice."""

    instructions: tuple[str, ...]
    """The multiplying instructions, in order, such as `wgmma k16 bf16 x bf16 in f32`: K, element types,
    accumulators."""
    slices: int
    """Interleaved sums: each takes the K of every n-th instruction; they are added at the end."""
    promoted: int | None
    """The number of products that are summed from zero, then added to the sum in f32; None if there is one sum."""
    division: str
    """How CTAs divide K: `none`, `split(2)`, …"""
    step: int | None
    """The unit in which K is divided, if it is."""

    def __str__(self) -> str:
        text = " then ".join(self.instructions)
        text += f", {self.slices} slices" if self.slices > 1 else ""
        text += "" if self.promoted is None else f", each {self.promoted} of K added in f32"
        return text + ("" if self.step is None else f", K cut by {self.division} in steps of {self.step}")


@dataclass(frozen=True, order=True)
class Reducing:
    """How a kernel reduces the values of its rows or columns, and how another launch finishes them."""

    kind: str
    """The kind of the result, as the kernel sees it: rows and columns are exchanged if operands are swapped."""
    extent: int
    """For reductions of rows, the number of columns of a tile. For reductions of columns, the number of rows that a
    partial result covers: those of a tile, or of one part of it."""
    values: str
    """The places in a line of the values that a thread reduces by four chains, for each part of a tile: `2:1 16:8` are
    16 pairs, 8 apart."""
    lanes: tuple[int, ...]
    """The differences between the numbers of the lanes that then exchange values, in order."""
    warps: tuple[int, int]
    """The number of warps with their own partial results of a tile, or of a part of its rows, and the distance between
    their values."""
    parts: int = 1
    """The number of parts of a tile, one below the other, that a thread reduces in order. It is 1 for reductions of
    rows."""
    groups: int = 1
    """The number of groups in which more than `MOST_ALONE` partial results are reduced first. Group g has those of
    number g, g + groups, and so on."""

    def __str__(self) -> str:
        lanes = f", lanes {' '.join(map(str, self.lanes))} apart" if self.lanes else ""
        warps = f", {self.warps[0]} warps {self.warps[1]} apart" if self.warps[0] > 1 else ""
        groups = f", more than {MOST_ALONE} in {self.groups} groups first" if self.groups > 1 else ""
        parts = f" in {self.parts} parts" if self.parts > 1 else ""
        text = f"{self.kind} in tiles of {self.extent}{parts}: four chains of values {self.values}{lanes}{warps}"
        return f"{text}, then one by one{groups}"


@dataclass(frozen=True)
class Summation:
    """The signature of a kernel. Equal texts mean equal orders."""

    sums: tuple[Sum, ...]
    """Several if tiles of D are summed in different orders."""
    cut_by_ctas: bool
    """Whether the division of K depends on the number of CTAs, and so on the number of SMs."""
    reductions: tuple[Reducing, ...] = ()
    over_rows: str | None = None
    """The kind of a result that is reduced over the rows of D, so that its order depends on M; None if there is
    none."""

    @property
    def is_divided(self) -> bool:
        """Whether several CTAs share the K of a tile."""
        return any(one.step is not None for one in self.sums)

    def __str__(self) -> str:
        return "; ".join([" | ".join(map(str, self.sums)), *map(str, self.reductions)])


def summation_of(module: ir.Module) -> Summation | None:
    """The signature of the kernels in a module of level `atoms` or `epilogue`; None if no op multiplies."""
    found: dict[Sum, None] = {}
    cut_by_ctas = False
    for work in walk(module, tile.WorkTilesOp):
        products = _products(work)
        if products:
            found[_sum(work, products)] = None
            division = k_division(work)
            cut_by_ctas |= division is not None and division.follows_ctas
    reductions = tuple(sorted(dict.fromkeys(map(_reducing, walk(module, sm.StoreReducedOp)))))
    return Summation(tuple(sorted(found)), cut_by_ctas, reductions, _over_rows(module)) if found else None


def _reducing(op: sm.StoreReducedOp) -> Reducing:
    """The order of a reduction, from the store of its partial results."""
    kind = str(ResultKind(ir.IntegerAttr(op.kind).value))
    axis, like = REDUCTIONS[kind].axis, sm.FragmentType(ir.TypeAttr(op.layout).value)
    lines = lines_of(tv_of(like.tv), tuple(like.shape), axis)
    parts = 1 if axis == "row" else len(list(_chain(op.partial)))
    extent = _tile_of(op)[1] if axis == "row" else parts * like.shape[0]
    split = split_coordinates(tv_of(like.tv), tuple(like.shape))
    across = split.col_values if axis == "row" else split.row_values
    values = _runs_of_numbers([across[place] for place in lines.values[0][1]])
    groups = FINISH_GROUPS if may_finish_in_groups(REDUCTIONS[kind]) else 1
    return Reducing(kind, extent, values, lines.shuffles, (lines.warps, lines.step), parts, groups)


def _chain(partial: ir.Value | None) -> Iterator[sm.ReduceOp]:
    """The op that gives a partial result, then those of the parts before it, from the last part to the first."""
    while partial is not None:
        op = defining_op(partial)
        assert isinstance(op, sm.ReduceOp)
        yield op
        partial = op.partial


def _tile_of(op: ir.OpView) -> list[int]:
    """Rows and columns of the work tile around an op."""
    work = op.operation.parent
    while not isinstance(work.opview, tile.WorkTilesOp):
        work = work.parent
    return list(work.opview.tile)


def _runs_of_numbers(numbers: list[int]) -> str:
    """Numbers as nested runs `count:step`, the innermost first."""
    found: list[str] = []
    while len(numbers) > 1:
        step = numbers[1] - numbers[0]
        count = next((i for i in range(1, len(numbers)) if numbers[i] - numbers[i - 1] != step), len(numbers))
        if len(numbers) % count or count == 1:
            return " ".join([*found, ",".join(map(str, numbers))])
        found.append(f"{count}:{step}")
        numbers = numbers[::count]
    return " ".join(found) or "1"


def _over_rows(module: ir.Module) -> str | None:
    """The kind of a result that is reduced over the rows of D in the original problem; None if there is none."""
    for op in module.body.operations:
        if "tile.problem" in op.attributes:
            kinds = op.attributes["tile.problem"].result_kinds
            return next((kind for kind in kinds if kind in REDUCTIONS and REDUCTIONS[kind].axis != "row"), None)
    return None


def _products(work: tile.WorkTilesOp) -> list[ir.OpView]:
    """The multiplying ops, in the order of the text."""
    found: list[ir.OpView] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if isinstance(op.opview, sm.MmaSyncOp | sm.WgmmaOp | sm.WgmmaPromoteOp):
            found.append(op.opview)
        return ir.WalkResult.ADVANCE

    work.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _sum(work: tile.WorkTilesOp, products: list[ir.OpView]) -> Sum:
    division = k_division(work)
    promoted = {_depth(op) for op in products if isinstance(op, sm.WgmmaPromoteOp)} | _from_zero(products)
    return Sum(
        instructions=tuple(_runs(_instruction(op) for op in products)),
        slices=max(tiled_mma_of(op.mma).atom_layout[_STEP] for op in products),
        promoted=max(promoted, default=None),
        division=str(division or KDivisionKind.none),
        step=None if division is None else int(work.k_step.value),
    )


def _instruction(op: ir.OpView) -> str:
    atom = tiled_mma_of(op.mma).atom
    kind, k = atom.name.partition(".")[0], atom.shape_mnk[_STEP]
    # A · B and its transpose, Bᵀ · Aᵀ, compute the same products.
    return f"{kind} k{k} {' x '.join(sorted((atom.a_dtype, atom.b_dtype)))} in {atom.c_dtype}"


def _from_zero(products: list[ir.OpView]) -> set[int]:
    """The K of one step, for loops whose mma.sync sums begin at zero and are added to other sums."""
    loops: dict[ir.Operation, list[sm.MmaSyncOp]] = {}
    for op in products:
        loop = op.operation.parent
        if isinstance(op, sm.MmaSyncOp) and isinstance(loop.opview, scf.ForOp):
            loops.setdefault(loop.operation, []).append(op)
    promoting = (ops for ops in loops.values() if any(isinstance(defining_op(_first(op)), sm.SplatOp) for op in ops))
    return {sum(int(op.a.type.shape[-1]) for op in ops) for ops in promoting}


def _first(op: sm.MmaSyncOp) -> ir.Value:
    """The accumulator of the first in a chain of products."""
    before = defining_op(op.acc)
    return _first(before) if isinstance(before, sm.MmaSyncOp) else op.acc


def _depth(op: sm.WgmmaPromoteOp) -> int:
    """The K that is summed from zero."""
    rows, columns = ir.MemRefType(op.a.type).shape[-2:]
    return int(columns if a_is_mk(gemm_layout(op)) else rows)


def _runs(names: Iterable[str]) -> list[str]:
    """The names without immediate repetitions."""
    found: list[str] = []
    for name in names:
        if not found or found[-1] != name:
            found.append(name)
    return found
