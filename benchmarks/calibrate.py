"""Calibrates the cost model of wgmma tiles: compiles schedules, times them on drawn shapes, and fits the constants.

    python benchmarks/calibrate.py compile --kernels DIR [--dtype bf16] [--layout tn] [--jobs N] [--minutes 30]
    python benchmarks/calibrate.py time --kernels DIR --journal DIR [--seed 7] [--count 300] [--minutes 9]
        [--rounds 3] [--most-rounds 12]
    python benchmarks/calibrate.py record --kernels DIR --journal DIR --name NAME
    python benchmarks/calibrate.py fit [--write | --judge] [--record]

`compile` saves a kernel for each schedule of measurement/calibration/forms.py, with run-time extents. `time` draws
shapes as any_shape.py does. For each shape it picks about ten schedules by the model, races them beside torch, and
writes a line of the journal. A shape gets `--rounds`, then more until each schedule within 10 % of the fastest has a
time, relative to it, that is known to 2 %; at most `--most-rounds` in all. `time` needs a GPU, but no compiler. A later
run continues with the next shape. `record` writes the journal to a file of benchmarks/results/calibration/.

`fit` fits the constants to all files of that folder. It prints how well the model then estimates and chooses: on the
same shapes, on pairs of N and K that were held out, and on the files of `afterwards/`, which are never part of a fit.
`--write` writes the constants to passes/schedules/cost/fitted.py; `--judge` judges those of this file instead.
`--record` writes the table of docs/cost-model.md to benchmarks/results/cost-model.json.

Exit status: 0; 2 for bad options; 3 if the time was up; 4 if the GPU can no longer be used, or a race hangs.
"""

import argparse
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import record
from commands import Commands

import lowtide as lt
from lowtide.compiler.spec_fields import LAYOUTS
from lowtide.compiler.whole_files import write_whole
from lowtide.markdown import markdown
from lowtide.measurement.bench.any_shape.draws import Draw, read_layers
from lowtide.measurement.bench.any_shape.journal import Journal, Origin, origin_of
from lowtide.measurement.bench.any_shape.precision import until_compared
from lowtide.measurement.bench.any_shape.races import DONE, OUT_OF_TIME, end_process_after
from lowtide.measurement.bench.any_shape.racing import Settings
from lowtide.measurement.calibration import rows
from lowtide.measurement.calibration.fitting import fitted, with_constants
from lowtide.measurement.calibration.kernels import FormFolder
from lowtide.measurement.calibration.picking import Picks
from lowtide.measurement.calibration.quality import Quality, folds_of, of_ranges
from lowtide.measurement.calibration.samples import Samples, samples_of
from lowtide.measurement.calibration.start import START
from lowtide.measurement.calibration.timing import Timing, rows_of
from lowtide.passes.schedules.cost.fitted import FITTED
from lowtide.targets import Target, get

HERE = Path(__file__).resolve().parent
ROWS = record.FOLDER / "calibration"
FITTED_FILE = HERE.parent / "passes" / "schedules" / "cost" / "fitted.py"
TABLE = record.FOLDER / "cost-model.json"
STARTED = time.monotonic()
_GRACE = 90.0  # seconds after the deadline for a race that has begun
_COLUMNS = (
    "shapes",
    "M",
    "number",
    "schedules",
    "error of time",
    "chosen to best",
    "95 % at most",
    "by measurement",
    "95 %",
)


def say(text: str) -> None:
    print(f"{time.monotonic() - STARTED:6.1f} s  {text}", file=sys.stderr, flush=True)


