"""The tables of measurements in the documentation.

    python benchmarks/tables.py [--out DIR] [--only NAME …] [--rounds N] [--seed 0]

Writes DIR/NAME.json for each table, in the format of record.py, after each measured row; `--help` lists the names. DIR
is benchmarks/results by default; `python docs/generate.py` makes the pages from its files. Kernels are compiled by as
many processes as the machine has cores, while others are timed. Requires a GPU and torch; takes about eight minutes on
an H200 with 16 cores. A kernel that is refused or wrong is a row with the reason. Exit status: 0; 1 if a table is
incomplete; 3 if time is up.
"""

import argparse
import functools
import math
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import record

import lowtide as lt
from lowtide.cli.console import problem_line
from lowtide.compiler.presets import Preset
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import LAYOUTS
from lowtide.compiler.whole_files import write_whole
from lowtide.decompositions import DECOMPOSITIONS
from lowtide.measurement.bench import scaled, weights
from lowtide.measurement.bench.cases import (
    SPEED_HEADINGS,
    Case,
    Entry,
    Outcome,
    request,
    run_case,
    speed_rows,
)
from lowtide.measurement.bench.contest import interval
from lowtide.measurement.bench.gpu_timing import KINDS, Contender, ratio, spread, torch_with_gpu
from lowtide.measurement.bench.ladder import TIMED_HEADINGS, climb, race_steps, small_problem, timed_rows
from lowtide.measurement.bench.ladder_pages import LADDER_PAGES, LadderPage, cube, product
from lowtide.measurement.bench.parallel import Compilers

CHOSEN = Entry("Lowtide, chosen", "sm_90a")
ON_MMA_SYNC = Entry("Lowtide on mma.sync, chosen", "sm_80")
# The same instructions with the shared memory of sm_90, in which kernels keep B.
ON_MMA_SYNC_OF_SM90 = Entry("Lowtide on mma.sync, chosen for sm_90", "sm_90")


@dataclass(frozen=True)
class Table:
    """Cases whose outcomes are rows. `algorithms`: the number of cuBLASLt's that are tried; `finalists` of them
    race."""

    name: str
    cases: tuple[Case, ...]
    rounds: int
    algorithms: int
    finalists: int


@dataclass(frozen=True)
class Run:
    """The settings that all tables of a run share."""

    compilers: Compilers
    folder: Path
    device: str
    software: str
    rounds: int | None
    seed: int

    def write(
        self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]], rounds: int, about: str, area: str = ""
    ) -> None:
        command = record.command_line(sys.argv[0], sys.argv[1:])
        cells = tuple(tuple(map(record.cell, row)) for row in rows)
        result = record.Result(
            self.device, record.today(), command, tuple(columns), cells, area, self.software, str(rounds), about
        )
        write_whole(self.folder / f"{name}.json", result.text())


def say(text: str) -> None:
    print(f"{time.monotonic() - STARTED:6.1f} s  {text}", file=sys.stderr, flush=True)


STARTED = time.monotonic()

SHAPES = Table(
    "shapes",
    (
        Case(cube("bf16", 8192), (CHOSEN,)),
        Case(cube("bf16", 4096), (CHOSEN, ON_MMA_SYNC)),
        Case(cube("bf16", 16384), (CHOSEN,)),
        Case(product("bf16", 4096, 28672, 4096), (CHOSEN,)),
        Case(cube("bf16", 1024), (CHOSEN,)),
        Case(cube("bf16", 2048), (CHOSEN,)),
        Case(product("bf16", 512, 512, 16384), (CHOSEN,)),
        Case(product("f16", 81920, 256, 256), (CHOSEN, ON_MMA_SYNC_OF_SM90)),
        Case(cube("f32", 4096), (CHOSEN,)),
        Case(cube("f64", 4096), (CHOSEN,)),
    ),
    rounds=5,
    algorithms=96,
    finalists=4,
)

# The product of the first study note, with its instructions: tiles of 128×128×32, three and five stages.
_TALL = tuple(
    Entry(name, "sm_80", name)
    for name in (
        "sm80-three-stages",
        "sm80-rasterized",
        "sm80-five-stages",
        "sm80-persistent",
        "sm80-filled-ring",
    )
)
TALL = Table(
    "tall",
    tuple(
        Case(product("f16", 81920, 256, 256, acc), (*_TALL, ON_MMA_SYNC, ON_MMA_SYNC_OF_SM90)) for acc in ("f32", "f16")
    ),
    rounds=5,
    algorithms=96,
    finalists=4,
)

