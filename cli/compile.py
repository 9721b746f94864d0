"""`lowtide compile`: compiles a problem, or a dumped level, to PTX and machine code."""

import time
from pathlib import Path
from typing import Annotated

import typer

from lowtide import targets
from lowtide.cli import options
from lowtide.cli.console import on_pass, problem_line, time_table
from lowtide.cli.grouped import grouped
from lowtide.cli.output import busy, line
from lowtide.cli.problem import OpenProblem
from lowtide.compiler import attempts, driver
from lowtide.compiler.compile import resolve_schedule
from lowtide.compiler.driver import Lowered
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.native import choose
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.ptxas_program import ENVIRONMENT_VARIABLE
from lowtide.dialects.levels import Level
from lowtide.errors import IRError
from lowtide.verification.checking.texts import duration

Output = Annotated[Path | None, typer.Option("-o", "--output", help="Save the kernel to this folder.")]
IrFile = Annotated[Path | None, typer.Option("--ir", help="Continue from this dumped level, edited or not.")]
Emit = Annotated[str | None, typer.Option("--emit", help="Print this level and stop.", metavar="LEVEL")]


@grouped
def compile_(
    problem: OpenProblem,
    target: options.Target = None,
    schedule: options.ScheduleText = None,
    dump_ir: options.DumpDir = None,
    time_passes: options.TimePasses = False,
    ir_file: IrFile = None,
    output: Output = None,
    emit: Emit = None,
) -> None:
    """Compile a problem, or continue from a dumped level."""
    last = Level.PTX if emit is None else Level.named(emit)
    if emit is not None and (output is not None or time_passes):
        raise IRError("--emit only prints a level; leave out --output and --time-passes [emit-alone]")
    source: str | Path
    reason = ""
    if ir_file is not None:
        options.refuse_beside_file(ir_file, **problem.given, schedule=schedule)
        source, title = ir_file, str(ir_file)
    else:
        spec = problem.spec()
        chosen = choose(target)
        target, reason = chosen.name, chosen.reason
        source = problem_text(spec, targets.get(target), resolve_schedule(schedule, spec.a))
        title = problem_line(spec, (spec.m, spec.n, spec.k))
    started = time.perf_counter()
    with busy("compiling") as update:
        if last is Level.PTX:
            lowered = attempts.compile_ir(source, target=target, dump_dir=dump_ir, on_progress=on_pass(update))
        else:
            lowered = driver.lower(source, target=target, until=last, dump_dir=dump_ir, on_progress=on_pass(update))
    if emit is not None:
        typer.echo(lowered.levels[str(last)].rstrip("\n"))
        return
    line("problem", title)
    line("target", lowered.target.name + (f" ({reason})" if reason else ""))
    _report(CompiledKernel(lowered), lowered, time.perf_counter() - started, output)
    if time_passes:
        time_table(lowered.timings)


def _report(kernel: CompiledKernel, lowered: Lowered, seconds: float, output: Path | None) -> None:
    line("schedule", str(kernel.schedule))
    for passed in kernel.passed_over:
        line("dropped", str(passed))
    line("compiled", f"for {kernel.target.name} in {duration(seconds)}, from level {next(iter(kernel.levels))}")
    line("ptx", f"{len(kernel.ptx.splitlines())} lines, {len(kernel.ptx)} bytes")
    assembly = kernel.assembly
    if assembly is None:
        line(
            "ptxas", f"not found (not in ${ENVIRONMENT_VARIABLE}, on PATH or in a wheel); the driver assembles the PTX"
        )
    else:
        spills = f"spills {assembly.spill_stores} bytes stored, {assembly.spill_loads} loaded"
        line("ptxas", f"{assembly.registers} registers per thread, {spills}, {len(assembly.cubin)} bytes of cubin")
        for warning in assembly.warnings:
            line("warning", warning)
    if lowered.dump_dir is not None:
        line("dumped", f"every step to {lowered.dump_dir}")
    if output is not None:
        line("saved", str(kernel.save(output)))
