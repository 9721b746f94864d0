"""In which order a kernel adds the K products of an element of D: a signature, computed from its IR.

Kernels with one signature, of one problem, give the same bits. It is read off the ops of level `atoms` or `epilogue`:
which instruction multiplies, the K that it sums at once, what is summed apart and added later, and where K is cut.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import gemm_layout, k_division_kind
from lowtide.dialects.tile import KDivisionKind
from lowtide.dialects.tile.fields import OF_TAIL
from lowtide.passes.base import walk
from lowtide.passes.support.atoms import tiled_mma_of
from lowtide.passes.support.matrix_layouts import a_is_mk
from lowtide.passes.support.rewriting import defining_op

BY_CTAS = (KDivisionKind.stream_k, KDivisionKind.hybrid, *OF_TAIL)
_STEP = 2  # of a work item's tile: M, N, K


@dataclass(frozen=True, order=True)
class Sum:
    """How one loop over work tiles sums. The order of K is ascending in each part and each slice."""

    instructions: tuple[str, ...]
    """Those that multiply, in order, such as `wgmma k16 bf16 x bf16 in f32`: its K, element types, accumulators."""
    slices: int
    """Interleaved sums: each adds the K of every n-th instruction; the sums are added last."""
    promoted: int | None
    """Products that are summed from zero, then added to the sum in f32; None where all are one sum."""
    division: str
    """How CTAs share K: `none`, `split(2)`, …"""
    step: int | None
    """The unit of K in which it is cut, where it is."""

    def __str__(self) -> str:
        text = " then ".join(self.instructions)
        text += f", {self.slices} slices" if self.slices > 1 else ""
        text += "" if self.promoted is None else f", each {self.promoted} of K added in f32"
        return text + ("" if self.step is None else f", K cut by {self.division} in steps of {self.step}")


@dataclass(frozen=True)
class Summation:
    """The signature of a kernel. Equal texts mean equal orders."""

    sums: tuple[Sum, ...]
    """More than one where tiles of D are summed in different orders."""
    cut_by_ctas: bool
    """Whether the number of CTAs, and so of SMs, decides where K is cut."""

    @property
    def is_divided(self) -> bool:
        """Whether several CTAs share the K of a tile."""
        return any(one.step is not None for one in self.sums)

    def __str__(self) -> str:
        return " | ".join(map(str, self.sums))


def summation_of(module: ir.Module) -> Summation | None:
    """The signature of the kernels of a module of level `atoms` or `epilogue`; None where no op multiplies."""
    found: dict[Sum, None] = {}
    cut_by_ctas = False
    for work in walk(module, tile.WorkTilesOp):
        products = _products(work)
        if products:
            found[_sum(work, products)] = None
            cut_by_ctas |= k_division_kind(work) in BY_CTAS
    return Summation(tuple(sorted(found)), cut_by_ctas) if found else None


def _products(work: tile.WorkTilesOp) -> list[ir.OpView]:
    """The ops that multiply, in order of the text."""
    found: list[ir.OpView] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if isinstance(op.opview, sm.MmaSyncOp | sm.WgmmaOp | sm.WgmmaPromoteOp):
            found.append(op.opview)
        return ir.WalkResult.ADVANCE

    work.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _sum(work: tile.WorkTilesOp, products: list[ir.OpView]) -> Sum:
    division = k_division_kind(work)
    is_cut = division is not KDivisionKind.none
    parts = "" if work.k_parts is None else f"({int(ir.IntegerAttr(work.k_parts).value)})"
    promoted = {_depth(op) for op in products if isinstance(op, sm.WgmmaPromoteOp)} | _from_zero(products)
    return Sum(
        instructions=tuple(_runs(_instruction(op) for op in products)),
        slices=max(tiled_mma_of(op.mma).atom_layout[_STEP] for op in products),
        promoted=max(promoted, default=None),
        division=f"{division}{parts}",
        step=list(work.tile)[_STEP] if is_cut else None,
    )


def _instruction(op: ir.OpView) -> str:
    atom = tiled_mma_of(op.mma).atom
    kind, k = atom.name.partition(".")[0], atom.shape_mnk[_STEP]
    # A · B and its transpose, Bᵀ · Aᵀ, are the same products.
    return f"{kind} k{k} {' x '.join(sorted((atom.a_dtype, atom.b_dtype)))} in {atom.c_dtype}"


def _from_zero(products: list[ir.OpView]) -> set[int]:
    """The K of a step of loops in which sums of mma.sync begin at zero, and are added to others."""
    loops: dict[ir.Operation, list[sm.MmaSyncOp]] = {}
    for op in products:
        loop = op.operation.parent
        if isinstance(op, sm.MmaSyncOp) and isinstance(loop.opview, scf.ForOp):
            loops.setdefault(loop.operation, []).append(op)
    promoting = (ops for ops in loops.values() if any(isinstance(defining_op(_first(op)), sm.SplatOp) for op in ops))
    return {sum(int(op.a.type.shape[-1]) for op in ops) for ops in promoting}


def _first(op: sm.MmaSyncOp) -> ir.Value:
    """What the first of a chain of products is added to."""
    before = defining_op(op.acc)
    return _first(before) if isinstance(before, sm.MmaSyncOp) else op.acc


def _depth(op: sm.WgmmaPromoteOp) -> int:
    """The K of what is summed from zero."""
    rows, columns = ir.MemRefType(op.a.type).shape[-2:]
    return int(columns if a_is_mk(gemm_layout(op)) else rows)


def _runs(names: Iterable[str]) -> list[str]:
    """Each name that differs from the one before it."""
    found: list[str] = []
    for name in names:
        if not found or found[-1] != name:
            found.append(name)
    return found
