"""The facts of a `tile.gemm` that passes ask for: sizes, layouts, element types, epilogue operands."""

from dataclasses import dataclass
from math import prod

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import gemm_layout, operand_kinds
from lowtide.dialects.tile import GemmLayout
from lowtide.errors import ScheduleError

# Bits of an element, by the type's name in IR.
ELEMENT_BITS = {"f16": 16, "bf16": 16, "f32": 32}

# Whether A lies as (M, K) and B as (N, K).
_K_IS_LAST = {
    GemmLayout.tn: (True, True),
    GemmLayout.tt: (True, False),
    GemmLayout.nn: (False, True),
    GemmLayout.nt: (False, False),
}


def layout_letters(op: tile.GemmOp | tile.MmaOp | sm.WgmmaOp) -> str:
    """`tn`, `tt`, `nn` or `nt`."""
    return str(gemm_layout(op))


def a_is_mk(letters: str) -> bool:
    """A lies as (M, K): its first letter is t."""
    return _k_is_last(letters)[0]


def b_is_nk(letters: str) -> bool:
    """B lies as (N, K): its second letter is n."""
    return _k_is_last(letters)[1]


def _k_is_last(letters: str) -> tuple[bool, bool]:
    layout = GemmLayout[letters]
    if layout not in _K_IS_LAST:
        raise ScheduleError(f"no pass takes the layout {letters}; take one of {', '.join(map(str, _K_IS_LAST))}")
    return _K_IS_LAST[layout]


def kinds_of(op: tile.GemmOp | tile.StoreOp) -> list[str]:
    """The kind of each epilogue operand."""
    return [str(kind) for kind in operand_kinds(op)]


def element_bits(element: ir.Type) -> int:
    """Bits of an element. Raises ScheduleError for a type that nothing here computes with."""
    if str(element) not in ELEMENT_BITS:
        raise ScheduleError(f"elements of {element}: they are one of {', '.join(ELEMENT_BITS)}")
    return ELEMENT_BITS[str(element)]


def buffer_bytes(buffer: ir.Type) -> int:
    """Bytes of a memref of static shape without gaps. Raises ScheduleError as `element_bits`."""
    memref = ir.MemRefType(buffer)
    return prod(memref.shape) * element_bits(memref.element_type) // 8


def static_extent(memref: ir.MemRefType, dim: int) -> int | None:
    return None if memref.is_dynamic_dim(dim) else memref.get_dim_size(dim)


@dataclass(frozen=True)
class Problem:
    """Sizes (None: known at run time) and element types (`bf16`, …) of a GEMM."""

    m: int | None
    n: int | None
    k: int | None
    ab: str
    acc: str
    d: str
    layout: str
    kinds: tuple[str, ...]
    has_math: bool = False
    """Whether the epilogue calls functions (erf, exp, …), which want many registers."""

    @classmethod
    def of(cls, gemm: tile.GemmOp) -> "Problem":
        a, b, d = (ir.MemRefType(value.type) for value in (gemm.a, gemm.b, gemm.d))
        letters = layout_letters(gemm)
        k_in_a, k_in_b = (1 if a_is_mk(letters) else 0), (1 if b_is_nk(letters) else 0)
        k = static_extent(a, k_in_a)
        return cls(
            m=_either(static_extent(d, 0), static_extent(a, 1 - k_in_a)),
            n=_either(static_extent(d, 1), static_extent(b, 1 - k_in_b)),
            k=_either(k, static_extent(b, k_in_b)),
            ab=str(a.element_type),
            acc=str(ir.TypeAttr(gemm.acc).value),
            d=str(d.element_type),
            layout=letters,
            kinds=tuple(kinds_of(gemm)),
            has_math=any(
                op.operation.name.startswith("math.") and op.operation.name != "math.absf"
                for op in gemm.epilogue.blocks[0].operations
            ),
        )


def _either(x: int | None, y: int | None) -> int | None:
    return y if x is None else x
