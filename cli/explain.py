"""`lowtide explain`: the chosen schedule with its reasons, and the cost of every memory access."""

import json
from pathlib import Path
from typing import Annotated

import typer

from lowtide.cli import options
from lowtide.cli.console import on_pass, problem_line
from lowtide.cli.explain_measured import check_measurable, print_measured
from lowtide.cli.explain_tables import print_accesses
from lowtide.cli.grouped import grouped
from lowtide.cli.output import busy, counted, line, table
from lowtide.cli.problem import OpenProblem
from lowtide.compiler.compile import resolve_schedule
from lowtide.compiler.origins.files import load_origins
from lowtide.compiler.spec import GemmSpec
from lowtide.errors import IRError
from lowtide.inspection.explain.composition import Composition, Grid, Role
from lowtide.inspection.explain.explanation import Explanation, explain_ir, explain_spec
from lowtide.inspection.timeline.shares import Predicted
from lowtide.inspection.timeline.timeline import write_trace

IrFile = Annotated[Path | None, typer.Option("--ir", help="Explain this dump, of a level from problem to epilogue.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON (docs/explain.md).")]

TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace", help="Write the predicted timeline of a CTA to this file, which Perfetto opens.", metavar="FILE"
    ),
]
Measured = Annotated[
    bool,
    typer.Option("--measured", help="Also run the kernel on this GPU, and print measured times beside predicted ones."),
]
Origin = Annotated[
    int | None,
    typer.Option(
        help="Show only where the op in this line of --ir, a dump of any level, comes from, and what became of it.",
        metavar="LINE",
    ),
]

_RANK_OF_MATRIX = 2


@grouped
def explain(
    problem: OpenProblem,
    target: options.Target = None,
    schedule: options.ScheduleText = None,
    ir_file: IrFile = None,
    as_json: Json = False,
    origin: Origin = None,
    trace: TraceFile = None,
    measured: Measured = False,
) -> None:
    """Show the chosen schedule with its reasons, and count the bank conflicts and sectors of every memory access."""
    if origin is not None:
        if ir_file is None or as_json or trace is not None or measured:
            raise IRError(
                "--origin names a line of a dump, and prints text; give --ir FILE, and no --json, --trace or --measured"
                " [origin-of-dump]"
            )
        options.refuse_beside_file(ir_file, **problem.given, schedule=schedule)
        _print_origins(ir_file, origin)
        return
    if measured:
        if ir_file is not None or as_json:
            raise IRError(
                "--measured compiles the kernel again, and prints text; give the problem, and no --ir and no --json"
                " [measured-problem]"
            )
        check_measurable(problem.spec())
    with busy("compiling") as update:
        if ir_file is not None:
            options.refuse_beside_file(ir_file, **problem.given, schedule=schedule)
            found = explain_ir(ir_file, target, on_progress=on_pass(update))
        else:
            spec = problem.spec()
            given = resolve_schedule(schedule, spec.a)
            found = explain_spec(spec, target, given, on_progress=on_pass(update))
    if trace is not None and not measured:
        write_trace(trace, [found.timeline()])
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        _print(found)
    if measured:
        with busy("measuring"):
            print_measured(found, trace)


def _print(found: Explanation) -> None:
    spec = found.spec
    line("problem", problem_line(spec, (spec.m, spec.n, spec.k)))
    line("target", found.target.name + (f" ({found.target_reason})" if found.target_reason else ""))
    reasons = {} if found.choice is None else found.choice.reasons
    heading = "why" if found.choice is not None else f"why: not chosen here, read from the kernel at {found.entered_at}"
    typer.echo("")
    fields = found.schedule.texts()
    table(("schedule", "value", heading), [(name, text, reasons.get(name, "")) for name, text in fields.items()])
    typer.echo("")
    for passed in found.passed_over:
        line("dropped", str(passed))
    line("sums", found.summation or "nothing is multiplied")
    _print_resources(found)
    _print_packing(found)
    _print_batch(found)
    _print_composition(found.composition)
    _print_predicted(found.predicted, found.spec)
    print_accesses(found.accesses)


def _print_predicted(found: Predicted | None, spec: GemmSpec) -> None:
    """The predicted time, and the share of each resource."""
    if found is None:
        line("predicted", "only as a whole, for the choice of the schedule: sums are promoted or operands converted")
        return
    open_extents = "" if None not in (spec.m, spec.n, spec.k) else ", with 4096 for run-time extents"
    clock = "" if round(found.clock, 2) >= 1 else f", at {found.clock:.0%} of the highest clock because of power"
    line("predicted", f"{found.microseconds:.1f} µs{clock}{open_extents}; bound by {found.binds.resource}")
    typer.echo("")
    rows = [
        (share.resource, f"{share.microseconds:.1f}", f"{share.share:.0%}", share.fields)
        for share in found.shares
        if share.microseconds
    ]
    table(("resource", "µs", "of the time", "fields that change it"), rows, numbers=(1, 2))


def _print_origins(dump: Path, line_of_op: int) -> None:
    """The op; the steps that made it and its origins, each with the ops replaced; what it became at the last level."""
    file = dump.absolute()
    origins = load_origins(file.parent.parent)
    op = origins.op(f"{file.parent.name}/{file.stem}", line_of_op)
    typer.echo(str(op))
    came, before = op, origins.of(op)
    while before:
        if {one.name for one in before} != {came.name}:
            typer.echo("\n".join(f"  by {came.place} from {one}" for one in before))
        came, before = before[0], origins.of(before[0])
    for one in origins.became(op, origins.steps[-1].place):
        typer.echo(f"  became {one}")


