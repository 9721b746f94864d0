"""Joules per product by the energy counter of the GPU: of Lowtide's and torch's kernels, or of equally fast schedules.

    python benchmarks/energy.py torch --journal DIR [--cells PATTERN …] [--kernels DIR] [--minutes 9] [--rounds 3]
    python benchmarks/energy.py level --journal DIR [--cells PATTERN …] [--candidates 12] [--minutes 9]
    python benchmarks/energy.py record --journal DIR [--name energy]

Cells are those of benchmarks/all.py; twelve of them by default. In each shuffled round each contender runs for 0.6 s,
and then from one tick of the counter to another, at least 2 s later. The energy is that of the whole card. `level`
times candidates of the tuner in a short race, and measures the energy of the default and of at most three others within
1 % of the fastest. Its ratios are to the default. It needs the compiler. The journal gets a line for each cell; a later
run continues. `record` writes the rows to benchmarks/results/NAME.json; docs/generate.py makes docs/energy.md from
energy.json and energy-level.json.

Exit status: 0; 2 for bad options, and without a GPU or its counter; 3 if the time ended before the last cell.
"""

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import record
from all import commit_of, kernel_folder
from any_shape import BUILD, deadline_of, say
from commands import Commands

import lowtide as lt
from lowtide import runtime
from lowtide.compiler.whole_files import write_whole
from lowtide.markdown import markdown
from lowtide.measurement.bench import energies
from lowtide.measurement.bench.any_shape.journal import Journal
from lowtide.measurement.bench.any_shape.races import DONE, OUT_OF_TIME
from lowtide.measurement.bench.any_shape.racing import device_and_software
from lowtide.measurement.bench.any_shape.rows import OWN, TORCH
from lowtide.measurement.bench.corners.cells import Cell, cells, matching
from lowtide.measurement.bench.energy import Counter, NvmlCounter
from lowtide.targets import get

Rows = list[tuple[str, ...]]
About = tuple[str, str, str]  # GPU, commit, date
# These modules import MLIR. A machine that only measures saved kernels may lack it.
_CANDIDATES, _COMPILERS = "lowtide.measurement.tuning.candidates", "lowtide.measurement.bench.parallel"


def run(arguments: argparse.Namespace, rows_of: Callable[[Cell, About], Rows], to: str) -> int:
    """Measure the cells that have no line, until the time ends. Returns the exit status. Raises Error."""
    journal, commit = Journal(arguments.journal), commit_of(arguments)
    journal.check_commit(commit)
    (device, software), deadline = device_and_software(), deadline_of(arguments)
    found = matching(arguments.cells or energies.TWELVE, cells())
    about, command = (device, commit, record.today()), record.command_line(sys.argv[0], sys.argv[1:])
    for cell in found:
        if cell.name in journal.lines or time.monotonic() > deadline:
            continue
        try:
            rows, why = rows_of(cell, about), ""
        except (lt.Error, RuntimeError) as error:  # torch raises RuntimeErrors; the other cells still run
            rows, why = [], f"{type(error).__name__}: {error}"
        line = {"name": cell.name, "rows": rows, "why": why, "to": to, "commit": commit, "command": command}
        journal.add({**line, "software": software, "rounds": arguments.rounds})
        say(f"{cell.name}: {why or '; '.join(f'{row[1]} {row[2]} mJ, {row[3]} W' for row in rows)}")
    print(table(journal))
    left = sum(cell.name not in journal.lines for cell in found)
    say(f"{left} of {len(found)} cells are left for a later run" if left else "done")
    return OUT_OF_TIME if left else DONE


def counter_at_hand() -> Counter:
    """Raises Error without a GPU or its counter, before anything is written or compiled."""
    device_and_software()
    return NvmlCounter()


def settings_of(arguments: argparse.Namespace) -> energies.Settings:
    return energies.Settings(arguments.rounds, arguments.seconds, arguments.seed)


