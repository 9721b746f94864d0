"""Tensor map arguments of a kernel: encoded on the host from its matrices, passed after its other arguments."""

from collections.abc import Sequence
from math import prod

from mlir import ir
from mlir.dialects import cf

from lowtide.dialects import sm, tile
from lowtide.dialects.tile import PackKind
from lowtide.dialects.tile.layouts import layout_of, swizzle_attr
from lowtide.errors import ScheduleError
from lowtide.passes.base import Refusal
from lowtide.passes.support.ir.builder import Builder, constant_of
from lowtide.passes.support.ir.rewriting import before, extent
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.problem.kernels import launches_of, relaunch, schedule_if_any
from lowtide.passes.support.problem.matrix_layouts import is_column_major
from lowtide.passes.support.streams.buffers import is_transposed_buffer
from lowtide.passes.support.streams.listed_maps import ListedMaps
from lowtide.passes.support.streams.panels import Panels
from lowtide.passes.support.streams.ragged import ROWS, mark_ragged


def launch_of(module: ir.Module, kernel: tile.KernelOp) -> tile.LaunchOp:
    """The one launch of a kernel. Raises Refusal if there are several, or none."""
    launches = launches_of(module, kernel)
    if len(launches) != 1:
        raise Refusal(
            kernel, f"is launched at {len(launches)} places; its tensor maps are made at one [tensor-map-launch]"
        )
    return launches[0]


