"""The results of a run of mutants: as JSON, and as Markdown tables for docs/verification.md."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from lowtide.dialects.levels import Level
from lowtide.errors import Error
from lowtide.markdown import markdown
from lowtide.runtime import files
from lowtide.verification.mutation.run import Result, Status
from lowtide.verification.mutation.sites import Mutant

_LEVELS = tuple(map(str, Level))


def as_json(results: Sequence[Result]) -> str:
    """`{"mutants": [{"name", "level", "schedule", "status", "detector", "why"}]}`."""
    mutants = [
        {
            "name": result.mutant.name,
            "level": result.mutant.level,
            "schedule": result.mutant.kernel,
            "status": result.status.value,
            "detector": result.detector,
            "why": result.why,
        }
        for result in results
    ]
    return json.dumps({"mutants": mutants}, indent=1, ensure_ascii=False) + "\n"


def summary(results: Sequence[Result]) -> str:
    """The numbers of killed, equivalent and surviving mutants, in one line."""
    count = Counter(result.status for result in results)
    return f"{len(results)} mutants: " + ", ".join(f"{count[status]} {status.value}" for status in Status)


def read_json(file: Path) -> list[Result]:
    """The results written by `as_json`, without the mutants' texts. Raises Error if the file is invalid."""
    try:
        found = files.read_json(file)["mutants"]
        return [_result(**one) for one in found]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise Error(f"{file} has no mutants: {error}; name a file written by --json [mutants-file]") from None


def _result(name: str, level: str, schedule: str, status: str, detector: str, why: str) -> Result:
    operator = name.partition(f"/{level}:")[2].partition(": ")[2]
    return Result(Mutant(name, schedule, level, operator, "", ""), Status(status), detector, why)


def page(results: Sequence[Result], title: str) -> str:
    """The tables, below a line with the date and the command that made them."""
    parts = [f"{title}: {summary(results)}.", "Found by, at the level of the fault:", _detectors(results)]
    parts += ["By kind of fault:", _groups(results, "fault", lambda one: one.mutant.operator)]
    parts += ["By schedule:", _groups(results, "schedule", lambda one: one.mutant.kernel)]
    equivalent = [one for one in results if one.status is Status.EQUIVALENT]
    rows = [[f"`{one.mutant.name}`", one.detector, one.why] for one in equivalent]
    if rows:
        parts += ["Equivalent:", markdown(["mutant", "check", "argument"], rows)]
    for status in (Status.SURVIVED, Status.FAILED):
        seen = [[f"`{one.mutant.name}`", one.why] for one in results if one.status is status]
        if seen:
            parts += [f"{status.value.capitalize()}:", markdown(["mutant", "what was seen"], seen)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def detector_rows(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: the number of mutants that each detector found, by level."""
    levels = [level for level in _LEVELS if any(one.mutant.level == level for one in results)]
    counts = Counter((_short(one), one.mutant.level) for one in results)
    totals = Counter(_short(one) for one in results)
    rows = [
        [name, *[str(counts[name, level] or "") for level in levels], str(total)]
        for name, total in totals.most_common()
    ]
    sums = Counter(one.mutant.level for one in results)
    rows.append(["all", *[str(sums[level]) for level in levels], str(len(results))])
    return ["found by", *levels, "all"], rows


def _detectors(results: Sequence[Result]) -> str:
    return markdown(*detector_rows(results))


def _short(result: Result) -> str:
    if result.status is not Status.KILLED:
        return f"{result.status.value}" + f": {result.detector}" * bool(result.detector)
    return result.detector


def _groups(results: Sequence[Result], heading: str, key: Callable[[Result], str]) -> str:
    """A row for each group: its mutants, by status."""
    names = list(dict.fromkeys(map(key, results)))
    rows = []
    for name in names:
        own = [one for one in results if key(one) == name]
        count = Counter(one.status for one in own)
        rows.append([name, str(len(own)), *[str(count[status] or "") for status in Status]])
    return markdown([heading, "mutants", *[status.value for status in Status]], rows)
