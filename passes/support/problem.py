"""The facts of a `tile.gemm` that passes ask for: sizes, layouts, element types, epilogue operands."""

from dataclasses import dataclass
from math import prod

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.elements import element_of_ir, kernel_types
from lowtide.errors import ScheduleError

OPERAND_KINDS = ("full", "per_row", "per_column", "scalar")
LAYOUTS = ("tn", "tt", "nn", "nt")


def layout_letters(op: tile.GemmOp | tile.MmaOp | sm.WgmmaOp) -> str:
    """`tn`, `tt`, `nn` or `nt`."""
    return LAYOUTS[ir.IntegerAttr(op.layout).value]


def a_is_mk(letters: str) -> bool:
    """A lies as (M, K): its first letter is t."""
    return letters[0] == "t"


def b_is_nk(letters: str) -> bool:
    """B lies as (N, K): its second letter is n."""
    return letters[1] == "n"


def kinds_of(op: tile.GemmOp | tile.StoreOp) -> list[str]:
    """The kind of each epilogue operand."""
    return [OPERAND_KINDS[ir.IntegerAttr(kind).value] for kind in op.kinds]


def element_bits(element: ir.Type) -> int:
    """Bits of an element. Raises ScheduleError for a type that nothing here computes with."""
    row = element_of_ir(element)
    if row is None or not row.in_kernels:
        raise ScheduleError(f"elements of {element}: they are one of {', '.join(kernel_types())}")
    return row.bits


def element_name(element: ir.Type) -> str:
    """Lowtide's name of an element type; for a type without a row, as IR prints it."""
    return str(element_of_ir(element) or element)


def buffer_bytes(buffer: ir.Type) -> int:
    """Bytes of a memref of static shape without gaps. Raises ScheduleError as `element_bits`."""
    memref = ir.MemRefType(buffer)
    return prod(memref.shape) * element_bits(memref.element_type) // 8


def static_extent(memref: ir.MemRefType, dim: int) -> int | None:
    return None if memref.is_dynamic_dim(dim) else memref.get_dim_size(dim)


@dataclass(frozen=True)
class Problem:
    """Sizes (None: known at run time) and element types (names of rows of `lowtide.elements`) of a GEMM."""

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
            ab=element_name(a.element_type),
            acc=element_name(ir.TypeAttr(gemm.acc).value),
            d=element_name(d.element_type),
            layout=letters,
            kinds=tuple(kinds_of(gemm)),
            has_math=any(
                op.operation.name.startswith("math.") and op.operation.name != "math.absf"
                for op in gemm.epilogue.blocks[0].operations
            ),
        )


def _either(x: int | None, y: int | None) -> int | None:
    return y if x is None else x
