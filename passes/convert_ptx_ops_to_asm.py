"""convert-ptx-ops-to-asm: write the instructions that the nvvm dialect lacks as inline assembly; nothing else does.

Before   %c = sm.ptx_wgmma_wait 0, %p : !llvm.struct<(f32, f32)>
After    %c = llvm.inline_asm has_side_effects "wgmma.wait_group.sync.aligned 0;", "=f,=f,0,1" … -> !llvm.struct<…>
Needs    level nvvm.
Refuses  registers other than a struct of f32.
Test     test/lit/passes/convert-ptx-ops-to-asm.mlir, convert-ptx-ops-to-asm-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import llvm

from lowtide.dialects import sm
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.rewriting import before, replace
from lowtide.targets import Target


@dataclass(frozen=True)
class ConvertPtxOpsToAsm(Pass):
    """Replaces every sm.ptx_… op."""

    name: ClassVar[str] = "convert-ptx-ops-to-asm"

    def run(self, module: ir.Module, target: Target) -> None:
        for wait in walk(module, sm.PtxWgmmaWaitOp):
            with before(wait), wait.operation.location:
                replace(wait, [_wait_through_registers(wait)])


def _wait_through_registers(wait: sm.PtxWgmmaWaitOp) -> ir.Value:
    """Every register goes in and comes out again: what reads it stays behind the wait."""
    parts = list(wait.acc.type.body) if isinstance(wait.acc.type, llvm.StructType) else []
    if not parts or any(not isinstance(part, ir.F32Type) for part in parts):
        raise Refusal(wait, f"threads a struct of f32 registers, not {wait.acc.type}")
    registers = [llvm.ExtractValueOp(part, wait.acc, [i]).result for i, part in enumerate(parts)]
    constraints = ",".join(["=f"] * len(parts) + [str(i) for i in range(len(parts))])
    pending = int(ir.IntegerAttr(wait.pending).value)
    return llvm.InlineAsmOp(
        wait.acc.type,
        registers,
        f"wgmma.wait_group.sync.aligned {pending};",
        constraints,
        has_side_effects=True,
    ).res