def box_type(
    op: ir.OpView, buffer: ir.Type, rows: int | None, rank: int, outer: Sequence[int] = ()
) -> sm.TensorMapType:
    """The `!sm.tensor_map` of the boxes that fill or empty a buffer, or `rows` of its rows.

    With rank 3 and more, a box has all panels of the buffer. If a box has only some of the rows, it has one panel,
    because the panels of a box lie one after the other. `outer`: the sides before those of a matrix. A box has
    rows of as many matrices as their product says, and the same number of rows of each.

    Raises Refusal if the buffer does not lie in panels, or TMA does not take the box.
    """
    try:
        panels = Panels.of(buffer, by_columns=is_transposed_buffer(buffer))
    except ScheduleError as error:
        raise Refusal(op, str(error)) from error
    memref = ir.MemRefType(buffer)
    _, swizzle = layout_of(memref.layout)
    sides = [rows or panels.rows // prod(outer), panels.width]
    if rank > 2:
        sides = [1] * (rank - 3) + [panels.count if rows in (None, panels.rows) else 1, *sides]
    sides = [*outer, *sides]
    try:
        return sm.TensorMapType.get(sides, memref.element_type, swizzle_attr(swizzle))
    except ValueError as error:
        raise Refusal(
            op, f"needs a TMA box of {'×'.join(map(str, sides))} {memref.element_type}: {error} [tensor-map-box]"
        ) from None


def rows_of_last_box(extent_: ir.Value, most: int) -> ir.Value:
    """The rows of the last box if boxes of `most` rows cover an extent: `most` if the extent is a multiple of it."""
    build = Builder.index()
    return build.add(build.urem(build.add(extent_, most - 1), most), 1)


def _assert_whole_panels(matrix: ir.Value, width: int, rank: int) -> None:
    """The host's check that the panels of a map of more than two dimensions divide the matrix's contiguous extent."""
    _assert_multiple(
        extent(matrix, -1),
        width,
        f"copies by tma.{rank}d: the contiguous extent of A and of B must be a multiple of {width}, the row of a "
        "panel; pad it, or compile with a.copy = tma and b.copy = tma",
    )


def _assert_whole_rows(matrix: ir.Value, letter: str) -> None:
    """The host's check that rows of a matrix that TMA stores to, of `letter` elements, are multiples of 16 bytes."""
    unit = max(1, 128 // element_bits(ir.MemRefType(matrix.type).element_type))
    _assert_multiple(
        extent(matrix, -2 if is_column_major(matrix.type) else -1),
        unit,
        f"epilogue.path = tma: {letter} must be a multiple of {unit}, since TMA stores whole 16 bytes and would "
        f"overwrite what lies behind a row of D; pad {letter}, or compile with epilogue.path = smem",
    )


def _assert_ragged(matrix: ir.Value) -> None:
    """Adds the host's check that the extent of a ragged map is large enough for the rows."""
    fits = Builder.index().sle(extent(matrix, 0), ROWS)
    if not constant_of(fits):
        cf.assert_(fits, "with groups of K, K must be at most 2^30: split the problem")


def _assert_multiple(length: ir.Value, unit: int, message: str) -> None:
    """A host check of an extent, unless it is known to be a multiple of `unit`."""
    build = Builder.index()
    is_multiple = build.eq(build.urem(length, unit), 0)
    if not constant_of(is_multiple):
        cf.assert_(is_multiple, message)


def _is_swapped(kernel: tile.KernelOp) -> bool:
    """Whether the rows of the kernel's D are the columns of the D that was asked for."""
    return "problem" in kernel.attributes and bool(kernel.attributes["problem"].swapped)


class TensorMapArguments:
    """One map for each matrix and box; `finish` gives kernel and launch their new signature."""

    def __init__(self, kernel: tile.KernelOp, launch: tile.LaunchOp) -> None:
        self.kernel, self.launch = kernel, launch
        self.entry = kernel.body.blocks[0]
        self.matrices = list(self.entry.arguments)
        self.packs_output = schedule_if_any(kernel).epilogue.pack is PackKind.rows
        self.found: dict[tuple[int, sm.TensorMapType, bool, bool], ir.Value] = {}
        self.passed: list[ir.Value] = []
        self.listed = ListedMaps(kernel, launch)

    def map_for(
        self,
        op: ir.OpView,
        matrix: ir.Value,
        buffer: ir.Type,
        *,
        rows: int | None = None,
        rank: int = 2,
        is_written: bool = False,
        is_last: bool = False,
        is_ragged: bool = False,
        halves: bool = False,
    ) -> ir.Value:
        """The kernel argument that maps `matrix` in boxes of the shape of `buffer`, or of `rows` of its rows.

        A box of rank 2 is one panel; a box of rank 3 to 5 is all panels of the buffer. A batch adds one to the rank.
        `is_last`: boxes have only as many rows as are left for the last box of the matrix. `is_ragged`: each load says
        where the rows end. `halves`: a box has rows of both matrices of a pair.
        The host checks the rows of a matrix that is written. A packed matrix needs no check: its rows lie in a
        workspace, where TMA may write whole units after them. Raises Refusal if TMA has no such box.
        """
        if matrix not in self.matrices:
            raise Refusal(
                op,
                "names a matrix that is not an argument of the kernel; TMA needs a tensor map of it"
                " [tensor-map-argument]",
            )
        position = self.matrices.index(matrix)
        of_batch = [1] * (2 if is_ragged else ir.MemRefType(matrix.type).rank - 2)
        type_ = box_type(op, buffer, rows, rank, [2, *of_batch[1:]] if halves else of_batch)
        key = position, type_, is_last, is_ragged
        if key not in self.found:
            with before(self.launch), op.operation.location:
                if rank > 2:
                    _assert_whole_panels(self.launch.args[position], type_.shape[-1], rank)
                if is_written and not self.packs_output and all(position != other for other, *_ in self.found):
                    is_row_of_n = _is_swapped(self.kernel) == is_column_major(matrix.type)
                    _assert_whole_rows(self.launch.args[position], "N" if is_row_of_n else "M")
                source = self.launch.args[position]
                last = rows_of_last_box(extent(source, -2), type_.shape[-2]) if is_last else None
                made = sm.TensorMapOp(type_, source, rows=last)
                if is_ragged:
                    _assert_ragged(source)
                    mark_ragged(made)
                self.passed.append(made.result)
            self.found[key] = self.entry.add_argument(type_, ir.Location.unknown())
        return self.found[key]

    def listed_map(
        self,
        op: ir.OpView,
        matrices: ir.Value,
        number: ir.Value,
        buffer: ir.Type,
        rows: int | None = None,
        *,
        is_written: bool = False,
    ) -> ir.Value:
        """The map of one matrix of a list, in boxes of the shape of `buffer`, or of `rows` of its rows: a launch before
        the product makes it on the device. Raises Refusal as `map_for`."""
        position, type_ = self.matrices.index(matrices), box_type(op, buffer, rows, 2)
        found, is_new = self.listed.map_of(op, position, type_, number)
        if is_new:
            with before(self.launch), op.operation.location:
                if is_written:
                    _assert_whole_rows(self.launch.args[position], "N")
                self.passed.append(self.listed.make(position, type_))
        return found

    def finish(self) -> None:
        """Gives kernel and launch their new signature."""
        types = [argument.type for argument in self.entry.arguments]
        self.kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
        relaunch(self.launch, [*self.launch.args, *self.passed])
