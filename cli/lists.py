"""`lowtide presets` and `lowtide targets`: the names that other commands accept."""

from lowtide.cli.output import table
from lowtide.compiler.presets import LADDERS, Preset
from lowtide.targets import KNOWN


def presets() -> None:
    """List the named schedules: target, addition to the step before, and fields."""
    rows = [
        (name, one.target, f"{one.adds}{_form(one)}\n{one.schedule.shorthand() or 'nothing fixed'}")
        for name, one in LADDERS.items()
    ]
    table(("preset", "target", "what it adds to the one before; its schedule (other fields are chosen)"), rows)


def _form(preset: Preset) -> str:
    """The form of problem that a preset is for; "" for any."""
    given = ", ".join(f"{name} = {'any' if value is None else value}" for name, value in preset.problem.items())
    return f" (for {given})" if given else ""


def targets() -> None:
    """List the targets with their limits and instructions."""
    kib = 1024
    rows = [
        (
            target.name,
            ".".join(map(str, target.compute_capability)),
            f"{target.smem_bytes_per_cta // kib} KiB",
            f"{target.smem_bytes_per_sm // kib} KiB",
            str(target.max_threads_per_sm),
            str(target.registers_per_thread),
            str(target.sm_count),
        )
        for target in KNOWN
    ]
    of_threads = ("threads per SM", "registers per thread", "SMs")
    table(("target", "capability", "shared memory per CTA", "per SM", *of_threads), rows, numbers=range(1, 7))
