"""name-kernels: give each kernel a name that describes it, for profilers.

Before   tile.launch @gemm_kernel …; llvm.func @gemm_kernel(…) attributes {problem = …, schedule = …}
After    tile.launch @lowtide_gemm_bf16_bf16_f32_bf16_tn_128x256x64_s4_tma_wgmma_cooperative2_persistent …
         The words are the types of A, B, the sums and D; the layout; what is special about the problem; the CTA tile
         with K of a step; stages; CTAs of a cluster; how K is divided; how A and B are copied; the mma instruction;
         the agents; and how CTAs take work tiles. Words that would say nothing are left out: one CTA per cluster, an
         undivided K, a single agent, one CTA per work tile. All words refer to the product that the kernel
         computes, which may be `swapped`.
         Kernels without a schedule prepare matrices or finish reductions. Their names say so already, and get a
         prefix: @gemm_copy_bf16 becomes @lowtide_gemm_copy_bf16.
Needs    device code in the llvm dialect. Earlier levels keep the short names.
Refuses  nothing.
Test     test/lit/passes/llvm/name-kernels.mlir
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import gpu, llvm

from lowtide.dialects import tile
from lowtide.dialects.tile import OperandKind, ResultKind, SchedulerKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Pass, walk
from lowtide.passes.support.problem.element_types import element_name
from lowtide.targets import Target

_PREFIX, _SUFFIX = "lowtide_", "_kernel"
_KERNEL = "gpu.kernel"
_NOT_IN_IDENTIFIERS = re.compile(r"[^A-Za-z0-9_$]")  # of PTX (PTX ISA, "Identifiers")


@dataclass(frozen=True)
class NameKernels(Pass):
    """Renames each kernel, and what launches it or counts its clusters."""

    name: ClassVar[str] = "name-kernels"

    def run(self, module: ir.Module, target: Target) -> None:
        for device in walk(module, gpu.GPUModuleOp):
            for kernel in walk(device, llvm.LLVMFuncOp):
                if _KERNEL not in kernel.attributes:
                    continue
                old = ir.StringAttr(kernel.sym_name).value
                new = _name(kernel, old)
                kernel.attributes["sym_name"] = ir.StringAttr.get(new)
                ir.SymbolTable.replace_all_symbol_uses(old, new, module.operation)


def _name(kernel: llvm.LLVMFuncOp, symbol: str) -> str:
    """The name, a valid identifier of PTX. A kernel that already has such a name keeps it."""
    if symbol.startswith(_PREFIX):
        return symbol
    words = [symbol]
    if (schedule := kernel.attributes.get("schedule")) is not None:
        words = [symbol.removesuffix(_SUFFIX)]
        if (problem := kernel.attributes.get("problem")) is not None:
            words += _words_of_problem(problem)
        words += _words_of_schedule(Schedule.of(schedule))
    return _PREFIX + _NOT_IN_IDENTIFIERS.sub("_", "_".join(words))


def _words_of_problem(problem: tile.ProblemAttr) -> Iterator[str]:
    results = list(zip(map(str, problem.result_kinds), problem.results, strict=True))
    full = [element_name(type_) for kind, type_ in results if kind == str(ResultKind.full)]
    yield from (element_name(problem.a), element_name(problem.b), element_name(problem.acc), *full)
    yield problem.layout
    yield from (kind for kind, _ in results if kind not in (str(ResultKind.full), str(ResultKind.absent)))
    if str(OperandKind.ends) in problem.kinds:
        yield "groups"
    if problem.pairs:
        yield "pairs"
    if problem.precision is not None:
        yield str(problem.precision)
    if problem.swapped:
        yield "swapped"


def _words_of_schedule(schedule: Schedule) -> Iterator[str]:
    grid, mainloop, multiply = schedule.grid, schedule.mainloop, schedule.multiply
    if grid.tile is not None and mainloop.k is not None:
        yield "x".join(map(str, schedule.tile_mnk))
    if mainloop.stages is not None:
        yield f"s{mainloop.stages}"
    if schedule.cluster != (1, 1):
        yield "c" + "x".join(map(str, schedule.cluster))
    if (division := schedule.k_division) is not None:
        yield f"{division.kind}{division.parts or ''}"
    yield from dict.fromkeys(copy for copy in (mainloop.a.copy, mainloop.b.copy) if copy is not None)
    if multiply.atom is not None:
        yield multiply.atom.partition(".")[0]
    if schedule.agents.has_producer:
        consumer = schedule.agents.consumer
        yield f"pingpong{consumer.turns}" if consumer.turns > 1 else f"cooperative{consumer.warpgroups}"
    if grid.scheduler not in (None, SchedulerKind.one_shot):
        yield str(grid.scheduler)