# 4096³ by element types, sums and layouts; 8-bit floats and integers in torch's layout.
TYPES = tuple(
    Table(name, tuple(Case(spec, (CHOSEN,)) for spec in specs), rounds=3, algorithms=96, finalists=2)
    for name, specs in {
        "types": [cube(dtype, 4096, layout=layout) for dtype in ("bf16", "f16") for layout in LAYOUTS],
        "f16-sums": [cube("f16", 4096, "f16", layout=layout) for layout in LAYOUTS],
        **{dtype: [cube(dtype, 4096, layout=layout) for layout in LAYOUTS] for dtype in ("f32", "f64", "tf32")},
        "fp8": [cube("e4m3", 4096, acc) for acc in ("f32", "fast")],
        "integers": [cube("s8", 4096)],
    }.items()
)
# f32 as products of narrower pieces; launches that split A and B are included.
PIECES = Table(
    "pieces",
    tuple(
        Case(cube("f32", 4096, layout=layout, precision=precision), (CHOSEN,))
        for precision in DECOMPOSITIONS
        for layout in LAYOUTS
    ),
    rounds=3,
    algorithms=0,
    finalists=0,
)
# Rows that do not start on sectors of L2.
UNALIGNED = Table(
    "unaligned",
    (
        Case(cube("bf16", 1000), (CHOSEN,)),
        Case(cube("bf16", 2056), (CHOSEN,)),
        *(Case(product("bf16", 4096, 4104, 4104, layout=layout), (CHOSEN,)) for layout in LAYOUTS),
    ),
    rounds=5,
    algorithms=96,
    finalists=2,
)
# Rows and bases that TMA does not support.
PACKED = Table(
    "packed",
    tuple(Case(product("bf16", 4095, 4097, 4103, layout=layout), (CHOSEN,)) for layout in LAYOUTS),
    rounds=5,
    algorithms=96,
    finalists=2,
)
# Beside torch.bmm only.
BATCHES = Table(
    "batches",
    (
        Case(product("bf16", 512, 512, 512, batch=64), (CHOSEN,)),
        Case(product("bf16", 2048, 2048, 128, batch=16), (CHOSEN,)),
        Case(product("bf16", 4096, 4096, 4096, batch=4), (CHOSEN,)),
    ),
    rounds=6,
    algorithms=0,
    finalists=0,
)
TABLES = (SHAPES, TALL, *TYPES, PIECES, UNALIGNED, PACKED, BATCHES)
LADDER_ROUNDS = 3
WEIGHTS = "weights"
WEIGHT_HEADINGS = ("case", "contender", *(f"{kind} {column}" for kind in KINDS for column in ("µs", "to torch")))
WEIGHT_TYPES, WEIGHT_ROWS, WEIGHT_ROUNDS = ("s4", "s8", "e4m3"), (1, 16, 64), 5
# e4m3 with scales; the sizes with blocks are those of models.
SCALES = "scales"
SCALE_HEADINGS = ("case", "contender", *(f"{kind} {column}" for kind in KINDS for column in ("TFLOP/s", "to torch")))
SCALE_SIZES = (
    ((8192, 8192, 8192), scaled.SCALES),
    ((4096, 7168, 2048), ("blocks",)),
    ((4096, 4096, 7168), ("blocks",)),
)
SCALE_ROUNDS = 6
NAMES = (*(one.name for one in TABLES), WEIGHTS, SCALES, *(one.name for one in LADDER_PAGES))


def run_table(table: Table, run: Run) -> bool:
    """Measure and write a table. Returns whether every row has figures."""
    rounds = run.rounds or table.rounds
    about = f"cuBLASLt's best of up to {table.algorithms}" if table.algorithms else ""
    outcomes: list[Outcome] = []
    for case in table.cases:
        say(f"{table.name}: {case.title}")
        outcomes.append(run_case(case, run.compilers, rounds, run.seed, table.algorithms, table.finalists, say))
        run.write(table.name, SPEED_HEADINGS, speed_rows(outcomes), rounds, about, area=table.name)
    return not any(outcome.reasons for outcome in outcomes)


def run_ladder(page: LadderPage, run: Run) -> bool:
    """Measure and write a ladder. Returns whether every step is right and timed."""
    rounds = run.rounds or LADDER_ROUNDS
    steps = climb(
        page.spec, page.presets(), run.seed, True, functools.partial(_say_step, page), _built_by(run.compilers)
    )
    for step in steps:
        if not step.ok:
            say(f"{step.name}: {step.result}: {step.message}")
    standings = race_steps(page.spec, steps, rounds, run.seed, say)
    rows = [row[:-1] for row in timed_rows(steps, standings, with_intervals=True)]
    about = problem_line(page.spec, (page.spec.m, page.spec.n, page.spec.k))
    run.write(page.name, TIMED_HEADINGS[:-1], rows, rounds, about)
    return len(standings.others) == len(steps)


def run_weights(run: Run) -> bool:
    """Measure and write the table of packed weights. Returns whether it is complete; raises an error otherwise."""
    rounds, rows = run.rounds or WEIGHT_ROUNDS, []
    about = f"N×K = 28672×4096, groups of {weights.GROUP}; beside torch.matmul of bf16"
    for dtype in WEIGHT_TYPES:
        say(f"{WEIGHTS}: {dtype}")
        specs = [weights.problem(m, dtype) for m in WEIGHT_ROWS]
        cases = [
            weights.Case(m, CHOSEN.name, run.compilers.kernel(spec, CHOSEN.target, CHOSEN.schedule))
            for m, spec in zip(WEIGHT_ROWS, specs, strict=True)
        ]
        for m, contenders in weights.raced(dtype, specs[0].n, specs[0].k, cases, rounds, run.seed):
            for one in contenders:
                ratios = (interval(ratio(one, contenders[0], kind), 3) for kind in KINDS)
                cells = (cell for pair in zip(weights.microseconds(one), ratios, strict=True) for cell in pair)
                rows.append((f"bf16 × {dtype}, M = {m}", one.name, *cells))
            run.write(WEIGHTS, WEIGHT_HEADINGS, rows, rounds, about, area=WEIGHTS)
    return True


