"""Names of the values of a kernel at level `epilogue`, and the host matrices behind them."""

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from lowtide.compiler.spec_of_ir import argument_names
from lowtide.dialects import sm, tile
from lowtide.dialects.enums import cache_hint_of, operand_kind
from lowtide.dialects.tile import OperandKind
from lowtide.errors import ScheduleError
from lowtide.passes.base import walk
from lowtide.passes.schedules.facts.alignment import WIDEST, alignments_in, moved_alignment
from lowtide.passes.support.ir.rewriting import memory_of
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.problem.matrix_layouts import is_column_major

# The assumed row stride in bytes if it is known only at run time: a whole number of sectors.
ASSUMED_ROW_STRIDE = 8192
SCRATCH = "epilogue scratch"
STAGED = ("a", "b", "row scales", "column scales")  # by the buffers of a slot, in order
UNKNOWN = "?"  # a matrix that is not an argument, such as a transpose in a workspace


class Names:
    """The names of a module's matrices, and the types that its mma.sync take for A and for B."""

    def __init__(self, module: ir.Module) -> None:
        self.arguments: dict[ir.Value, str] = {}
        self.mapped: dict[ir.Value, ir.MemRefType] = {}
        """The matrix behind each tensor map, or the list behind maps in a workspace."""
        self.operands: list[tuple[str, ir.Type]] = []
        self.alignments = alignments_in(module, moved_alignment)
        kernels = {
            ir.StringAttr(kernel.attributes["sym_name"]).value: kernel.regions[0].blocks[0].arguments
            for kernel in walk(module, tile.KernelOp)
        }
        host: dict[ir.Value, str] = {}
        matrices: dict[ir.Value, ir.MemRefType] = {}

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == "func.func":
                host.update(zip(op.regions[0].blocks[0].arguments, argument_names(op), strict=True))
            elif op.name == "sm.tensor_map":
                host[op.results[0]] = host.get(memory_of(op.operands[0]), UNKNOWN)
                matrices[op.results[0]] = ir.MemRefType(op.operands[0].type)
            elif op.name == "arith.select" and op.operands[2] in host:  # a matrix, or its packed copy
                host[op.results[0]] = host[op.operands[2]]
            elif op.name == "tile.launch":
                view = op.opview
                inner = kernels.get(ir.FlatSymbolRefAttr(view.kernel).value, [])
                if _splits(inner):
                    source, target = map(memory_of, view.args)
                    host[target] = f"pieces of {host.get(source, '?')}"
                if _reads(inner, sm.MakeMapsOp):
                    source, target = view.args
                    host[target], matrices[target] = host.get(source, UNKNOWN), ir.MemRefType(source.type)
                for argument, given in zip(inner, view.args, strict=False):
                    self.arguments[argument] = host.get(memory_of(given), UNKNOWN)
                    if given in matrices:
                        self.mapped[argument] = matrices[given]
            elif op.name == "sm.mma_sync":
                self.operands += [("a", op.operands[0].type), ("b", op.operands[1].type)]
            elif op.name == "sm.unpack_weights":
                is_a = any(use.owner.name == "sm.wgmma" for use in op.results[0].uses)
                self.operands.append(("a" if is_a else "b", op.operands[0].type))
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)

    def of_window(self, value: ir.Value) -> tuple[str, OperandKind, ir.MemRefType]:
        """Name, kind and type of the matrix or vector of a window."""
        view = value.owner.opview if not isinstance(value.owner, ir.Block) else None
        if not isinstance(view, tile.ViewOp):
            raise ScheduleError(
                "the window is not a tile.view, so its matrix is unknown; take it from one [window-matrix]"
            )
        kind = operand_kind(view)
        return self.arguments.get(memory_of(view.source), UNKNOWN), kind, ir.MemRefType(view.source.type)

    def row_stride(self, name: str, matrix: ir.MemRefType) -> tuple[int, bool]:
        """The bytes between rows of a matrix as it lies in memory, and whether they follow from its extents.

        The smallest stride that the kernel takes; for full operands, which may have any stride, a multiple of 16.
        """
        last = matrix.rank - (2 if is_column_major(matrix) else 1)
        if matrix.is_dynamic_dim(last):
            return ASSUMED_ROW_STRIDE, False
        unit = self.alignments.get(name, WIDEST)
        return -(-matrix.get_dim_size(last) * element_bits(matrix.element_type) // (8 * unit)) * unit, True

    def of_map(self, value: ir.Value) -> tuple[str, ir.MemRefType]:
        """Name and type of the matrix of a tensor map. If a map is selected from two, both have the same matrix."""
        if not isinstance(value.owner, ir.Block) and isinstance(value.owner.opview, arith.SelectOp):
            return self.of_map(value.owner.opview.false_value)
        if not isinstance(value.owner, ir.Block) and isinstance(value.owner.opview, sm.ListedMapOp):
            return self.of_map(value.owner.opview.maps)
        if value not in self.mapped:
            raise ScheduleError(
                "the tensor map's matrix is unknown; pass it to tile.launch from an sm.tensor_map [map-matrix]"
            )
        return self.arguments[value], self.mapped[value]

    def of_buffer(self, value: ir.Value) -> str:
        """The operand that a buffer of the ring's slots stages, one of `STAGED`; an operand of the epilogue that TMA
        loads to the buffer; else the epilogue's scratch."""
        slot = value.owner.opview if not isinstance(value.owner, ir.Block) else None
        if isinstance(slot, sm.AllocOp):
            loads = [use.owner.opview for use in value.uses if isinstance(use.owner.opview, sm.TmaLoadOp)]
            return self.of_map(loads[0].map)[0] if loads else SCRATCH
        return STAGED[list(slot.buffers).index(value)] if isinstance(slot, sm.RingSlotOp) else SCRATCH

    def of_fragment(self, type_: ir.Type) -> str:
        """Whether an mma takes fragments of this type as its a or its b."""
        found = sorted({name for name, other in self.operands if other == type_})
        return " or ".join(found) if found else UNKNOWN


def cache_hint(op: sm.TmaLoadOp | sm.TmaStoreOp | sm.StoreGlobalOp) -> str:
    """The word of an op's `cache(…)`; `normal` if it has none."""
    return str(cache_hint_of(op))


def _splits(arguments: Sequence[ir.Value]) -> bool:
    """Whether the kernel with these arguments makes pieces of the first one in the second one."""
    return any("precision" in op.attributes for op in _reads(arguments, tile.PrepareOp))


def _reads(arguments: Sequence[ir.Value], kind: type[ir.OpView]) -> list[ir.Operation]:
    """The ops of a kind that read the arguments of a kernel."""
    readers = [use.owner for value in arguments for use in value.uses]
    return [op for op in readers if op.name == kind.OPERATION_NAME]
