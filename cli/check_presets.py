"""`lowtide check --all-presets`: checks every preset and prints a row for each."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from lowtide.cli.output import table
from lowtide.compiler.compile import compile_anew
from lowtide.compiler.presets import LADDERS
from lowtide.compiler.whole_files import write_whole
from lowtide.errors import Error
from lowtide.markdown import markdown
from lowtide.runtime.files import read_json
from lowtide.verification.checking.check import check as check_subject
from lowtide.verification.checking.check_result import Branches, CheckResult
from lowtide.verification.checking.subjects import of_kernel
from lowtide.verification.checking.texts import duration
from lowtide.verification.checking.trials import Finding

HEADINGS = (
    *("preset", "target", "types", "conditions met", "branch sides", "in PTX"),
    *("runs", "levels", "orders", "time", "result"),
)
_NUMBERS = (3, 4, 5, 6, 7, 9)


@dataclass(frozen=True)
class PresetCheck:
    """The result of checking a preset: its row of the table, the guilty step in words, and the details as plain
    data."""

    name: str
    ok: bool
    row: tuple[str, ...]
    guilty: str
    found: Mapping[str, Any]

    @property
    def failed(self) -> bool:
        """Whether the interpreter failed, with no error found before that."""
        return not self.guilty and any(run["finding"] == Finding.failed.value for run in self.found["runs"])

    @classmethod
    def of(cls, name: str, target: str, dtype: str, result: CheckResult) -> "PresetCheck":
        guilty = "" if result.guilty is None else str(result.guilty)
        return cls(name, result.ok, (name, target, dtype, *_cells(result)), guilty, result.as_json())


def _cells(result: CheckResult) -> tuple[str, ...]:
    rows = [row for verified in result.verified for row in verified.conditions]
    met = f"{sum(row.shape is not None for row in rows)} of {len(rows)}"
    sides = [_sum([verified.branches for verified in result.verified])]
    sides += [_sum([verified.branches_of_ptx for verified in result.verified])]
    ran = sum(count > 0 for count in result.levels.values())
    levels = str(ran) if ran == len(result.levels) else f"{ran} of {len(result.levels)}"
    held = (result.orders or "this one", duration(result.seconds), result.verdict.partition(":")[0])
    return (met, *sides, str(len(result.outcomes)), levels, *held)


def _sum(branches: list[Branches]) -> str:
    return f"{sum(each.taken for each in branches)} of {sum(each.possible for each in branches)}"


@dataclass(frozen=True)
class Options:
    """How presets are checked: in `dtype`, or each in its first type."""

    dtype: str | None
    layout: str | None
    budget: float
    seed: int


def read_journal(path: Path, options: Options) -> dict[str, PresetCheck]:
    """The presets in a journal; none if the file does not exist. Raises Error for a journal of other options."""
    if not path.exists():
        return {}
    try:
        held = read_json(path)
        found = {name: PresetCheck(**{**each, "row": tuple(each["row"])}) for name, each in held["presets"].items()}
        given = held["options"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Error(f"{path} is not a journal of lowtide check: {error}; name another file [check-journal]") from None
    if given != asdict(options):
        raise Error(
            f"{path} is of a check with {given}, not {asdict(options)}; use the same options, or another file"
            " [journal-options]"
        )
    return found


def checks(
    options: Options, jobs: int | None, journal: Path | None, update: Callable[[str], None]
) -> Iterator[PresetCheck]:
    """The presets that support the type, compiled for any extents; those in the journal are not checked again."""
    known = {} if journal is None else read_journal(journal, options)
    for name, preset in LADDERS.items():
        if options.dtype is not None and options.dtype not in preset.dtypes:
            continue
        if name not in known:
            known[name] = _check(name, options, jobs, update)
            if journal is not None:
                presets = {each: asdict(check) for each, check in known.items()}
                held = {"options": asdict(options), "presets": presets}
                write_whole(journal, json.dumps(held, ensure_ascii=False))
        yield known[name]


def _check(name: str, options: Options, jobs: int | None, update: Callable[[str], None]) -> PresetCheck:
    preset = LADDERS[name]
    spec = preset.spec(options.dtype, **({"layout": options.layout} if options.layout else {}))
    update(f"{name}: compiling")
    subject = of_kernel(compile_anew(spec, preset.target, preset.schedule))
    result = check_subject(
        subject,
        budget=options.budget,
        jobs=jobs,
        seed=options.seed,
        on_progress=lambda done, text: update(f"{name}: {done:.0%}, {text}"),
    )
    typer.echo(f"{name}: {result.verdict}, in {duration(result.seconds)}", err=True)
    return PresetCheck.of(name, preset.target, spec.a, result)


def report(done: list[PresetCheck]) -> str:
    """Print all rows, and each guilty step. Returns the table as Markdown."""
    rows = [check.row for check in done]
    table(HEADINGS, rows, numbers=_NUMBERS)
    for check in done:
        if check.guilty:
            typer.echo(f"\n{check.name}\n{check.guilty}")
    return markdown(HEADINGS, rows) + "\n"