def torch_command(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("LOWTIDE_CACHE", str(BUILD.absolute() / "cache"))
    counter = counter_at_hand()
    folder = kernel_folder(arguments, commit_of(arguments))
    asked = matching(arguments.cells or energies.TWELVE, cells())
    folder.compile_missing(asked, arguments.target, arguments.jobs, time.monotonic() + 60 * arguments.minutes, say)

    def rows_of(cell: Cell, about: About) -> Rows:
        kernel, _ = folder.kernel(cell)
        found = energies.beside_torch(cell, kernel, counter, settings_of(arguments), say)
        schedules = {OWN: " ".join(kernel.manifest["schedule"].split())}
        return list(energies.rows(cell, found, TORCH, about, schedules))

    return run(arguments, rows_of, TORCH)


def level_command(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("LOWTIDE_CACHE", str(BUILD.absolute() / "cache"))
    counter = counter_at_hand()
    asked = matching(arguments.cells or energies.TWELVE, cells())
    done = Journal(arguments.journal).lines
    with compilers_of(arguments.jobs) as compilers:
        schedules = {}
        for cell in (cell for cell in asked if cell.name not in done):
            schedules[cell.name] = schedules_of(cell, arguments)
            for text in schedules[cell.name]:
                compilers.request(cell.spec, arguments.target, text)

        def rows_of(cell: Cell, about: About) -> Rows:
            kernels = dict(_right(cell, arguments.target, schedules[cell.name], compilers))
            found = energies.of_level_ones(cell, kernels, counter, settings_of(arguments), say)
            named = dict(zip((OWN, *map("level {}".format, range(1, len(found)))), found, strict=True))
            texts = {name: " ".join(kernels[text].manifest["schedule"].split()) for name, text in named.items()}
            renamed = {name: found[text] for name, text in named.items()}
            return list(energies.rows(cell, renamed, OWN, about, texts))

        return run(arguments, rows_of, OWN)


def schedules_of(cell: Cell, arguments: argparse.Namespace) -> list[str]:
    """The candidates of the tuner, as text, the default first."""
    candidates = importlib.import_module(_CANDIDATES).candidates
    return [one.shorthand() for one in candidates(cell.spec, get(arguments.target), "any", arguments.candidates)]


def compilers_of(jobs: int) -> Any:
    """Processes that compile, as a context manager."""
    return importlib.import_module(_COMPILERS).Compilers(jobs)


def _right(cell: Cell, target: str, texts: Sequence[str], compilers: Any) -> Any:
    """The kernels of the schedules that compile, by schedule. Raises Error if the first one, the default, does not."""
    for text in texts:
        try:
            kernel: runtime.Kernel = compilers.kernel(cell.spec, target, text)
        except lt.Error as error:
            if text == texts[0]:
                raise
            say(f"{cell.name}: {text}: {error}")
            continue
        yield text, kernel


def columns_of(journal: Journal) -> tuple[str, ...]:
    """Raises Error if nothing was measured, or if the journal has lines of both commands."""
    of = {line["to"] for line in journal.lines.values()}
    if len(of) != 1:
        raise lt.Error(f"{journal.path} has {'races of both commands' if of else 'no lines'}; name the journal of one")
    return tuple(column.format(*of) for column in energies.COLUMNS)


def table(journal: Journal) -> str:
    if not journal.lines:
        return "nothing is measured yet"
    return markdown(columns_of(journal), [row for line in journal.lines.values() for row in line["rows"]])


def record_command(arguments: argparse.Namespace) -> int:
    journal = Journal(arguments.journal)
    columns, lines = columns_of(journal), list(journal.lines.values())
    rows = [row for line in lines for row in line["rows"]]
    failed = [f"{line['name']}: {line['why']}".splitlines()[0] for line in lines if line["why"]]
    dates = sorted(row[9] for row in rows)
    result = record.Result(
        device=", ".join(sorted({row[7] for row in rows})),
        date="/".join(dict.fromkeys((dates[0], dates[-1]))),
        command=lines[-1]["command"],
        columns=columns,
        rows=tuple(tuple(map(record.cell, row)) for row in rows),
        software=", ".join(sorted({line["software"] for line in lines})),
        rounds=str(max(line["rounds"] for line in lines)),
        about="; ".join(["the energy is that of the whole card", *failed]),
    )
    path = arguments.results / f"{arguments.name}.json"
    write_whole(path, result.text())
    print(path)
    return DONE


def commands() -> Commands:
    result = Commands(__doc__)
    for name, of, text in (
        ("torch", torch_command, "measure Lowtide's kernels beside torch's"),
        ("level", level_command, "measure schedules that are level in time"),
        ("record", record_command, "write a journal to benchmarks/results/"),
    ):
        one = result.add(name, of, text)
        one.add_argument("--journal", type=Path, required=True, help="the folder of the run")
        if name == "record":
            one.add_argument("--results", type=Path, default=record.FOLDER, help="default benchmarks/results")
            one.add_argument("--name", default="energy", help="of the file; default energy")
            continue
        one.add_argument("--cells", action="append", metavar="PATTERN", help="names with *; default twelve cells")
        one.add_argument("--kernels", type=Path, help="a folder of kernels of all.py compile")
        one.add_argument("--target", default="sm_90a", help="the target of the kernels; default sm_90a")
        one.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 1), help="processes that compile")
        one.add_argument("--commit", help="of the code; default: that of the checkout")
        one.add_argument("--minutes", type=float, default=9.0, help="the time after which nothing starts; default 9")
        one.add_argument("--rounds", type=int, default=3, help="measurements of each contender; default 3")
        one.add_argument("--seconds", type=float, default=2.0, help="the least time of each; default 2")
        one.add_argument("--seed", type=int, default=1, help="of operands and of the order; default 1")
        if name == "level":
            one.add_argument("--candidates", type=int, default=12, help="schedules that are timed; default 12")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    return commands().main(argv)


if __name__ == "__main__":
    sys.exit(main())
