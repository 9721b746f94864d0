"""copy-stored-sums: copy the sums of FMAs before they are stored, so that stores do not decide their registers.

Before   %sums = scf.for … -> vector<4xf32>; llvm.store %sums, %p : vector<4xf32>, !llvm.ptr<1>
After    %sums = scf.for …; %x = vector.extract %sums[0]; %y = llvm.inline_asm "add.rn.f32 $0, $1, 0f80000000;" %x; …
         %copy = vector.from_elements %y, …; llvm.store %copy, %p
         A vector store needs consecutive registers. Without copies, ptxas keeps the sums in such registers from the
         first product on: more FMAs read three registers of one bank, and fragments are loaded later. A copy is the
         addition of -0, which changes no number; ptxas would remove a mov.
Needs    device code in which the loops over K are scf.for. Changes only kernels that multiply by FMAs.
Refuses  nothing.
Test     test/lit/passes/llvm/copy-stored-sums.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import gpu, llvm, scf, vector

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Pass, walk
from lowtide.passes.support.ir.rewriting import defining_op
from lowtide.targets import Target
from lowtide.targets.atoms import FMA

_GLOBAL = "!llvm.ptr<1>"
_ADD_NOTHING = "add.rn.f32 $0, $1, 0f80000000;"


@dataclass(frozen=True)
class CopyStoredSums(Pass):
    """Copies vectors of f32 that a loop returns and a store writes to global memory."""

    name: ClassVar[str] = "copy-stored-sums"

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in walk(module, gpu.GPUFuncOp):
            if "schedule" in kernel.attributes and Schedule.of(kernel.attributes["schedule"]).multiply.atom == FMA:
                for store in walk(kernel, llvm.StoreOp):
                    if str(store.addr.type) == _GLOBAL and _is_sums(store.value):
                        store.operation.operands[0] = _copied(store)


def _is_sums(value: ir.Value) -> bool:
    """Whether a value is a vector of f32 that a loop returns, or one of elements of such vectors."""
    if not isinstance(value.type, ir.VectorType) or not isinstance(value.type.element_type, ir.F32Type):
        return False
    made = defining_op(value)
    if isinstance(made, vector.FromElementsOp):
        sources = [defining_op(element) for element in made.elements]
        return all(isinstance(source, vector.ExtractOp) and _is_sums(source.source) for source in sources)
    return isinstance(made, scf.ForOp)


def _copied(store: llvm.StoreOp) -> ir.Value:
    """A vector of copies of the elements that are stored."""
    sums = store.value
    element = sums.type.element_type
    with ir.InsertionPoint(store), store.location:
        copies = [
            llvm.InlineAsmOp(element, [vector.extract(sums, [], [place])], _ADD_NOTHING, "=f,f").res
            for place in range(sums.type.shape[0])
        ]
        found: ir.Value = vector.from_elements(sums.type, copies)
    return found
