"""`lowtide ladder`: compiles and verifies each preset of a target and, on a GPU, times all of them beside cuBLAS."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from lowtide.cli import options, problem
from lowtide.cli.console import problem_line, seed_or_drawn
from lowtide.cli.output import busy, line, table
from lowtide.compiler.native import choose
from lowtide.compiler.presets import LADDERS, Preset, ladder_of
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.whole_files import check_writable, write_whole
from lowtide.errors import DeviceError, Error
from lowtide.markdown import markdown
from lowtide.measurement.bench import ladder as steps_of
from lowtide.measurement.bench.bar_chart import matplotlib_or_refuse, svg, text_bars
from lowtide.measurement.bench.gpu_timing import torch_with_gpu
from lowtide.measurement.bench.ladder import Step
from lowtide.measurement.bench.torch_matmul import check_sums, product_of
from lowtide.targets import KNOWN

Extent = Annotated[int, typer.Option(min=1, help="Default: 4096.", show_default=False)]
MarkdownFile = Annotated[Path | None, typer.Option("--markdown", help="Write the table to this file, as Markdown.")]
ChartFile = Annotated[
    Path | None, typer.Option("--chart", help="Write a bar chart to this SVG file; needs a GPU and matplotlib.")
]


def ladder(
    target: options.Target = None,
    m: Extent = 4096,
    n: Extent = 4096,
    k: Extent = 4096,
    dtype: problem.Dtypes = None,
    acc: problem.Acc = None,
    layout: problem.Layout = None,
    cublaslt: options.WithCublaslt = False,
    rounds: options.Rounds = 5,
    seed: options.Seed = None,
    markdown_file: MarkdownFile = None,
    chart_file: ChartFile = None,
) -> None:
    """Compile each preset of a target, verify it, and time all of them interleaved with torch.matmul.

    Without a GPU, a small ragged problem is verified on the interpreter, and nothing is timed.

    Exit status: 0 if all results are right, 1 if a step is wrong or refused, 2 if nothing could be done.
    """
    dtypes: list[str | None] = list(dtype) if dtype else [None]
    specs = [_of_peer(problem.Problem(m=m, n=n, k=k, dtype=one, acc=acc, layout=layout).spec()) for one in dtypes]
    chosen = choose(target, [known for known in KNOWN if known.name in {one.target for one in LADDERS.values()}])
    ladders = [ladder_of(chosen.name, spec.a) for spec in specs]
    seed = seed_or_drawn(seed)
    missing = _no_timing()
    if missing and chart_file is not None:
        raise Error(f"--chart draws speeds, but nothing can be timed: {missing} [chart-speeds]")
    if chart_file is not None and len(specs) > 1:
        raise Error("--chart draws one ladder and its peer; give one --dtype [chart-dtype]")
    if not missing:
        for spec in specs:
            check_sums(torch_with_gpu(), spec.a, spec.sums)
    if chart_file is not None:
        matplotlib_or_refuse()
    for path in filter(None, (markdown_file, chart_file)):
        check_writable(path)
    right, pages = True, []
    for spec, presets in zip(specs, ladders, strict=True):
        line("problem", problem_line(spec, (m, n, k)))
        line("target", f"{chosen.name} ({chosen.reason})")
        steps = _climbed(spec, presets, seed, not missing)
        right &= all(step.ok for step in steps)
        if missing:
            pages.append(_report_untimed(steps, missing))
        else:
            all_timed, page = _report_timed(spec, steps, rounds, seed, chart_file, cublaslt)
            right &= all_timed
            pages.append(page)
        for step in steps:
            if not step.ok:
                line(step.result, f"{step.name}: {step.message}")
    if markdown_file is not None:
        _write(markdown_file, "\n".join(pages))
    line("seed", str(seed))
    if not right:
        raise typer.Exit(1)


def _of_peer(spec: GemmSpec) -> GemmSpec:
    """The spec with torch's type of D."""
    types = product_of(spec.a).d
    return replace(spec, d=types[0]) if types and spec.d not in types else spec


def _climbed(spec: GemmSpec, presets: Mapping[str, Preset], seed: int, on_gpu: bool) -> list[Step]:
    with busy("compiling") as update:
        return steps_of.climb(spec, presets, seed, on_gpu, lambda step: update(f"compiling and verifying {step}"))


def _no_timing() -> str:
    """Why nothing can be timed here; "" if it can."""
    try:
        torch_with_gpu()
    except DeviceError as error:
        return str(error)
    return ""


def _report_untimed(steps: list[Step], reason: str) -> str:
    """Print the steps without times. Returns the page."""
    rows = steps_of.untimed_rows(steps)
    typer.echo("")
    table(steps_of.UNTIMED_HEADINGS, rows, numbers=(2, 3, 4, 5))
    typer.echo("")
    ragged, panels = ("x".join(map(str, extents)) for extents in (steps_of.RAGGED, steps_of.RAGGED_IN_PANELS))
    line("verified", f"{ragged} ({panels} where tensor maps ask for whole panels) on the interpreter, against float64")
    line("time", f"nothing was timed: {reason}")
    return markdown(steps_of.UNTIMED_HEADINGS, rows) + "\n"


def _report_timed(
    spec: GemmSpec, steps: list[Step], rounds: int, seed: int, chart_file: Path | None, cublaslt: bool
) -> tuple[bool, str]:
    """Time the steps and print their speeds. Returns whether every step that was right on the small problem was also
    right, and timed, at full size; and the page."""
    torch = torch_with_gpu()
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    line("gpu", device)
    with busy("timing"):
        standings = steps_of.race_steps(spec, steps, rounds, seed, lambda text: typer.echo(text, err=True), cublaslt)
    typer.echo("")
    table(steps_of.TIMED_HEADINGS, steps_of.timed_rows(steps, standings, False), numbers=range(1, 7))
    bars = steps_of.bars(steps, standings)
    typer.echo(f"\nsustained TFLOP/s\n{text_bars(bars)}\n")
    title = f"{problem_line(spec, (spec.m, spec.n, spec.k))}, {device}"
    if chart_file is not None:
        _write(chart_file, svg(title, "TFLOP/s", bars))
    rows = markdown(steps_of.TIMED_HEADINGS, steps_of.timed_rows(steps, standings, True))
    return len(standings.others) == sum(step.ok for step in steps), f"{title}, {rounds} rounds:\n\n{rows}\n"


def _write(path: Path, text: str) -> None:
    write_whole(path, text)
    line("written", str(path))
