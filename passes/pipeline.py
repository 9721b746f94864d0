"""The table of steps, joined from the folders: the passes that produce each level, their order, and the reason for it.

A level is made from the one before it by its steps, in order; compiling is one fold over this table
(`compiler/driver.py`). Every kernel goes through all of it. Where two passes are alternatives (cp.async and mma.sync,
or TMA and wgmma with roles), the schedule on the kernel decides which one acts; the other leaves the kernel unchanged.
"""

from collections.abc import Mapping
from types import MappingProxyType

from lowtide.dialects.levels import Level
from lowtide.passes import atoms, cta, epilogue, llvm, nvvm, pipelined, problem, ptx, smem
from lowtide.passes.base import Pass
from lowtide.passes.steps import Step

STEPS: Mapping[Level, tuple[Step, ...]] = MappingProxyType(
    {
        Level.PROBLEM: problem.STEPS,
        Level.CTA: cta.STEPS,
        Level.SMEM: smem.STEPS,
        Level.PIPELINED: pipelined.STEPS,
        Level.ATOMS: atoms.STEPS,
        Level.EPILOGUE: epilogue.STEPS,
        Level.NVVM: nvvm.STEPS,
        Level.LLVM: llvm.STEPS,
        Level.PTX: ptx.STEPS,
    }
)

REGISTRY: tuple[type[Pass], ...] = tuple(
    step.run for steps in STEPS.values() for step in steps if not isinstance(step.run, str)
)
"""Lowtide's passes in the order in which they run, by the names that `lowtide-opt` knows."""

# Run before anything else where a compilation is entered from a dumped level: it may have been edited.
ENTRY_STEP = Step(
    "verify-schedule,verify-mbarriers,verify-smem-offsets,verify-registers",
    "an edited level must satisfy the same rules as a lowered one",
    "verify-entry",
)
