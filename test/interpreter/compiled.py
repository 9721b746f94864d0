"""Compiled GEMMs, pass by pass, and small integer inputs for them: what tests of the passes and of the levels share."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from mlir import ir
from numpy.typing import NDArray

import lowtide as lt
from lowtide import targets
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.pass_pipeline import parse_pipeline, run_element
from lowtide.compiler.problem_ir import problem_text
from lowtide.dialects.levels import Level
from lowtide.elements import element_type
from lowtide.interpreter import Loaded
from lowtide.passes.pipeline import STEPS

TARGET = targets.get("sm_80")

# The last pass that most tests ask for; what follows it lowers the device side to the LLVM dialect.
LAST_PASS = "convert-math-to-intrinsics"


class Printed:
    """A module as it is now, whose text is made when it is read: printing takes as long as all passes do."""

    def __init__(self, module: ir.Module) -> None:
        self._op = module.operation.clone()

    @cached_property
    def text(self) -> str:
        return str(self._op.get_asm(assume_verified=True))  # each pass has just verified it


@dataclass(frozen=True)
class Step:
    """One pass of a compilation, and the module before and after it."""

    level: Level
    name: str
    first: Printed
    last: Printed

    @property
    def before(self) -> str:
        """The module's text before the pass."""
        return self.first.text

    @property
    def after(self) -> str:
        """The module's text after the pass."""
        return self.last.text


def spec(layout: str = "tn", dtype: str = "bf16", epilogue: Any = None, **changes: Any) -> lt.GemmSpec:
    """A GEMM of one dtype, extents open."""
    return lt.GemmSpec(**{"a": dtype, "b": dtype, "d": dtype, "layout": layout, "epilogue": epilogue} | changes)


def steps_of(spec: lt.GemmSpec, schedule: str, target: targets.Target = TARGET, last: str = LAST_PASS) -> list[Step]:
    """Every pass that compiles the spec, upstream's too, in order, down to `last`."""
    context = make_context()
    module = parse_text(problem_text(spec, target, lt.Schedule.parse(schedule)), context, "problem")
    steps: list[Step] = []
    before = Printed(module)
    for level, entries in STEPS.items():
        for element in (e for entry in entries for e in parse_pipeline(entry.text(target), context)):
            run_element(element, module, target)
            after = Printed(module)
            steps.append(Step(level, str(element), before, after))
            before = after
            if steps[-1].name == last:
                return steps
    raise AssertionError(f"{last} is not in the table of steps")


def levels_of(spec: lt.GemmSpec, schedule: str, target: str = TARGET.name) -> dict[str, str]:
    """The last text of each level, from problem to the LLVM dialect."""
    return {str(level): text for level, text in last_texts(steps_of(spec, schedule, targets.get(target))).items()}


def last_texts(steps: list[Step]) -> dict[Level, str]:
    """The last text of each level."""
    return {level: step.after for level, step in {step.level: step for step in steps}.items()}


@lru_cache(maxsize=8)
def loaded(text: str, ptx: str | None = None) -> Loaded:
    """A module for `interpret`, parsed and decoded once for runs that follow one another."""
    return Loaded(text, ptx)


def ready(module: Any) -> Any:
    """What `interpret` takes, `loaded` if it is a text."""
    return loaded(module) if isinstance(module, str) else module


def level_of(compiled: CompiledKernel, level: str) -> Loaded:
    """What `interpret` takes of a compiled kernel to run it at a level."""
    return loaded(compiled.levels["llvm"], compiled.ptx) if level == "ptx" else loaded(compiled.levels[level])


def aligned(rng: np.random.Generator, rows: int, columns: int, padding: int = 8, unit: int = 8) -> NDArray[Any]:
    """Small integers, rows at multiples of `unit` elements, 16 bytes of a 16-bit type, some way apart."""
    stride = -(-columns // unit) * unit + -(-padding // unit) * unit
    return rng.integers(-3, 4, (rows, stride))[:, :columns]


def inputs_of(
    spec: lt.GemmSpec, m: int, n: int, k: int, seed: int = 0, anywhere: bool = False, full_padding: int = 3
) -> dict[str, Any]:
    """a, b, d and the epilogue's operands: small integers, rows padded; full operands by `full_padding` elements.

    `anywhere`: rows of a, b and d are as far apart as they are long, which may be odd.
    """
    rng = np.random.default_rng(seed)
    shapes = {
        "a": (m, k) if spec.layout[0] == "t" else (k, m),
        "b": (n, k) if spec.layout[1] == "n" else (k, n),
        "d": (m, n) if spec.d_order == "row" else (n, m),
    }
    units = {name: max(8, 16 // element_type(getattr(spec, name)).bytes) for name in shapes}
    given: dict[str, Any] = {
        name: rng.integers(-3, 4, shape) if anywhere else aligned(rng, *shape, unit=units[name])
        for name, shape in shapes.items()
    }
    for operand in spec.operands:
        shape = operand.shape(m, n, k)
        if operand.kind.is_block_scale:
            given[operand.name] = aligned(rng, *shape, unit=4)
            continue
        shape = shape[::-1] if spec.d_order == "column" else shape
        extents = (*shape[:-1], shape[-1] + full_padding) if len(shape) == 2 else shape
        values = rng.integers(-3, 4, extents)
        given[operand.name] = int(values) if not shape else values[..., : shape[-1]]
    return given


def expected(spec: lt.GemmSpec, inputs: dict[str, Any]) -> NDArray[Any]:
    """D by float64, which is exact on small integers."""
    return lt.reference(spec, **{name: value for name, value in inputs.items() if name != "d"})
