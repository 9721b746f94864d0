"""The table of steps: which passes make each level, in which order, and why there.

A level is made from the one before it by its steps, in order; compiling is one fold over this table (`driver.py`).
`$chip` and `$features` are filled in from the target.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from types import MappingProxyType

from lowtide.dialects.levels import Level
from lowtide.targets import Target


@dataclass(frozen=True)
class Step:
    """One entry: a pass of ours, or a pipeline of upstream's, and the reason for its place."""

    pipeline: str
    why: str
    label: str = ""

    @property
    def name(self) -> str:
        """What dumps, times and errors call the step."""
        return self.label or self.pipeline

    def text(self, target: Target) -> str:
        """The pipeline for a target, as `lowtide-opt --pass-pipeline` takes it."""
        return Template(self.pipeline).substitute(chip=target.chip, features=target.ptx_feature)


# Every kernel goes through all of it. Where two passes do one job in two ways (cp.async and mma.sync, or TMA and wgmma
# with roles) the schedule on the kernel says which of them acts; the other leaves it alone.
STEPS: Mapping[Level, tuple[Step, ...]] = MappingProxyType(
    {
        Level.PROBLEM: (
            Step("choose-schedule", "first: every later pass only reads the schedule"),
            Step("verify-schedule", "before anything is built on it: the rules of the target, in the user's terms"),
        ),
        Level.CTA: (
            Step("tile-to-ctas", "who computes what comes before how"),
            Step("cse", "one constant each. Not canonicalize: it would dissolve a K loop of one step", "simplify"),
        ),
        Level.SMEM: (
            Step("promote-operands-to-smem", "while a K step is still one mma on two windows"),
            Step("assign-smem-layouts", "as soon as there are buffers; the ring then takes their types as they are"),
        ),
        Level.PIPELINED: (
            Step("pipeline-mainloop", "copies and mma are still one op each, so that a stage is one loop iteration"),
            Step(
                "specialize-roles", "where the schedule has roles: they are split as the ring that joins them is made"
            ),
            Step("cse", "one constant each", "simplify"),
        ),
        Level.ATOMS: (
            Step("bind-mma-atoms", "first of the bindings: the fragments' layouts decide how shared memory is read"),
            Step("bind-wgmma", "where the schedule has roles: what a release waits for is known once the mma is bound"),
            Step("bind-tma", "then the ring's verbs: bytes and arrivals are counted from the copies and roles"),
            Step("bind-copy-atoms", "copies lie as the threads of the tiled mma allow"),
            Step("split-k-slices", "once the mma atom says how deep one slice is"),
            Step("double-buffer-fragments", "needs the slices, and one ldmatrix for each"),
            Step("bind-ring-to-cp-async", "after all that moves waits: what one covers is counted from the commits"),
            Step("cse", "one constant each", "simplify"),
        ),
        Level.EPILOGUE: (
            Step("lower-epilogue", "needs the accumulator's thread-value layout"),
            Step("assign-smem-offsets", "last: every buffer, the epilogue's scratch among them, is known"),
            Step("cse", "operands that several parts of the epilogue read are read once", "simplify"),
            Step("verify-mbarriers", "arrivals and bytes, while copies and roles still stand beside their mbarriers"),
            Step("verify-smem-offsets", "places in shared memory, while they still have names"),
        ),
        Level.NVVM: (
            Step("convert-sm-to-nvvm", "one thread's program, from the layouts alone"),
            Step("expand-math", "before LLVM sees math ops that it would call a library for"),
            Step("cse,canonicalize,cse", "folds the addresses that the conversion writes out in full", "simplify"),
            Step("verify-registers", "what roles ask for, while the branches still name them"),
        ),
        Level.LLVM: (
            Step("convert-ptx-ops-to-asm", "the one place where inline assembly is written"),
            Step("convert-math-to-intrinsics", "upstream's conversion would call libdevice for these"),
            Step(
                "gpu.module(convert-scf-to-cf,convert-gpu-to-nvvm,convert-nvvm-to-llvm,convert-to-llvm,"
                "reconcile-unrealized-casts,canonicalize,cse)",
                "the device side only: the host side stays readable for the manifest and the interpreter",
                "lower-device-to-llvm",
            ),
            Step("pass-tensor-maps-by-value", "the attributes do not verify before there is an llvm.func"),
            Step("keep-loops-rolled", "once there are branches that can hold the annotation"),
        ),
        Level.PTX: (
            Step(
                "nvvm-attach-target{chip=$chip features=$features O=3},gpu-module-to-binary{format=isa}",
                "upstream's NVPTX backend",
                "emit-ptx",
            ),
        ),
    }
)

# Run before anything else where a compilation is entered from a dumped level: it may have been edited.
ENTRY_STEP = Step(
    "verify-schedule,verify-mbarriers,verify-smem-offsets,verify-registers",
    "what was edited is held to the same rules as what was lowered",
    "verify-entry",
)
