"""Races kernels for randomly drawn shapes beside torch and cuBLASLt, and judges them by the required speeds.

    python benchmarks/any_shape.py race --journal DIR [--seed 7] [--count 100] [--layout tn …] [--dtype bf16 …]
        [--rows 256] [--batch 16] [--public] [--minutes 8] [--rounds 5] [--most-rounds 20] [--cublaslt 8]
        [--kernels DIR]
    python benchmarks/any_shape.py compile --out DIR [the same options of the draw]
    python benchmarks/any_shape.py compare --journal DIR OLD NEW
    python benchmarks/any_shape.py draw | report --journal DIR | record --journal DIR

`draw` prints shapes. For half of them, N and K are of layers of models (`model_layers.txt`); for the others they are
log-uniform. Without `--seed`, the seed is new. Shapes with more than `--bytes` in A, B and D are drawn again.
`race` compiles each shape's own kernel, which is the one for this shape alone, and the kernels of `lt.matmul`, on all
cores. Then it races them in shuffled rounds beside torch.matmul (torch.bmm for batches, torch._scaled_mm for e4m3 with
scales by rows). A shape gets `--rounds`, then more until each of its ratios is known to 2 %, at most `--most-rounds` in
all. With `--cublaslt N`, the best of N algorithms of cuBLASLt takes part. Each contender is checked before it is timed.
The journal gets a line for each shape, with the seconds, or with the reason if the shape fails. A later run with the
same journal continues with the next shape. With `--kernels`, the own kernels are loaded from a folder that `compile`
has written on any machine.
`compare` races the kernels of two commits. OLD and NEW are folders of `compile` for the same draw. Kernels with equal
code are not timed.
`report` prints the statistics, the ten worst shapes and the verdicts. Races print them too, and write them to
`report.md`. `record` writes the rows to benchmarks/results/; docs/generate.py makes docs/any-shape.md from them.

Exit status: 0; 2 for bad options; 3 if the time was up before the last shape; 4 if the GPU can no longer be used, or a
race hangs. After 3 and 4, a later run continues. A shape that ended the process twice fails.
"""

import argparse
import dataclasses
import importlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs
import record
from commands import Commands

import lowtide as lt
from lowtide.compiler.cache.sources import own_digest
from lowtide.compiler.spec_fields import LAYOUTS
from lowtide.compiler.whole_files import write_whole
from lowtide.measurement.bench.any_shape.draws import DTYPES, Draw, Drawn, read_layers, read_public
from lowtide.measurement.bench.any_shape.journal import Journal, Origin, origin_of
from lowtide.measurement.bench.any_shape.kernels import KernelFolder, warm_matmul
from lowtide.measurement.bench.any_shape.precision import until_narrow
from lowtide.measurement.bench.any_shape.races import DONE, OUT_OF_TIME, Races, end_process_after, run_of
from lowtide.measurement.bench.any_shape.racing import Settings, device_and_software
from lowtide.measurement.bench.any_shape.report import run_tables, verdict_table
from lowtide.measurement.bench.any_shape.rows import NEW, OLD, OWN, cells_of, columns_of
from lowtide.measurement.bench.gpu_timing import Operands

HERE = Path(__file__).resolve().parent
PEERS = ("quack", "triton")  # modules NAME_gemm.py in this folder
_GRACE = 90.0  # seconds after the deadline for a race that has begun
STARTED = time.monotonic()
BUILD = Path(platformdirs.user_cache_path("lowtide"), "any-shape")
# Options of the draw, by the field of `Draw` that they give.
_DRAWN = {
    "seed": "seed",
    "count": "count",
    "layouts": "layout",
    "dtypes": "dtype",
    "most_rows": "rows",
    "most_batch": "batch",
    "most_bytes": "bytes",
    "public": "public",
}


def say(text: str) -> None:
    print(f"{time.monotonic() - STARTED:6.1f} s  {text}", file=sys.stderr, flush=True)


def origin(arguments: argparse.Namespace, *folders: Path) -> Origin:
    """The draw of the options. The folders of earlier runs give the options that are left out. Raises Error if they
    disagree with the options or with each other."""
    given = {field: getattr(arguments, option) for field, option in _DRAWN.items()}
    given = {field: tuple(x) if isinstance(x, list) else x for field, x in given.items() if x is not None}
    found = [(folder, one) for folder in folders if (one := origin_of(folder)) is not None]
    draw = found[0][1].draw if found else Draw(**{"seed": secrets.randbelow(2**31), **given})
    for folder, one in found:
        if one.draw != dataclasses.replace(draw, **given):
            raise lt.Error(f"{folder} is of another draw, {one.draw}; leave its options out, or name another folder")
    return Origin(draw, arguments.commit or commit_at_hand())


