"""What commands print of a compilation and of a problem."""

import secrets
from collections.abc import Callable, Sequence

import typer

from lowtide.cli.output import PATIENCE, table
from lowtide.compiler.driver import Timing
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.levels import Level
from lowtide.verification.checking.texts import duration, operands_text, results_text

OWNERS = {"lowtide": "Lowtide's passes", "mlir": "MLIR's passes", "llvm": "LLVM's backend"}


def on_pass(update: Callable[[str], None]) -> Callable[[Level, str], None]:
    """For the driver's `on_progress`: shows the running pass."""
    return lambda level, step: update(f"compiling: {level}, {step}")


def on_ctas(update: Callable[[str], None], level: str, about: float) -> Callable[[int, int], None]:
    """For the interpreter's `on_progress`: counts CTAs. `about`: the estimated seconds, or 0."""
    text = f"interpreting level {level}" + (f", about {duration(about)}" if about > PATIENCE else "")
    update(text)
    return lambda ended, ctas: update(f"{text}: {ended} of {ctas} CTAs")


def seed_or_drawn(seed: int | None) -> int:
    """The given seed, or a random one from the operating system."""
    return secrets.randbits(32) if seed is None else seed


def problem_line(spec: GemmSpec, extents: Sequence[int | None]) -> str:
    """`bf16 tn 300x520x264 to bf16, f32 accumulators, operands bias (per_column bf16)`; ? is a run-time extent.

    A batch is `3 of 300x520x264`; pairs of columns are `300x520x264 in stacked pairs`.
    """
    shape = "x".join("?" if extent is None else str(extent) for extent in extents)
    if spec.is_batched:
        shape = f"{'?' if spec.batch is None else spec.batch} of {shape}"
    shape += "" if spec.pairs is None else f" in {spec.pairs} pairs"
    operands = operands_text(spec)
    order = "" if spec.d_order == "row" else " by columns"
    by = f" by {spec.b}" if spec.is_mixed else "" if spec.precision is None else f" by {spec.precision}"
    return f"{spec.a}{by} {spec.layout} {shape} to {results_text(spec)}{order}, {spec.acc} accumulators" + (
        f", operands {operands}" if operands else ""
    )


def time_table(timings: Sequence[Timing]) -> None:
    """Each pass and its time, then each owner's share."""
    total = sum(timing.seconds for timing in timings)

    def row(*cells: str, seconds: float) -> tuple[str, ...]:
        return (f"{1000 * seconds:.1f} ms", f"{seconds / total:.0%}", *cells)

    typer.echo("")
    table(
        ("time", "share", "whose", "level", "step"),
        [row(t.owner, str(t.level), t.step, seconds=t.seconds) for t in timings]
        + [
            row(owner, "all", name, seconds=sum(t.seconds for t in timings if t.owner == owner))
            for owner, name in OWNERS.items()
        ],
        numbers=(0, 1),
    )
    typer.echo(f"{1000 * total:.0f} ms in all")
