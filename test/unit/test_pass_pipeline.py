"""The pass base class, the registry, the table of steps, and pipelines as text."""

import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from mlir import ir

from lowtide import passes, targets
from lowtide.compiler.contexts import make_context
from lowtide.compiler.pass_pipeline import UpstreamFailure, parse_pipeline, run_pipeline
from lowtide.dialects import tile
from lowtide.dialects.diagnostics import Diagnostics
from lowtide.dialects.levels import Level, level_of
from lowtide.errors import IRError, PassError, ScheduleError
from lowtide.passes import pipeline as table
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.pipeline import ENTRY_STEP, STEPS
from lowtide.targets import Target

SM_80 = targets.get("sm_80")
KERNEL = "tile.kernel @k() {\n  tile.return\n}\n"


@dataclass(frozen=True)
class RenameKernels(Pass):
    name: ClassVar[str] = "rename-kernels"
    needs: ClassVar[Level] = Level.CTA
    gives: ClassVar[Level] = Level.SMEM
    times: int = 1
    loud: bool = False
    suffix: str = "x"
    extents: tuple[int, ...] = ()

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in walk(module, tile.KernelOp):
            name = ir.StringAttr(kernel.sym_name).value + self.suffix * self.times
            kernel.attributes["sym_name"] = ir.StringAttr.get(name)


@dataclass(frozen=True)
class Refuse(Pass):
    name: ClassVar[str] = "refuse"

    def run(self, module: ir.Module, target: Target) -> None:
        for op in walk(module, tile.ReturnOp):
            try:
                raise ScheduleError("3 stages do not fit, take 2")
            except ScheduleError as error:
                raise Refusal(op, str(error)) from error


@dataclass(frozen=True)
class RefusePlainly(Pass):
    name: ClassVar[str] = "refuse-plainly"

    def run(self, module: ir.Module, target: Target) -> None:
        raise Refusal(walk(module, tile.ReturnOp)[0], "no")


@dataclass(frozen=True)
class BreakIr(Pass):
    name: ClassVar[str] = "break-ir"

    def run(self, module: ir.Module, target: Target) -> None:
        walk(module, tile.ReturnOp)[0].operation.erase()


@dataclass(frozen=True)
class Crash(Pass):
    name: ClassVar[str] = "crash"

    def run(self, module: ir.Module, target: Target) -> None:
        raise KeyError("slot")


REGISTRY = (RenameKernels, Refuse, RefusePlainly, BreakIr, Crash)


def parse(text: str = KERNEL) -> ir.Module:
    return ir.Module.parse(text, make_context())


def run(pipeline: str, module: ir.Module) -> None:
    run_pipeline(parse_pipeline(pipeline, module.context, REGISTRY), module, SM_80)


def test_options_reach_the_pass_and_print_back() -> None:
    module = parse()
    text = "rename-kernels{times=2 loud=true suffix=ab extents=1,2}"
    (element,) = parse_pipeline(text, module.context, REGISTRY)
    assert element == RenameKernels(times=2, loud=True, suffix="ab", extents=(1, 2))
    assert str(element) == text
    run(text, module)
    assert "@kabab" in str(module)


def test_ours_and_upstream_run_in_the_order_written() -> None:
    module = parse("tile.kernel @k() {\n  %c = arith.constant 1 : index\n  tile.return\n}")
    order: list[str] = []
    elements = parse_pipeline("rename-kernels, canonicalize ,rename-kernels,tile.kernel(cse)", module.context, REGISTRY)
    run_pipeline(elements, module, SM_80, after=lambda element: order.append(f"{element} {'arith' in str(module)}"))
    assert order == ["rename-kernels True", "canonicalize False", "rename-kernels False", "tile.kernel(cse) False"]
    assert "@kxx" in str(module)


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            "rename-kernel",
            r"unknown pass 'rename-kernel': .* did you mean 'rename-kernels'"
            r".*\[unknown-pass\]",
        ),
        ("canonicalise", "did you mean 'canonicalize'"),
        ("zzz", "Lowtide's are rename-kernels, refuse"),
        (
            "rename-kernels{time=2}",
            r"no option 'time'; its options: times, loud, suffix, extents; did you mean 'times'.*\[pass-option\]",
        ),
        ("rename-kernels{times=two}", r"option times of rename-kernels takes an integer, not 'two'.*\[option-value\]"),
        ("rename-kernels{loud=loud}", r"true or false.*\[option-value\]"),
        ("rename-kernels{extents=1,b}", "takes integers with commas between"),
        ("refuse{x=1}", r"none.*\[pass-option\]"),
        ("rename-kernels(cse)", r"\[pass-options\]"),
        ("gpu.module(rename-kernels)", r"take it out of gpu.module.*\[pass-nested\]"),
        ("gpu.modul(cse)", r"there is no op 'gpu.modul'.*\[pass-anchor\]"),
        ("canonicalize{foo=1}", r"no such option foo.*\[pipeline-parse\]"),
        ("cse,", r"an empty name.*\[pipeline-empty-name\]"),
        ("gpu.module(cse", r"'\(' is not closed.*\[pipeline-open\]"),
        ("cse}", r"'}' closes nothing.*\[pipeline-closes\]"),
    ],
)
def test_a_bad_pipeline_is_refused_with_the_way_out(pipeline: str, message: str) -> None:
    with pytest.raises(PassError, match=message):
        parse_pipeline(pipeline, make_context(), REGISTRY)


