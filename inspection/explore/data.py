"""What a page holds, as JSON: its steps with links between their ops, its schedule, counts, pictures and a verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from lowtide.compiler.origins.pairs import COUNTED
from lowtide.dialects.levels import Level
from lowtide.errors import Error
from lowtide.inspection.explain.explanation import Explanation
from lowtide.inspection.explore.counts import Counted, counts_of
from lowtide.inspection.explore.lexer import CLASSES
from lowtide.inspection.explore.pictures import pictures_of
from lowtide.inspection.explore.sass import sass_of
from lowtide.inspection.explore.schedule import explanation_of, schedule_of
from lowtide.inspection.explore.steps import Steps
from lowtide.inspection.explore.texts import Texts
from lowtide.inspection.explore.times import times_of
from lowtide.inspection.explore.verdict import verdict_of
from lowtide.inspection.timeline.timeline import Timeline

FORMAT = 1
MOST_CHARACTERS = 24_000_000
"""Of all texts. Those of the preset sm90-fp8-blocks have 3 million."""


def page_data(
    name: str, steps: Steps, report: Mapping[str, Any] | None = None, measured: Sequence[Timeline] = ()
) -> dict[str, Any]:
    """The data of a page. `name`: of the folder or the kernel; `report`: of `lowtide check --json`. `main` has the
    numbers of the names of ops that touch memory, multiply or wait. `why_no_sass` says why there is no machine code.
    `measured`: the timelines of a trace.

    If the texts have more than `MOST_CHARACTERS`, some are left out: first steps within levels, the longest text first,
    then whole levels. Raises Error for a report that `lowtide check` did not write."""
    notes = list(steps.notes)
    epilogue = steps.last(str(Level.EPILOGUE))
    found = explanation_of(steps, notes)
    schedule = schedule_of(steps, found, notes) | {"times": times_of(found, measured, notes)}
    counts = _counts(steps, found, notes)
    pictures = [] if epilogue is None or found is None else pictures_of(epilogue.text, notes)
    steps = shortened(steps, notes)
    sass, why_no_sass = sass_of(steps)
    steps = steps if sass is None else replace(steps, shown=(*steps.shown, sass))
    texts, places = Texts(), [step.place for step in steps.shown]
    at = None if epilogue is None or epilogue.place not in places else places.index(epilogue.place)
    return {
        "format": FORMAT,
        "lowtide": version("lowtide"),
        "name": name,
        "title": name if found is None else _title(found),
        "notes": notes,
        "classes": list(CLASSES),
        "steps": texts.steps(steps.shown),
        "lines": texts.lines,
        "names": texts.names,
        "main": [at for at, name in enumerate(texts.names) if {name, name.partition(".")[0]} & COUNTED],
        "schedule": schedule,
        "counts": {"step": at, "ops": counts},
        "pictures": pictures,
        "why_no_sass": why_no_sass,
        "verdict": None if report is None else verdict_of(report, steps),
    }


def _counts(steps: Steps, found: Explanation | None, notes: list[str]) -> list[Counted]:
    step = steps.last(str(Level.EPILOGUE))
    if step is None:
        return []
    try:
        return counts_of(step.text, found)
    except Error as error:
        if found is not None:  # if there is no explanation, a note says why
            notes.append(f"counts are left out: {str(error).splitlines()[0]}")
        return []


def _title(found: Explanation) -> str:
    """`bf16 × bf16 tn 4096×4096×? to bf16 for sm_90a`; ? is an extent that is known at run time."""
    spec = found.spec
    shape = "×".join("?" if extent is None else str(extent) for extent in (spec.m, spec.n, spec.k))
    batch = f"{'?' if spec.batch is None else spec.batch} of " if spec.is_batched else ""
    return f"{spec.a} × {spec.b} {spec.layout} {batch}{shape} to {spec.d} for {found.target.name}"


def shortened(steps: Steps, notes: list[str]) -> Steps:
    """The steps, without enough of the longest texts to fit a page; a note names them. Raises Error if none is left."""
    left_out: list[str] = []
    ends = {step.level: step.place for step in steps.shown}.values()
    sizes = {step.place: len(step.text) for step in steps.shown}
    total = sum(sizes.values())
    # The longest texts first, but the end of a level after all other steps.
    for place in sorted(sizes, key=lambda place: (place in ends, -sizes[place])):
        if total <= MOST_CHARACTERS:
            break
        left_out.append(place)
        total -= sizes[place]
    if left_out:
        which = ", ".join(sorted(left_out))
        notes.append(f"left out, because the texts are longer than {MOST_CHARACTERS:,} characters: {which}")
    kept = steps.without(left_out)
    if not kept.shown:
        raise Error(
            f"no step has less than {MOST_CHARACTERS:,} characters, the most of a page; read the dumps instead"
            " [explored-length]"
        )
    return kept
