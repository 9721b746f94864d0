"""`lowtide ptx`: runs kernels in PTX, of any compiler, on the CPU under the rules of the hardware. Needs no MLIR."""

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from lowtide.cli.output import busy, counted, line, table
from lowtide.errors import Error, LaunchError, without_codes
from lowtide.interpreter.launching import Parsed, parsed
from lowtide.interpreter.machine.options import Work
from lowtide.ptx.estimate import Estimate, estimate
from lowtide.ptx.info import KernelInfo, kernels_of
from lowtide.ptx.judging import Watch, check_record, run_judged
from lowtide.ptx.kinds import UNKNOWN, kind_before_run, kind_of
from lowtide.ptx.launch_files import AFTER, BEFORE, LAUNCH, Recorded, read_launch
from lowtide.ptx.recorders.triton_cache import CachedKernel, kernels_in
from lowtide.ptx.recording import PTX, write_arrays
from lowtide.ptx.reports import Report, broken
from lowtide.ptx.settings import BASES, MAX_STEPS, Settings

app = typer.Typer(no_args_is_help=True, help="Run and check kernels in PTX, of any compiler, on the CPU.")

File = Annotated[Path, typer.Argument(help=f"A PTX file, or a folder with {PTX}.")]
_LAUNCH = f"The launch (docs/ptx.md). Default: {LAUNCH} beside FILE."
LaunchFile = Annotated[Path | None, typer.Option("--launch", help=_LAUNCH, show_default=False)]
_ARRAYS = f"The arrays before the launch. Default: {BEFORE} beside the launch, if it is there."
Arrays = Annotated[Path | None, typer.Option("--arrays", help=_ARRAYS, show_default=False)]
_EXPECT = f"The arrays after the launch. Default: {AFTER} beside the launch, if it is there."
Expect = Annotated[Path | None, typer.Option("--expect", help=_EXPECT, show_default=False)]
Out = Annotated[Path | None, typer.Option("--out", help="Write the arrays after the launch to this .npz file.")]
KernelName = Annotated[str | None, typer.Option("--kernel", help="The kernel. Default: that of the launch.")]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON (docs/ptx.md).")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Determines the order of warps.")]
Sms = Annotated[int, typer.Option("--sms", min=1, help="CTAs that run at a time.")]
MaxSteps = Annotated[int, typer.Option("--max-steps", min=1, help="The most instructions of a warp.")]
Base = Annotated[str, typer.Option("--base", help=f"Where shared memory begins: {' or '.join(BASES)} (docs/ptx.md).")]
_STRICT = "Refuse what the PTX ISA does not promise, even if hardware does it."
Strict = Annotated[bool, typer.Option("--strict", help=_STRICT)]
_MINUTES = "The time limit for a run of the launches, in minutes; status 2 if they take longer. Default: none."
Minutes = Annotated[float, typer.Option("--minutes", help=_MINUTES, show_default=False)]
Orders = Annotated[int, typer.Option("--orders", min=1, help="The most orders of warps, if one run is not enough.")]
Seconds = Annotated[float, typer.Option("--seconds", min=0, help="The most seconds for further orders.")]


@app.command()
def run(
    file: File,
    launch: LaunchFile = None,
    arrays: Arrays = None,
    expect: Expect = None,
    out: Out = None,
    kernel: KernelName = None,
    seed: Seed = 0,
    sms: Sms = 2,
    max_steps: MaxSteps = MAX_STEPS,
    base: Base = BASES[0],
    strict: Strict = False,
    minutes: Minutes = math.inf,
    as_json: Json = False,
) -> None:
    """Run a launch in one order of warps, and compare the arrays after it.

    Exit status: 0 if no rule is broken and the arrays are as expected, 1 if not, 2 if that cannot be determined.
    """
    files = _Files(file, launch, arrays, expect, kernel)
    settings = Settings(seed, sms, max_steps, base=base, strict=strict, minutes=minutes)
    _end(files.judge(lambda source, given, watch: _ran(source, given, settings, watch, out)), as_json)


@app.command()
def check(
    file: File,
    launch: LaunchFile = None,
    arrays: Arrays = None,
    expect: Expect = None,
    kernel: KernelName = None,
    seed: Seed = 0,
    sms: Sms = 2,
    max_steps: MaxSteps = MAX_STEPS,
    orders: Orders = 20,
    seconds: Seconds = 10.0,
    base: Base = BASES[0],
    strict: Strict = False,
    minutes: Minutes = math.inf,
    as_json: Json = False,
) -> None:
    """As `run`, and say whether the verdict holds for every order of warps; if it may not, run other orders.

    Exit status: 0 if no rule is broken and the arrays are as expected, 1 if not, 2 if that cannot be determined.
    """
    files = _Files(file, launch, arrays, expect, kernel)
    settings = Settings(seed, sms, max_steps, orders, seconds, base, strict, minutes)
    judged = files.judge(
        lambda source, given, watch: check_record(source, given.record, given.expected, settings, watch)
    )
    _end(judged, as_json)


