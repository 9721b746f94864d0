"""`explain`: the reasons for a kernel's schedule, and the cost of its memory accesses.

The schedule and its reasons come from schedule choice; everything else is derived from the kernel's IR at level
`epilogue`.
docs/explain.md describes `Explanation.to_json`.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from mlir import ir

from lowtide.compiler import attempts, driver, native
from lowtide.compiler.contexts import make_context, parse_source, parse_text
from lowtide.compiler.driver import Lowered, Progress
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.ptxas import assemble
from lowtide.compiler.ptxas_program import find_ptxas
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.compiler.summation import summation_of
from lowtide.dialects import tile
from lowtide.dialects.levels import Level, level_of, target_of
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import CompileError, Error, IRError, PassError, ScheduleError
from lowtide.inspection.explain.accesses import Accesses, accesses_of
from lowtide.inspection.explain.as_json import accesses_json, composition_json, shares_json
from lowtide.inspection.explain.composition import Composition, composition_of
from lowtide.inspection.explain.packing import Packing, packing_of
from lowtide.inspection.timeline.predicted import predicted_timeline
from lowtide.inspection.timeline.predicted_shares import predicted_shares
from lowtide.inspection.timeline.shares import Predicted
from lowtide.inspection.timeline.timeline import Timeline
from lowtide.passes.base import walk
from lowtide.passes.schedules.choice.asked import PassedOver, choice_for, passed_over_in, set_passed_over
from lowtide.passes.schedules.choice.choice import Choice
from lowtide.passes.schedules.cost.spans import GridSpans, spans_of
from lowtide.passes.support.problem.kernels import gemm_kernels, launches_of, problem_of, schedule_of
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

FORMAT = 1


@dataclass(frozen=True)
class Resources:
    """Resources per CTA, and CTAs per SM. `shared_memory` is in bytes; the rest is per thread, from ptxas, None without
    it."""

    threads: int
    shared_memory: int
    ctas_per_sm: int
    registers: int | None
    spill_stores: int | None
    spill_loads: int | None
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """The result of `explain`.

    `choice` is None if the schedule was taken from a kernel. `target_reason` is empty if the target was taken from a
    file.
    """

    spec: GemmSpec
    whole: bool
    target: Target
    entered_at: str
    schedule: Schedule
    choice: Choice | None
    summation: str | None
    resources: Resources
    composition: Composition
    accesses: Accesses
    packing: tuple[Packing, ...]
    spans: GridSpans | None = None
    """Where the estimated time goes; None for kernels whose estimate has no terms."""
    target_reason: str = ""
    passed_over: tuple[PassedOver, ...] = ()

    @property
    def predicted(self) -> Predicted | None:
        """The predicted time, and the share of each resource; None as for `spans`."""
        return None if self.spans is None else predicted_shares(self.spans, self.target.clock_mhz)

    def timeline(self) -> Timeline:
        """The predicted timeline of a CTA. Raises Error for kernels whose estimate has no terms, and for more K steps
        than a timeline can show."""
        if self.spans is None:
            raise Error(
                "the cost model has no terms for kernels with a producer whose sums are promoted or whose operands are"
                " converted, so there is no timeline; leave out --trace [timeline-terms]"
            )
        extents = "x".join(str(extent or "?") for extent in (self.spec.m, self.spec.n, self.spec.k))
        title = f"predicted, {extents} for {self.target.name}"
        return predicted_timeline(self.schedule, self.spans, self.target.clock_mhz, title)

    def to_json(self) -> dict[str, Any]:
        """Plain data, in the form of docs/explain.md."""
        spec = self.spec
        return {
            "format": FORMAT,
            "problem": {
                **{name: getattr(spec, name) for name in ("m", "n", "k", "a", "b", "d", "acc", "layout", "d_order")},
                "batched": spec.is_batched,
                "batch": spec.batch if isinstance(spec.batch, int) else None,
                "operands": [
                    {"name": operand.name, "kind": operand.kind.value, "dtype": operand.dtype}
                    for operand in spec.operands
                ],
            },
            "target": self.target.name,
            "target_reason": self.target_reason or None,
            "entered_at": self.entered_at,
            "schedule": {"text": str(self.schedule), "fields": self.schedule.texts()},
            "reasons": None if self.choice is None else dict(self.choice.reasons),
            "passed_over": [{"schedule": str(passed.schedule), "why": passed.why} for passed in self.passed_over],
            "swizzle_candidates": {} if self.choice is None else swizzle_candidates(self.choice),
            "summation": self.summation,
            "resources": asdict(self.resources) | {"warnings": list(self.resources.warnings)},
            "packing": [asdict(packing) for packing in self.packing],
            "predicted": None if self.predicted is None else shares_json(self.predicted),
            "kernel": composition_json(self.composition),
            **accesses_json(self.accesses),
        }


def explain_spec(
    spec: GemmSpec, target: str | None = None, schedule: Schedule | None = None, *, on_progress: Progress | None = None
) -> Explanation:
    """Compile a problem, and explain the result. `target` as in `compile_gemm`. Raises the errors of compiling."""
    chosen = native.choose(target)
    text = problem_text(spec, chosen.target, schedule)
    return replace(explain_ir(text, chosen.name, on_progress=on_progress), target_reason=chosen.reason)


def explain_ir(
    source: str | os.PathLike[str], target: str | None = None, *, on_progress: Progress | None = None
) -> Explanation:
    """Explain IR of level `problem` to `epilogue`: text, or the path of a dump, edited or not.

    A kernel of level `epilogue` that passes refuse is still explained, with the refusal in `resources.warnings`. Raises
    the other errors of compiling, and IRError for a later level or an incomplete kernel.
    """
    with make_context() as context:
        origin = parse_source(source, context)
        entered_at = level_of(origin)
        if entered_at > Level.EPILOGUE:
            raise IRError(
                f"level {entered_at} no longer has tiled accesses; explain a dump of level epilogue or earlier"
                " [explained-level]"
            )
        found = spec_of(origin)
        # The file itself if it is of that level, because its locations are then known.
        as_given = entered_at is Level.EPILOGUE and driver.AFTER_ATTRIBUTE not in origin.operation.attributes
        lowered = _lowered(source, target, on_progress, may_be_refused=as_given)
        if isinstance(lowered, Lowered):
            settled = lowered.target
            module = (
                origin if as_given else parse_text(lowered.levels[str(Level.EPILOGUE)], context, "<level epilogue>")
            )
        else:
            settled, module = target_of(origin), origin
        passed = passed_over_in(module)
        kernel = _only(tile.KernelOp, gemm_kernels(module))
        launch = _only(tile.LaunchOp, launches_of(module, kernel))
        schedule, accesses = schedule_of(kernel), accesses_of(module, in_file=as_given)
        spec = found.spec
        own = spec if not problem_of(kernel).swapped else replace(spec, m=spec.n, n=spec.m)  # in the kernel's terms
        resources = _resources(launch, lowered, settled)
        ctas_per_sm = resources.ctas_per_sm
        return Explanation(
            spec=found.spec,
            whole=found.whole,
            target=settled,
            entered_at=str(entered_at),
            schedule=schedule,
            choice=_choice(origin, settled, passed),
            summation=None if (order := summation_of(module)) is None else str(order),
            resources=resources,
            composition=composition_of(kernel, launch, own, schedule, settled, ctas_per_sm, accesses.products),
            accesses=accesses,
            packing=packing_of(found.spec, schedule, problem_of(kernel)),
            spans=spans_of(schedule, _estimated(kernel, origin), settled) if isinstance(lowered, Lowered) else None,
            passed_over=passed,
        )


def choice_of(source: str | os.PathLike[str], passed: Sequence[PassedOver] = ()) -> Choice | None:
    """The choice of a schedule for a problem: IR of level `problem` with its target, as text or the path of a dump.
    `passed`: the choices that were dropped. None for IR of a later level. Raises the errors of parsing and choosing."""
    with make_context() as context:
        module = parse_source(source, context)
        return _choice(module, target_of(module), passed)


def _lowered(
    source: str | os.PathLike[str], target: str | None, on_progress: Progress | None, *, may_be_refused: bool
) -> Lowered | str:
    """The compiled kernel; or, if it may be refused, the reason."""
    try:
        return attempts.compile_ir(source, target=target, on_progress=on_progress)
    except (ScheduleError, PassError, CompileError) as refusal:
        if not may_be_refused:
            raise
        return str(refusal).splitlines()[0]


def _estimated(kernel: tile.KernelOp, origin: ir.Module) -> Problem:
    """The problem of a kernel. Only a tile.gemm has the number of functions of the epilogue."""
    gemms = walk(origin, tile.GemmOp)
    return replace(problem_of(kernel), functions=Problem.of(gemms[0]).functions if gemms else 0)


def _choice(origin: ir.Module, target: Target, passed: Sequence[PassedOver]) -> Choice | None:
    """The choice of a problem's schedule from its given fields, without dropped schedules; None for a kernel that has
    its own."""
    gemms = walk(origin, tile.GemmOp)
    if not gemms:
        return None
    set_passed_over(origin, passed)
    return choice_for(gemms[0], origin, target)


OpT = TypeVar("OpT", bound=ir.OpView)


def _only(op_class: type[OpT], found: list[OpT]) -> OpT:
    if len(found) != 1:
        raise IRError(
            f"only modules with one {op_class.OPERATION_NAME} are explained; this one has {len(found)}"
            " [explained-alone]"
        )
    return found[0]


def _resources(launch: tile.LaunchOp, lowered: Lowered | str, target: Target) -> Resources:
    """`lowered` is the reason if there is no code."""
    ptx, refused = (lowered.ptx, ()) if isinstance(lowered, Lowered) else (None, (f"not compiled: {lowered}",))
    assembly = None if ptx is None or find_ptxas() is None else assemble(ptx, target, allow_spills=True)
    threads, shared_memory = (int(ir.IntegerAttr(value).value) for value in (launch.threads, launch.shared_memory))
    registers = None if assembly is None else assembly.registers
    return Resources(
        threads=threads,
        shared_memory=shared_memory,
        ctas_per_sm=target.ctas_per_sm(threads, shared_memory, registers or 1),
        registers=registers,
        spill_stores=None if assembly is None else assembly.spill_stores,
        spill_loads=None if assembly is None else assembly.spill_loads,
        warnings=refused if assembly is None else assembly.warnings,
    )


def swizzle_candidates(choice: Choice) -> dict[str, dict[str, dict[str, int]]]:
    """For each chosen swizzle field: candidate → access → ways of its conflict."""
    return {
        field: {
            "<{},{},{}>".format(*bits): {name: conflict.ways for name, conflict in found.items()}
            for bits, found in decided.counts.items()
        }
        for field, decided in choice.swizzles.items()
    }
