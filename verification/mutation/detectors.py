"""Detectors of faults, cheapest first: the parser and verifier; the table of legal ops; the passes that verify an
edited level; the interpreter, at the level of the fault; operands that the host function must refuse; and, for levels
above nvvm, the thread program made from the level."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.driver import Lowered, lower
from lowtide.compiler.pass_pipeline import parse_pipeline, run_element
from lowtide.compiler.ptxas import assemble
from lowtide.compiler.ptxas_program import find_ptxas
from lowtide.dialects.diagnostics import Diagnostics
from lowtide.dialects.levels import Level, check_level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import Error, InterpreterError
from lowtide.interpreter import Loaded, Report
from lowtide.interpreter.numbers.domains import ExactDomain, FloatDomain
from lowtide.passes.base import Pass
from lowtide.passes.pipeline import ENTRY_STEP
from lowtide.passes.support.problem.problem import problem_in
from lowtide.runtime.weights import pack_weights
from lowtide.targets import get
from lowtide.verification.checking import interpretation
from lowtide.verification.checking.places import ALIGNED, Place, places_of
from lowtide.verification.checking.ranks import inputs_of_ranks, wrong_on_ranks
from lowtide.verification.checking.reference import reference
from lowtide.verification.checking.verdicts import against_exact
from lowtide.verification.mutation.kernels import Kernel, Trial
from lowtide.verification.mutation.refusals import accepted_wrongly

# Subjects of the interpreter's errors; the first whose pattern matches the message counts.
_RULES = (
    ("assertion of the host", r"assertion of the host"),
    ("deadlock", r"deadlock"),
    ("race", r"race[ (:]"),
    ("copy in flight", r"in flight"),
    ("out of bounds", r"out of bounds|outside"),
    ("uninitialised", r"uninitiali[sz]ed|torn"),
    ("never written", r"never written"),
    ("async proxy", r"proxy"),
    ("mbarrier", r"mbarrier|arrival|phase"),
    ("ring", r"ring|slot"),
    ("wgmma", r"wgmma|accumulator"),
    ("earlier kernels", r"griddepcontrol|kernels? before"),
    ("alignment", r"multiple of|aligned"),
    ("end of a CTA", r"the CTA ends"),
)
_NAMED = re.compile(r"`[^`]*`|loc\([^)]*\)")


@dataclass(frozen=True)
class Finding:
    """A detector, and its message."""

    detector: str
    why: str


def find(kernel: Kernel, level: str, text: str, original: Lowered) -> Finding | None:
    """The first finding in a level's text, for a kernel that was lowered to `original`; None without a finding."""
    if level == str(Level.PTX):
        return _by_running(kernel, level, lambda: Loaded(original.levels[str(Level.LLVM)], text), "")
    below = Level.named(level) < Level.NVVM
    return (
        _statically(kernel, level, text)
        or _by_running(kernel, level, lambda: Loaded(text), "")
        or _by_refusals(kernel, text, original.levels[level])
        or (_below(kernel, text) if below else None)
    )


def _statically(kernel: Kernel, level: str, text: str) -> Finding | None:
    with make_context() as context:
        try:
            module = parse_text(text, context, f"<{level}>")
        except Error as error:
            return Finding("parser and verifier", _short(error))
        try:
            check_level(module, Level.named(level))
        except Error as error:
            return Finding("legal ops", _short(error))
        for element in parse_pipeline(ENTRY_STEP.text(get(kernel.target)), context):
            if isinstance(element, Pass) and element.needs not in (None, Level.named(level)):
                continue
            try:
                with Diagnostics(context):  # otherwise they would be printed
                    run_element(element, module, get(kernel.target))
            except Error as error:
                return Finding(str(element), _short(error))
    return None


def _by_running(kernel: Kernel, level: str, load: Callable[[], Loaded], below: str) -> Finding | None:
    try:
        loaded = load()
    except Error as error:
        return Finding("parser and verifier", _short(error))
    for trial in kernel.trials:
        on_ranks = kernel.spec.arrivals
        found = _run_ranks(kernel, loaded, trial) if on_ranks else run(kernel, loaded, trial, level in kernel.timed)
        if found is not None:
            return Finding(f"interpreter{below}: {found.detector}", found.why)
    return None


def _by_refusals(kernel: Kernel, text: str, original: str) -> Finding | None:
    told = accepted_wrongly(kernel, text, original)
    return Finding("wrong operands taken", _short(told)) if told else None


