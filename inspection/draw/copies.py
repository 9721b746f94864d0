"""The copies and products of a kernel at level `epilogue` as panels, one of each kind."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

import numpy as np
from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.tile import GemmLayout, OperandKind
from lowtide.dialects.tile.layouts import tv_of
from lowtide.inspection.draw.held import held_panel, owner_panel
from lowtide.inspection.draw.panels import Panel
from lowtide.inspection.explain.accesses import SharedAccess
from lowtide.inspection.explain.names import SCRATCH, UNKNOWN, Names
from lowtide.passes.base import walk
from lowtide.passes.support.agents.wgmmas import fragment_of, wgmmas
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.problem.matrix_layouts import a_is_mk, b_is_nk
from lowtide.passes.support.streams.buffers import is_transposed_buffer
from lowtide.passes.support.streams.operand_loads import is_operand_load
from lowtide.targets import WarpAccess
from lowtide.targets.ldmatrix import elements_per_register, row_addresses
from lowtide.targets.tv import extents

Product = tuple[Panel | None, Panel | None, Panel]
"""A, B and C; A and B are None if the instruction reads them from shared memory."""

_ROW = 8  # rows of ldmatrix's matrices


class Copies:
    """The copies and products of a kernel. Ops that do the same are drawn once."""

    def __init__(self, module: ir.Module, layout: str) -> None:
        self.names = Names(module)
        self.module = module
        letters = GemmLayout[layout]
        self._axes: dict[str, tuple[str, str]] = {
            "a": ("m", "k") if a_is_mk(letters) else ("k", "m"),
            "b": ("n", "k") if b_is_nk(letters) else ("k", "n"),
        }
        for load in walk(module, sm.TmaLoadOp):
            name = self.names.of_buffer(load.destination)
            if name in self._axes and self.names.of_map(load.map)[0] != name:  # a transpose or pieces, in a workspace
                self._axes[name] = ("m" if name == "a" else "n", "k")

    def loads(self) -> list[Panel]:
        """From global to shared memory, or to registers: A and B as stored, and operands of the epilogue."""
        return self._panels(
            {
                sm.CpAsyncOp.OPERATION_NAME: self._cp_async,
                sm.TmaLoadOp.OPERATION_NAME: self._tma_load,
                sm.LoadGlobalOp.OPERATION_NAME: self._load_global,
            }
        )

    def reads(self) -> list[Panel]:
        """A and B from shared memory to registers: the thread that addresses each row of ldmatrix, or loads each
        element."""
        return self._panels(
            {
                sm.LdmatrixOp.OPERATION_NAME: self._ldmatrix,
                sm.LoadSharedOp.OPERATION_NAME: lambda op: self._operand(op) if is_operand_load(op) else None,
            }
        )

    def products(self) -> list[Product]:
        """The operands of each kind of mma."""
        found: dict[str, Product] = {}
        for product in self._products():
            found.setdefault(" ".join(panel.title for panel in product if panel is not None), product)
        return list(found.values())

    def stores(self) -> list[Panel]:
        """From registers to global memory, directly or through shared memory."""
        return self._panels(
            {
                sm.StoreSharedOp.OPERATION_NAME: self._store_shared,
                sm.LoadSharedOp.OPERATION_NAME: lambda op: None if is_operand_load(op) else self._load_shared(op),
                sm.StoreGlobalOp.OPERATION_NAME: self._store_global,
                sm.TmaStoreOp.OPERATION_NAME: self._tma_store,
            }
        )

    def axes_of_buffer(self, access: SharedAccess) -> tuple[str, str]:
        """The axes of a buffer as stored."""
        return self._axes.get(access.what, ("m", "n"))

    def _panels(self, readers: Mapping[str, Callable[[ir.OpView], Panel | None]]) -> list[Panel]:
        """The panels of the ops, in program order; panels with the same title once."""
        found: dict[str, Panel] = {}
        for op in _ops(self.module, frozenset(readers)):
            panel = readers[op.operation.name](op)
            if panel is not None:
                found.setdefault(panel.title, panel)
        return list(found.values())

    def _cp_async(self, op: ir.OpView) -> Panel:
        what, _, _ = self.names.of_window(op.source)
        shape, atom = _shape(op.destination.type), op.copy.atom
        title = f"{_matrix(what)} to shared memory by {atom}, {_text(shape)}"
        return held_panel(title, self._axes.get(what, ("m", "n")), tv_of(op.copy.tv), shape)

    def _tma_load(self, op: ir.OpView) -> Panel:
        what, _ = self.names.of_map(op.map)
        name = self.names.of_buffer(op.destination)
        title = f"{_matrix(name if what == UNKNOWN else what)} to shared memory by TMA"
        # Scales have rows and columns of their own.
        return _boxes(title, self._axes.get(name, ("row", "column")), op.map.type, op.destination.type)

    def _tma_store(self, op: ir.OpView) -> Panel:
        return _boxes("shared memory to D by TMA", ("m", "n"), op.map.type, op.source.type)

    def _load_global(self, op: ir.OpView) -> Panel | None:
        what, kind, _ = self.names.of_window(op.source)
        if kind is not OperandKind.full:
            return None  # a vector: each thread reads the elements of its own rows or columns
        axes = self._axes.get(what, ("m", "n"))
        title = f"{_matrix(what)} to registers by {_atom(op)}"
        return self._fragment(title, op.result.type, axes=axes[::-1] if op.trans else axes)

    def _ldmatrix(self, op: ir.OpView) -> Panel:
        fragment, trans, atom = op.result.type, bool(op.trans), _atom(op)
        what, matrices = self.names.of_fragment(fragment), int(atom.split(".")[1][1:])
        per_register = elements_per_register(element_bits(fragment.element_type))
        starts, run = row_addresses(tv_of(fragment.tv), matrices, trans, per_register), 4 * per_register
        access = WarpAccess(atom, starts, tuple(fragment.shape), run, "ldmatrix", trans, _ROW * matrices)
        stored = access.stored_coordinates()
        warps, instructions = np.divmod(np.arange(len(stored)), extents(starts)[1])
        threads = 32 * warps[:, None] + np.arange(access.lanes)
        # Each lane addresses the first of 16 bytes along a row.
        where = np.repeat(stored[:, :, None, :], run, axis=2)
        where[..., 1] += np.arange(run)
        owners = np.broadcast_to(threads[..., None], where.shape[:-1])
        title = f"{_matrix(what)} to registers by {atom}{'.trans' if trans and 'trans' not in atom else ''}, "
        title += f"{_text(access.stored_shape)}: thread and instruction (I) that address each row"
        axes = self._axes.get(what, ("m", "k"))
        return owner_panel(title, axes, access.stored_shape, where, owners, second=("I", instructions[:, None, None]))

    def _operand(self, op: ir.OpView) -> Panel:
        what = self.names.of_fragment(op.result.type)
        axes = {"a": ("m", "k"), "b": ("n", "k")}.get(what, ("m", "n"))
        return self._fragment(f"{_matrix(what)} to registers by {_atom(op)}", op.result.type, axes)

    def _products(self) -> Iterator[Product]:
        for op in walk(self.module, sm.MmaSyncOp):
            a, b, c = (value.type for value in (op.a, op.b, op.result))
            atom = str(op.mma.atom)
            yield (
                held_panel(f"A of {atom}, {_text(a.shape)}", ("m", "k"), tv_of(a.tv), tuple(a.shape)),
                held_panel(f"B of {atom}, {_text(b.shape)}", ("n", "k"), tv_of(b.tv), tuple(b.shape), transposed=True),
                held_panel(f"C of {atom}, {_text(c.shape)}", ("m", "n"), tv_of(c.tv), tuple(c.shape)),
            )
        for op in wgmmas(self.module):
            c = fragment_of(op)
            title = f"C of {op.mma.atom}, {_text(c.shape)}; A and B are read from shared memory"
            yield None, None, held_panel(title, ("m", "n"), tv_of(c.tv), tuple(c.shape))

    def _store_shared(self, op: ir.OpView) -> Panel | None:
        if self.names.of_buffer(op.destination) != SCRATCH:
            return None  # a copy through registers: each thread stores what it loaded, which is drawn
        return self._fragment(f"registers to scratch by {_atom(op)}", op.value.type)

    def _load_shared(self, op: ir.OpView) -> Panel:
        what = self.names.of_buffer(op.source)
        source = "scratch" if what == SCRATCH else _matrix(what)
        return self._fragment(f"{source} to registers by {_atom(op)}", op.result.type)

    def _store_global(self, op: ir.OpView) -> Panel:
        return self._fragment(f"registers to D by {_atom(op)}", op.value.type)

    def _fragment(self, title: str, fragment: ir.Type, axes: tuple[str, str] = ("m", "n")) -> Panel:
        shape = tuple(fragment.shape)
        return held_panel(f"{title}, {_text(shape)}", axes, tv_of(fragment.tv), shape)


def _ops(module: ir.Module, names: frozenset[str]) -> list[ir.OpView]:
    found: list[ir.OpView] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in names:
            found.append(op.opview)
        return ir.WalkResult.ADVANCE

    for kernel in walk(module, tile.KernelOp):
        kernel.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _boxes(title: str, axes: tuple[str, str], map_type: ir.Type, buffer: ir.Type) -> Panel:
    """The boxes of one thread's TMA instructions, numbered; a box of several panels counts as one."""
    (rows, columns), (*panels, box_rows, width) = _shape(buffer), list(map_type.shape)
    box_columns = width * prod(panels)
    if is_transposed_buffer(buffer):  # boxes are of the matrix as it lies
        box_rows, box_columns = box_columns, box_rows
    row, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    box = row // box_rows + column // box_columns * -(-rows // box_rows)
    text = f"{title}, {_text((rows, columns))}: boxes of {_text((box_rows, box_columns))}, issued by one thread"
    return owner_panel(text, axes, (rows, columns), np.stack([row, column], axis=-1), box, first="box\n")


def _atom(op: ir.OpView) -> str:
    return str(ir.StringAttr(op.atom).value)


def _shape(buffer: ir.Type) -> tuple[int, int]:
    rows, columns = ir.MemRefType(buffer).shape
    return rows, columns


def _text(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


def _matrix(name: str) -> str:
    return name.upper() if name in ("a", "b", "d") else name
