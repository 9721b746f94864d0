"""A custom pass in a pipeline with the others, and a check that it preserves D.

    python examples/own_pass.py

README.md describes how to add this pass to the package: a file in passes/, a line in its folder's STEPS, and tests.
"""

import math
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlir import ir
from mlir.dialects import arith

import lowtide as lt
from lowtide import interpreter
from lowtide.compiler.contexts import make_context
from lowtide.compiler.pass_pipeline import parse_pipeline, run_pipeline
from lowtide.dialects import tile
from lowtide.dialects.levels import Level, target_of
from lowtide.passes.base import Pass, walk
from lowtide.passes.pipeline import REGISTRY
from lowtide.targets import Target


@dataclass(frozen=True)
class MergeClamps(Pass):
    """Merges chains of arith.maximumf, and of arith.minimumf, in the epilogue."""

    name: ClassVar[str] = "merge-clamps"
    needs: ClassVar[Level] = Level.CTA
    gives: ClassVar[Level] = Level.CTA

    def run(self, module: ir.Module, target: Target) -> None:
        for store in walk(module, tile.StoreOp):
            for lower in walk(store, arith.MaximumFOp):
                _merge(lower, sign=1)
            for upper in walk(store, arith.MinimumFOp):
                _merge(upper, sign=-1)


def _merge(outer: arith.MaximumFOp | arith.MinimumFOp, sign: int) -> None:
    """Make `outer` read the input of the clamp before it, with the larger bound (sign 1) or the smaller (sign -1)."""
    inner = outer.lhs.owner
    if isinstance(inner, ir.Block) or inner.name != outer.operation.name:
        return
    first, second = _bound(inner.operands[1]), _bound(outer.rhs)
    if first is None or second is None:
        return
    # +0 is larger than -0 here, as it is for arith.maximumf.
    if (sign * first, sign * math.copysign(1.0, first)) > (sign * second, sign * math.copysign(1.0, second)):
        outer.operation.operands[1] = inner.operands[1]
    outer.operation.operands[0] = inner.operands[0]


def _bound(value: ir.Value) -> float | None:
    """The constant; None for NaN and for other values."""
    owner = value.owner
    if isinstance(owner, ir.Block) or not isinstance(owner.opview, arith.ConstantOp):
        return None
    bound = float(ir.FloatAttr(owner.opview.value).value)
    return None if math.isnan(bound) else bound


def relu_and_clamp(acc):
    return lt.clamp(lt.relu(acc), -1, 6)


def main() -> None:
    spec = lt.GemmSpec(m=200, n=140, k=64, a="f16", b="f16", d="f32", epilogue=relu_and_clamp)
    problem = lt.compile_gemm(spec, target="sm_80").levels["problem"]

    # lowtide-opt knows the registered passes …
    command = [sys.executable, "-m", "lowtide.cli.opt_tool", "-", "-p", "tile-to-ctas,cse"]
    before = subprocess.run(command, input=problem, capture_output=True, text=True, check=True).stdout

    # … and a pipeline takes any registry.
    with make_context() as context:
        module = ir.Module.parse(before)
        pipeline = parse_pipeline("merge-clamps,cse", context, (*REGISTRY, MergeClamps))
        run_pipeline(pipeline, module, target_of(module))
        after = str(module)
    for title, text in (("before", before), ("after", after)):
        clamps = [line.strip() for line in text.splitlines() if "arith.maximumf" in line or "arith.minimumf" in line]
        print(title, *clamps, sep="\n  ")

    # Integers, exactly: D is equal, bit for bit, at both levels and at the levels lowered from the edited one.
    rng = np.random.default_rng(0)
    inputs = {name: rng.integers(-3, 4, shape) for name, shape in {"a": (200, 64), "b": (140, 64)}.items()}
    expected = np.clip(inputs["a"] @ inputs["b"].T, 0, 6)
    for text in (before, after, lt.compile_ir(after).levels["nvvm"]):
        assert np.array_equal(interpreter.interpret(text, inputs, domain="exact"), expected)
    print("same D before it, after it, and at level nvvm")


if __name__ == "__main__":
    main()