def run(kernel: Kernel, loaded: Loaded, trial: Trial, timed: bool = False) -> Finding | None:
    """One run on small integers. Returns a broken rule, a wrong result, or, unless `timed`, a result that is right only
    in its order of agents; None for a right run."""
    place = _place(loaded, trial.place)
    scales = [operand.name for operand in kernel.spec.operands if operand.kind.is_block_scale]
    named: dict[str, Any] = place.named
    named["alignments"] |= dict.fromkeys(scales, trial.scales[0])
    named["bases"] |= dict.fromkeys(scales, trial.scales[1])
    placement = interpretation.Placement(batch=trial.batch, ends=trial.ends, **named)
    inputs = _small_integers(kernel, trial, placement)
    where = f"{'x'.join(map(str, trial.shape))}, {trial.sms} SMs, seed {trial.seed}"
    where += f", place {trial.place}" * bool(trial.place) + (f", {trial.batch}" if trial.batch is not None else "")
    where += f", scales {trial.scales}" * bool(scales) + (f", ends {trial.ends}" if trial.ends is not None else "")
    report = Report()
    try:
        options = {"sms": trial.sms, "seed": trial.seed, "domain": kernel.domain, "report": report}
        d = interpretation.run(loaded, kernel.spec, inputs, placement, **options)
    except InterpreterError as error:
        return Finding(_rule(str(error)), f"{where}: {_short(error)}")
    verdict = against_exact(
        kernel.spec, inputs, d, reference(kernel.spec, **inputs, **interpretation.before(kernel.spec, inputs))
    )
    if verdict.ok:
        return None if report.holds or timed else Finding("right in this order only", f"{where}: {_short(str(report))}")
    return Finding("wrong result", f"{where}: {verdict.message}")


def _run_ranks(kernel: Kernel, loaded: Loaded, trial: Trial) -> Finding | None:
    """As `run`, on a rank for each matrix of the batch, in one order of agents and ranks."""
    assert trial.batch is not None
    inputs = inputs_of_ranks(kernel.spec, trial.shape, trial.batch.matrices, trial.seed)
    where = f"{'x'.join(map(str, trial.shape))} on {len(inputs)} ranks, seed {trial.seed}"
    try:
        wrong = wrong_on_ranks(loaded, kernel.spec, inputs, trial.seed)
    except InterpreterError as error:
        return Finding(_rule(str(error)), f"{where}: {_short(error)}")
    return Finding("wrong result", f"{where}: {wrong}") if wrong else None


def _small_integers(kernel: Kernel, trial: Trial, placement: interpretation.Placement) -> dict[str, Any]:
    """Inputs with sums that are not rounded in any number domain."""
    inputs = interpretation.inputs_for(kernel.spec, trial.shape, ExactDomain.name, trial.seed, placement)
    if kernel.domain == FloatDomain.name:  # random bytes would be weights up to 448, and fractions
        weights = np.random.default_rng(trial.seed).integers(-9, 10, inputs["b"].shape)
        inputs["b"][...] = pack_weights(weights.astype(np.float32), kernel.spec)
    return inputs


def _place(loaded: Loaded, number: int) -> Place:
    """One of the places that the module's schedule has; the first if it has fewer."""
    schedule, problem = Schedule.carried_by(loaded.module), problem_in(loaded.module)
    found = [] if schedule is None or problem is None else places_of(schedule, problem)
    return found[number if number < len(found) else 0] if found else ALIGNED


def _below(kernel: Kernel, text: str) -> Finding | None:
    """The refusal by the rest of the lowering, or the finding in its result."""
    try:
        lowered = lower(text, until=Level.NVVM)
    except Error as error:
        return Finding("lowering", _short(error))
    below = str(Level.NVVM)
    return _by_running(kernel, below, lambda: Loaded(lowered.levels[below]), f" of {below}")


def lowered_alike(level: str, text: str, original: Lowered) -> Finding | None:
    """Whether a level's text compiles to the original's PTX and host side. Raises CompileError and PassError if it
    cannot be lowered."""
    ptx = None if level == str(Level.PTX) else _ptx_of(level, text, original)
    if ptx is None or ptx != original.ptx:
        return None
    return Finding("same PTX", "it compiles to the PTX of the kernel itself, with the same host side")


def assembled_alike(level: str, text: str, original: Lowered) -> Finding | None:
    """Whether ptxas assembles a level's text to the original's machine code, with the same host side.

    This says nothing about synchronization, which another version of ptxas may treat differently. Raises CompileError
    and PassError if the text cannot be lowered.
    """
    ptx = _ptx_of(level, text, original)
    if find_ptxas() is None or ptx is None or original.ptx is None:
        return None
    codes = [assemble(source, original.target, allow_spills=True).cubin for source in (ptx, original.ptx)]
    return Finding("same machine code", "ptxas makes the kernel's own code from it") if codes[0] == codes[1] else None


def _ptx_of(level: str, text: str, original: Lowered) -> str | None:
    """The PTX of a level's text; None if its host side differs from the original's."""
    if level == str(Level.PTX):
        return text
    lowered = lower(text)
    return lowered.ptx if _host_side(lowered) == _host_side(original) else None


def _host_side(lowered: Lowered) -> str:
    """The part of level llvm before the device side."""
    return lowered.levels[str(Level.LLVM)].partition("gpu.module")[0]


def _rule(message: str) -> str:
    """The rule that a message is about, without the ops that it names."""
    said = _NAMED.sub("", message)
    return next((rule for rule, pattern in _RULES if re.search(pattern, said)), "another rule")


def _short(error: Exception | str) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:240]
