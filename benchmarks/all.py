"""Compares each type, type of sums and layout on eight shapes with the faster one of torch and cuBLASLt's best.

    python benchmarks/all.py race --journal DIR [--cells 'tf32-*' …] [--minutes 2.5] [--kernels DIR] [--jobs 15]
        [--rounds 6] [--most-rounds 30] [--cublaslt 96] [--seed 1]
    python benchmarks/all.py compile --kernels DIR [--cells PATTERN …] [--jobs 15]
    python benchmarks/all.py list [--cells PATTERN …] | report --journal DIR | record --journal DIR …

`list` prints the names of the cells in the order of their races. The order is random, so that a run that is cut short
covers all types. `race` first compiles the kernels that are missing, in several processes. Then, for each cell, it
checks the results of all contenders, and runs each of them for 80 ms in each of several shuffled rounds. If the median
ratio of a cell is within 0.02 of a limit, more rounds follow until the interval of the median is within 1 %. The
journal gets a line for each cell. A later run with the same journal continues. `compile` needs no GPU; `race` loads its
kernels from `--kernels`. `report` prints the verdicts. `record` puts the cells into benchmarks/results/corners.json, in
place of older rows of the same cells; docs/generate.py makes docs/corners.md from it. The reasons of losses are in
corner_reasons.txt.

Exit status: 0; 2 for bad options; 3 if the time ended before the last cell; 4 if the GPU can no longer be used, or a
race hangs. After 3 and 4, a later run continues.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import record
from any_shape import BUILD, STARTED, commit_at_hand, deadline_of, say
from commands import Commands

import lowtide as lt
from lowtide.compiler.cache.sources import own_digest
from lowtide.compiler.whole_files import write_whole
from lowtide.measurement.bench.any_shape.journal import Journal
from lowtide.measurement.bench.any_shape.kernels import KernelFolder
from lowtide.measurement.bench.any_shape.races import DONE, OUT_OF_TIME, Races
from lowtide.measurement.bench.any_shape.racing import Settings, device_and_software
from lowtide.measurement.bench.any_shape.rows import OWN
from lowtide.measurement.bench.corners.cells import Cell, in_drawn_order, matching
from lowtide.measurement.bench.corners.precision import until_known
from lowtide.measurement.bench.corners.reasons import read_reasons
from lowtide.measurement.bench.corners.rows import COLUMNS, Corner, corner_from, corner_of, texts_of
from lowtide.measurement.bench.corners.verdicts import all_table, below_table, kinds_table, verdict_table

REASONS = Path(__file__).resolve().parent / "corner_reasons.txt"
RESULT = "corners"
_COMMIT = "commit.txt"  # in a folder of kernels


def chosen(arguments: argparse.Namespace) -> list[Cell]:
    return matching(arguments.cells or (), in_drawn_order(arguments.seed))


def commit_of(arguments: argparse.Namespace) -> str:
    """The given commit, else that of the folder of kernels, else that of the checkout. Raises Error if the folder
    belongs to another commit."""
    note = None if arguments.kernels is None else arguments.kernels / _COMMIT
    held = note.read_text(encoding="utf-8").strip() if note is not None and note.exists() else None
    commit: str = arguments.commit or held or commit_at_hand()
    if held not in (None, commit):
        raise lt.Error(f"{arguments.kernels} has kernels of commit {held}, not of {commit}; name another folder")
    return commit


def kernel_folder(arguments: argparse.Namespace, commit: str) -> KernelFolder:
    """The folder of the kernels, which belongs to one commit from now on. Raises Error."""
    path = arguments.kernels or BUILD / f"corners-{own_digest()[:12]}-{arguments.target}"
    write_whole(path / _COMMIT, commit + "\n")
    return KernelFolder(path)


def list_command(arguments: argparse.Namespace) -> int:
    for cell in chosen(arguments):
        print(cell.name)
    return DONE


def compile_command(arguments: argparse.Namespace) -> int:
    commit, found = commit_at_hand() if arguments.commit is None else arguments.commit, chosen(arguments)
    arguments.commit = commit  # a folder of another one is refused
    folder = kernel_folder(arguments, commit_of(arguments))
    folder.compile_missing(found, arguments.target, arguments.jobs, STARTED + 60.0 * arguments.minutes, say)
    missing = [cell for cell in found if not folder.has(cell)]
    for cell in found:
        if folder.has(cell) and (why := folder.choice(cell).refusal):
            say(f"{cell.name}: {why}")
    say(f"{len(found) - len(missing)} of {len(found)} cells are compiled")
    return OUT_OF_TIME if missing else DONE


def race_command(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("LOWTIDE_CACHE", str(BUILD.absolute() / "cache"))
    found, journal = chosen(arguments), Journal(arguments.journal)
    commit = commit_of(arguments)
    journal.check_commit(commit)
    device_and_software()  # raises without a GPU, before anything is written or compiled
    folder, deadline = kernel_folder(arguments, commit), deadline_of(arguments)
    left = [cell for cell in found if cell.name not in journal.lines]
    folder.compile_missing(left, arguments.target, arguments.jobs, deadline, say)
    say(f"{len(left)} cells to race, commit {commit}")
    settings = Settings(
        arguments.rounds, arguments.warm, arguments.timed, arguments.cublaslt, cool=1.0,
        runs_on=until_known(arguments.most_rounds),
    )  # fmt: skip
    command = record.command_line(sys.argv[0], sys.argv[1:])
    more: dict[str, Any] = {"with_matmul": False, "may_lack": True}
    races = Races(arguments.seed, commit, journal, settings, {OWN: folder}, command, **more)
    status = races.run(list(found), deadline, say)
    if journal.lines:
        print(report([corner_of(line) for line in journal.lines.values()]))
    return status


def report(rows: Sequence[Corner]) -> str:
    reasons = read_reasons(REASONS)
    parts = (verdict_table(rows, reasons), kinds_table(rows), below_table(rows, reasons), all_table(rows))
    return "\n\n".join(parts)


def rows_of(journals: Sequence[Path]) -> tuple[list[dict[str, Any]], list[Corner]]:
    """The lines and the rows of the journals. Raises Error if there is none."""
    lines = [line for folder in journals for line in Journal(folder).lines.values()]
    if not lines:
        raise lt.Error(f"{', '.join(map(str, journals))} has no races yet; race cells with this journal first")
    return lines, [corner_of(line) for line in lines]


def report_command(arguments: argparse.Namespace) -> int:
    print(report(rows_of(arguments.journal)[1]))
    return DONE


def record_command(arguments: argparse.Namespace) -> int:
    lines, rows = rows_of(arguments.journal)
    path = arguments.results / f"{RESULT}.json"
    before = record.load(path) if path.exists() else None
    held = {} if before is None else {row.key: row for row in map(corner_from, before.rows)}
    held |= {row.key: row for row in rows}
    dates = sorted(row.date for row in held.values())
    software = {line["software"] for line in lines} | {before.software if before else ""} - {""}
    result = record.Result(
        device=", ".join(sorted({row.card for row in held.values()})),
        date="/".join(dict.fromkeys((dates[0], dates[-1]))),
        command=lines[-1]["command"],
        columns=COLUMNS,
        rows=tuple(tuple(map(record.cell, texts_of(row))) for row in held.values()),
        software=", ".join(sorted(set(", ".join(sorted(software)).split(", ")))),
        about="a ratio is the median of the rounds, with its 95 % interval",
    )
    write_whole(path, result.text())
    print(path)
    return DONE


def _add_cells(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cells", action="append", metavar="PATTERN", help="names with *, such as 'f16-sums-*'")
    parser.add_argument("--seed", type=int, default=1, help="of the order and of the operands; default 1")


def _add_compiling(parser: argparse.ArgumentParser, minutes: float, needs_folder: bool) -> None:
    parser.add_argument("--kernels", type=Path, required=needs_folder, help="the folder of kernels")
    parser.add_argument("--target", default="sm_90a", help="the target of the kernels; default sm_90a")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 1), help="processes that compile")
    parser.add_argument("--commit", help="of the code; default: that of the checkout")
    parser.add_argument(
        "--minutes", type=float, default=minutes, help=f"the time after which nothing starts; default {minutes:g}"
    )


def _add_racing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--journal", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--rounds", type=int, default=6, help="counted rounds; default 6")
    parser.add_argument("--most-rounds", type=int, default=30, help="the most, near a limit; default 30")
    parser.add_argument("--warm", type=float, default=25.0, help="ms before each timing; default 25")
    parser.add_argument("--timed", type=float, default=80.0, help="ms of each timing; default 80")
    parser.add_argument("--cublaslt", type=int, default=96, help="cuBLASLt's algorithms to try; default 96")


def commands() -> Commands:
    result = Commands(__doc__)
    _add_cells(result.add("list", list_command, "print the names of the cells"))
    compiling = result.add("compile", compile_command, "compile the kernels of cells into a folder")
    _add_cells(compiling)
    _add_compiling(compiling, 60.0, needs_folder=True)
    race = result.add("race", race_command, "race cells beside torch and cuBLASLt")
    _add_cells(race)
    _add_compiling(race, 9.0, needs_folder=False)
    _add_racing(race)
    for name, run, text in (
        ("report", report_command, "print the verdicts of journals"),
        ("record", record_command, "write journals to benchmarks/results/"),
    ):
        one = result.add(name, run, text)
        one.add_argument("--journal", type=Path, action="append", required=True, help="the folder of a run")
    one.add_argument("--results", type=Path, default=record.FOLDER, help="the folder; default benchmarks/results")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    return commands().main(argv)


if __name__ == "__main__":
    sys.exit(main())