def test_a_pass_moves_the_module_to_the_level_it_gives() -> None:
    module = parse(f'module attributes {{tile.level = "cta"}} {{ {KERNEL} }}')
    run("rename-kernels", module)
    assert level_of(module) is Level.SMEM


def test_a_pass_refuses_a_module_of_another_level() -> None:
    module = parse(f'module attributes {{tile.level = "atoms"}} {{ {KERNEL} }}')
    with pytest.raises(PassError, match=r"rename-kernels.*cta.*atoms.*\[pass-level\]"):
        run("rename-kernels", module)


def test_a_refusal_is_an_mlir_error_at_its_op_and_keeps_the_class_of_its_cause() -> None:
    module = parse()
    with Diagnostics(module.context) as diagnostics, pytest.raises(ScheduleError) as caught:
        run("refuse", module)
    assert str(caught.value) == "-:2:3: 'tile.return': refuse: 3 stages do not fit, take 2"
    assert diagnostics.errors == ["-:2:3: refuse: 3 stages do not fit, take 2"]


def test_a_refusal_without_a_cause_is_a_pass_error() -> None:
    module = parse()
    with Diagnostics(module.context), pytest.raises(PassError, match="refuse-plainly: no"):
        run("refuse-plainly", module)


def test_what_a_pass_leaves_is_verified() -> None:
    with pytest.raises(IRError, match=r"break-ir left IR that does not verify: -:1:1: .*(?s:.*)\[ir-verifies\]"):
        run("break-ir", parse())


def test_a_fault_of_a_pass_is_named_as_one() -> None:
    with pytest.raises(PassError, match=r"crash.*KeyError: 'slot'.*\[pass-stopped\]") as caught:
        run("crash", parse())
    assert isinstance(caught.value.__cause__, KeyError)


def test_our_passes_need_a_target() -> None:
    module = parse()
    with pytest.raises(PassError, match=r"rename-kernels needs a target.*\[pass-target\]"):
        run_pipeline(parse_pipeline("rename-kernels", module.context, REGISTRY), module, None)


def test_an_upstream_pass_that_fails_says_so() -> None:
    module = parse('gpu.module @m [#nvvm.target<chip = "sm_80">] { gpu.func @k() kernel { gpu.return } }')
    with (
        Diagnostics(module.context) as diagnostics,
        pytest.raises(UpstreamFailure, match=r"gpu-module-to-binary.*\[upstream-failed\]"),
    ):
        run("gpu-module-to-binary{format=isa}", module)
    assert any("gpu.func" in message for message in diagnostics.errors)


def test_every_pass_file_is_in_the_registry_once() -> None:
    found: set[type[Pass]] = set()
    root = Path(passes.__path__[0])
    for file in root.rglob("*.py"):
        parts = file.relative_to(root).with_suffix("").parts
        module = importlib.import_module(".".join(("lowtide.passes", *parts)).removesuffix(".__init__"))
        found |= {
            value
            for value in vars(module).values()
            if inspect.isclass(value) and issubclass(value, Pass) and not inspect.isabstract(value)
        }
    assert found == set(table.REGISTRY)
    names = [kind.name for kind in table.REGISTRY]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("target", targets.KNOWN, ids=lambda target: target.name)
def test_every_step_of_a_road_parses_and_leads_where_it_stands(target: Target) -> None:
    context = make_context()
    steps = STEPS
    assert list(steps) == list(Level)
    current = Level.PROBLEM
    for level, entries in steps.items():
        assert entries, level
        assert len({step.name for step in entries}) == len(entries), "a step's name is its place"
        for step in entries:
            assert step.why and "/" not in step.name and " " not in step.name
            for element in parse_pipeline(step.text(target), context):
                if isinstance(element, Pass):
                    assert element.needs in (None, current), step.name
                    assert element.gives in (None, level), step.name
                    current = element.gives or current
        current = level
    assert parse_pipeline(ENTRY_STEP.text(target), context)


def test_every_pass_of_ours_is_on_a_road() -> None:
    context = make_context()
    used = {
        str(element).split("{")[0]
        for target in targets.KNOWN
        for entries in STEPS.values()
        for step in entries
        for element in parse_pipeline(step.text(target), context)
    }
    assert {kind.name for kind in table.REGISTRY} <= used


def ours_by_level() -> list[tuple[Level, type[Pass]]]:
    """Our passes in the order in which the table runs them, each with the level that it helps to make."""
    named = {kind.name: kind for kind in table.REGISTRY}
    steps = [(level, step) for level, entries in STEPS.items() for step in entries]
    return [(level, named[name]) for level, step in steps for name in step.pipeline.split(",") if name in named]


def test_a_pass_stands_in_the_folder_of_the_level_that_it_makes():
    for level, kind in ours_by_level():
        assert kind.__module__ == f"lowtide.passes.{level}.{kind.name.replace('-', '_')}"


def test_a_pass_that_rewrites_from_tile_to_ptx_says_which_level_it_takes_and_finds_it_in_the_table():
    # The verifiers take any level, and so does what concerns arithmetic alone.
    at = Level.PROBLEM
    for level, kind in ours_by_level():
        if level < Level.LLVM and not kind.name.startswith("verify-") and kind.name != "expand-math":
            assert kind.needs is at, kind.name
            assert kind.gives is level, kind.name
        at = level