@app.command()
def info(file: File, as_json: Json = False) -> None:
    """List the kernels of a file, their parameters and resources, and the instructions that are not interpreted.

    If launch.json is beside the file, also print an estimate of its run.

    Exit status: 0 if all is interpreted, 2 if not.
    """
    file = _in_folder(file)
    try:
        source = parsed(_text(file), file.name)
        if not source.module.entries:
            raise LaunchError(f"{file} has no kernel (.entry) [ptx-file-empty]")
    except Error as error:
        _end(broken(error, kind_before_run(error), None, file.name), as_json)
        return
    found, (expected, problem) = kernels_of(source), _expected(source, file.parent / LAUNCH)
    if as_json:
        head: dict[str, Any] = {"file": str(file), "version": source.module.version, "target": source.module.target}
        head |= {} if expected is None else {"estimate": expected.as_dict()}
        head |= {"no_estimate": problem} if problem else {}
        typer.echo(json.dumps(head | {"kernels": [each.as_dict() for each in found]}, indent=2, ensure_ascii=False))
    else:
        line("version", f"{source.module.version}, target {source.module.target}")
        for each in found:
            _print_info(each)
        if expected is not None or problem:
            typer.echo("")
            line("estimate", f"none: {problem}" if problem else f"{expected}, for {LAUNCH}")
    if any(each.missing for each in found):
        raise typer.Exit(UNKNOWN)


def _expected(source: Parsed, launch: Path) -> tuple[Estimate | None, str]:
    """The estimate for a launch, if its file is there; or why there is none."""
    if not os.path.exists(launch):
        return None, ""
    try:
        return estimate(source, read_launch(source.module, launch, None, None, None).record), ""
    except LaunchError as error:
        return None, without_codes(str(error))


@app.command(name="import")
def import_(
    cache: Annotated[Path, typer.Argument(help="Triton's cache, or a folder in it.")],
    kernel: Annotated[str | None, typer.Option("--kernel", help="Only kernels of this name.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write each kernel into a folder in this folder.")] = None,
    as_json: Json = False,
) -> None:
    """List the kernels of Triton's cache, and the values that you must add to launch each.

    With --out, each is written as kernel.ptx with a launch.json in which null is to be filled in.
    """
    try:
        found = [each for each in kernels_in(cache) if kernel in (None, each.name)]
        if not found:
            raise LaunchError(f"{cache} has no kernel {kernel} [triton-cache-kernel]")
        folders = [None if out is None else _folder_of(each, out) for each in found]
    except Error as error:
        _end(broken(error, kind_before_run(error), None, str(cache)), as_json)
        return
    if as_json:
        typer.echo(json.dumps([_cached(*each) for each in zip(found, folders, strict=True)], indent=2))
        return
    for each, folder in zip(found, folders, strict=True):
        _print_cached(each, folder)


def _folder_of(kernel: CachedKernel, out: Path) -> Path:
    """Write a kernel of the cache into a folder of its own."""
    folder = out / kernel.name
    if (folder / LAUNCH).exists():
        folder = out / f"{kernel.name}-{kernel.file.parent.name[:8]}"
    kernel.write(folder)
    return folder


def _cached(kernel: CachedKernel, folder: Path | None) -> dict[str, Any]:
    parameters = [{"name": each.name, "type": each.type, "missing": each.missing} for each in kernel.parameters]
    head = {"name": kernel.name, "target": kernel.target, "file": str(kernel.file), **kernel.known}
    return head | {"parameters": parameters} | ({} if folder is None else {"folder": str(folder)})


def _print_cached(kernel: CachedKernel, folder: Path | None) -> None:
    typer.echo("")
    line("kernel", f"{kernel.name}, {kernel.target}, {kernel.file}")
    line("launch", ", ".join(f"{name} {value}" for name, value in kernel.known.items()))
    cells = [(str(at), each.name, each.type, each.missing) for at, each in enumerate(kernel.parameters)]
    table(("#", "parameter", "type", "missing"), cells, (0,))
    line("missing", f"grid, and {sum(bool(each.missing) for each in kernel.parameters)} arguments")
    if folder is not None:
        line("written", str(folder))


