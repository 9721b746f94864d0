"""Measurements as data: a JSON file for each table in benchmarks/results/. docs/generate.py makes pages from them.

    python benchmarks/record.py NAME[,NAME …] [--area AREA] [--about TEXT] [--device DEVICE] COMMAND …

Runs a command, such as `python benchmarks/launch.py`, and writes the Markdown tables that it prints to
benchmarks/results/NAME.json, one NAME per table, with the device, the date and the command. benchmarks/tables.py writes
such files itself.

A file is an object with the keys of `Result`. A cell is a text, a number, or a list [median, least, greatest] of the
rounds; numbers keep their digits. In a column `sustained to X` or `burst to X`, a cell is the time of X divided by the
time of the contender in the same round: above 1 the contender is faster. A column `sustained µs of X` has the time of X
if only that was recorded.
"""

import argparse
import datetime
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "results"
Cell = str | Decimal | list[Decimal]
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?"
_INTERVAL = re.compile(rf"({_NUMBER}) \(({_NUMBER}) … ({_NUMBER})\)")


@dataclass(frozen=True)
class Result:
    """One run. `device`: the GPU, or the CPU if no GPU is used. `date`: YYYY-MM-DD, or the first and the last day
    joined by "/". `area`: the part of docs/performance.md with its rows; "" for none. `about`: further conditions of
    the figures, as a sentence. `commit`: whose kernels were timed. `seed`: of what was drawn."""

    device: str
    date: str
    command: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    area: str = ""
    software: str = ""
    rounds: str = ""
    about: str = ""
    commit: str = ""
    seed: str = ""

    def __post_init__(self) -> None:
        for key in ("device", "date", "command"):
            if not getattr(self, key):
                raise ValueError(f"a result needs a {key}")
        for date in self.date.split("/"):
            datetime.date.fromisoformat(date)
        odd = [row for row in self.rows if len(row) != len(self.columns)]
        if odd:
            raise ValueError(f"{len(self.columns)} columns, but a row of {len(odd[0])} cells: {odd[0]}")

    def text(self) -> str:
        """The text of the file, with one line per key and per row."""
        keys = [field.name for field in fields(self) if field.name not in ("columns", "rows")]
        lines = [f"{json.dumps(key)}: {_dumped(getattr(self, key))}" for key in keys if getattr(self, key)]
        lines += [f'"columns": {_dumped(self.columns)}']
        rows = ",\n".join("  " + _dumped(row) for row in self.rows)
        return "{\n" + ",\n".join(lines) + ',\n"rows": [\n' + rows + "\n]\n}\n"


def _dumped(value: Any) -> str:
    """JSON whose numbers keep the digits that they were written with."""
    if isinstance(value, Decimal):
        return _digits(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return "[" + ", ".join(map(_dumped, value)) + "]"


def _digits(number: Decimal) -> str:
    """`1.000`, `1.15e-6`."""
    return f"{number:e}" if 0 < abs(number) < Decimal("1e-4") else str(number)


def load(path: Path) -> Result:
    """Read a file. Raises ValueError with the path if it does not match `Result`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal, parse_int=Decimal)
        found |= {"columns": tuple(found["columns"]), "rows": tuple(map(tuple, found["rows"]))}
        return Result(**found)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def cell(text: str) -> Cell:
    """Parse a printed cell: `719 (716 … 747)` becomes a list, `1529.2` a number; anything else stays text."""
    text = text.strip()
    if found := _INTERVAL.fullmatch(text):
        return [Decimal(number) for number in found.groups()]
    return Decimal(text) if re.fullmatch(_NUMBER, text) else text


def printed(value: Cell, intervals: bool = True) -> str:
    """The inverse of `cell`. Without `intervals`, only the median of [median, least, greatest]."""
    if isinstance(value, list):
        median, least, greatest = map(_digits, value)
        return f"{median} ({least} … {greatest})" if intervals else median
    return value if isinstance(value, str) else _digits(value)


def tables_in(text: str) -> Iterator[tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]]]:
    """Columns and rows of each Markdown table. A heading `### …` before a table becomes its first column, `case`."""
    heading = ""
    for block in re.findall(r"(?m)^#+ .*$|(?:^\|.*\n?)+", text):
        if block.startswith("#"):
            heading = block.lstrip("# ")
            continue
        lines = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in block.splitlines()]
        before: list[str] = [heading] if heading else []
        columns = (*(["case"] if heading else []), *(name.strip() for name in lines[0]))
        yield columns, tuple(tuple(map(cell, [*before, *line])) for line in lines[2:])


def command_line(script: str, arguments: Sequence[str]) -> str:
    """The command line of a script in this folder, relative to the root of the repository."""
    return shlex.join(["python", f"benchmarks/{Path(script).name}", *arguments])


def today() -> str:
    return datetime.datetime.now(datetime.timezone.utc).date().isoformat()


def gpu() -> str:
    """The GPU at hand, or ""."""
    try:
        found = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True
        )
    except FileNotFoundError:
        return ""
    return found.stdout.partition("\n")[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", help="of the files in benchmarks/results/, without .json, one for each table")
    parser.add_argument("--area", default="", help="the part of docs/performance.md for the rows")
    parser.add_argument("--about", default="", help="further conditions of the figures")
    parser.add_argument("--device", default=gpu(), help="the device; default: the GPU at hand")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="prints tables in Markdown")
    options = parser.parse_args()
    if not options.command or not options.device:
        parser.error("give a command" if options.device else "there is no GPU: give --device")
    done = subprocess.run(options.command, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    names, tables = options.names.split(","), list(tables_in(done.stdout))
    if len(names) != len(tables):
        sys.exit(f"record.py: error: {len(tables)} tables were printed, but {len(names)} names were given")
    for name, (columns, rows) in zip(names, tables, strict=True):
        command = shlex.join(options.command)
        result = Result(options.device, today(), command, columns, rows, options.area, about=options.about)
        (FOLDER / f"{name}.json").write_text(result.text(), encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
