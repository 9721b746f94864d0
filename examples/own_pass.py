"""A pass of one's own, in a pipeline with the others, and a check that it changes no number.

    python examples/own_pass.py

To keep such a pass: a file in passes/, a line in passes/__init__.py (then `lowtide-opt` knows it), a line in
passes/pipeline.py (then the driver runs it), and its tests; see README.md.
"""

import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir

import lowtide as lt
from lowtide import interpreter
from lowtide.compiler.contexts import make_context
from lowtide.compiler.pass_pipeline import parse_pipeline, run_pipeline
from lowtide.dialects import tile
from lowtide.dialects.levels import Level, target_of
from lowtide.dialects.tile.fields import grouped
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.pipeline import REGISTRY
from lowtide.targets import Target


@dataclass(frozen=True)
class RasterizeInBands(Pass):
    """Hands out work tiles in bands of `rows` tile rows, and says so in the kernel's schedule."""

    name: ClassVar[str] = "rasterize-in-bands"
    needs: ClassVar[Level] = Level.CTA
    gives: ClassVar[Level] = Level.CTA
    rows: int = 4

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in walk(module, tile.KernelOp):
            if self.rows < 1:
                raise Refusal(kernel, f"a band of {self.rows} tile rows; take at least 1")
            for loop in walk(kernel, tile.WorkTilesOp):
                loop.operation.attributes["order"] = tile.RasterAttr.get(tile.RasterKind.grouped, self.rows)
            # Kernel and schedule must say the same: verify-schedule holds them to it.
            schedule = lt.Schedule.of(kernel.attributes["schedule"]).with_(order=grouped(self.rows))
            kernel.attributes["schedule"] = schedule.attribute()


def main() -> None:
    spec = lt.GemmSpec(m=200, n=140, k=64, a="f16", b="f16", d="f32")
    problem = lt.compile_gemm(spec, schedule="grid.tile = [64, 64], k = 32, stages = 2").levels["problem"]

    # lowtide-opt knows the passes that are registered …
    command = [sys.executable, "-m", "lowtide.compiler.opt_tool", "-", "-p", "tile-to-ctas,canonicalize,cse"]
    before = subprocess.run(command, input=problem, capture_output=True, text=True, check=True).stdout

    # … and a pipeline takes any registry.
    with make_context() as context:
        module = ir.Module.parse(before)
        pipeline = parse_pipeline("rasterize-in-bands{rows=2},canonicalize,cse", context, (*REGISTRY, RasterizeInBands))
        run_pipeline(pipeline, module, target_of(module))
        after = str(module)
    print("\n".join(line.strip() for line in after.splitlines() if "tile.work_tiles" in line))

    # Integers, exactly: the two levels give the same D bit for bit, and so does what the edited level becomes.
    rng = np.random.default_rng(0)
    inputs = {name: rng.integers(-3, 4, shape) for name, shape in {"a": (200, 64), "b": (140, 64)}.items()}
    expected = inputs["a"] @ inputs["b"].T
    for text in (before, after, lt.compile_ir(after).levels["nvvm"]):
        assert np.array_equal(interpreter.interpret(text, inputs, domain="exact"), expected)
    print("same D before it, after it, and at level nvvm")


if __name__ == "__main__":
    main()