def run_scales(run: Run) -> bool:
    """Measure and write the table of products with scales. Returns whether every kernel is right and timed."""
    rounds, rows, whole = run.rounds or SCALE_ROUNDS, [], True
    about = "tn, D of bf16; beside torch._scaled_mm with scales and sums of the same kind"
    for size, kinds in SCALE_SIZES:
        say(f"{SCALES}: {size}")
        specs = {each: scaled.problem(size, *each) for each in scaled.asked(kinds)}
        cases = [
            scaled.Case(CHOSEN.name, sums, kind, run.compilers.kernel(spec, CHOSEN.target, CHOSEN.schedule))
            for (sums, kind), spec in specs.items()
        ]
        found = scaled.raced(size, kinds, cases, rounds, run.seed, say)
        whole &= all(len(each) == 2 for each in found.values()) and len(found) == len(specs)
        for (sums, kind), contenders in found.items():
            case = f"{'×'.join(map(str, size))} e4m3, scales of {kind}, sums {sums}"
            rows += [(case, one.name, *_speed_cells(one, contenders[0], 2.0 * math.prod(size))) for one in contenders]
        run.write(SCALES, SCALE_HEADINGS, rows, rounds, about, area="fp8")
    return whole


def _speed_cells(one: Contender, first: Contender, flops: float) -> list[str]:
    pairs = ((spread(one.seconds(kind), flops), ratio(one, first, kind)) for kind in KINDS)
    return [cell for speed, times in pairs for cell in (interval(speed, 0), interval(times, 3))]


def _say_step(page: LadderPage, step: str) -> None:
    say(f"{page.name}: {step}")


def _built_by(compilers: Compilers) -> Callable[[GemmSpec, str, Preset], lt.runtime.Kernel]:
    return lambda spec, name, preset: compilers.kernel(spec, preset.target, name)


def request_all(names: Sequence[str], compilers: Compilers) -> None:
    """Start compiling, in the order in which kernels are needed."""
    for table in TABLES:
        if table.name in names:
            request(table.cases, compilers)
    if WEIGHTS in names:
        for dtype in WEIGHT_TYPES:
            for m in WEIGHT_ROWS:
                compilers.request(weights.problem(m, dtype), CHOSEN.target, CHOSEN.schedule)
    if SCALES in names:
        for size, kinds in SCALE_SIZES:
            for sums, kind in scaled.asked(kinds):
                compilers.request(scaled.problem(size, sums, kind), CHOSEN.target, CHOSEN.schedule)
    for page in LADDER_PAGES:
        if page.name in names:
            for name, preset in page.presets().items():
                for spec in (page.spec, small_problem(page.spec, preset)):
                    compilers.request(spec, preset.target, name)


def run_all(names: Sequence[str], run: Run) -> bool:
    """Run the named tables. Returns whether all are complete."""
    whole = True
    jobs = [(table.name, functools.partial(run_table, table)) for table in TABLES]
    jobs += [(WEIGHTS, run_weights), (SCALES, run_scales)]
    jobs += [(page.name, functools.partial(run_ladder, page)) for page in LADDER_PAGES]
    for name, job in jobs:
        if name not in names:
            continue
        try:
            whole &= job(run)
        # Errors of torch and CUDA are not lowtide.Errors; the other tables still run.
        except Exception as error:
            say(f"{name}: incomplete: {type(error).__name__}: {error}")
            whole = False
    return whole


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else None, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    result.add_argument("--out", type=Path, default=record.FOLDER, help="folder for the files")
    result.add_argument("--only", action="append", choices=NAMES, help="a table; default all")
    result.add_argument("--rounds", type=int, help="counted rounds; default each table's own")
    result.add_argument("--seed", type=int, default=0, help="of operands and of the order")
    result.add_argument("--timeout", type=float, default=570.0, help="seconds after which the process exits")
    return result


def _give_up() -> None:
    """Exit at once, whatever hangs, and end the compiling processes, which would otherwise wait forever."""
    say("time is up")
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(3)


def main() -> int:
    arguments = parser().parse_args()
    watchdog = threading.Timer(arguments.timeout, _give_up)
    watchdog.daemon = True
    watchdog.start()
    names = arguments.only or NAMES
    try:
        with Compilers() as compilers:
            torch = torch_with_gpu()
            request_all(names, compilers)
            device, software = torch.cuda.get_device_name(), f"torch {torch.__version__}"
            arguments.out.mkdir(parents=True, exist_ok=True)
            run = Run(compilers, arguments.out, device, software, arguments.rounds, arguments.seed)
            whole = run_all(names, run)
    except lt.Error as error:
        sys.exit(f"tables.py: error: {error}")
    say("done")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
