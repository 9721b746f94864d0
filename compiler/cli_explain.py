"""`lowtide explain`: the chosen schedule and why, and what every memory access costs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from lowtide.compiler import cli_options as options
from lowtide.compiler.cli_console import busy, line, on_pass, problem_line, table
from lowtide.compiler.compile import resolve_schedule
from lowtide.compiler.explain import Explanation, explain_ir, explain_spec, schedule_fields
from lowtide.compiler.explain_accesses import GlobalAccess, SharedAccess
from lowtide.passes.kernels import is_specialized

IrFile = Annotated[Path | None, typer.Option("--ir", help="Explain this file: a dump of level problem to epilogue.")]
Json = Annotated[bool, typer.Option("--json", help="Print it all as JSON (docs/explain.md).")]


def explain(
    m: options.M = None,
    n: options.N = None,
    k: options.K = None,
    dtype: options.Dtype = None,
    a: options.A = None,
    b: options.B = None,
    d: options.D = None,
    acc: options.Acc = None,
    layout: options.Layout = None,
    epilogue: options.Epilogue = None,
    target: options.Target = None,
    schedule: options.ScheduleText = None,
    ir_file: IrFile = None,
    as_json: Json = False,
) -> None:
    """Say which schedule is chosen and why, and count bank conflicts and sectors of every memory access."""
    with busy("compiling") as update:
        if ir_file is not None:
            problem = {"m": m, "n": n, "k": k, "dtype": dtype, "a": a, "b": b, "d": d, "acc": acc, "layout": layout}
            options.refuse_beside_file(ir_file, **problem, epilogue=epilogue, schedule=schedule)
            found = explain_ir(ir_file, target, on_progress=on_pass(update))
        else:
            spec = options.make_spec(m, n, k, dtype, a, b, d, acc, layout, epilogue)
            given = resolve_schedule(schedule)
            found = explain_spec(spec, target or options.DEFAULT_TARGET, given, on_progress=on_pass(update))
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        _print(found)


def _print(found: Explanation) -> None:
    spec = found.spec
    line("problem", problem_line(spec, (spec.m, spec.n, spec.k)))
    line("target", found.target.name)
    reasons = {} if found.choice is None else found.choice.reasons
    heading = "why" if found.choice is not None else f"why: not chosen here, read off the kernel at {found.entered_at}"
    typer.echo("")
    fields = schedule_fields(found.schedule)
    table(("schedule", "value", heading), [(name, text, reasons.get(name, "")) for name, text in fields.items()])
    typer.echo("")
    _print_resources(found)
    typer.echo("\nshared memory, all warps together (a wavefront is one trip to the banks)")
    table(
        ("what", "access", "buffer", "conflict", "wavefronts", "ideal", "witness"),
        [_shared_row(access) for access in found.accesses.shared],
        numbers=(4, 5),
    )
    if is_specialized(found.schedule):
        typer.echo("not counted: TMA's writes and wgmma's reads, which the 128-byte swizzle serves in hardware")
    typer.echo("\nglobal memory, 32-byte sectors in the worst request of a warp")
    table(
        ("what", "access", "sectors", "ideal", "row stride"),
        [_global_row(access) for access in found.accesses.global_],
        numbers=(2, 3),
    )


def _print_resources(found: Explanation) -> None:
    resources = found.resources
    line("CTA", f"{resources.threads} threads, {resources.shared_memory} bytes of shared memory")
    if resources.registers is None:
        line("registers", "not known: no ptxas here")
        limits = "shared memory and threads"
    else:
        spills = f"{resources.spill_stores} bytes of spills stored, {resources.spill_loads} loaded"
        line("registers", f"{resources.registers} a thread, {spills}")
        limits = "shared memory, threads and registers"
    line("occupancy", f"{resources.ctas_per_sm} CTAs an SM, by {limits}")
    for warning in resources.warnings:
        line("warning", warning)


def _times(count: int, place: str | None) -> str:
    line_number = "" if place is None else f", line {place.rsplit(':', 2)[1]}"
    return line_number + (f" and {count - 1} more" if count > 1 else "")


def _shared_row(access: SharedAccess) -> tuple[str, ...]:
    conflict = access.conflict
    witness = ""
    if conflict.ways > 1:
        pairs = zip(conflict.lanes, conflict.addresses, strict=True)
        witness = f"bank {conflict.bank}: " + ", ".join(f"lane {lane} at byte {address}" for lane, address in pairs)
    return (
        access.what,
        f"{access.atom} {access.direction}s{_times(access.count, access.place)}",
        f"{access.buffer} swizzle<{','.join(map(str, access.swizzle))}>",
        "none" if conflict.ways == 1 else f"{conflict.ways}-way",
        str(conflict.wavefronts),
        str(conflict.ideal),
        witness,
    )


def _global_row(access: GlobalAccess) -> tuple[str, ...]:
    if access.row_stride is None:
        stride = "a vector"
    else:
        stride = f"{access.row_stride} bytes" + ("" if access.stride_known else ", assumed")
    return (
        access.what,
        f"{access.atom} {access.direction}s{_times(access.count, access.place)}",
        str(access.sectors.touched),
        str(access.sectors.ideal),
        stride,
    )
