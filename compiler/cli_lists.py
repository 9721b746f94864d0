"""`lowtide presets` and `lowtide targets`: what the names are that other commands take."""

from lowtide.compiler.cli_console import table
from lowtide.compiler.explain import schedule_fields
from lowtide.compiler.presets import PRESETS
from lowtide.targets import KNOWN


def presets() -> None:
    """List the named schedules, and what each changes over the one before it."""
    rows, before = [], dict[str, str]()
    for name, schedule in PRESETS.items():
        fields = schedule_fields(schedule)
        changed = [f"{field} = {value}" for field, value in fields.items() if before.get(field) != value]
        freed = [f"{field} chosen" for field in before if field not in fields]
        rows.append((name, ", ".join(changed + freed)))
        before = fields
    table(("preset", "what it sets, or changes over the one before; the rest is chosen"), rows)


def targets() -> None:
    """List the targets, and what they have."""
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
    headings = ("target", "capability", "shared memory a CTA", "an SM", "threads an SM", "registers a thread", "SMs")
    table(headings, rows, numbers=(1, 2, 3, 4, 5, 6))
