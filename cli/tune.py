"""`lowtide tune`: finds and stores the fastest schedules of one or many problems on the GPU at hand."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from lowtide.cli import options, problem
from lowtide.cli.console import problem_line
from lowtide.cli.output import line, table
from lowtide.compiler.numerics_words import NUMERICS, REPEATABLE
from lowtide.compiler.spec import GemmSpec
from lowtide.errors import Error, SpecError
from lowtide.measurement.tuning.candidates import MOST
from lowtide.measurement.tuning.tune import BUDGET, OBJECTIVES, TIME, Tuned, tune

Shapes = Annotated[
    Path | None,
    typer.Option(
        "--shapes",
        help="File of problems in place of --m, --n and --k: `M N K` in each line, then words such as dtype=f16 "
        "layout=nt batch=16, which override the options; # begins a comment.",
        show_default=False,
    ),
]
Journals = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        help="File from which an interrupted run continues; with --shapes, a folder of files.",
        show_default=False,
    ),
]
_NUMERICS = f"{', '.join(NUMERICS)}. Except for any, only schedules with the bits of the chosen one are allowed."
Numerics = Annotated[str, typer.Option("--numerics", help=_NUMERICS)]
Objective = Annotated[str, typer.Option("--objective", help=f"{' or '.join(OBJECTIVES)}: what is to be least.")]
Budget = Annotated[float, typer.Option("--budget", help="Seconds per problem, including compilation.")]
Confidence = Annotated[float, typer.Option("--confidence", help="That no other is faster by more than 1 %.")]
Most = Annotated[int, typer.Option("--most", min=1, help="The most candidates per problem.")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Processes that compile. Default: one per core.")]
_WORDS = ("dtype", "a", "b", "d", "acc", "layout", "batch", "epilogue", "d_order")
_HEADINGS = ("problem", "us", "chosen us", "speedup", "known", "rounds", "against the chosen schedule")


def tune_(
    m: problem.MeasuredM = None,
    n: problem.MeasuredN = None,
    k: problem.MeasuredK = None,
    dtype: problem.Dtype = None,
    d: problem.D = None,
    acc: problem.Acc = None,
    layout: problem.Layout = None,
    batch: problem.GivenBatch = None,
    epilogue: problem.Epilogue = None,
    shapes: Shapes = None,
    target: options.Target = None,
    numerics: Numerics = REPEATABLE,
    objective: Objective = TIME,
    budget: Budget = BUDGET,
    confidence: Confidence = 0.95,
    most: Most = MOST,
    journal: Journals = None,
    jobs: Jobs = None,
    seed: options.Seed = None,
) -> None:
    """Measure schedules on the GPU at hand; `compile_gemm(spec)` then uses the fastest. Needs torch.

    Exit status: 0 if all problems were tuned; 2 if one was refused, after the others.
    """
    given = {"dtype": dtype, "d": d, "acc": acc, "layout": layout, "epilogue": epilogue}
    words = {name: text for name, text in given.items() if text is not None}
    words |= {} if batch is None else {"batch": str(batch)}
    if shapes is None:
        specs = [_spec((m, n, k), words)]
    elif (m, n, k) != (None, None, None):
        raise Error(
            f"--m, --n and --k with --shapes {shapes}: the file has the extents; leave them out [extents-beside-shapes]"
        )
    else:
        specs = list(read_shapes(shapes, words))
    rows, refused = [], []
    for spec in specs:
        path = journal if journal is None or shapes is None else journal / f"{file_name(spec)}.json"
        try:
            found = tune(
                spec,
                target,
                numerics=numerics,
                objective=objective,
                budget=budget,
                confidence=confidence,
                most=most,
                journal=path,
                jobs=jobs,
                seed=seed or 0,
            )
        except Error as error:
            if shapes is None:
                raise
            refused.append(f"{_problem(spec)}: {error}")
            typer.echo(f"lowtide: error: {refused[-1]}", err=True)
        else:
            rows.append(_row(spec, found))
    if rows:
        table(_HEADINGS, rows, numbers=(1, 2, 3, 5))
    if refused:
        raise Error(f"{len(refused)} of {len(specs)} problems were refused; see above [tuning-refused]")


def read_shapes(path: Path, words: dict[str, str]) -> Iterator[GemmSpec]:
    """The problems in a file. Raises Error with the line of an invalid one."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Error(
            f"cannot read {path}: {error}; name a file of lines such as `4096 4096 4096` [shapes-file]"
        ) from None
    found = False
    for number, text in enumerate(lines, 1):
        try:
            parts = shlex.split(text, comments=True)
            if not parts:
                continue
            named = dict(part.split("=", 1) for part in parts[3:])
            m, n, k = (int(part) for part in parts[:3])
        except ValueError:
            raise Error(
                f"{path}, line {number}: {text!r}: write M N K, then words such as dtype=f16 [shapes-line]"
            ) from None
        found = True
        if not set(named) <= set(_WORDS):
            raise Error(f"{path}, line {number}: {text!r}: the words are {', '.join(_WORDS)} [shapes-words]")
        try:
            yield _spec((m, n, k), words | named)
        except SpecError as error:
            raise SpecError(f"{path}, line {number}: {error}") from None
    if not found:
        raise Error(f"{path} has no problems; write lines such as `4096 4096 4096` [shapes-empty]")


def _spec(extents: tuple[int | None, int | None, int | None], words: dict[str, str]) -> GemmSpec:
    if None in extents:
        raise SpecError("--m, --n and --k are required, unless --shapes is given [tuned-extents]")
    named: dict[str, Any] = dict(zip("mnk", extents, strict=True)) | words
    return problem.Problem(**named).spec()


def _problem(spec: GemmSpec) -> str:
    return problem_line(spec, (spec.m, spec.n, spec.k))


def file_name(spec: GemmSpec) -> str:
    """A problem as the name of a file."""
    return "".join(letter if letter.isalnum() else "-" for letter in _problem(spec))


def _row(spec: GemmSpec, found: Tuned) -> tuple[str, ...]:
    for text, why in found.refused.items():
        line("left out", f"{why.splitlines()[0]} ({text})")
    if found.joules is not None and found.own_joules is not None:
        line("energy", f"{found.joules * 1e3:.3f} mJ a launch, {found.own_joules * 1e3:.3f} of the chosen schedule")
    return (
        _problem(spec),
        f"{found.seconds * 1e6:.1f}",
        f"{found.own_seconds * 1e6:.1f}",
        f"{found.speedup:.3f}",
        f"{found.confidence:.0%}" if found.certain else "not yet",
        str(found.rounds),
        _changes(found),
    )


def _changes(found: Tuned) -> str:
    """The fields in which the fastest schedule differs from the chosen one."""
    own, fields = found.own_choice.texts(), found.schedule.texts()
    changed = [f"{path} = {text}" for path, text in fields.items() if own.get(path) != text]
    changed += [f"no {path}" for path in own if path not in fields]
    return ", ".join(changed) or "the chosen one"
