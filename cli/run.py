"""`lowtide run`: multiplies random matrices, on the GPU or the interpreter, and compares with float64."""

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import typer

from lowtide.cli import options, run_options
from lowtide.cli.console import on_ctas, on_pass, problem_line, seed_or_drawn, time_table
from lowtide.cli.grouped import grouped
from lowtide.cli.output import busy, counted, line
from lowtide.cli.problem import GivenProblem
from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.contexts import make_context
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.native import choose
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.levels import Level
from lowtide.errors import DeviceError
from lowtide.runtime import driver
from lowtide.verification.checking.gpu_run import run_on_gpu
from lowtide.verification.checking.interpretation import batch_of, check_patience
from lowtide.verification.checking.interpretation import run as interpret
from lowtide.verification.checking.runnable import runnable
from lowtide.verification.checking.texts import duration
from lowtide.verification.checking.trials import Trial
from lowtide.verification.checking.verdicts import Verdict, against_float64, check_memory


@dataclass(frozen=True)
class _Ran:
    """Where the kernel ran, how long that took, and whether D is right."""

    where: str
    time: str
    verdict: Verdict


@grouped
def run(
    problem: GivenProblem,
    target: options.Target = None,
    schedule: options.ScheduleText = None,
    dump_ir: options.DumpDir = None,
    time_passes: options.TimePasses = False,
    dynamic: options.Dynamic = False,
    level: run_options.InterpretedLevel = None,
    sms: run_options.Sms = 2,
    seed: options.Seed = None,
    force: run_options.Force = False,
) -> None:
    """Multiply random matrices and compare with float64 within a derived bound.

    Runs on the GPU, or on the interpreter without a GPU or with --level.

    Exit status: 0 if D is within the bound, 1 if not, 2 if refused.
    """
    spec = problem.spec()
    extents = problem.m, problem.n, problem.k
    if level is not None:
        Level.named(level)
    check_memory(*extents, problem.batch or 1)
    seed = seed_or_drawn(seed)
    chosen = choose(target)
    line("problem", problem_line(spec, extents))
    line("target", f"{chosen.name} ({chosen.reason})")
    started = time.perf_counter()
    open_: dict[str, Any] = {"m": None, "n": None, "k": None} | ({"batch": None} if spec.is_batched else {})
    compiled = replace(spec, **open_) if dynamic else spec
    with busy("compiling") as update:
        kernel = compile_gemm(compiled, chosen.name, schedule, dump_ir, on_progress=on_pass(update))
    line("compiled", f"for {kernel.target.name} in {duration(time.perf_counter() - started)}")
    line("schedule", str(kernel.schedule))
    ran = _run(kernel, spec, Trial(extents, sms, domain="float", seed=seed), level, force, chosen.not_on_gpu)
    line("ran", f"on {ran.where}")
    line("time", ran.time)
    line("result", f"{ran.verdict.word}: {ran.verdict.message}")
    line("seed", str(seed))
    if time_passes:
        time_table(kernel.timings)
    if not ran.verdict.ok:
        raise typer.Exit(1)


def _run(kernel: CompiledKernel, spec: GemmSpec, trial: Trial, level: str | None, force: bool, not_on_gpu: str) -> _Ran:
    """Run on the GPU, unless there is none (`not_on_gpu`: why, if known) or a level is requested."""
    reason = not_on_gpu if level is None else "as asked"
    if not reason:
        try:
            gpu = driver.current_device()
        except DeviceError as error:
            reason = str(error).partition(";")[0].partition(" (")[0]
        else:
            return _on_gpu(kernel, spec, trial, gpu)
    return _on_interpreter(kernel, spec, trial, level or str(Level.NVVM), force, reason)


def _on_gpu(kernel: CompiledKernel, spec: GemmSpec, trial: Trial, gpu: driver.Device) -> _Ran:
    with busy("making random matrices") as update:
        inputs = trial.inputs(spec)
        update(f"running on {gpu.name}")
        ran = run_on_gpu(kernel, spec, inputs, gpu.ordinal)
        update("comparing with float64")
        verdict = against_float64(spec, inputs, ran.d, trial.seed)
    if ran.complaint:
        verdict = Verdict(False, ran.complaint)
    rate = 2.0 * math.prod((*batch_of(spec), *trial.extents)) / ran.seconds / 1e12
    return _Ran(gpu.name, f"{duration(ran.seconds)} per launch, {rate:.3g} TFLOP/s (mean of {ran.launches})", verdict)


def _on_interpreter(kernel: CompiledKernel, spec: GemmSpec, trial: Trial, level: str, force: bool, reason: str) -> _Ran:
    matrices = math.prod(batch_of(spec))
    seconds = 0.0 if force else check_patience(trial.extents, kernel.schedule.tile_mnk, level, matrices)
    inputs = trial.inputs(spec)
    started = time.perf_counter()
    with busy("interpreting") as update, make_context() as context:
        host = kernel.levels[str(Level.LLVM)]
        source = runnable(level, kernel.levels[level], host, context).source
        result = interpret(source, spec, inputs, on_progress=on_ctas(update, level, seconds), **trial.how)
        elapsed = time.perf_counter() - started
        update("comparing with float64")
        verdict = against_float64(spec, inputs, result, trial.seed)
    where = f"the interpreter, level {level}, {counted(trial.sms, 'SM')} ({reason})"
    return _Ran(where, f"{duration(elapsed)} on the CPU; this is not a GPU time", verdict)
