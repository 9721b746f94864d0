"""`lowtide explain --measured`: what the agents of a kernel do on this machine's GPU, beside the prediction."""

import tempfile
from pathlib import Path

import typer

from lowtide.cli.output import line, table
from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.spec import GemmSpec
from lowtide.errors import DeviceError, PassError, SpecError, without_codes
from lowtide.inspection.explain.explanation import Explanation
from lowtide.inspection.timeline.compared import compared
from lowtide.inspection.timeline.measured import PRODUCER, Stamps, measured_timeline, stamps_of
from lowtide.inspection.timeline.shares import FIELDS
from lowtide.inspection.timeline.timeline import Timeline, What, write_trace
from lowtide.measurement.bench.gpu_timing import operand_sets, torch_with_gpu
from lowtide.measurement.counters.metrics import rows, summary
from lowtide.measurement.counters.ncu import count
from lowtide.measurement.stamped import Ran, race_stamped, time_alone
from lowtide.passes.nvvm.stamp_agents import StampLayout

# For each phase of an agent, the row of the predicted shares that has its fields.
_RESOURCES = {What.EPILOGUE: "epilogue", What.WAIT: "waits", What.MULTIPLY: "tensor cores", What.LOAD: "L2"}
_SEED = 0  # of the operands


def check_measurable(spec: GemmSpec) -> None:
    """Raise SpecError for a problem whose operands cannot be drawn."""
    kept = ("m", "n", "k", "a", "b", "d", "acc", "layout")
    is_plain = spec == GemmSpec(**{name: getattr(spec, name) for name in kept})
    if None in (spec.m, spec.n, spec.k) or not is_plain or spec.a != spec.b:
        raise SpecError(
            "--measured takes one product, whose A and B have the same type, with known extents and without operands of"
            " the epilogue; give --m, --n and --k, and besides these only types, --acc and --layout [measured-plain]"
        )


def print_measured(found: Explanation, trace: Path | None) -> None:
    """Run the explained kernel with stamps and without, and print both times, and each agent's phases. Write the
    predicted and the measured timelines to `trace`. A kernel that takes no stamps is only timed. Raises DeviceError
    without torch or a GPU."""
    spec, target = found.spec, found.target.name
    operands = operand_sets(spec, _SEED)[0]
    each = operands.a, operands.b, operands.d
    predicted = None if found.spans is None else found.timeline()
    timelines = [] if predicted is None else [predicted]
    plain = compile_gemm(spec, target, found.schedule, tuned=False)
    try:
        stamped = compile_gemm(spec, target, found.schedule, tuned=False, stamps=True)
        _ = stamped.ptx
    except PassError as refusal:
        _print_time(found, time_alone(plain, *each))
        line("stamps", f"none: {without_codes(str(refusal).splitlines()[0])}")
    else:
        ran = race_stamped(plain, stamped, *each)
        layout = StampLayout.of(found.schedule, found.resources.threads)
        stamps = stamps_of(ran.words, layout.agents, layout.tiles)
        _print_time(found, ran.plain)
        _print_stamps(ran, stamps, predicted)
        timelines += [measured_timeline(stamps, cta) for cta in (0, len(stamps.times) - 1)]
    _print_counters(found, plain)
    if trace is not None:
        write_trace(trace, timelines)


def _print_time(found: Explanation, seconds: float) -> None:
    text = "" if found.predicted is None else f", predicted {found.predicted.microseconds:.1f}"
    line("measured", f"{seconds * 1e6:.1f} µs on {torch_with_gpu().cuda.get_device_name()}{text}")


def _print_stamps(ran: Ran, stamps: Stamps, predicted: Timeline | None) -> None:
    line("stamps", f"{ran.ratio - 1:+.1%} of time; {stamps.clock_mhz:.0f} MHz while they were taken")
    outside = f"{ran.stamped * 1e6 - stamps.total:.1f}" if stamps.is_whole else ""
    rows_of_agents = [(*row, FIELDS[_RESOURCES[What(row[1])]]) for row in compared(predicted, stamps)]
    launch = "" if predicted is None else f"{sum(x.duration for x in predicted.intervals if x.what is What.LAUNCH):.1f}"
    rows_of_agents.append(("grid", "launch", launch, outside, FIELDS["launch"]))
    typer.echo("")
    table(("agent", "what", "µs, predicted", "µs, measured", "fields that change it"), rows_of_agents, numbers=(2, 3))
    longest = max((row for row in rows_of_agents if row[0] != PRODUCER), key=lambda row: float(row[3] or 0))
    line("most time", f"{longest[0]}, {longest[1]}: {longest[4]}")


def _print_counters(found: Explanation, plain: CompiledKernel) -> None:
    """What ncu counts of each resource beside its predicted share; or why there are no counters."""
    typer.echo("")
    try:
        with tempfile.TemporaryDirectory() as folder:
            plain.save(Path(folder))
            counted = count(Path(folder), plain.entry)
    except DeviceError as refusal:
        line("counters", without_codes(str(refusal)))
        return
    predicted = {} if found.predicted is None else {share.resource: share.share for share in found.predicted.shares}
    line("counters", summary(counted.values, FIELDS))
    if counted.unknown:
        line("left out", f"ncu does not have {', '.join(counted.unknown)} here")
    typer.echo("")
    headings = ("resource", "predicted", "counted", "what ncu counts", "fields that change it")
    table(headings, rows(counted.values, predicted, FIELDS), numbers=(1, 2))
