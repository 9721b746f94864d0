"""The schedule of a kernel as data: its parts with reasons, the candidates that lost, and what `explain` found."""

from itertools import islice
from typing import Any

from lowtide.compiler.contexts import make_context, parse_source
from lowtide.dialects import tile
from lowtide.dialects.levels import Level, target_of
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import Error
from lowtide.inspection.explain.explanation import Explanation, choice_of, explain_ir, swizzle_candidates
from lowtide.inspection.explore.steps import Steps
from lowtide.passes.base import walk
from lowtide.passes.schedules.choice.asked import expected_in
from lowtide.passes.schedules.choice.choice import estimated_cycles, ranked
from lowtide.passes.support.problem.problem import Problem

_CANDIDATES = 24


def explanation_of(steps: Steps, notes: list[str]) -> Explanation | None:
    """What `explain` finds for the text of level `epilogue`. If there is no such text, or `explain` refuses it, the
    result is None, and a note says so."""
    step = steps.last(str(Level.EPILOGUE))
    if step is None:
        notes.append("registers, conflicts and bytes are left out: they are counted at level epilogue")
        return None
    try:
        return explain_ir(step.text)
    except Error as error:
        notes.append(f"registers, conflicts and bytes are left out: {str(error).splitlines()[0]}")
        return None


def schedule_of(steps: Steps, found: Explanation | None, notes: list[str]) -> dict[str, Any]:
    """`explain`, as `lowtide explain --json` prints it, or null; `reasons` by field; `swizzles`: the conflicts of each
    candidate for a field; and `candidates`: the cheapest legal schedules, each with its estimated `cycles` and the
    `fields` in which it differs from the kernel's (null: it leaves the field open). They are empty if the schedule was
    not chosen from a problem in these steps."""
    limit = None if found is None else found.target.smem_bytes_per_cta
    data: dict[str, Any] = {
        "explain": None,
        "reasons": {},
        "swizzles": {},
        "candidates": [],
        "shared_memory_limit": limit,
    }
    if found is not None:
        data["explain"] = found.to_json()
    first = steps.shown[0]
    if first.level != str(Level.PROBLEM):
        notes.append("reasons of the schedule are left out: it was chosen before the first of these steps")
        return data
    try:
        choice = choice_of(first.text, () if found is None else found.passed_over)
        if choice is not None:
            own = choice.schedule if found is None else found.schedule
            data["reasons"] = dict(choice.reasons)
            data["swizzles"] = swizzle_candidates(choice)
            data["candidates"] = _candidates(first.text, own)
            if own != choice.schedule:
                notes.append(
                    "the kernel has another schedule than its problem leads to: reasons are those of the latter"
                )
    except Error as error:
        notes.append(f"reasons of the schedule are left out: {str(error).splitlines()[0]}")
    return data


def _candidates(problem_text: str, own: Schedule) -> list[dict[str, Any]]:
    with make_context() as context:
        module = parse_source(problem_text, context)
        (gemm, *_), target = walk(module, tile.GemmOp), target_of(module)
        problem = Problem.of(gemm).expecting(expected_in(module))
        given = Schedule() if gemm.schedule is None else Schedule.of(gemm.schedule)
        found: list[dict[str, Any]] = []
        for choice in islice(ranked(problem, target, given), _CANDIDATES):
            cycles, fields = round(estimated_cycles(choice, problem, target)), _differences(choice.schedule, own)
            # The product with swapped operands often has the same estimate: then it is not shown.
            if "grid.operands" not in fields or cycles not in [other["cycles"] for other in found]:
                found.append({"cycles": cycles, "fields": fields})
        return sorted(found, key=lambda one: one["cycles"])


def _differences(one: Schedule, other: Schedule) -> dict[str, str | None]:
    """The fields of one that differ, None for those that only the other has."""
    texts, others = one.texts(), other.texts()
    paths = dict.fromkeys((*texts, *others))
    return {path: texts.get(path) for path in paths if texts.get(path) != others.get(path)}
