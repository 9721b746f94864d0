"""keep-loops-rolled: move the no-unroll annotation to the attribute that LLVM reads.

Before   llvm.br ^bb1(%i : i32) {llvm.loop_annotation = #loop_annotation}
After    llvm.br ^bb1(%i : i32) {loop_annotation = #loop_annotation}
         convert-sm-to-nvvm puts the annotation on loops in which all threads copy and multiply; upstream's conversions
         keep it on the back edge as a discardable attribute. As the branch's own attribute it becomes
         `.pragma "nounroll"`. Without that, ptxas unrolls a short loop together with the copies before it, and runs
         out of registers.
Needs    device code in the llvm dialect.
Refuses  nothing.
Test     test/lit/passes/llvm/keep-loops-rolled.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import llvm

from lowtide.passes.base import Pass, walk
from lowtide.passes.nvvm.thread.unrolling import LOOP_ANNOTATION
from lowtide.targets import Target

_OWN = "loop_annotation"


@dataclass(frozen=True)
class KeepLoopsRolled(Pass):
    """Moves the annotation of every branch to its own attribute."""

    name: ClassVar[str] = "keep-loops-rolled"

    def run(self, module: ir.Module, target: Target) -> None:
        for branch in (*walk(module, llvm.BrOp), *walk(module, llvm.CondBrOp)):
            attributes = branch.operation.attributes
            if LOOP_ANNOTATION in attributes:
                attributes[_OWN] = attributes[LOOP_ANNOTATION]
                del attributes[LOOP_ANNOTATION]
