"""`lowtide bench`: times one GEMM, or a batch, beside torch and cuBLASLt's best algorithm, in shuffled rounds."""

from typing import Annotated

import typer

from lowtide.cli import options, problem
from lowtide.cli.console import problem_line, seed_or_drawn
from lowtide.cli.output import busy, line, table
from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.native import choose
from lowtide.measurement.bench.contest import HEADINGS, Contest
from lowtide.measurement.bench.cublaslt_search import WITH_SWEEP
from lowtide.measurement.bench.gpu_timing import KINDS, torch_with_gpu

Schedules = Annotated[
    list[str] | None,
    typer.Option("--schedule", help="As for `lowtide run`; repeatable. Default: chosen.", show_default=False),
]


def bench(
    m: problem.GivenM,
    n: problem.GivenN,
    k: problem.GivenK,
    dtype: problem.Dtype = None,
    acc: problem.Acc = None,
    layout: problem.Layout = None,
    batch: problem.GivenBatch = None,
    target: options.Target = None,
    schedule: Schedules = None,
    rounds: options.Rounds = 5,
    seed: options.Seed = None,
    cublaslt: options.WithCublaslt = True,
) -> None:
    """Time a GEMM against torch.matmul and cuBLASLt, sustained and in bursts. Requires a GPU and torch.

    A batch is timed against torch.bmm only.

    Exit status: 0 if all results are right, 1 if a kernel's is wrong, 2 if refused.
    """
    spec = problem.Problem(m=m, n=n, k=k, dtype=dtype, acc=acc, layout=layout, batch=batch).spec()
    torch = torch_with_gpu()
    seed = seed_or_drawn(seed)
    line("problem", problem_line(spec, (m, n, k)))
    chosen = choose(target)
    line("target", f"{chosen.name} ({chosen.reason})")
    line("gpu", f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    named: list[str | None] = list(schedule) if schedule else [None]
    right = True
    with busy("compiling") as update, Contest(spec, seed, lambda text: typer.echo(text, err=True)) as contest:
        for text in named:
            kernel = compile_gemm(spec, chosen.name, text)
            right &= contest.add_kernel(f"lowtide {text or 'chosen'}", kernel)
            line("schedule", str(kernel.schedule))
        update("timing")
        standings = contest.run(rounds, WITH_SWEEP if cublaslt else 0)
    for kind in KINDS:
        typer.echo(f"\n{kind}")
        table(HEADINGS, standings.rows(kind))
    line("seed", str(seed))
    if not right:
        raise typer.Exit(1)
