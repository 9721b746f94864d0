"""Panels: the layout of a stage in shared memory for TMA and wgmma.

A stage of R×C elements is split into consecutive panels of R×w, where w elements are the row that its swizzle permutes
(32, 64 or 128 bytes). One box of a tensor map fills one panel, and a matrix descriptor has the stride between panels
(PTX ISA, "Swizzling modes", "Matrix Descriptor").
"""

from dataclasses import dataclass

from mlir import ir
from tensor_layouts import Layout, mode

from lowtide.dialects.tile import LayoutAttr
from lowtide.dialects.tile.layouts import NO_SWIZZLE, SwizzleBits, layout_of
from lowtide.errors import ScheduleError
from lowtide.passes.support.problem.element_types import element_bits

SWIZZLE_ROWS = 8  # of a panel, after which the pattern of its swizzle repeats


def panel_layout(shape: tuple[int, int], swizzle: SwizzleBits, *, by_columns: bool = False) -> Layout:
    """The layout, without its swizzle, of a stage: (R,(w,C/w)):(w,(1,R·w)), or (R,C):(C,1) if C is one panel.

    Without a swizzle the whole stage is one panel. `by_columns`: the stage's transpose has this layout, so columns are
    contiguous. Raises ScheduleError if the columns, or rows, are not a multiple of w.
    """
    if by_columns:
        transpose = panel_layout(shape[::-1], swizzle)
        return Layout(mode(transpose, 1), mode(transpose, 0))
    rows, columns = shape
    width = panel_width(columns, swizzle)
    if width == columns:
        return Layout((rows, columns), (columns, 1))
    return Layout((rows, (width, columns // width)), (width, (1, rows * width)))


def panel_width(columns: int, swizzle: SwizzleBits) -> int:
    """Elements in a row of a panel: the swizzle's w, or all columns if they are fewer.

    Raises ScheduleError if w does not divide the columns.
    """
    bits, base, shift = swizzle
    width = min(columns, 1 << (bits + base)) if bits else columns
    if columns % width:
        raise ScheduleError(
            f"rows of {columns} elements are no whole panels of {width}, the row of swizzle<{bits},{base},{shift}>; "
            f"take a narrower swizzle, or a multiple of {width} [panel-width]"
        )
    return width


@dataclass(frozen=True)
class Panels:
    """A buffer split into panels: rows, columns and panel width in elements; its swizzle (B, M, S).

    Rows of panels are contiguous. If the columns of the buffer are contiguous, these are the panels of its transpose.
    """

    rows: int
    columns: int
    width: int
    swizzle: SwizzleBits
    element_bytes: int

    @classmethod
    def of(cls, buffer: ir.Type, *, by_columns: bool = False) -> "Panels":
        """The panels of a memref in shared memory; with `by_columns`, of its transpose. Raises ScheduleError for any
        other layout."""
        memref = ir.MemRefType(buffer)
        shape = (memref.shape[0], memref.shape[1])
        plain = Layout(shape, (shape[1], 1)), NO_SWIZZLE
        layout, swizzle = layout_of(memref.layout) if isinstance(memref.layout, LayoutAttr) else plain
        wanted = panel_layout(shape, swizzle, by_columns=by_columns)
        if layout != wanted:
            raise ScheduleError(
                f"a buffer of layout {layout} does not lie in panels; assign-smem-layouts writes {wanted}"
                " [panel-layout]"
            )
        rows, columns = shape[::-1] if by_columns else shape
        width = panel_width(columns, swizzle)
        return cls(rows, columns, width, swizzle, element_bits(memref.element_type) // 8)

    @property
    def count(self) -> int:
        return self.columns // self.width

    @property
    def span(self) -> int:
        """Bytes of a row that the swizzle permutes; 0 without one."""
        bits, base, _ = self.swizzle
        return self.element_bytes << (bits + base) if bits else 0

    @property
    def row_bytes(self) -> int:
        """Bytes from a row of a panel to the next."""
        return self.width * self.element_bytes

    @property
    def panel_bytes(self) -> int:
        """Bytes from a panel to the next."""
        return self.rows * self.row_bytes

    def offset(self, row: int, column: int) -> int:
        """Bytes from the start to an element, before the swizzle."""
        panel, within = divmod(column, self.width)
        return panel * self.panel_bytes + row * self.row_bytes + within * self.element_bytes
