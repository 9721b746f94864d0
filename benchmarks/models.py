"""Training steps of nine models of transformers under torch.compile, with Lowtide beside Inductor alone.

    python benchmarks/models.py race --journal DIR [--model bert …] [--with lowtide …] [--minutes 9] [--rounds 15]
        [--profiles 3] [--compiles 2] [--seconds 0.2] [--seed 1]
    python benchmarks/models.py report --journal DIR [--kernels]
    python benchmarks/models.py record --journal DIR [--name models]

architectures.py has the models, and says what a step is. Each model runs in a process of its own, with empty caches, in
shuffled order. In each shuffled round, each contender runs steps for `--seconds`, then issues single steps to an idle
GPU. Then the kernels of `--profiles` rounds are profiled. The first compile is timed in `--compiles` more processes for
each contender, which compile the model for this contender alone; if 0, in the process that measures all contenders. The
journal gets a line for each model; a later run continues. A model is only begun if as much time is left as the longest
one took, and none runs past `--minutes`. The messages of one that fails are in NAME.log beside the journal. `report`
prints the figures, and with `--kernels` the slowest kernels of products and which products were taken. `record` writes
the rows to benchmarks/results/NAME.json; docs/generate.py makes docs/models.md from models.json.

Exit status: 0; 2 for bad options, and if models failed; 3 if the time ended before the last model. After 2 and 3, a
later run tries what is left.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import record
from any_shape import STARTED, commit_at_hand, say
from commands import Commands

import lowtide as lt
from lowtide.compiler.whole_files import write_whole
from lowtide.markdown import markdown
from lowtide.measurement.bench.any_shape.journal import Journal
from lowtide.measurement.bench.any_shape.races import DONE, OUT_OF_TIME
from lowtide.measurement.bench.model_steps import COLUMNS, REFERENCE, Steps, is_wrong, rows, slowest, verdict

NINE = ("bert", "gpt2", "opt-1020", "llama", "qwen3", "gemma", "phi", "t5", "mixtral")
SCRIPT = Path(__file__).resolve().with_name("architectures.py")
_FAILED = 2
_FIRST, _COMPILED = 100.0, 80.0  # seconds assumed before one is measured: of a model, and of its `--compiles`, each


def measure(name: str, arguments: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """The line of JSON of a model. Each process that measures it starts with new caches. Raises Error if one fails, or
    if they take longer than `seconds` together."""
    end = time.monotonic() + seconds
    contenders = [REFERENCE, *(getattr(arguments, "with") or ["lowtide"])]
    options = {option: getattr(arguments, option) for option in ("rounds", "seconds", "profiles", "seed")}
    line = _measured(name, contenders, options, arguments.journal, seconds)
    compiles: dict[str, list[float]] = {contender: [] for contender in contenders}
    for _ in range(arguments.compiles):
        for contender, found in compiles.items():
            alone = _measured(
                name, [contender], {**options, "rounds": 0, "profiles": 0}, arguments.journal, end - time.monotonic()
            )
            found.append(alone["found"][contender]["compile"])
    for contender, found in compiles.items():
        line["found"][contender]["compile"] = found or [line["found"][contender]["compile"]]
    return line


def _measured(
    name: str, contenders: Sequence[str], options: Mapping[str, Any], journal: Path, seconds: float
) -> dict[str, Any]:
    """What a new process of architectures.py measures, with new caches. Raises Error if it fails or takes longer than
    `seconds`."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "steps.json")
        command = [sys.executable, str(SCRIPT), name, "--out", str(out), "--with", *contenders]
        for option, value in options.items():
            command += [f"--{option}", str(value)]
        environment = {**os.environ, "LOWTIDE_CACHE": str(Path(folder, "kernels"))}
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said = process.communicate(timeout=max(seconds, 1.0))[0]
        except subprocess.TimeoutExpired:
            raise lt.Error(f"{name} was not done after {seconds:.0f} s; give --minutes more") from None
        finally:
            _end(process)
        if process.returncode or not out.exists():
            write_whole(journal / f"{name}.log", said)
            last = next((line for line in reversed(said.splitlines()) if line.strip()), "no message")
            raise lt.Error(f"exit status {process.returncode}: {last[:300]}")
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def _end(process: "subprocess.Popen[str]") -> None:
    """End the process, and those that compile for it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def race_command(arguments: argparse.Namespace) -> int:
    journal, commit = Journal(arguments.journal), arguments.commit or commit_at_hand()
    journal.check_commit(commit)
    deadline = STARTED + 60.0 * arguments.minutes
    asked = arguments.model or NINE
    names = random.Random(arguments.seed).sample(asked, len(asked))
    command = record.command_line(sys.argv[0], sys.argv[1:])
    longest = max((line["took"] for line in journal.lines.values()), default=_FIRST + _COMPILED * arguments.compiles)
    failed = []
    for name in [name for name in names if name not in journal.lines]:
        begun = time.monotonic()
        if deadline - begun < longest:
            break
        try:
            line = measure(name, arguments, deadline - begun)
        except lt.Error as error:  # the other models still run; a later run tries this one again
            failed.append(name)
            say(f"{name}: {error}")
            continue
        took = time.monotonic() - begun
        longest = max(longest, took)
        about = {"commit": commit, "command": command, "date": record.today(), "took": took}
        journal.add({"name": name, **line, **about, "rounds": arguments.rounds, "seed": arguments.seed})
        say(f"{name}: {took:.0f} s\n{verdict(_rows([journal.lines[name]]))}")
    left = [name for name in names if name not in journal.lines]
    print(report(journal, asked))
    if left:
        say(f"{len(left)} of {len(names)} models are left for a later run: {', '.join(left)}")
    if left and set(left) <= set(failed):
        return _FAILED
    return OUT_OF_TIME if left else DONE


def steps_of(line: dict[str, Any]) -> dict[str, Steps]:
    return {name: Steps.from_json(one) for name, one in line["found"].items()}


def report(journal: Journal, order: Sequence[str] = NINE, kernels: bool = False) -> str:
    """The rows and verdicts of the measured models, in this order."""
    lines = _lines(journal, order)
    table = _rows(lines)
    parts = [markdown(COLUMNS, table), verdict(table)] if table else ["nothing is measured yet"]
    parts += [f"wrong: {one}" for one in _wrong(lines)]
    for line in lines if kernels else ():
        parts += [f"### {line['name']}", slowest(steps_of(line)), *line["reports"].values()]
    return "\n\n".join(parts)


def _lines(journal: Journal, order: Sequence[str]) -> list[dict[str, Any]]:
    return [journal.lines[name] for name in dict.fromkeys((*order, *journal.lines)) if name in journal.lines]


def _rows(lines: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [row for line in lines for row in rows(line["name"], steps_of(line))]


def _wrong(lines: Sequence[dict[str, Any]]) -> list[str]:
    """The contenders whose results are wrong."""
    found = []
    for line in lines:
        steps = steps_of(line)
        found += [f"{line['name']}, {name}" for name, one in steps.items() if is_wrong(one, steps[REFERENCE])]
    return found


def report_command(arguments: argparse.Namespace) -> int:
    print(report(Journal(arguments.journal), NINE, arguments.kernels))
    return DONE


def record_command(arguments: argparse.Namespace) -> int:
    lines = _lines(Journal(arguments.journal), NINE)
    if not lines:
        raise lt.Error(f"{arguments.journal} has no models yet; race some with this journal first")
    dates, wrong = sorted(line["date"] for line in lines), _wrong(lines)
    about = "4 layers of width 1024, feed-forward 2816, 3 × 509 tokens, bf16, forward and backward"
    result = record.Result(
        device=", ".join(sorted({line["device"] for line in lines})),
        date="/".join(dict.fromkeys((dates[0], dates[-1]))),
        command=lines[-1]["command"],
        columns=COLUMNS,
        rows=tuple(tuple(map(record.cell, row)) for row in _rows(lines)),
        area="models",
        software=", ".join(sorted({line["software"] for line in lines})),
        rounds=str(max(line["rounds"] for line in lines)),
        about="; ".join([about, *(f"wrong: {one}" for one in wrong)]),
        commit=", ".join(sorted({line["commit"] for line in lines})),
        seed=", ".join(sorted({str(line["seed"]) for line in lines})),
    )
    path = arguments.results / f"{arguments.name}.json"
    write_whole(path, result.text())
    print(path)
    return DONE


def _add_racing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", nargs="+", action="extend", metavar="NAME", help=f"default: {', '.join(NINE)}")
    parser.add_argument(
        "--with", nargs="+", action="extend", metavar="CONTENDER", help="beside Inductor; default: lowtide"
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="the time after which nothing runs; default 9")
    parser.add_argument("--rounds", type=int, default=15, help="counted rounds; default 15")
    parser.add_argument("--profiles", type=int, default=3, help="profiled rounds; default 3")
    parser.add_argument(
        "--compiles", type=int, default=2, help="processes that time the first compile of each contender; default 2"
    )
    parser.add_argument("--seconds", type=float, default=0.2, help="of a row of steps; default 0.2")
    parser.add_argument("--seed", type=int, default=1, help="of weights, inputs and the order; default 1")
    parser.add_argument("--commit", help="of the code; default: that of the checkout")


def commands() -> Commands:
    found, of_journal = Commands(__doc__), {"type": Path, "required": True, "help": "the folder of the run"}
    racing = found.add("race", race_command, "measure models")
    reporting = found.add("report", report_command, "print the figures of a journal")
    recording = found.add("record", record_command, "write a journal to benchmarks/results/")
    for one in (racing, reporting, recording):
        one.add_argument("--journal", **of_journal)
    _add_racing(racing)
    reporting.add_argument("--kernels", action="store_true", help="also the kernels of products, and what was taken")
    recording.add_argument("--results", type=Path, default=record.FOLDER, help="default benchmarks/results")
    recording.add_argument("--name", default="models", help="of the file; default models")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    return commands().main(argv)


if __name__ == "__main__":
    sys.exit(main())