def commit_at_hand() -> str:
    """The commit of the working tree; if files were changed, with "+" and the beginning of the sources' sha256. Raises
    Error."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(HERE), *words], capture_output=True, text=True, check=True).stdout

    try:
        commit, changes = git("rev-parse", "--short=10", "HEAD").strip(), git("status", "--porcelain", "-uno")
    except (OSError, subprocess.CalledProcessError):
        raise lt.Error("this is not a checkout of git, so give --commit") from None
    return f"{commit}+{own_digest()[:6]}" if changes else commit


def shapes_of(draw: Draw) -> list[Drawn]:
    if draw.public:
        return read_public(HERE / "public_shapes.txt")
    return draw.shapes(read_layers(HERE / "model_layers.txt"))


def peers_of(names: Sequence[str], sets: Sequence[Operands]) -> list[Any]:
    return [one for name in names for one in importlib.import_module(f"{name}_gemm").contenders(sets)]


def settings(arguments: argparse.Namespace) -> Settings:
    names = arguments.peer or ()
    peers = (lambda sets: peers_of(names, sets)) if names else None
    runs_on = until_narrow(arguments.most_rounds)
    return Settings(arguments.rounds, arguments.warm, arguments.timed, arguments.cublaslt, peers, runs_on=runs_on)


def races(arguments: argparse.Namespace, *folders: Path, **more: Any) -> tuple[Draw, Races]:
    """The draw, and its races. Raises Error for a journal of another draw or commit."""
    journal = Journal(arguments.journal)
    own = origin(arguments, arguments.journal, *folders)
    journal.check_commit(own.commit)
    device_and_software()  # raises without a GPU, before anything is written or compiled
    own.write(arguments.journal)
    say(f"seed {own.draw.seed}, commit {own.commit}")
    command = record.command_line(sys.argv[0], sys.argv[1:])
    return own.draw, Races(own.draw.seed, own.commit, journal, settings(arguments), command=command, **more)


def deadline_of(arguments: argparse.Namespace) -> float:
    """The time after which nothing is started. If something hangs, the process ends a little later."""
    deadline = STARTED + 60.0 * arguments.minutes
    end_process_after(deadline + _GRACE - time.monotonic(), OUT_OF_TIME)
    return deadline


def race_command(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("LOWTIDE_CACHE", str(arguments.build.absolute() / "cache"))
    given = [arguments.kernels] if arguments.kernels else []
    arguments.commit = arguments.commit or (commit_of(arguments.kernels) if given else None)
    more = {"with_matmul": not arguments.without_matmul, "may_lack": not given}
    (draw, found), deadline = races(arguments, *given, folders={}, **more), deadline_of(arguments)
    folder = KernelFolder(arguments.kernels or arguments.build / f"{own_digest()[:12]}-{arguments.target}-{draw.seed}")
    shapes = shapes_of(draw)
    left = [shape for shape in shapes if shape.name not in found.journal.lines]
    if not given:
        folder.compile_missing(left, arguments.target, arguments.jobs, deadline, say)
    if found.with_matmul:
        warm_matmul(left, arguments.jobs, deadline, say)
    return raced(dataclasses.replace(found, folders={OWN: folder}), shapes, deadline)


def raced(found: Races, shapes: list[Drawn], deadline: float) -> int:
    """Race, then print the report on the journal."""
    status = found.run(shapes, deadline, say)
    if found.journal.lines:
        text = report(found.journal)
        write_whole(found.journal.path.with_name("report.md"), text)
        print(text)
    return status


def compile_command(arguments: argparse.Namespace) -> int:
    own = origin(arguments, arguments.out)
    before = origin_of(arguments.out)
    if before is not None and before.commit != own.commit:
        raise lt.Error(f"{arguments.out} has kernels of commit {before.commit}, and this is {own.commit}; name another")
    own.write(arguments.out)
    say(f"seed {own.draw.seed}, commit {own.commit}")
    folder, shapes = KernelFolder(arguments.out), shapes_of(own.draw)
    folder.compile_missing(shapes, arguments.target, arguments.jobs, STARTED + 60.0 * arguments.minutes, say)
    missing = [shape for shape in shapes if not folder.has(shape)]
    for shape in shapes:
        if folder.has(shape) and (why := folder.choice(shape).refusal):
            say(f"{shape.name}: {why}")
    say(f"{len(shapes) - len(missing)} of {len(shapes)} shapes are compiled")
    return OUT_OF_TIME if missing else DONE


def compare_command(arguments: argparse.Namespace) -> int:
    arguments.commit = arguments.commit or " to ".join(commit_of(one) for one in (arguments.old, arguments.new))
    folders = {OLD: KernelFolder(arguments.old), NEW: KernelFolder(arguments.new)}
    draw, found = races(arguments, arguments.old, arguments.new, folders=folders, with_matmul=False)
    return raced(found, shapes_of(draw), deadline_of(arguments))


def commit_of(folder: Path) -> str:
    """The commit of a folder of kernels. Raises Error."""
    found = origin_of(folder)
    if found is None:
        raise lt.Error(f"{folder} has no kernels of `any_shape.py compile`; compile a draw into it")
    return found.commit


def draw_command(arguments: argparse.Namespace) -> int:
    arguments.commit = arguments.commit or "none"
    draw = origin(arguments).draw
    print(json.dumps(draw.to_json()))
    for shape in shapes_of(draw):
        print(json.dumps(shape.to_json(), ensure_ascii=False))
    return DONE


def report(journal: Journal) -> str:
    run = run_of(journal)
    return f"{run_tables(run)}\n\n{verdict_table([run], measured_only=True)}\n"


def report_command(arguments: argparse.Namespace) -> int:
    print(report(Journal(arguments.journal)))
    return DONE


def rounds_of(lines: Sequence[Mapping[str, Any]]) -> str:
    """The number of counted rounds: `5`, or the least and the greatest, as in `5 to 20`, if shapes differ."""
    counts = sorted({len(times) for line in lines for times in line["seconds"].values()} or {0})
    return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))


def record_command(arguments: argparse.Namespace) -> int:
    journal = Journal(arguments.journal)
    run, lines = run_of(journal), list(journal.lines.values())
    known = origin_of(arguments.journal)
    drawn = len(shapes_of(known.draw)) if known is not None else len(lines)
    columns = columns_of(run.rows)
    result = record.Result(
        device=run.device,
        date=run.date,
        command=lines[0]["command"],
        columns=columns,
        rows=tuple(tuple(map(record.cell, cells_of(row, columns))) for row in run.rows),
        software=", ".join(sorted({line["software"] for line in lines})),
        rounds=rounds_of(lines),
        about=f"{len(lines)} of {drawn} shapes",
        commit=run.commit,
        seed=run.seed,
    )
    path = arguments.results / f"any-shape-{arguments.name or run.seed}.json"
    write_whole(path, result.text())
    print(path)
    return DONE


def _add_draw(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the draw")
    group.add_argument("--seed", type=int, help="default: that of the folder; in a new one, a new seed")
    group.add_argument("--count", type=int, help="shapes of each type and layout; default 100")
    group.add_argument("--layout", action="append", choices=LAYOUTS, help="default tn")
    group.add_argument("--dtype", action="append", choices=DTYPES, help="default bf16; e4m3 has scales by rows")
    group.add_argument("--rows", type=int, help="the largest M; default 16384")
    group.add_argument("--batch", type=int, help="the largest batch, log-uniform from 2; default single products")
    group.add_argument("--bytes", type=int, help="the largest size of A, B and D together; default 2 GiB")
    group.add_argument("--public", action="store_true", default=None, help="the public sixteen, not a draw")
    group.add_argument("--commit", help="of the code; default: that of the checkout")


def _add_compiling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="sm_90a", help="the target of own kernels; default sm_90a")
    parser.add_argument("--jobs", type=int, help="processes that compile; default one per core")
    parser.add_argument("--minutes", type=float, default=9.0, help="the time after which nothing is started; default 9")


def _add_racing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--journal", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds; default 5")
    parser.add_argument("--most-rounds", type=int, default=20, help="the most, while a ratio is uncertain; default 20")
    parser.add_argument("--warm", type=float, default=25.0, help="ms before each timing; a quarter for cool kernels")
    parser.add_argument("--timed", type=float, default=40.0, help="ms of each timing; a quarter for cool kernels")
    parser.add_argument(
        "--cublaslt", type=int, default=0, help="the number of cuBLASLt's algorithms to try; default none"
    )
    parser.add_argument("--peer", action="append", choices=PEERS, help="further peers, for tn")


def commands() -> Commands:
    result = Commands(__doc__)
    draw = result.add("draw", draw_command, "print the shapes of a draw")
    _add_draw(draw)
    compiling = result.add("compile", compile_command, "compile the own kernels of a draw into a folder")
    compiling.add_argument("--out", type=Path, required=True, help="the folder")
    _add_draw(compiling)
    _add_compiling(compiling)
    race = result.add("race", race_command, "race own kernels and lt.matmul beside torch")
    _add_racing(race)
    race.add_argument("--kernels", type=Path, help="own kernels of `compile`; default: compile them here")
    race.add_argument(
        "--build", type=Path, default=BUILD, help="where kernels are compiled; default in the user's cache"
    )
    race.add_argument("--without-matmul", action="store_true", help="leave lt.matmul out")
    _add_draw(race)
    _add_compiling(race)
    compare = result.add("compare", compare_command, "race the own kernels of two commits")
    _add_racing(compare)
    compare.add_argument("old", type=Path, help="a folder of `compile`")
    compare.add_argument("new", type=Path, help="another, of the same draw")
    compare.add_argument(
        "--minutes", type=float, default=9.0, help="the time after which nothing is started; default 9"
    )
    _add_draw(compare)
    for name, run, text in (
        ("report", report_command, "print the statistics of a journal"),
        ("record", record_command, "write a journal to benchmarks/results/"),
    ):
        one = result.add(name, run, text)
        one.add_argument("--journal", type=Path, required=True, help="the folder of the run")
    one.add_argument("--results", type=Path, default=record.FOLDER, help="the folder; default benchmarks/results")
    one.add_argument("--name", help="of the file, after any-shape-; default the seed")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    return commands().main(argv)


if __name__ == "__main__":
    sys.exit(main())
