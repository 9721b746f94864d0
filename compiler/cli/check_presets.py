"""`lowtide check --all-presets`: every preset in turn, a row for each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import typer

from lowtide.compiler.bench.contest import markdown
from lowtide.compiler.checking.check import check_subject
from lowtide.compiler.checking.check_result import Branches, CheckResult
from lowtide.compiler.checking.interpretation import duration
from lowtide.compiler.checking.subjects import of_kernel
from lowtide.compiler.cli.console import table
from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.presets import LADDERS
from lowtide.compiler.spec import GemmSpec
from lowtide.elements import element_type

HEADINGS = (
    *("preset", "target", "types", "conditions met", "branch sides", "in PTX"),
    *("runs", "levels", "orders", "time", "result"),
)
_NUMBERS = (3, 4, 5, 6, 7, 9)


@dataclass(frozen=True)
class PresetCheck:
    """A preset, the types that it was compiled for, and what its check found."""

    name: str
    target: str
    dtype: str
    result: CheckResult

    def row(self) -> tuple[str, ...]:
        result = self.result
        rows = [row for verified in result.verified for row in verified.conditions]
        met = f"{sum(row.shape is not None for row in rows)} of {len(rows)}"
        sides = [_sum([verified.branches for verified in result.verified])]
        sides += [_sum([verified.branches_of_ptx for verified in result.verified])]
        ran = sum(count > 0 for count in result.levels.values())
        levels = str(ran) if ran == len(result.levels) else f"{ran} of {len(result.levels)}"
        cells = (met, *sides, str(len(result.outcomes)), levels)
        held = (result.orders or "this one", duration(result.seconds), result.verdict.partition(":")[0])
        return (self.name, self.target, self.dtype, *cells, *held)


def _sum(branches: list[Branches]) -> str:
    return f"{sum(each.taken for each in branches)} of {sum(each.possible for each in branches)}"


def checks(
    dtype: str | None, layout: str | None, budget: float, jobs: int | None, seed: int, update: Callable[[str], None]
) -> Iterator[PresetCheck]:
    """The presets that serve the type, or each for its first type, compiled for any extents."""
    for name, preset in LADDERS.items():
        if dtype is not None and dtype not in preset.dtypes:
            continue
        own = dtype or preset.dtypes[-1]
        acc = own if element_type(own).bits == 64 else "f32"
        spec = GemmSpec(a=own, b=own, d=own, acc=acc, layout=layout or "tn")
        update(f"{name}: compiling")
        subject = of_kernel(compile_gemm(spec, preset.target, preset.schedule))
        result = check_subject(
            subject,
            budget=budget,
            jobs=jobs,
            seed=seed,
            on_progress=lambda done, text, name=name: update(f"{name}: {done:.0%}, {text}"),  # type: ignore[misc]
        )
        typer.echo(f"{name}: {result.verdict}, in {duration(result.seconds)}", err=True)
        yield PresetCheck(name, preset.target, own, result)


def report(done: list[PresetCheck]) -> str:
    """Print all rows, and each guilty step; gives the table as Markdown."""
    rows = [check.row() for check in done]
    table(HEADINGS, rows, numbers=_NUMBERS)
    for check in done:
        if check.result.guilty is not None:
            typer.echo(f"\n{check.name}\n{check.result.guilty}")
    return markdown(HEADINGS, rows) + "\n"