def _print_info(info: KernelInfo) -> None:
    typer.echo("")
    line("kernel", info.name)
    if info.parameters:
        table(("#", "parameter", "type", "bytes"), [each.cells(at) for at, each in enumerate(info.parameters)], (0, 3))
    line("resources", info.resources)
    line("code", f"{counted(info.instructions, 'instruction')}, {len(info.missing)} not interpreted")
    for each in info.missing:
        typer.echo(f"  {each}")


class _Files:
    """The files of a run: those given, else those beside the others."""

    def __init__(
        self, file: Path, launch: Path | None, arrays: Path | None, expect: Path | None, kernel: str | None
    ) -> None:
        self.file, self.kernel = _in_folder(file), kernel
        self.launch = self.file.parent / LAUNCH if launch is None else launch
        self.arrays = _beside(self.launch, BEFORE) if arrays is None else arrays
        self.expect = _beside(self.launch, AFTER) if expect is None else expect

    def judge(self, how: Any) -> Report:
        """The report of a run, also of files that cannot be read."""
        try:
            source = parsed(_text(self.file), self.file.name)
            given = read_launch(source.module, self.launch, self.arrays, self.expect, self.kernel)
        except Error as error:
            return broken(error, kind_before_run(error), None, self.file.name)
        expected = estimate(source, given.record)
        with busy(f"running {self.file.name}: {expected}") as update:
            report: Report = how(source, given, _watch(update, expected))
        if self.arrays is None and given.record.arrays:
            report = replace(
                report, notes=(*report.notes, f"there is no {BEFORE}, so every array is unwritten at first")
            )
        return report


def _watch(update: Callable[[str], None], expected: Estimate) -> Watch:
    """Shows the number of completed CTAs and of instructions, and the estimated time of the other CTAs."""
    started, work, done = time.monotonic(), Work(), [0, 0, time.monotonic()]

    def tell() -> None:
        ended, ctas, last = done
        count = f"{work.instructions:,} warp instructions"
        left = time_left(int(ended), int(ctas), last - started, time.monotonic() - last)
        if ended:
            update(f"running: {ended} of {ctas} CTAs, {count}, {left}")
        else:
            of = f"{count} of {expected}"
            update(f"running the first CTAs: {of if work.instructions <= expected.instructions else f'{of}; {left}'}")

    def on_end(ended: int, ctas: int) -> None:
        done[:] = ended, ctas, time.monotonic()
        tell()

    def on_order(order: int, most: int) -> None:
        update(f"running order {order} of at most {most}")

    work.on_tick = tell
    return Watch(on_end, work, on_order)


_PAUSE = 10.0  # seconds without the end of a CTA after which it is told


def time_left(ended: int, ctas: int, until: float, pause: float) -> str:
    """The estimated time of the CTAs that have not ended, in words. `until`: the seconds until the last one ended;
    `pause`: those since then."""
    each = until / ended if ended else 0.0
    if pause > max(_PAUSE, 4 * each):
        return f"no CTA has ended for {pause:.0f} s; it may never end"
    return f"about {max(0.0, each * (ctas - ended) - pause):.0f} s left" if ended else "more than estimated"


def _ran(source: Parsed, given: Recorded, settings: Settings, watch: Watch, out: Path | None) -> Report:
    report = run_judged(source, given.record, given.expected, settings, watch)
    if out is not None and report.arrays:
        try:
            write_arrays(out, report.arrays)
        except LaunchError as error:
            return broken(error, kind_of(error), None, out.name)
    return report


def _in_folder(file: Path) -> Path:
    """The kernel of a folder of `record`, or the file itself."""
    return file / PTX if os.path.isdir(file) else file  # Path.is_dir raises OSError for names that are too long


def _beside(launch: Path, name: str) -> Path | None:
    path = launch.parent / name
    return path if os.path.exists(path) else None


def _text(file: Path) -> str:
    if file.suffix == ".json":
        raise LaunchError(f"{file}: name its folder or the PTX; a launch is given by --launch [ptx-file-json]")
    try:
        return file.read_text(encoding="utf-8-sig", errors="replace")
    except FileNotFoundError:
        raise LaunchError(
            f"there is no {file}; name a file of PTX, or a folder with {PTX} [ptx-file-missing]"
        ) from None
    except OSError as error:
        raise LaunchError(f"{file} cannot be read: {error.strerror} [ptx-file]") from None


def _end(report: Report, as_json: bool) -> None:
    """Print a report, and exit with its status."""
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2, ensure_ascii=False))
    else:
        line("verdict", f"{report.verdict}: {report.message}")
        for place in report.places:
            line("", str(place))
        if report.orders:
            line("orders", report.orders)
        for note in report.notes:
            line("note", note)
        line("time", f"{report.seconds:.2f} s")
    if report.status:
        raise typer.Exit(report.status)