def commit() -> str:
    """The commit of the checkout; "" outside of one."""
    asked = ["git", "-C", str(HERE), "rev-parse", "--short=10", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def compile_command(arguments: argparse.Namespace) -> int:
    folder, until = FormFolder(arguments.kernels), STARTED + 60.0 * arguments.minutes
    left = folder.compile_missing(arguments.dtype, arguments.layout, arguments.target, arguments.jobs, until)
    say(f"{left} schedules are left for a later run" if left else "done")
    return OUT_OF_TIME if left else DONE


def origin(arguments: argparse.Namespace) -> Origin:
    """The origin of the journal. A new journal gets its origin from the options."""
    found = origin_of(arguments.journal)
    if found is None:
        seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
        drawn = Draw(seed, arguments.count, (arguments.layout,), (arguments.dtype,))
        found = Origin(drawn, commit())
        found.write(arguments.journal)
    return found


def time_command(arguments: argparse.Namespace) -> int:
    if arguments.rounds < rows.FEWEST_ROUNDS:
        raise lt.Error(f"--rounds {arguments.rounds}: a fit needs at least {rows.FEWEST_ROUNDS}; pass more")
    folder, found = FormFolder(arguments.kernels), origin(arguments)
    shapes = found.draw.shapes(read_layers(HERE / "model_layers.txt"))
    until = STARTED + 60.0 * arguments.minutes
    end_process_after(60.0 * arguments.minutes + _GRACE, OUT_OF_TIME)
    runs_on = until_compared(arguments.most_rounds)
    timing = Timing(
        folder=folder,
        journal=Journal(arguments.journal),
        constants=FITTED,
        target=get(arguments.target),
        picks=Picks(),
        settings=Settings(arguments.rounds, arguments.warm, arguments.timed, runs_on=runs_on),
        seed=found.draw.seed,
    )
    return timing.run(shapes, until, say)


def record_command(arguments: argparse.Namespace) -> int:
    found = origin_of(arguments.journal)
    if found is None:
        raise lt.Error(f"{arguments.journal} has no journal; run `calibrate.py time` first")
    shapes = found.draw.shapes(read_layers(HERE / "model_layers.txt"))
    file = rows_of(
        Journal(arguments.journal),
        shapes,
        FormFolder(arguments.kernels).forms,
        date=record.today(),
        command=f"python benchmarks/calibrate.py time --seed {found.draw.seed} --count {found.draw.count}",
        commit=found.commit,
        seed=str(found.draw.seed),
    )
    path = ROWS / f"{arguments.name}.json"
    write_whole(path, file.text())
    print(path)
    return DONE


def fit_command(arguments: argparse.Namespace) -> int:
    files, afterwards = read(arguments.rows), read(arguments.rows / "afterwards")
    if not files:
        raise lt.Error(f"{arguments.rows} has no files of rows; write one by `calibrate.py record`")
    samples, target = samples_of(files), get(arguments.target)
    constants = FITTED if arguments.judge else fitted(samples, START, target)
    found = {
        "the same": of_ranges(samples, samples.estimated(constants, target)),
        "N and K held out": of_ranges(samples, held_out(samples, target)),
    }
    if afterwards:
        others = samples_of(afterwards)
        found["drawn afterwards"] = of_ranges(others, others.estimated(constants, target))
    table = [(name, *cells(*one)) for name, ranges in found.items() for one in ranges]
    text = with_constants(FITTED_FILE.read_text(encoding="utf-8"), constants)
    if arguments.write:
        write_whole(FITTED_FILE, text)
    elif not arguments.judge:
        print(text)
    print(markdown(_COLUMNS, table))
    if arguments.record:
        write_whole(TABLE, result_of([*files, *afterwards], table).text())
    return DONE


def read(folder: Path) -> list[rows.Rows]:
    return [rows.load(path) for path in sorted(folder.glob("*.json"))]


def held_out(samples: Samples, target: Target) -> np.ndarray:
    """The estimate of each sample by constants that are fitted without its pair of N and K."""
    found = np.zeros(len(samples))
    for out in folds_of(samples):
        constants = fitted(samples.where(~out), START, target)
        found[out] = samples.where(out).estimated(constants, target)
    return found


def cells(name: str, quality: Quality) -> tuple[str, ...]:
    return (
        name,
        str(quality.shapes),
        str(quality.schedules),
        f"{100 * quality.error:.1f} %",
        f"{quality.lost:.3f}",
        f"{quality.most_lost:.3f}",
        *(f"{lost:.3f}" for lost in quality.repeated),
    )


def result_of(files: list[rows.Rows], table: list[tuple[str, ...]]) -> record.Result:
    def every(name: str) -> str:
        return ", ".join(sorted({value for file in files if (value := getattr(file, name))}))

    dates = sorted(file.date for file in files)
    return record.Result(
        device=every("device"),
        date="/".join(dict.fromkeys((dates[0], dates[-1]))),
        command="python benchmarks/calibrate.py fit --record",
        columns=_COLUMNS,
        rows=tuple(tuple(map(record.cell, row)) for row in table),
        software=every("software"),
        commit=every("commit"),
        seed=every("seed"),
    )


def commands() -> Commands:
    result = Commands(__doc__)
    compiling = result.add("compile", compile_command, "compile the schedules into a folder")
    timing = result.add("time", time_command, "time schedules on drawn shapes")
    recording = result.add("record", record_command, "write a journal to benchmarks/results/calibration/")
    fitting = result.add("fit", fit_command, "fit the constants to the recorded rows")
    for one in (compiling, timing, recording, fitting):
        one.add_argument("--target", default="sm_90a", help="default sm_90a")
    for one in (compiling, timing, recording):
        one.add_argument("--kernels", type=Path, required=True, help="the folder of `compile`")
    for one in (compiling, timing):
        one.add_argument("--dtype", default="bf16", choices=("bf16", "f16"), help="default bf16")
        one.add_argument("--layout", default="tn", choices=LAYOUTS, help="default tn")
    for one in (timing, recording):
        one.add_argument("--journal", type=Path, required=True, help="the folder of the run")
    compiling.add_argument("--jobs", type=int, help="processes; default one per core")
    compiling.add_argument("--minutes", type=float, default=30.0, help="after which nothing is started; default 30")
    timing.add_argument("--seed", type=int, help="of the draw; default: that of the journal; in a new one, a new seed")
    timing.add_argument("--count", type=int, default=300, help="shapes; default 300")
    timing.add_argument("--minutes", type=float, default=9.0, help="after which nothing is started; default 9")
    timing.add_argument("--rounds", type=int, default=3, help="counted rounds; default 3")
    timing.add_argument("--most-rounds", type=int, default=12, help="the most, if needed; default 12")
    timing.add_argument("--warm", type=float, default=15.0, help="ms before each timing; a quarter for cool kernels")
    timing.add_argument("--timed", type=float, default=25.0, help="ms of each timing; a quarter for cool kernels")
    recording.add_argument("--name", required=True, help="of the file, without .json")
    fitting.add_argument("--rows", type=Path, default=ROWS, help="the folder of files; default that of the repository")
    one = fitting.add_mutually_exclusive_group()
    one.add_argument("--judge", action="store_true", help="judge the constants of fitted.py without fitting")
    one.add_argument("--write", action="store_true", help="write passes/schedules/cost/fitted.py")
    fitting.add_argument("--record", action="store_true", help="write benchmarks/results/cost-model.json")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    return commands().main(argv)


if __name__ == "__main__":
    sys.exit(main())