def _print_resources(found: Explanation) -> None:
    resources = found.resources
    line("CTA", f"{resources.threads} threads, {resources.shared_memory} bytes of shared memory")
    if resources.registers is None:
        line("registers", "not known: " + ("the kernel is refused" if resources.warnings else "no ptxas here"))
        limits = "shared memory and threads"
    else:
        spills = f"{resources.spill_stores} bytes of spills stored, {resources.spill_loads} loaded"
        line("registers", f"{resources.registers} a thread, {spills}")
        limits = "shared memory, threads and registers"
    line("occupancy", f"{counted(resources.ctas_per_sm, 'CTA')} per SM, by {limits}")
    for warning in resources.warnings:
        line("warning", warning)


def _print_packing(found: Explanation) -> None:
    """The cost of a call with unaligned matrices."""
    for packing in found.packing:
        what = "base, row stride or length of a row" if packing.whole_rows else "base or row stride"
        cost = "as many bytes as it has, read and written; known at launch"
        if packing.bytes is not None:
            cost = f"{packing.bytes} bytes read and written, about {packing.microseconds:.1f} µs"
        text = f"copied if {what} is not a multiple of {packing.alignment} bytes: {cost}"
        if packing.transposed and packing.one_column:
            base = f"base is not a multiple of {packing.alignment} bytes"
            text = f"one column, read as a row: copied if its elements are not contiguous, or its {base}: {cost}"
        elif packing.transposed:
            text = f"always transposed before the kernel: {cost}"
        line(packing.matrix.upper(), text)


def _print_batch(found: Explanation) -> None:
    """The coordinate of the matrix in a batch."""
    if not found.spec.is_batched:
        return
    count = "any number of matrices" if found.spec.batch is None else f"{found.spec.batch} matrices"
    has_more = any(
        len(access.box) > _RANK_OF_MATRIX for access in found.accesses.tma
    )  # a list has maps of single matrices
    maps = "; tensor maps have one dimension more, and boxes begin with 1 of it" if has_more else ""
    line("batch", f"{count}: the number of the matrix is the first coordinate of a work item{maps}")


def _print_composition(found: Composition) -> None:
    if found.roles:
        own = [f"{_counted(role)} of {role.warps} warps" + _asks(role.registers) for role in found.roles]
        line("roles", "; ".join(own))
    if found.lane_registers_asked is not None:
        asked, entry = found.lane_registers_asked, found.lane_registers_at_entry or 0
        limit = f"the CTA enters with {entry}, {found.entry_registers} per thread"
        fits = "" if asked <= entry else ": it waits forever"
        line("setmaxnreg", f"{asked} registers per lane, summed over the warpgroups; {limit}{fits}")
    line("multiply", f"{found.accumulators} accumulator registers per thread")
    if found.stages:
        scratch = ""
        if found.scratch_buffers:
            scratch = f"; scratch: {found.scratch_bytes} bytes in {counted(found.scratch_buffers, 'buffer')}"
        line("stages", f"{found.stages} of {found.stage_bytes} bytes: a ring of {found.ring_bytes}{scratch}")
    if found.flops_per_byte is not None:
        rate = (
            f"; {found.l2_bytes_per_cycle:.1f} bytes per cycle and SM at wgmma's full rate"
            if found.l2_bytes_per_cycle
            else ""
        )
        line("intensity", f"{found.flops_per_byte:.1f} flops per byte of A and B from L2{rate}")
    _print_grid(found.grid)


def _counted(role: Role) -> str:
    return role.name if role.instances == 1 else f"{role.instances} {role.name}s that take turns,"


def _asks(registers: int) -> str:
    return f", {registers} registers per thread" if registers else ""


def _print_grid(grid: Grid) -> None:
    clusters = "" if grid.cluster == (1, 1) else f" in clusters of {grid.cluster[0]}x{grid.cluster[1]}"
    how = f"tiles of {grid.tile[0]}x{grid.tile[1]}{clusters}, order {grid.order}, scheduler {grid.scheduler}"
    if grid.batch != 1:
        how += f", of {'any number of' if grid.batch is None else grid.batch} matrices, one after the other"
    if grid.tiles is None or grid.ctas is None or not grid.at_once:
        line("grid", f"{how}; tiles and CTAs are known at launch")
        return
    line("grid", f"{grid.tiles} {how}; {counted(grid.ctas, 'CTA')}, {grid.at_once} at once on {grid.sms} SMs")
    if grid.k_division is not None:
        _print_division(grid)
        return
    text = counted(grid.full_waves or 0, "full wave")
    if grid.last_wave:
        halves = f" in {grid.last_wave_halves} halves" if grid.last_wave_halves else ""
        busy = (grid.last_wave_halves or grid.last_wave) / grid.at_once
        text += f", a last one of {counted(grid.last_wave, 'tile')}{halves}, {busy:.0%} of the CTAs"
    rows, columns = counted(grid.wave_rows or 0, "tile row"), counted(grid.wave_columns or 0, "tile column")
    line("waves", f"{text}; the first reads {rows} of A and {columns} of B")


def _print_division(grid: Grid) -> None:
    """The cost of dividing K: the partial sums that go through L2, and the parts that wait for others."""
    if grid.partial_sums is None:
        line("division", f"K by {grid.k_division}; its partial sums are known at launch")
        return
    moved = (
        f"{counted(grid.partial_sums, 'partial sum')} of f32 written and read, {grid.partial_bytes or 0} bytes each way"
    )
    waits = f"{counted(grid.waiting or 0, 'part')} wait for the others of {counted(grid.shared_tiles or 0, 'tile')}"
    line("division", f"K by {grid.k_division}: {moved}; {waits}")
